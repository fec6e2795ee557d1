package subscribers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The receipt of a lease that was given back settles nothing, even where the
// next one ends in the same millisecond.
func TestReceiptOfAnEarlierLease(t *testing.T) {
	t.Parallel()
	for name, giveBack := range map[string]func(*subscribers.Claimer, subscribers.Delivery) error{
		"nack": func(c *subscribers.Claimer, d subscribers.Delivery) error {
			_, err := d.Nack(t.Context(), 0, "again")
			return err
		},
		"release": func(c *subscribers.Claimer, d subscribers.Delivery) error {
			_, err := c.ReleaseMany(t.Context(), topic, []subscribers.Delivery{d})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { settleWithStaleReceipts(t, giveBack) })
	}
}

func settleWithStaleReceipts(t *testing.T, giveBack func(*subscribers.Claimer, subscribers.Delivery) error) {
	const collisions = 20
	db := storetest.Open(t)
	carry(t, db)
	c := subscriberstest.Claimer(t, db)
	for met := 0; met < collisions; {
		storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x")})
		first := claimed(t, c, subscribers.ClaimOptions{Lease: time.Minute})
		storetest.Must(t, giveBack(c, first))
		second := claimed(t, c, subscribers.ClaimOptions{Lease: first.Receipt.Until().Sub(redisNow(t, db)).Truncate(time.Millisecond)})
		if first.Receipt.Until().UnixMilli() == second.Receipt.Until().UnixMilli() {
			met++
		}
		if first.Receipt%10 == second.Receipt%10 {
			t.Errorf("the receipts %d and %d have the same last digit", first.Receipt, second.Receipt)
		}
		if err := first.Ack(t.Context()); !errors.Is(err, notify.ErrLeaseLost) {
			t.Fatalf("the receipt %d settled a lease of %d: %v", first.Receipt, second.Receipt, err)
		}
		storetest.Must(t, second.Ack(t.Context()))
	}
}

// The last digit of a receipt is that of the attempts used up, also behind an extension.
func TestReceiptsOfAttempts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	for attempts, want := range map[string]subscribers.Receipt{"1": 1, "9": 9, "10": 0, "123": 3, "99999999999999999999": 9, "x": 0, "1.5": 0, "": 0, "-3": 0} {
		storetest.Publish(t, db, body("a"), body("b"))
		storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Attempts(), topic+":a", attempts).Err())
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 2, Lease: time.Minute})
		if err != nil || len(ds) != 2 {
			t.Fatalf("claimed %v, %v", ds, err)
		}
		for i, digit := range []subscribers.Receipt{want, 0} {
			if ds[i].Receipt%10 != digit {
				t.Errorf("after %q attempts the receipt is %d", attempts, ds[i].Receipt)
			}
			if err = ds[i].Extend(t.Context(), time.Hour); err != nil {
				t.Errorf("after %q attempts: %v", attempts, err)
			}
			if err := ds[i].Ack(t.Context()); err != nil || ds[i].Receipt%10 != digit {
				t.Errorf("after %q attempts, extended to %d: %v", attempts, ds[i].Receipt, err)
			}
		}
	}
	storetest.Empty(t, db)
}

// settlements are all ways to settle a message.
var settlements = map[string]func(context.Context, *subscribers.Claimer, subscribers.Delivery) error{
	"ack": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error { return d.Ack(ctx) },
	"ack with a result": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.AckWith(ctx, notify.AckResult{Keep: time.Hour, Body: []byte("done")})
		return err
	},
	"ack of many": func(ctx context.Context, c *subscribers.Claimer, d subscribers.Delivery) error {
		lost, err := c.AckMany(ctx, topic, []subscribers.Delivery{d})
		return orLost(lost, err)
	},
	"nack": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Nack(ctx, time.Hour, "no")
		return err
	},
	"snooze": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Snooze(ctx, time.Hour)
		return err
	},
	"bury": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error {
		_, err := d.Bury(ctx, "never")
		return err
	},
	"release": func(ctx context.Context, _ *subscribers.Claimer, d subscribers.Delivery) error { return d.Release(ctx) },
	"release of many": func(ctx context.Context, c *subscribers.Claimer, d subscribers.Delivery) error {
		lost, err := c.ReleaseMany(ctx, topic, []subscribers.Delivery{d})
		return orLost(lost, err)
	},
}

func orLost(lost []subscribers.Delivery, err error) error {
	if err == nil && len(lost) > 0 {
		return notify.ErrLeaseLost
	}
	return err
}

// extend extends the lease of a message by its receipt alone, as another process does, and waits until it ends later.
func extend(t *testing.T, db *notify.Store, d subscribers.Delivery, lease time.Duration) {
	t.Helper()
	before := currentReceipt(t, db, d.ID)
	storetest.Eventually(t, "the clock moves on", func() bool {
		other := subscriberstest.Claimer(t, db).Delivery(d.Topic, d.ID, d.Receipt)
		storetest.Must(t, other.Extend(t.Context(), lease))
		now := currentReceipt(t, db, d.ID)
		if other.Receipt != d.Receipt || !other.Until().Equal(now.Until()) {
			t.Fatalf("the receipt is %d of %d, and the end %v of %v", other.Receipt, d.Receipt, other.Until(), now.Until())
		}
		return now > before
	})
}

