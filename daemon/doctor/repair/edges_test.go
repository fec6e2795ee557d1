package repair_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A walk takes one message along arrows of the state diagram.
type walk struct {
	t     *testing.T
	store *notify.Store
	pub   *notify.Publisher
	work  *subscribers.Claimer
	dead  *notify.Inspector
	has   subscribers.Delivery // the last claimed message
}

const (
	walked = "walk"
	walker = "1"
)

// A step goes along one arrow, to the place where the message then is.
type step struct {
	arrow string
	walk  func(w *walk) error
	to    string
}

// Arrows of the diagram.
var (
	toWait   = step{"publish, later", func(w *walk) error { return w.publish(notify.Message{Delay: time.Hour}) }, "scheduled"}
	soon     = step{"publish, due soon", func(w *walk) error { return w.publish(notify.Message{Delay: 50 * time.Millisecond}) }, "scheduled"}
	due      = step{"publish, due", func(w *walk) error { return w.publish(notify.Message{}) }, "ready"}
	last     = step{"publish, due, one attempt", func(w *walk) error { return w.publish(notify.Message{MaxAttempts: 1}) }, "ready"}
	mortal   = step{"publish, due, soon expired", func(w *walk) error { return w.publish(notify.Message{TTL: 50 * time.Millisecond}) }, "ready"}
	all      = step{"broadcast", func(w *walk) error { return w.publish(notify.Message{Broadcast: true, Delay: time.Hour}) }, "broadcasts"}
	put      = step{"carry, due", carriesDue("ready"), "ready"}
	claim    = step{"claim", func(w *walk) error { return w.claim(time.Hour) }, "leased"}
	grasp    = step{"claim for a moment", func(w *walk) error { return w.claim(100 * time.Millisecond) }, "leased"}
	fallBack = step{"carry, lease ended", carriesDue("ready"), "ready"}
	expire   = step{"carry, expired", carriesDue("dead"), "dead"}
	fall     = step{"carry, lease ended, out of attempts", carriesDue("dead"), "dead"}
	ack      = step{"ack", func(w *walk) error { return w.has.Ack(w.t.Context()) }, ""}
	nack     = step{"nack", func(w *walk) error { return w.nack() }, "scheduled"}
	nackLast = step{"nack, out of attempts", func(w *walk) error { return w.nack() }, "dead"}
	refuse   = step{"refuse for good", func(w *walk) error { return second(w.has.Bury(w.t.Context(), "no")) }, "dead"}
	extend   = step{"extend", func(w *walk) error { return w.extend() }, "leased"}
	release  = step{"release", func(w *walk) error {
		return second(w.work.ReleaseMany(w.t.Context(), walked, []subscribers.Delivery{w.has}))
	}, "ready"}
	putOff    = step{"reschedule, later", func(w *walk) error { return w.reschedule(time.Hour) }, "scheduled"}
	putOffAll = step{"reschedule a broadcast", func(w *walk) error { return w.reschedule(time.Minute) }, "broadcasts"}
	callUp    = step{"reschedule, due", func(w *walk) error { return w.reschedule(0) }, "ready"}
	cancel    = step{"cancel", func(w *walk) error { return second(w.pub.Cancel(w.t.Context(), walked, walker)) }, ""}
	requeue   = step{"requeue", func(w *walk) error { return second(w.dead.Requeue(w.t.Context(), walked, walker)) }, "ready"}
	purge     = step{"purge", func(w *walk) error { return second(w.dead.Purge(w.t.Context(), walked, walker)) }, ""}
	callAll   = step{"carry, a broadcast", func(w *walk) error { return errors.Join(w.reschedule(0), w.carry("")) }, ""}
)

// Along each arrow of the state diagram in doc.go the message ends up in one place,
// and nothing is out of place.
func TestStateDiagram(t *testing.T) {
	for _, steps := range [][]step{
		{due, claim, ack},
		{soon, put, claim, extend, ack},
		{due, claim, nack, callUp, claim, release, claim, refuse, requeue, claim, ack},
		{due, grasp, fallBack, claim, ack},
		{last, claim, nackLast, purge},
		{last, grasp, fall, requeue, cancel},
		{mortal, expire, cancel},
		{toWait, putOff, callUp, putOff, cancel},
		{all, putOffAll, cancel},
		{all, callAll},
	} {
		var names []string
		for _, s := range steps {
			names = append(names, s.arrow)
		}
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			t.Parallel()
			db := open(t)
			w := &walk{
				t: t, store: db, pub: storetest.Publisher(t, db),
				work: subscriberstest.Claimer(t, db), dead: storetest.Inspector(t, db),
			}
			for _, s := range steps {
				if err := s.walk(w); err != nil {
					t.Fatalf("%s: %v", s.arrow, err)
				}
				w.isAt(s)
			}
			storetest.Empty(t, db)
		})
	}
}

// isAt checks that the message is where the step led to, and nowhere else.
func (w *walk) isAt(s step) {
	w.t.Helper()
	if places := strings.Join(w.places(), " "); places != s.to {
		w.t.Fatalf("after %s it is in %q, want %q", s.arrow, places, s.to)
	}
	sum, err := repair.Run(w.t.Context(), w.store, repair.Options{}, func(f repair.Finding) { w.t.Errorf("after %s: %+v", s.arrow, f) })
	if err != nil {
		w.t.Fatalf("after %s: %+v, %v", s.arrow, sum, err)
	}
	storetest.Heads(w.t, w.store)
}

// places returns the places that the message is in.
func (w *walk) places() (places []string) {
	w.t.Helper()
	keys, client := w.store.Keys(), w.store.Client()
	for _, place := range []struct{ name, key string }{
		{"scheduled", keys.Scheduled(walked)},
		{"ready", keys.Ready(walked)},
		{"leased", keys.Leased()},
		{"broadcasts", keys.Broadcasts()},
		{"dead", keys.Dead(walked)},
	} {
		err := client.ZScore(w.t.Context(), place.key, record.Member(walked, walker)).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			w.t.Fatal(err)
		}
		if err == nil {
			places = append(places, place.name)
		}
	}
	return places
}

func (w *walk) publish(m notify.Message) error {
	m.Topic, m.ID = walked, walker
	return second(w.pub.Publish(w.t.Context(), m))
}

func (w *walk) claim(lease time.Duration) error {
	ds, err := w.work.Claim(w.t.Context(), walked, subscribers.ClaimOptions{Max: 1, Lease: lease})
	if err == nil && len(ds) != 1 {
		err = fmt.Errorf("%d were claimed", len(ds))
	}
	if err == nil {
		w.has = ds[0]
	}
	return err
}

func (w *walk) nack() error {
	return second(w.has.Nack(w.t.Context(), time.Hour, "not yet"))
}

func (w *walk) extend() error { return w.has.Extend(w.t.Context(), time.Hour) }

func (w *walk) reschedule(delay time.Duration) error {
	if delay == 0 {
		return second(w.pub.RescheduleAt(w.t.Context(), walked, walker, time.Now().Add(-time.Hour)))
	}
	return second(w.pub.RescheduleIn(w.t.Context(), walked, walker, delay))
}

func carriesDue(to string) func(w *walk) error { return func(w *walk) error { return w.carry(to) } }

// carry runs a carrier until the message is in a place.
func (w *walk) carry(to string) error {
	c, err := carrier.New(w.store, carrier.Options{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	storetest.Eventually(w.t, "it is in "+to, func() bool { return strings.Join(w.places(), " ") == to })
	stop()
	return <-ended
}

func second[T any](_ T, err error) error { return err }
