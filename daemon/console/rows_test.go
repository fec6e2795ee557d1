package console_test

import (
	"context"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// A button that has the focus stays that of its topic when the table sorts itself anew.
func TestFocusStaysWithItsRow(t *testing.T) {
	t.Parallel()
	s := open(t)
	publish := func(topic string, n int) {
		t.Helper()
		for range n {
			storetest.Publish(t, s.store, message(topic, "x"))
		}
	}
	publish("order.a", 3)
	publish("order.b", 2)
	publish("order.c", 1)
	p := s.browse("/ui/topics?sort=ready", consoletest.Look{})
	p.Streams()
	const first, focused = "document.querySelector('tbody th').innerText", "document.activeElement"
	order := func(topic string) {
		t.Helper()
		p.Until(topic+" is the first", first+" === '"+topic+"'")
		var text string
		if p.Eval(focused+".name + ' ' + "+focused+".value + ' in ' + "+focused+".closest('tr').querySelector('th').innerText", &text); text != "pause order.a in order.a" {
			t.Errorf("%s is the first: the focus is on %s", topic, text)
		}
	}
	p.Click("[id='acts:order.a'] summary") // the menu stays open when its row moves
	p.Eval("document.querySelector('button[value=\"order.a\"]').focus()", nil)
	order("order.a")
	publish("order.b", 2)
	order("order.b")
	publish("order.c", 5)
	order("order.c")
	publish("order.new", 9) // a row that was not there
	order("order.new")
	publish("order.a", 10)
	order("order.a")
	p.Loads(func() { p.Press("Enter") })
	p.Await("[role=status]", "Paused order.a")
}

// A button that another one takes the place of does not act as that one.
func TestFocusLeavesWithItsButton(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store, message("order.a", "x"))
	for _, path := range []string{"/ui/topics", "/ui/topics/order.a"} {
		p := s.browse(path, consoletest.Look{})
		p.Streams()
		p.Until(path+" has its button", "document.querySelector('button[name=pause]')") // what was read before is kept for a moment
		p.Click(".menu summary")
		p.Eval("document.querySelector('button[name=pause]').focus()", nil)
		if err := storetest.Inspector(t, s.store).Pause(t.Context(), "order.a"); err != nil {
			t.Fatal(err)
		}
		p.Until(path+" has the other button", "document.querySelector('button[name=resume]')")
		p.Until("it has no focus", "document.activeElement.name !== 'resume'")
		if err := storetest.Inspector(t, s.store).Resume(t.Context(), "order.a"); err != nil {
			t.Fatal(err)
		}
	}
}

// A listener is removed only by whoever was asked, and is led there by its own row.
func TestRemoveIsAsked(t *testing.T) {
	t.Parallel()
	s := open(t)
	listen(t, s.store, "warehouse", "stock.>")
	listener, err := subscribers.NewListener(s.store)
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	stop := storetest.Run(t, func(ctx context.Context) error {
		return listener.Listen(ctx, "order.>", func(context.Context, *subscribers.Broadcast) error { return nil },
			subscribers.ListenOptions{Name: "mailer", OnStart: func(subscribers.Bookmark) { close(began) }})
	})
	storetest.Receive(t, "the listener began", began)
	names := func() (names []string) {
		all, err := storetest.Inspector(t, s.store).Listeners(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			names = append(names, l.Name)
		}
		return names
	}
	p := s.browse("/ui/broadcasts", consoletest.Look{})
	p.Streams()
	p.Await("tbody", "warehouse")
	p.Eval("document.querySelector('a[href$=\"name=warehouse\"]').focus()", nil)
	stop() // a name that is away stands before one that listens
	p.Until("the order changes", "document.querySelector('tbody th').innerText === 'mailer'")
	p.Loads(func() { p.Press("Enter") })
	p.Await("h1", "Remove the listener warehouse?")
	p.Axe()
	if got := names(); len(got) != 2 {
		t.Fatalf("before the answer there are %q", got)
	}
	p.Look(consoletest.Look{NoScript: true})
	p.Go(s.url + "/ui/broadcasts/remove?name=mailer")
	p.Loads(func() { p.Click("button[name=remove]") })
	p.Await("[role=status]", "Removed the listener mailer")
	if got := names(); len(got) != 1 || got[0] != "warehouse" {
		t.Errorf("%q are left", got)
	}
}
