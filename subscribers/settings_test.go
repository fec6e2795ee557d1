package subscribers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// What a worker has in hand keeps the lease of its claim, whatever is set since; each is extended in time.
func TestLeasesOfDifferentLengths(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(time.Hour)})
	began, end := keep(t, db, 2)
	storetest.Publish(t, db, body("long"))
	long := storetest.Receive(t, "the long one begins", began)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(brief)})
	storetest.Publish(t, db, body("short"))
	short := storetest.Receive(t, "the short one begins", began)
	if long.Lease != time.Hour || short.Lease != brief {
		t.Errorf("the leases are %v and %v", long.Lease, short.Lease)
	}
	storetest.Eventually(t, "the short lease would have ended after one extension", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		return err == nil && now.After(short.Receipt.Until().Add(longer))
	})
	if c := counts(t, db); c.Leased != 2 || c.Ready != 0 {
		t.Errorf("got %+v", c)
	}
	until, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), store.Member(topic, "long")).Result()
	if err != nil || int64(until) != int64(long.Receipt) {
		t.Errorf("the long lease ends at %.0f, %v; its claim gave %d", until, err, long.Receipt)
	}
	close(end)
	settled(t, db)
	storetest.Empty(t, db)
	if len(began) > 0 {
		t.Error("one was handled again")
	}
}

// Leases that become shorter with each claim put off the extension of none before them.
func TestLeasesThatBecomeShorter(t *testing.T) {
	t.Parallel()
	const step, n = 200 * time.Millisecond, 8
	db := storetest.Open(t)
	carry(t, db)
	began, end := keep(t, db, n)
	var first subscribers.Delivery
	for i := range n {
		lease := 4*time.Second - time.Duration(i)*step
		storetest.Set(t, db, topic, notify.SettingsChange{Lease: &lease})
		storetest.Publish(t, db, body(fmt.Sprint(i)))
		d := storetest.Receive(t, "the next one begins", began)
		if i == 0 {
			first = d
		}
		at := first.Receipt.Until().Add(-first.Lease + time.Duration(i+1)*first.Lease/4) // by Redis's clock
		storetest.Eventually(t, "a while has passed", func() bool {
			now, err := db.Client().Time(t.Context()).Result()
			return err == nil && now.After(at)
		})
	}
	if c := counts(t, db); c.Leased != n || c.Ready != 0 {
		t.Errorf("got %+v", c)
	}
	close(end)
	settled(t, db)
	if len(began) > 0 {
		t.Error("one was handled again")
	}
}

// A lease of zero is that of the settings, of a claim and of an extension.
func TestLeaseOfTheSettings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"))
	storetest.Set(t, db, notify.AllTopics, notify.SettingsChange{Lease: new(time.Hour)})
	d := claimOne(t, c, 0)
	if d.Lease != time.Hour || time.Until(d.Receipt.Until()) < 50*time.Minute {
		t.Errorf("claimed for %v until %v", d.Lease, d.Receipt.Until())
	}
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(2 * time.Hour)})
	if err := d.Extend(t.Context(), 0); err != nil || time.Until(d.Receipt.Until()) < 110*time.Minute {
		t.Errorf("extended until %v, %v", d.Receipt.Until(), err)
	}
	again := c.Delivery(topic, "a", d.Receipt)
	if err := again.Extend(t.Context(), time.Minute); err != nil || time.Until(again.Receipt.Until()) > 2*time.Minute {
		t.Errorf("extended until %v, %v", again.Receipt.Until(), err)
	}
}
