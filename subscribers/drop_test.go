package subscribers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// dropping is a message that is dropped where others are buried.
func dropping(id string, m notify.Message) notify.Message {
	m.Fail = notify.FailDrop
	return asking(id, m)
}

// A message with FailDrop leaves nothing but a count, and no death is told.
func TestFailDrop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		m    notify.Message
		end  func(t *testing.T, db *notify.Store, c *subscribers.Claimer)
		last bool // the carrier comes last
	}{
		{"its last attempt is rejected", notify.Message{MaxAttempts: 2}, func(t *testing.T, _ *notify.Store, c *subscribers.Claimer) {
			for _, last := range []bool{false, true} {
				d := claimed(t, c, subscribers.ClaimOptions{})
				out, err := d.Nack(t.Context(), 0, "no")
				if err != nil || out.Dropped != last || last && (out.State != 0 || out.Attempts != 2) {
					t.Errorf("the outcome is %+v, %v", out, err)
				}
			}
		}, false},
		{"its last lease ends", notify.Message{MaxAttempts: 1, Lease: 100 * time.Millisecond}, func(t *testing.T, _ *notify.Store, c *subscribers.Claimer) {
			claimed(t, c, subscribers.ClaimOptions{})
		}, false},
		{"its last try times out", notify.Message{MaxAttempts: 1, TryTimeout: 100 * time.Millisecond, LateAfter: time.Hour}, func(t *testing.T, _ *notify.Store, c *subscribers.Claimer) {
			claimed(t, c, subscribers.ClaimOptions{})
		}, false},
		{"it expires while it is ready", notify.Message{TTL: 100 * time.Millisecond, Lease: time.Minute}, nil, false},
		{"it expires while it waits for a retry", notify.Message{TTL: 2 * time.Hour}, func(t *testing.T, db *notify.Store, c *subscribers.Claimer) {
			d := claimed(t, c, subscribers.ClaimOptions{})
			storetest.Should(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "no")))
			expire(t, db, "a")
		}, true},
		{"it expires while it is leased", notify.Message{TTL: time.Hour}, func(t *testing.T, db *notify.Store, c *subscribers.Claimer) {
			d := claimed(t, c, subscribers.ClaimOptions{})
			expire(t, db, "a")
			storetest.Should(t, d.Release(t.Context()))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			if !c.last {
				carry(t, db)
			}
			storetest.Publish(t, db, dropping("a", c.m))
			if c.end != nil {
				c.end(t, db, subscriberstest.Claimer(t, db))
			}
			if c.last {
				carry(t, db)
			}
			storetest.Eventually(t, "it is gone", func() bool { return counter(t, db, topic, "dropped") > 0 })
			wantDropped(t, db, 1)
			settled(t, db)
			storetest.Publish(t, db, dropping("a", notify.Message{Delay: time.Hour})) // its id is free
		})
	}
}

// Without a carrier a claim finds what has expired. An explicit burial keeps a dead letter.
func TestDropsOfAClaim(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, dropping("expired", notify.Message{TTL: time.Millisecond}), dropping("bury", notify.Message{MaxAttempts: 1}))
	published := time.Now()
	storetest.Eventually(t, "it has expired", func() bool { return time.Since(published) > 5*time.Millisecond })
	ds := claimMany(t, c, subscribers.ClaimOptions{})
	if len(ds) != 1 || ds[0].ID != "bury" {
		t.Fatalf("claimed %v", ds)
	}
	if out, err := ds[0].Bury(t.Context(), "poison"); err != nil || out.State != notify.Dead || out.Dropped {
		t.Errorf("buried: %+v, %v", out, err)
	}
	if dropped, died := counter(t, db, topic, "dropped"), counter(t, db, topic, "died"); dropped != 1 || died != 1 {
		t.Errorf("%d were dropped, %d died", dropped, died)
	}
	if n, err := storetest.Inspector(t, db).Purge(t.Context(), topic, "bury"); err != nil || n != 1 {
		t.Error(n, err)
	}
	storetest.Empty(t, db)
}

// A worker does not report what is dropped as dead.
func TestWorkerDrops(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	handle(t, db, func(context.Context, *subscribers.Delivery) error { return errors.New("no") },
		subscribers.HandleOptions{OnDead: func(d subscribers.Death) { t.Errorf("%s died: %s", d.ID, d.Reason) }})
	storetest.Publish(t, db, dropping("a", notify.Message{MaxAttempts: 1}), dropping("b", notify.Message{MaxAttempts: 1, Lease: time.Minute}))
	storetest.Eventually(t, "they are dropped", func() bool { return counter(t, db, topic, "dropped") == 2 })
	settled(t, db)
	wantDropped(t, db, 2)
}

// All at once: each message meets what comes first of being late, timed out and out of attempts.
func TestLateFailAndTry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *notify.Store) {
		c := subscriberstest.Claimer(t, db)
		m := notify.Message{LateAfter: 10 * time.Minute, Late: notify.LateDrop, TryTimeout: 11 * time.Minute, Lease: time.Hour, MaxAttempts: 2}
		storetest.Publish(t, db, dropping("a", m), body("plain"))
		ds := claimMany(t, c, subscribers.ClaimOptions{})
		if len(ds) != 2 || ds[0].Lease+ds[1].Lease != 30*time.Second+11*time.Minute {
			t.Fatalf("claimed %v", ds)
		}
		for _, d := range ds {
			if d.ID == "plain" {
				storetest.Should(t, d.Ack(t.Context()))
			}
		}
		time.Sleep(11*time.Minute + time.Millisecond)
		synctest.Wait()
		if c := counts(t, db); c.Ready != 1 {
			t.Errorf("when its try has timed out there are %+v", c)
		}
		if ds := claimMany(t, c, subscribers.ClaimOptions{}); len(ds) != 0 {
			t.Errorf("claimed %v, which is late", ds)
		}
		wantDropped(t, db, 1)
	})
}
