package subscribers_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
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
	store := storetest.Open(t)
	carry(t, store)
	c := subscriberstest.Claimer(t, store)
	claim := func(lease time.Duration) (d subscribers.Delivery) {
		storetest.Eventually(t, "there is one to claim", func() bool {
			ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) == 1 {
				d = ds[0]
			}
			return len(ds) == 1
		})
		return d
	}
	for met := 0; met < collisions; {
		storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x")})
		first := claim(time.Minute)
		if err := giveBack(c, first); err != nil {
			t.Fatal(err)
		}
		now, err := store.Client().Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		second := claim(first.Receipt.Until().Sub(now).Truncate(time.Millisecond))
		if first.Receipt.Until().UnixMilli() == second.Receipt.Until().UnixMilli() {
			met++
		}
		if first.Receipt%10 == second.Receipt%10 {
			t.Errorf("the receipts %d and %d have the same last digit", first.Receipt, second.Receipt)
		}
		if err := first.Ack(t.Context()); !errors.Is(err, notify.ErrLeaseLost) {
			t.Fatalf("the receipt %d settled a lease of %d: %v", first.Receipt, second.Receipt, err)
		}
		if err := second.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The last digit of a receipt is that of the attempts used up, also behind an extension.
func TestReceiptsOfAttempts(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	c := subscriberstest.Claimer(t, store)
	for attempts, want := range map[string]subscribers.Receipt{"1": 1, "9": 9, "10": 0, "123": 3, "99999999999999999999": 9, "x": 0, "1.5": 0, "": 0, "-3": 0} {
		storetest.Publish(t, store, body("a"), body("b"))
		if err := store.Client().HSet(t.Context(), store.KeysOf(topic).Attempts(), topic+":a", attempts).Err(); err != nil {
			t.Fatal(err)
		}
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
	storetest.Empty(t, store)
}
