package subscribers_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The lease of a message comes before that of the claim and that of the topic, and the timeout of a try bounds all of them.
func TestLeaseOfAMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		lease, try  time.Duration
		claim, want time.Duration
	}{
		{name: "none", want: 30 * time.Second},
		{name: "none, and the claim's", claim: time.Minute, want: time.Minute},
		{name: "its own", lease: 100 * time.Millisecond, want: 100 * time.Millisecond},
		{name: "its own, before the claim's", lease: 24 * time.Hour, claim: time.Minute, want: 24 * time.Hour},
		{name: "a short try", try: 100 * time.Millisecond, want: 100 * time.Millisecond},
		{name: "a try shorter than the claim's", try: time.Second, claim: time.Minute, want: time.Second},
		{name: "a long try", try: 24 * time.Hour, want: 30 * time.Second},
		{name: "a try shorter than its own", lease: time.Hour, try: time.Minute, claim: 2 * time.Hour, want: time.Minute},
		{name: "as long", lease: time.Minute, try: time.Minute, want: time.Minute},
	} {
		db := storetest.Open(t)
		claimer := subscriberstest.Claimer(t, db)
		storetest.Publish(t, db, body("plain1"), asking("a", notify.Message{Lease: c.lease, TryTimeout: c.try}), body("plain2"))
		ds := claimMany(t, claimer, subscribers.ClaimOptions{Lease: c.claim})
		if len(ds) != 3 {
			t.Fatalf("%s: claimed %d", c.name, len(ds))
		}
		for _, d := range ds {
			want := c.want
			if d.ID != "a" {
				want = cmp.Or(c.claim, 30*time.Second)
			}
			score, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), topic+":"+d.ID).Result()
			if err != nil || d.Lease != want || subscribers.Receipt(score) != d.Receipt {
				t.Errorf("%s: %s has a lease of %v, want %v, and the receipt %d of %.0f, %v", c.name, d.ID, d.Lease, want, d.Receipt, score, err)
			}
			if late := d.Until().Sub(d.Due) - d.Lease; (d.Late() - late).Abs() > time.Millisecond {
				t.Errorf("%s: it is %v late, want %v", c.name, d.Late(), late)
			}
			if err := d.Ack(t.Context()); err != nil {
				t.Errorf("%s: %s: %v", c.name, d.ID, err)
			}
		}
		storetest.Empty(t, db)
	}
}

// An extension without a length is that of the message, and none goes beyond the end of the try.
func TestExtensionsEndWithTheTry(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("plain"),
		asking("own", notify.Message{Lease: time.Minute}),
		asking("try", notify.Message{TryTimeout: time.Hour}),
		asking("both", notify.Message{Lease: time.Minute, TryTimeout: time.Hour}))
	extend := func(d subscribers.Delivery, lease, want time.Duration, end time.Time) { // end of the try, or zero
		t.Helper()
		before := redisNow(t, db)
		if err := d.Extend(t.Context(), lease); err != nil {
			t.Fatalf("%s: %v", d.ID, err)
		}
		after := redisNow(t, db)
		if is := currentReceipt(t, db, d.ID); !is.Until().Equal(d.Until()) {
			t.Errorf("%s is extended until %v, and leased until %v", d.ID, d.Until(), is.Until())
		}
		early, late := before.Add(want), after.Add(want)
		if !end.IsZero() {
			early, late = end, end
		}
		if d.Until().Before(early.Add(-20*time.Microsecond)) || d.Until().After(late.Add(20*time.Microsecond)) {
			t.Errorf("%s is extended until %v, want %v to %v", d.ID, d.Until(), early, late)
		}
	}
	for _, d := range claimMany(t, c, subscribers.ClaimOptions{}) {
		byDefault, end := 30*time.Second, time.Time{}
		if d.Record.Lease > 0 {
			byDefault = time.Minute
		}
		if d.ID == "try" || d.ID == "both" {
			end = d.Until().Add(-d.Lease + time.Hour)
		}
		extend(d, 0, byDefault, time.Time{})
		d = *c.Delivery(topic, d.ID, d.Receipt)
		extend(d, 24*time.Hour, 24*time.Hour, end)
		d = *c.Delivery(topic, d.ID, d.Receipt)
		before := currentReceipt(t, db, d.ID)
		if err := d.Extend(t.Context(), 2*time.Hour); err != nil || !end.IsZero() && !d.Until().Equal(before.Until()) {
			t.Errorf("%s at its end is extended from %v to %v, %v", d.ID, before.Until(), d.Until(), err)
		}
		storetest.Should(t, d.Ack(t.Context()))
	}
	storetest.Empty(t, db)
}

// What is noted of a message in other words stays through all that is noted of its lease.
func TestNotesBesideOthers(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, asking("a", notify.Message{Lease: time.Minute, TryTimeout: time.Hour}))
	rest := "\n{\"a\":\x00 lease=5\n\xff until=7"
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Extras(), topic+":a", " unique=5"+rest).Err())
	for range 2 {
		d := claimed(t, c, subscribers.ClaimOptions{})
		storetest.Must(t, storetest.ErrOf(d.Snooze(t.Context(), 0)))
		makeReady(t, db)
	}
	noted, err := db.Client().HGet(t.Context(), db.KeysOf(topic).Extras(), topic+":a").Result()
	if head, tail, _ := strings.Cut(noted, "\n"); err != nil || "\n"+tail != rest || !strings.HasPrefix(head, " unique=5 ") ||
		strings.Count(head, "=") != 4 || !strings.Contains(head+" ", " snoozed=2 ") || !strings.Contains(head+" ", " lease=60000 ") {
		t.Errorf("noted is %q, %v", noted, err)
	}
}

