package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Topics of which messages failed three times are failing, with why the last attempt did: not those that failed less often, died, or keep no
// history.
func TestFailing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard, bills, quiet := db.Of("mail"), storetest.Beside(db, "mail", "bills"), storetest.Beside(db, "mail", "quiet")
	storetest.Set(t, db, quiet, notify.SettingsChange{History: new(false)})
	fail := func(topic, id string, times int) {
		t.Helper()
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, MaxAttempts: 4})
		for i := range times {
			nack := store.Nack{Reason: fmt.Sprint("no ", i+1)}
			if i == times-1 {
				nack.Delay = time.Hour
			}
			storetest.Eventually(t, id+" is claimed", func() bool { // what failed is due within a millisecond
				carryAll(t, shard)
				got, err := shard.Claim(t.Context(), store.Claim{Topic: topic, Max: 1, Lease: time.Minute, Name: "desk-1"})
				storetest.Must(t, err)
				for _, m := range got.Messages {
					nack.Lease = m.Lease
				}
				return len(got.Messages) == 1
			})
			storetest.Must(t, storetest.ErrOf(shard.Nack(t.Context(), topic, nack)))
		}
	}
	failing := func() []store.Failing {
		t.Helper()
		all, now, err := shard.Failing(t.Context())
		storetest.Must(t, err)
		for i := range all {
			if ago := now.Sub(all[i].Ended); ago < 0 || ago > storetest.Deadline {
				t.Errorf("%s failed %v ago", all[i].ID, ago)
			}
			all[i].Ended = time.Time{}
		}
		return all
	}
	fail("mail", "twice", 2)
	fail("mail", "dead", 4)
	fail(quiet, "d", 3)
	if all := failing(); len(all) > 0 {
		t.Errorf("at first: %+v", all)
	}
	fail("mail", "a", 3)
	fail("mail", "b", 3)
	fail(bills, "c", 3)
	storetest.Same(t, "at the end", []store.Failing{
		{Topic: "mail", Messages: 2, ID: "b", Attempts: 3, Worker: "desk-1", Reason: "no 3"}, {Topic: bills, Messages: 1, ID: "c", Attempts: 3, Worker: "desk-1", Reason: "no 3"},
	}, failing())
}
