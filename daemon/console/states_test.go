package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// States are links that are put into the question, and taken away, with JavaScript and without.
func TestStatesAreChosen(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	bury(t, s.store, "order.a", "timeout", "a1", "a2")
	bury(t, s.store, "secret.b", "timeout", "b1")
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "a3", Delay: time.Hour})
	root, shop := s.login("root"), s.login("shop")
	const dead, count = `href="find?q=state%3Adead">dead`, ` <span class="quiet">`
	root.get("/ui/find").says(dead+count+"3</span>", "leased"+count+"0</span>").hides("scheduled" + count)
	shop.get("/ui/find").says(dead + "</a>").hides(dead + count)
	shop.get("/ui/find?q=topic:order.a+state:ready").says("scheduled"+count+"1</span>", "dead"+count+"2</span>", `aria-current="true"`, `href="find?q=topic%3Aorder.a&#43;state%3Adead"`, `href="find?q=topic%3Aorder.a" aria-current="true"`)
	shop.get("/ui/find?q=topic:secret.b").says(">dead</a>").hides(count)
	shop.get("/ui/find?q=topic:order.*").says(">dead</a>").hides(count)
	root.get("/ui/find?q=id:a1").says(">dead</a>").hides(count)
	root.get("/ui/find?q=state:dead,ready").says(`href="find?q=state%3Aready" aria-current="true"`, `href="find?q=state%3Aleased">leased`)
	root.get("/ui/find?q=topc:x").hides(`aria-label="States"`)
	root.get("/ui/find?q=" + urlOf(`body~"`+hostile[0]+`"`)).says(urlOf(hostile[0])).hides(hostile[0])

	free := serve(t, s.store, httpapi.Options{})
	for _, look := range []consoletest.Look{{}, {NoScript: true}, {Width: 320, NoScript: true}} {
		p := free.browse("/ui/find?q=topic:order.a", look)
		current := func() string { return p.Text("nav[aria-label=States] [aria-current]") }
		click := func(state string) {
			p.Loads(func() { p.Click(`nav[aria-label=States] a[href$="state%3A` + state + `"]`) })
		}
		p.Await("tbody", "a3")
		click("dead")
		p.Await("tbody", "a1")
		if got := current(); !strings.Contains(got, "dead 2") {
			t.Errorf("marked is %q", got)
		}
		p.Fits()
		p.Axe()
		click("scheduled")
		p.Await("tbody", "a3")
		if got := current(); !strings.Contains(got, "scheduled 1") {
			t.Errorf("marked is %q", got)
		}
		p.Loads(func() { p.Click("nav[aria-label=States] [aria-current]") })
		p.Until("none is marked", "document.querySelector('nav[aria-label=States]') && !document.querySelector('nav[aria-label=States] [aria-current]')")
		p.Until("the rest of the question stays", "document.querySelector('input[name=q]').value === 'topic:order.a'")
	}
}
