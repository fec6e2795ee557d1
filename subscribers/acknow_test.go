package subscribers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// With AckNow a claim leaves nothing to settle, of messages that ask for something, too.
func TestAckNow(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	now := subscribers.ClaimOptions{AckNow: true, Max: 500}
	storetest.Publish(t, db, body("a"), asking("b", notify.Message{Lease: time.Minute, TryTimeout: time.Minute, TTL: time.Hour}),
		asking("in-time", notify.Message{LateAfter: time.Hour}), asking("drop", notify.Message{LateAfter: time.Millisecond, Late: notify.LateDrop}), body("z"))
	published := time.Now()
	storetest.Eventually(t, "it is later", func() bool { return time.Since(published) > 5*time.Millisecond })
	ds := claimMany(t, c, now)
	if len(ds) != 4 {
		t.Fatalf("claimed %v", ds)
	}
	for _, d := range ds {
		if d.Receipt != 0 || d.Lease != 0 || string(d.Body) != d.ID || d.Late() < time.Millisecond || d.Late() > storetest.Deadline {
			t.Errorf("claimed %+v, %v late", d, d.Late())
		}
		_, err := d.Nack(t.Context(), 0, "no")
		for _, err := range []error{err, d.Ack(t.Context()), d.Release(t.Context()), d.Extend(t.Context(), time.Minute)} {
			storetest.Fails(t, "it is settled again", err, notify.ErrLeaseLost)
		}
	}
	if lost, err := c.AckMany(t.Context(), topic, ds); err != nil || len(lost) != 4 {
		t.Errorf("of all %d are lost, %v", len(lost), err)
	}
	if acked, of := counter(t, db, topic, "acked"), counter(t, db, "*", "acked"); acked != 4 || of != 4 {
		t.Errorf("%d and %d are acknowledged", acked, of)
	}
	wantDropped(t, db, 1)
	storetest.Publish(t, db, numbered(700)...)
	for got := 0; got < 700; {
		ds := claimMany(t, c, now)
		if got += len(ds); len(ds) == 0 {
			t.Fatalf("got %d", got)
		}
	}
	storetest.Empty(t, db)
	_, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{AckNow: true, Lease: time.Minute})
	wantFault(t, err, "lease", "ack=now")
}

// Callers that wait on other terms get what is theirs, and a hand-over for which only such callers wait is theirs as well.
func TestWaitersThatAckNow(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	p, _ := runClaimer(t, db)
	now, leased := long(), long()
	now.AckNow, now.Lease = true, 0
	for range 20 {
		answer := claimLater(t.Context(), t, p, now)
		waits(t, db, 1)
		storetest.Publish(t, db, body("a"))
		if g := want(t, "the one that is acknowledged", answer, "a"); g.ds[0].Receipt != 0 {
			t.Errorf("it has the receipt %d", g.ds[0].Receipt)
		}
	}
	first, second := claimLater(t.Context(), t, p, now), claimLater(t.Context(), t, p, leased)
	storetest.Publish(t, db, body("b1"), body("b2"))
	var acked, settle int
	for _, answer := range []<-chan got{first, second} {
		g := storetest.Receive(t, "each gets one", answer)
		for _, d := range g.ds {
			if d.Receipt == 0 {
				acked++
				continue
			}
			settle++
			storetest.Should(t, d.Ack(t.Context()))
		}
	}
	if acked != 1 || settle != 1 {
		t.Errorf("%d were acknowledged at once, %d leased", acked, settle)
	}
	settled(t, db)
	storetest.Empty(t, db)
}

// What a claim acknowledges reaches its caller, though the caller's wait ends meanwhile.
func TestCallerLeavesWhileItsClaimAcknowledges(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	p, _ := runClaimer(t, db)
	const n = 50
	got := 0
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		o := long()
		o.AckNow, o.Lease = true, 0
		answer := claimLater(ctx, t, p, o)
		storetest.Publish(t, db, body(fmt.Sprint(i)))
		cancel()
		got += len(storetest.Receive(t, "the caller leaves", answer).ds)
	}
	storetest.Eventually(t, "nothing is left", func() bool {
		got += len(claimMany(t, p, subscribers.ClaimOptions{AckNow: true}))
		c := counts(t, db)
		return c.Ready+c.Leased == 0
	})
	if got != n {
		t.Errorf("of %d messages the callers got %d", n, got)
	}
}
