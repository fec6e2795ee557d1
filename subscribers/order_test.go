package subscribers_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// While nobody carries, what comes to be due at once, in any way, waits behind
// what is overdue in its topic; then it is carried in the order of due times.
func TestOrderBehindWhatIsOverdue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		come func(t *testing.T, store *notify.Store, hand subscribers.Delivery)
		want []string
	}{
		{"published", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			storetest.Publish(t, store, body("b"))
		}, []string{"ready", "a", "b"}},
		{"published among others", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			storetest.Publish(t, store, notify.Message{Topic: "other", Body: []byte("x")}, body("c"), body("b"))
		}, []string{"ready", "a", "b", "c"}},
		{"published as long due", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			m := body("b")
			m.Due = time.Now().Add(-time.Hour)
			storetest.Publish(t, store, m)
		}, []string{"ready", "a", "b"}},
		{"rescheduled", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			atOnce(t, store, "later")
		}, []string{"ready", "a", "later"}},
		{"rescheduled from ready", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			atOnce(t, store, "ready")
		}, []string{"a", "ready"}},
		{"requeued", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			if n, err := storetest.Inspector(t, store).Requeue(t.Context(), topic, "dead"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}, []string{"ready", "a", "dead"}},
		{"released without a due time", func(t *testing.T, store *notify.Store, hand subscribers.Delivery) {
			hand.Due = time.Time{}
			release(t, store, hand)
		}, []string{"ready", "a", "hand"}},
		{"released", func(t *testing.T, store *notify.Store, hand subscribers.Delivery) {
			release(t, store, hand)
		}, []string{"hand", "ready", "a"}},
		{"resumed", func(t *testing.T, store *notify.Store, _ subscribers.Delivery) {
			inspector := storetest.Inspector(t, store)
			storetest.Must(t, inspector.Pause(t.Context(), topic))
			storetest.Publish(t, store, body("b"))
			storetest.Must(t, inspector.Resume(t.Context(), topic))
		}, []string{"ready", "a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := storetest.Open(t)
			c := subscriberstest.Claimer(t, store)
			storetest.Publish(t, store, body("dead"))
			dead := claimOne(t, c, time.Minute)
			storetest.Must(t, storetest.ErrOf(dead.Bury(t.Context(), "a test")))
			storetest.Publish(t, store, body("hand"))
			hand := claimOne(t, c, time.Minute)
			storetest.Publish(t, store, body("ready"))
			becomeOverdue(t, store, "a")
			test.come(t, store, hand)
			storetest.Heads(t, store)
			got := claimAll(t, c)
			carry(t, store)
			for len(got) < len(test.want) {
				storetest.Eventually(t, "something is ready", func() bool { return counts(t, store).Ready > 0 })
				got = append(got, claimAll(t, c)...)
			}
			storetest.Same(t, "claimed", test.want, got)
		})
	}
}

func atOnce(t *testing.T, store *notify.Store, id string) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, store).RescheduleIn(t.Context(), topic, id, 0)))
}

func release(t *testing.T, store *notify.Store, d subscribers.Delivery) {
	t.Helper()
	if lost, err := subscriberstest.Claimer(t, store).ReleaseMany(t.Context(), topic, []subscribers.Delivery{d}); len(lost) > 0 || err != nil {
		t.Fatal(lost, err)
	}
}

// claimAll returns the ids of all that is ready, one after the other.
func claimAll(t *testing.T, c *subscribers.Claimer) (ids []string) {
	t.Helper()
	for {
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		storetest.Must(t, err)
		if len(ds) == 0 {
			return ids
		}
		ids = append(ids, ds[0].ID)
	}
}
