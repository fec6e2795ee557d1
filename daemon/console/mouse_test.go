package console_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// With the mouse alone one finds what is late and why, has it delivered, and requeues what died.
func TestMendsWithTheMouse(t *testing.T) {
	t.Parallel()
	s := sound(t, httpapi.Options{})
	carry(t, s.store)
	if err := storetest.Inspector(t, s.store).Pause(t.Context(), "order.timeout"); err != nil {
		t.Fatal(err)
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "order.timeout", ID: "o1"})
	age(t, s.store, "order.timeout")
	bury(t, s.store, "order.refused", "connection refused", "r1", "r2")
	handled := make(chan string, 3)
	worker, err := subscribers.NewSubscriber(s.store, subscribers.SubscriberOptions{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"order.timeout", "order.refused"} {
		if err := worker.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error { handled <- d.ID; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Run(t, worker.Run)

	p := s.browse("/ui/", consoletest.Look{Width: 1400})
	p.Await(".large", "paused: order.timeout: paused")
	p.Click(".large a")
	p.Await(".large", "Paused: nothing is handed out")
	p.Click("button[name=resume]")
	if id := storetest.Receive(t, "the late message is delivered", handled); id != "o1" {
		t.Errorf("delivered %s", id)
	}
	p.Await("[role=status]", "order.timeout")
	p.Click("header nav a")
	p.Await(".large", "dead: order.refused: 2 died")
	p.Click(".large a")
	p.Await("[aria-label=Letters] tbody", "connection refused")
	p.Click("button[data-tick]")
	p.Click("button[value=requeue]")
	p.Await("[role=status]", "requeue: 2 of 2 messages")
	got := map[string]bool{}
	for range 2 {
		got[storetest.Receive(t, "what died is delivered again", handled)] = true
	}
	if fmt.Sprint(got) != "map[r1:true r2:true]" {
		t.Errorf("delivered %v", got)
	}
	p.Click("header nav a")
	p.Await(".large", "Nothing is wrong")
}