// makeReady has what is due carried once.
func makeReady(t *testing.T, db *notify.Store) {
	t.Helper()
	stop := carry(t, db)
	storetest.Eventually(t, "all that is scheduled is ready", func() bool {
		c, err := storetest.Count(db, topic)
		return err == nil && c.Scheduled == 0
	})
	stop()
}

// Where a try takes too long the handler's context ends, and whatever the handler answers, an attempt is used up: the message is
// rejected, or where the machine is too slow for that its lease ends.
func TestTryTimesOut(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"the cause":  context.Cause,
		"canceled":   func(ctx context.Context) error { return ctx.Err() },
		"snooze":     func(context.Context) error { return subscribers.Snooze(time.Hour) },
		"not now":    func(context.Context) error { return subscribers.NotNow(nil, time.Hour) },
		"its own":    func(context.Context) error { return errors.New("slow") },
		"as stopped": func(context.Context) error { return subscribers.ErrStopping },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, db *notify.Store) {
				causes := make(chan error, 10)
				storetest.Publish(t, db, asking("a", notify.Message{TryTimeout: 2 * time.Minute, MaxAttempts: 1}))
				handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return answer(ctx)
				})
				time.Sleep(2 * time.Minute)
				if cause := storetest.Receive(t, "its context ends", causes); !errors.Is(cause, subscribers.ErrTryTimeout) {
					t.Errorf("the context ends for %v", cause)
				}
				synctest.Wait()
				info := inspect(t, db, "a")
				if info.State != notify.Dead || !strings.HasPrefix(info.Reason, "try timed out") || info.Attempts != 1 || len(causes) > 0 {
					t.Errorf("it is %v, of %q after %d", info.State, info.Reason, info.Attempts)
				}
			})
		})
	}
}

// A handler that does not heed the end of its context loses the lease at the end of the try, however often it is extended.
func TestTryOfAHandlerThatGoesOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *notify.Store) {
		end := make(chan struct{})
		defer close(end)
		storetest.Publish(t, db, asking("a", notify.Message{TryTimeout: 2 * time.Minute, MaxAttempts: 1}))
		over := time.Now().Add(2 * time.Minute)
		handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
			time.Sleep(time.Until(over) - time.Second)
			storetest.Should(t, d.Extend(context.WithoutCancel(ctx), time.Hour))
			<-end
			return nil
		})
		time.Sleep(time.Until(over) - time.Microsecond)
		synctest.Wait()
		info := inspect(t, db, "a")
		if info.State != notify.Leased || info.Until.Sub(over).Abs() > time.Millisecond {
			t.Errorf("before the end of its try it is %v, until %v", info.State, info.Until)
		}
		time.Sleep(time.Until(over) + time.Millisecond)
		synctest.Wait()
		if info = inspect(t, db, "a"); info.State != notify.Dead || info.Reason != "try timed out, out of attempts" || info.Attempts != 1 {
			t.Errorf("at the end of its try it is %+v", info)
		}
	})
}

// What becomes of a message that is claimed too late, in one batch with others.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	first := time.Now().Add(-time.Hour)
	late := func(id string, after time.Duration, late notify.Late) notify.Message {
		return asking(id, notify.Message{Due: first, LateAfter: after, Late: late})
	}
	storetest.Publish(t, db, body("plain1"),
		late("default", time.Millisecond, ""), late("bury", time.Millisecond, notify.LateBury),
		late("drop", time.Millisecond, notify.LateDrop), late("intime", 24*time.Hour, notify.LateDrop), body("plain2"))
	published := time.Now()
	storetest.Eventually(t, "it is later", func() bool { return time.Since(published) > 5*time.Millisecond })
	var got []string
	for _, d := range claimMany(t, c, subscribers.ClaimOptions{}) {
		got = append(got, d.ID)
		storetest.Should(t, d.Ack(t.Context()))
	}
	slices.Sort(got)
	if want := []string{"intime", "plain1", "plain2"}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	for _, id := range []string{"default", "bury"} {
		info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id)
		if err != nil || info.State != notify.Dead || info.Reason != "late" {
			t.Errorf("%s is %v for %q, %v", id, info.State, info.Reason, err)
		}
	}
	if dropped := counter(t, db, topic, "dropped"); dropped != 1 || counter(t, db, "*", "died") != 2 {
		t.Errorf("%d were dropped", dropped)
	}
	if n, err := storetest.Inspector(t, db).Purge(t.Context(), topic, "bury", "default"); err != nil || n != 2 {
		t.Error(n, err)
	}
	storetest.Empty(t, db)
}

// A lease is extended up to the end of the try, and the receipt of the claim stays valid.
func TestReceiptOfAMessageWithATry(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, asking("a", notify.Message{Lease: time.Minute, TryTimeout: 90 * time.Second}))
	d := claimed(t, c, subscribers.ClaimOptions{})
	began := d.Until().Add(-time.Minute)
	for range 3 {
		storetest.Must(t, c.Delivery(topic, "a", d.Receipt).Extend(t.Context(), time.Hour))
		if end := currentReceipt(t, db, "a").Until().Sub(began); end < time.Minute || end > 90*time.Second+20*time.Microsecond {
			t.Errorf("it may be worked on for %v", end)
		}
	}
	storetest.Should(t, d.Ack(t.Context()))
}
