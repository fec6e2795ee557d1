package notify_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// If the set of topics with something ready is foreign, a call still changes a message
// as a whole: it is in one place, or gone.
func TestForeignReadyTopics(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	keys, client := db.KeysOf(topic), db.Client()
	places := func(id string) (in []string) {
		t.Helper()
		for _, key := range []string{keys.Ready(topic), keys.Scheduled(topic), keys.Dead(topic), keys.Leased()} {
			if client.ZScore(t.Context(), key, record.Member(topic, id)).Err() == nil {
				in = append(in, key)
			}
		}
		return in
	}
	one := func(what, id, place string) {
		t.Helper()
		if in := places(id); len(in) != 1 || in[0] != place {
			t.Errorf("%s: it stands in %v, want %s", what, in, place)
		}
	}
	publish(t, pub, message("dead", past))
	bury(t, db, 1)
	publish(t, pub, message("scheduled", future))
	client.Del(t.Context(), keys.ReadyTopics())
	client.Set(t.Context(), keys.ReadyTopics(), "foreign", 0)

	storetest.Should(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "scheduled", past)))
	one("made ready", "scheduled", keys.Ready(topic))
	storetest.Should(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "scheduled", future)))
	one("made later", "scheduled", keys.Scheduled(topic))
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, "dead"); n != 1 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	one("requeued", "dead", keys.Ready(topic))
	if ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) != 1 {
		t.Errorf("claimed %v, %v", ds, err)
	}
	one("claimed", "dead", keys.Leased())
	publish(t, pub, message("ready", past))
	storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "ready")))
	if in := places("ready"); len(in) > 0 || client.HExists(t.Context(), keys.Messages(), record.Member(topic, "ready")).Val() {
		t.Errorf("cancelled: it stands in %v, or its record is left", in)
	}
}
