package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A snooze uses up no attempt, and the next lease has another receipt.
func TestSnooze(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, asking("a", notify.Message{MaxAttempts: 1, TTL: time.Hour}))
	var last subscribers.Delivery
	for i := range 5 {
		d := claimed(t, c, subscribers.ClaimOptions{})
		if d.Attempt != 1 || i > 0 && d.Receipt%10 == last.Receipt%10 {
			t.Errorf("it has attempt %d, and the receipts %d, %d", d.Attempt, last.Receipt, d.Receipt)
		}
		last = d
		delay := []time.Duration{0, time.Millisecond, 10 * time.Millisecond, subscribers.ByBackoff, 0}[i]
		before := time.Now()
		out, err := d.Snooze(t.Context(), delay)
		if err != nil || out.State != notify.Scheduled || out.Attempts != 0 || out.Due.Before(before.Add(max(delay, 0)).Truncate(time.Millisecond)) {
			t.Fatalf("put off by %v: %+v, %v", delay, out, err)
		}
		if err := last.Ack(t.Context()); !errors.Is(err, notify.ErrLeaseLost) {
			t.Errorf("the receipt %d still settles: %v", last.Receipt, err)
		}
	}
	d := claimed(t, c, subscribers.ClaimOptions{})
	storetest.Should(t, d.Ack(t.Context()))
	settled(t, db)
	storetest.Empty(t, db)
}

// A message without a time to live may be put off 1000 times, and anew when it was requeued.
func TestThousandSnoozes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"))
	for i := range 1000 {
		d := claimed(t, c, subscribers.ClaimOptions{})
		if _, err := d.Snooze(t.Context(), 0); err != nil {
			t.Fatalf("snooze %d: %v", i+1, err)
		}
	}
	d := claimed(t, c, subscribers.ClaimOptions{})
	_, err := d.Snooze(t.Context(), 0)
	wantFault(t, err, "attempt", "1000 times")
	if err := d.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("its lease is gone: %v", err)
	}
	storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "enough")))
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, "a"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	d = claimed(t, c, subscribers.ClaimOptions{})
	storetest.Should(t, storetest.ErrOf(d.Snooze(t.Context(), 0)))
	d = claimed(t, c, subscribers.ClaimOptions{})
	storetest.Should(t, d.Ack(t.Context()))
	storetest.Empty(t, db)
}

// A message may be put off up to the end of its time to live, not to it and not past it. What is refused changes nothing.
func TestSnoozePastTheTimeToLive(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, asking("a", notify.Message{TTL: time.Hour, Lease: time.Minute}))
	d := claimed(t, c, subscribers.ClaimOptions{})
	contents := func() string {
		keys, err := db.Client().Keys(t.Context(), db.Keys().Base()+"*").Result()
		score, err2 := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), topic+":a").Result()
		noted, err3 := db.Client().HGetAll(t.Context(), db.KeysOf(topic).Extras()).Result()
		storetest.Must(t, errors.Join(err, err2, err3))
		return fmt.Sprint(len(keys), score, noted)
	}
	before := contents()
	for _, delay := range []time.Duration{time.Until(d.Due.Add(time.Hour)) + time.Second, 1000 * time.Hour} {
		_, err := d.Snooze(t.Context(), delay)
		wantFault(t, err, "delay", "past the message's time to live, at "+d.Due.Add(time.Hour).UTC().Format("2006-01-02T15:"))
	}
	_, err := d.Snooze(t.Context(), -time.Minute)
	wantFault(t, err, "delay", "negative")
	if after := contents(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	storetest.Should(t, storetest.ErrOf(d.Snooze(t.Context(), 59*time.Minute)))
}

// A message whose time to live ended while it was leased is not put off.
func TestSnoozeWhenTheTimeToLiveIsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *notify.Store) {
		c := subscriberstest.Claimer(t, db)
		storetest.Publish(t, db, asking("a", notify.Message{TTL: time.Minute, Lease: time.Hour}))
		d := claimed(t, c, subscribers.ClaimOptions{})
		time.Sleep(time.Minute)
		synctest.Wait()
		score, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Expiries(), topic+":a").Result()
		if err != nil || score == float64(int64(score)) {
			t.Errorf("its expiry is not postponed: it is at %v, %v", score, err)
		}
		_, err = d.Snooze(t.Context(), 0)
		wantFault(t, err, "delay", "time to live is over")
		storetest.Should(t, d.Ack(t.Context()))
		storetest.Empty(t, db)
	})
}

// A worker puts a message off as its handler says, to the end of its time to live at the latest, where it expires.
func TestWorkerSnoozes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *notify.Store) {
		attempts := make(chan int, 100)
		handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
			attempts <- d.Attempt
			if d.ID == "far" || len(attempts) < 3 {
				return fmt.Errorf("not yet: %w", subscribers.Snooze(time.Hour))
			}
			return nil
		})
		storetest.Publish(t, db, asking("a", notify.Message{MaxAttempts: 1}))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		storetest.Empty(t, db)
		for range 3 {
			if n := storetest.Receive(t, "it is handled", attempts); n != 1 {
				t.Errorf("it is handled as attempt %d", n)
			}
		}
		storetest.Publish(t, db, asking("far", notify.Message{MaxAttempts: 1, TTL: time.Minute}))
		want := func(state notify.State, reason string) {
			t.Helper()
			synctest.Wait()
			if m := inspect(t, db, "far"); m.State != state || m.Reason != reason || m.Attempts != 0 || len(m.History) != 1 || !strings.Contains(m.History[0].Reason, "not yet") {
				t.Errorf("it is %+v", m)
			}
		}
		time.Sleep(time.Minute - time.Millisecond)
		want(notify.Scheduled, "")
		time.Sleep(time.Millisecond)
		want(notify.Dead, "expired")
	})
}

// A handler may put its message off by the delivery, too.
func TestHandlerSnoozes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	handled := make(chan int, 100)
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		handled <- d.Attempt
		if len(handled) > 1 {
			return nil
		}
		_, err := d.Snooze(ctx, 0)
		if again := d.Ack(ctx); !errors.Is(again, notify.ErrLeaseLost) {
			t.Errorf("it is settled twice: %v", again)
		}
		return err
	})
	storetest.Publish(t, db, asking("a", notify.Message{MaxAttempts: 1, Lease: time.Minute}))
	storetest.Eventually(t, "it is handled twice", func() bool { return len(handled) == 2 })
	settled(t, db)
	storetest.Empty(t, db)
}

// A named listener puts a broadcast off without an attempt, up to 1000 times.
func TestNamedSnoozes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := subscriberstest.Listener(t, db)
	var all []int
	given := make(chan string, 1)
	o, started := (&received{}).options(subscribers.ListenOptions{Name: "n", MaxAttempts: 2})
	o.OnGivenUp = func(_ *subscribers.Broadcast, reason string) { given <- reason }
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
			all = append(all, b.Attempt)
			if len(all) == 1002 {
				return errors.New("enough")
			}
			return subscribers.Snooze(0)
		}, o)
	})
	storetest.Receive(t, "it listens", started)
	flood(t, db, []string{topic}, "n1")
	if reason := storetest.Receive(t, "it is given up", given); reason != "enough" || all[999] != 1 || all[1000] != 1 || all[1001] != 2 {
		t.Errorf("it was given up for %q after the attempts %v", reason, all[990:])
	}
}
