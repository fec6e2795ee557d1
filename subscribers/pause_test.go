package subscribers_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// switches pauses and resumes the topic.
type switches struct {
	t         *testing.T
	inspector *notify.Inspector
}

func newSwitches(t *testing.T, db *notify.Store) switches {
	return switches{t, storetest.Inspector(t, db)}
}

func (s switches) pause() {
	s.t.Helper()
	if err := s.inspector.Pause(context.Background(), topic); err != nil {
		s.t.Error(err)
	}
}

func (s switches) resume() {
	s.t.Helper()
	if err := s.inspector.Resume(context.Background(), topic); err != nil {
		s.t.Error(err)
	}
}

// Subscribers that wait stay where they are through a pause. The resume rings
// them: no beat helps.
func TestPauseWhileSubscribersWait(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	got := make(chan string, 100)
	for range 3 {
		handle(t, db, idsInto(got))
	}
	storetest.Eventually(t, "they wait", func() bool { return counts(t, db).Waiting == 3 })
	s := newSwitches(t, db)
	for range 3 {
		s.pause()
		for i := range 10 {
			storetest.Publish(t, db, body(fmt.Sprint(i)))
		}
		if c := counts(t, db); c.Ready != 10 || c.Waiting != 3 || c.Leased != 0 {
			t.Errorf("there is %+v", c)
		}
		s.resume()
		for range 10 {
			storetest.Receive(t, "a message", got)
		}
		settled(t, db)
		storetest.Eventually(t, "they wait again", func() bool { return counts(t, db).Waiting == 3 })
	}
	storetest.Empty(t, db)
}

// What a worker has in hand when its topic is paused is finished; its next
// claim brings nothing, and it waits, without asking again with every beat.
func TestPauseInTheMiddle(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	began, finish := make(chan string, 10), make(chan bool)
	own := storetest.At(t, storetest.URL(), db.Keys().Prefix())
	var claims atomic.Int64
	own.Observe(func(script string, _ time.Duration, _ error) {
		if script == "claim" {
			claims.Add(1)
		}
	})
	storetest.RingAlone(t, db, topic)
	handle(t, own, func(_ context.Context, d *subscribers.Delivery) error {
		began <- d.ID
		<-finish
		return nil
	})
	storetest.Publish(t, db, body("1"), body("2"), body("3"))
	storetest.Receive(t, "the first begins", began)
	s := newSwitches(t, db)
	s.pause()
	beats(t, db, 2)
	if c := counts(t, db); c.Leased != 1 || c.Ready != 2 {
		t.Errorf("there is %+v", c)
	}
	finish <- true
	storetest.Eventually(t, "it is acknowledged, and the worker waits", func() bool {
		c := counts(t, db)
		return c.Leased == 0 && c.Ready == 2 && c.Waiting == 1
	})
	storetest.Eventually(t, "it does not claim in three beats", func() bool { // a new connection has it claim, once
		before := claims.Load()
		beats(t, db, 3)
		return claims.Load() == before
	})
	if len(began) > 0 {
		t.Error("a message of a topic that is paused was handed out")
	}
	s.resume()
	for range 2 {
		storetest.Receive(t, "the next begins", began)
		finish <- true
	}
	settled(t, db)
	storetest.Empty(t, db)
}

// A topic is paused and resumed again and again while messages are published and handled: each is handled once, but for those whose
// hand-over lapsed, and none is claimed while it is paused.
func TestPauseRaces(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	lapsed := lapsing(t, db)
	const n = 2000
	got := make(chan string, 2*n)
	for range 3 {
		handle(t, db, idsInto(got), subscribers.HandleOptions{Concurrency: 4})
	}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := range n {
			m := body(fmt.Sprint(i))
			m.Delay = time.Duration(i%3) * time.Millisecond
			storetest.Publish(t, db, m)
		}
	})
	s, c := newSwitches(t, db), subscriberstest.Claimer(t, db)
	var h handouts
	for h.size() < n && !t.Failed() {
		s.pause()
		if ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) > 0 {
			t.Errorf("claimed %v, %v", ds, err)
		}
		s.resume()
		for more := true; more && h.size() < n; {
			select {
			case id := <-got:
				h.note(id)
			case <-time.After(5 * time.Millisecond):
				more = false
			}
		}
	}
	publishing.Wait()
	settled(t, db)
	storetest.Empty(t, db)
	h.once(t, lapsed)
}
