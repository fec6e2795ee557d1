package subscribers_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// What a worker has in hand keeps the lease of its claim, whatever is set since; each is extended in time.
func TestLeasesOfDifferentLengths(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const shorter = time.Minute / 2 // more than a machine stands still
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(time.Hour)})
	storetest.RingAlone(t, db, topic)
	began, end := keep(t, db, 2)
	storetest.Publish(t, db, body("long"))
	long := storetest.Receive(t, "the long one begins", began)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(shorter)})
	storetest.Publish(t, db, body("short"))
	short := storetest.Receive(t, "the short one begins", began)
	if long.Lease != time.Hour || short.Lease != shorter {
		t.Errorf("the leases are %v and %v", long.Lease, short.Lease)
	}
	storetest.Eventually(t, "the short lease is extended", func() bool { return currentReceipt(t, db, "short") > short.Receipt })
	if until := currentReceipt(t, db, "long"); until != long.Receipt {
		t.Errorf("the long lease ends at %d; its claim gave %d", until, long.Receipt)
	}
	close(end)
	settled(t, db)
	storetest.Empty(t, db)
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
	if d.Lease != time.Hour || d.Receipt.Until().Before(d.Due.Add(time.Hour)) {
		t.Errorf("claimed for %v until %v", d.Lease, d.Receipt.Until())
	}
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(2 * time.Hour)})
	if err := d.Extend(t.Context(), 0); err != nil || d.Until().Before(d.Due.Add(2*time.Hour)) {
		t.Errorf("extended until %v, %v", d.Until(), err)
	}
	again := c.Delivery(topic, "a", d.Receipt)
	if err := again.Extend(t.Context(), time.Minute); err != nil || !again.Until().Before(d.Until()) {
		t.Errorf("extended until %v, %v", again.Until(), err)
	}
}
