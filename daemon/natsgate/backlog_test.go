package natsgate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// ofSize returns a broadcast with a body of a size.
func ofSize(size int) *subscribers.Broadcast {
	return &subscribers.Broadcast{Record: notify.Record{Body: make([]byte, size)}}
}

func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, want int }{
		{1, natsgate.BridgeBatch}, {natsgate.BridgeBytes / 16, 16}, {natsgate.BridgeBytes/16 + 1, 16}, {2 * natsgate.BridgeBytes, 1},
	} {
		o := natsgate.NewBacklog()
		n := 0
		for o.Add(ofSize(c.size)) {
			n++
		}
		if n != c.want {
			t.Errorf("it holds %d of %d bytes, want %d", n, c.size, c.want)
		}
		if got := o.Take(t.Context()); len(got) != n {
			t.Errorf("%d were taken, want %d", len(got), n)
		}
		if !o.Add(ofSize(c.size)) {
			t.Error("there is no room in an empty one")
		}
	}
}

func TestBacklogHandsOverInOrder(t *testing.T) {
	t.Parallel()
	o := natsgate.NewBacklog()
	const n = 20_000
	var putting sync.WaitGroup
	putting.Go(func() {
		for i := range n {
			b := ofSize(0)
			b.ID = fmt.Sprint(i)
			o.Put(t.Context(), b)
		}
	})
	defer putting.Wait()
	for i := 0; i < n; {
		taken := o.Take(t.Context())
		if len(taken) == 0 {
			t.Fatal("nothing was taken, and it has not ended")
		}
		for _, b := range taken {
			if b.ID != fmt.Sprint(i) {
				t.Fatalf("got %s, want %d", b.ID, i)
			}
			i++
		}
	}
}

func TestBacklogEnds(t *testing.T) {
	t.Parallel()
	o := natsgate.NewBacklog()
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan int, 1)
	go func() { taken <- len(o.Take(ctx)) }()
	cancel()
	if n := storetest.Receive(t, "taking ends", taken); n != 0 {
		t.Errorf("%d were taken of nothing", n)
	}
	for o.Add(ofSize(1)) {
	}
	o.Put(ctx, ofSize(1)) // returns
	if n := len(o.Take(ctx)); n != 0 {
		t.Errorf("%d were taken after the end", n)
	}
}

// Hints of the same topic are merged, and a beat of another carrier is not sent: one that lost its lease
// receives such beats before it notices.
func TestHints(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	gate, err := natsgate.New(db, natsgate.Options{URL: nats.DefaultURL})
	storetest.Must(t, err)
	keys, like := db.Keys(), anEvent(t, db)
	wake := func(topic, n string) store.Event {
		e := like
		e.Channel, e.Payload = wakeOf(keys, topic, n)
		return e
	}
	beat := func(payload string) store.Event {
		e := like
		e.Kind, e.Payload = reach.Beat, payload
		return e
	}
	sent := func(events ...store.Event) map[string]string {
		all := make(map[string]string)
		for _, m := range gate.Note(db.Home(), events) {
			all[m.Subject] += string(m.Data)
		}
		return all
	}
	got := sent(wake(topic, "1"), wake("a.b.c", "2"), wake("a", "1"), wake("a.b.c", "3"), wake("A_1.-", "1"))
	storetest.Same(t, "hints", map[string]string{"bellhop.wake.order.timeout": "1", "bellhop.wake.a": "1", "bellhop.wake.a.b.c": "5", "bellhop.wake.A_1.-": "1"}, got)
	if got := sent(beat("0 1"), beat("0 2")); len(got) != 1 || got["bellhop.beat"] == "" {
		t.Errorf("own beats are sent as %v", got)
	}
	if got := sent(beat("1 1")); len(got) != 0 {
		t.Errorf("a beat of another is sent as %v", got)
	}
}

// However many events come while nothing can be sent, only so many hints wait.
func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	gate, err := natsgate.New(db, natsgate.Options{URL: "nats://127.0.0.1:1"})
	storetest.Must(t, err)
	const n = natsgate.MaxHints + 500
	keys, like := db.Keys(), anEvent(t, db)
	of := func(channel, payload string) store.Event {
		like.Channel, like.Payload = channel, payload
		return like
	}
	beat := func(payload string) store.Event {
		e := of("", payload)
		e.Kind = reach.Beat
		return e
	}
	var events []store.Event
	for i := range n {
		one := fmt.Sprint("t", i)
		events = append(events, of(wakeOf(keys, one, "2")), of(wakeOf(keys, "same", "1")),
			of(deathOf(keys, one, `{"topic":"%s","id":"a","reason":"r","attempts":1}`)), beat("0 1"), beat("1 1"))
	}
	if got := len(gate.Note(db.Home(), events)); got != 2*natsgate.MaxHints+1 {
		t.Errorf("%d hints wait, want %d topics, as many deaths, and a beat", got, natsgate.MaxHints)
	}
	if s := gate.Stats(); s.LostHints != 2*500+1 { // one topic is "same"
		t.Errorf("%d are counted as lost", s.LostHints)
	}

	// Invalid events are lost and counted, too.
	if got := len(gate.Note(db.Home(), []store.Event{
		of(wakeOf(keys, "bad topic", "1")), of(wakeOf(keys, "a.*", "1")), of(wakeOf(keys, "a", "many")), of(wakeOf(keys, "a", "-1")),
		of(deathOf(keys, "a", "{")), of(deathOf(keys, ">", `{"topic":"%s"}`)),
	})); got != 0 {
		t.Errorf("%d hints are sent", got)
	}
	if s := gate.Stats(); s.LostHints != 2*500+1+6 {
		t.Errorf("%d are counted as lost", s.LostHints)
	}
}

// anEvent returns an event as the first shard sends it.
func anEvent(t *testing.T, db *notify.Store) store.Event {
	t.Helper()
	heard := make(chan store.Event, 1)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			if e.Kind == reach.Received || e.Kind == reach.Subscribed {
				select {
				case heard <- e:
				case <-ctx.Done(): // it was renewed meanwhile: nobody beats
				}
			}
		}, db.Home().NudgeChannel())
		return nil
	})
	storetest.Receive(t, "the subscription", heard)
	tell(t, db, db.Keys().Nudge(), "1")
	return storetest.Receive(t, "an event", heard)
}

// wakeOf returns the channel and the payload of a wake-up.
func wakeOf(keys script.Keys, topic, n string) (channel, payload string) {
	if storetest.Shards() > 1 {
		return keys.Wakes(), topic + " " + n
	}
	return keys.Wake(topic), n
}

// deathOf returns the channel and the payload of a death, with the topic where it has %s.
func deathOf(keys script.Keys, topic, payload string) (channel, of string) {
	payload = strings.ReplaceAll(payload, "%s", topic)
	if storetest.Shards() > 1 {
		return keys.Deaths(), payload
	}
	return keys.Death(topic), payload
}