// The receipt of a claim settles the message however often its lease was extended meanwhile, also by others, and once.
func TestReceiptOfAnExtendedLease(t *testing.T) {
	t.Parallel()
	for name, settle := range settlements {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			c := subscriberstest.Claimer(t, db)
			storetest.Publish(t, db, body("a"))
			d := claimOne(t, c, time.Minute)
			for _, lease := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour} {
				extend(t, db, d, lease)
			}
			storetest.Must(t, settle(t.Context(), c, d))
			if lease := leased(t, db, "a"); lease != "" {
				t.Errorf("it is leased until %s", lease)
			}
			for again, settle := range settlements {
				if err := settle(t.Context(), c, d); !errors.Is(err, notify.ErrLeaseLost) {
					t.Errorf("%s afterwards: %v", again, err)
				}
			}
			storetest.Fails(t, "extended afterwards", d.Extend(t.Context(), time.Hour), notify.ErrLeaseLost)
		})
	}
}

// What was noted of an extended lease proves nothing once the message is leased again, whether that lease is extended or not.
func TestExtendedReceiptOfAnEarlierLease(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *notify.Store, subscribers.Delivery){
		"released": func(t *testing.T, _ *notify.Store, d subscribers.Delivery) {
			storetest.Must(t, d.Release(t.Context()))
		},
		"run out": func(t *testing.T, db *notify.Store, d subscribers.Delivery) {
			storetest.Must(t, d.Extend(t.Context(), record.MinLease))
			carry(t, db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			c := subscriberstest.Claimer(t, db)
			storetest.Publish(t, db, body("a"))
			old := claimOne(t, c, time.Minute)
			extend(t, db, old, time.Hour)
			end(t, db, old)
			now := claimed(t, c, subscribers.ClaimOptions{Lease: time.Hour})
			for range 2 {
				lease := leased(t, db, "a")
				for how, settle := range settlements {
					if err := settle(t.Context(), c, old); !errors.Is(err, notify.ErrLeaseLost) {
						t.Errorf("%s by the receipt of an earlier lease: %v", how, err)
					}
				}
				storetest.Fails(t, "extended by the receipt of an earlier lease", old.Extend(t.Context(), time.Minute), notify.ErrLeaseLost)
				if is := leased(t, db, "a"); is != lease {
					t.Errorf("the lease is %q, and was %q", is, lease)
				}
				extend(t, db, now, 2*time.Hour)
			}
			storetest.Should(t, now.Ack(t.Context()))
		})
	}
}

// Many are settled at once by the receipts of their claims, some of them extended, each by another time.
func TestReceiptsOfSomeExtended(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	const n = 40
	for range n {
		storetest.Publish(t, db, body(notify.NewID()), body(notify.NewID()))
	}
	ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 2 * n, Lease: time.Minute})
	if err != nil || len(ds) != 2*n {
		t.Fatal(len(ds), err)
	}
	for i := 0; i < len(ds); i += 7 {
		extend(t, db, ds[i], time.Hour+time.Duration(i)*time.Second)
	}
	for _, some := range [][]subscribers.Delivery{ds[:n], ds[n:]} {
		if lost, err := c.AckMany(t.Context(), topic, some); err != nil || len(lost) > 0 {
			t.Errorf("%d are lost, %v", len(lost), err)
		}
	}
	storetest.Empty(t, db)
}

// What is noted of an extension goes with the lease, or by itself soon after that ended. A Subscriber, which knows each receipt, notes
// nothing.
func TestNoteOfAnExtension(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"))
	d := claimOne(t, c, time.Minute)
	extend(t, db, d, time.Hour)
	key := db.KeysOf(topic).Extended(record.Member(topic, "a"))
	if left, err := db.Client().PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > time.Hour+time.Minute {
		t.Errorf("it stays for %v, %v", left, err)
	}
	storetest.Should(t, d.Ack(t.Context()))
	storetest.Empty(t, db)
	done := make(chan error, 1)
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		err := d.Extend(ctx, time.Hour)
		if is := currentReceipt(t, db, "b"); !is.Until().Equal(d.Until()) {
			t.Errorf("it is leased until %v, and says %v", is.Until(), d.Until())
		}
		done <- err
		return nil
	})
	storetest.Publish(t, db, body("b"))
	storetest.Should(t, storetest.Receive(t, "it is handled", done))
	settled(t, db)
	if n, err := db.Client().Exists(t.Context(), db.KeysOf(topic).Extended(record.Member(topic, "b"))).Result(); n != 0 || err != nil {
		t.Errorf("a handler's extension left %d notes, %v", n, err)
	}
}
