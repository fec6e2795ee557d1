package notify_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// elapse waits until some time has passed by the clock of Redis.
func elapse(t *testing.T, db *notify.Store, d time.Duration) {
	t.Helper()
	now := func() time.Time {
		now, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		return now
	}
	began := now()
	storetest.Eventually(t, "time passes", func() bool { return now().Sub(began) > d })
}

// What is due now keeps its seat, also where it waits behind another message that is overdue.
func TestSeatBehindAnother(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*notify.Publisher) error{
		"rescheduled": func(pub *notify.Publisher) error {
			return storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "1", 0))
		},
		"replaced": func(pub *notify.Publisher) error {
			return storetest.ErrOf(pub.Publish(t.Context(), notify.Message{Topic: topic, ID: "1", Key: "k", IfBusy: "drop", IfExists: notify.Replace, Body: []byte("y")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub, db := open(t)
			for _, id := range []string{"1", "2", "3"} {
				storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Key: "k", Body: []byte("x")})
			}
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: "other", Body: []byte("x"), Delay: time.Millisecond})
			elapse(t, db, 2*time.Millisecond) // nobody carries
			storetest.Must(t, again(pub.Publisher))
			states := func(first notify.State) {
				t.Helper()
				for id, want := range map[string]notify.State{"1": first, "2": notify.Blocked, "3": notify.Blocked} {
					if got, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id); err != nil || got.State != want {
						t.Errorf("%s is %v, %v; want %v", id, got.State, err, want)
					}
				}
			}
			states(notify.Scheduled)
			carry(t, db)
			storetest.Eventually(t, "it is carried", func() bool {
				c, err := storetest.Count(db, topic)
				return err == nil && c.Scheduled == 0
			})
			states(notify.Ready)
		})
	}
}

// A message that stays in its place has no seat of the first key that it gets there: then it takes one, or is blocked.
func TestFirstKeyOfADebounced(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish := func(m notify.Message) {
		t.Helper()
		storetest.Must(t, storetest.ErrOf(pub.Publish(t.Context(), m)))
	}
	publish(notify.Message{Topic: topic, ID: "a", Body: []byte("x")})
	elapse(t, db, 2*time.Millisecond)
	publish(notify.Message{Topic: topic, ID: "a", Body: []byte("y"), Key: "k", IfExists: notify.Debounce, Delay: time.Millisecond, MaxWait: time.Millisecond})
	publish(notify.Message{Topic: topic, ID: "b", Body: []byte("x"), Key: "k"})
	for id, want := range map[string]notify.State{"a": notify.Ready, "b": notify.Blocked} {
		if got, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id); err != nil || got.State != want {
			t.Errorf("%s is %v, %v; want %v", id, got.State, err, want)
		}
	}
}
