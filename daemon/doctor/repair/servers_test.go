package repair_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The in-memory server of bellhop dev can be examined, too.
func TestTrial(t *testing.T) {
	storetest.OneShard(t, "the trial server has no other")
	_, store := storetest.Trial(t, "")
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "a", Body: []byte("x")}, notify.Message{Topic: "orders", ID: "b", Body: []byte("x")})
	if got, sum := run(t, store, false); len(got) > 0 || sum.Messages != 2 {
		t.Errorf("found %v, %+v", got, sum)
	}
	do(t, store, "DEL", "ready:orders")
	want := []string{"index orders ready", "no place orders:a messages", "no place orders:b messages"}
	if got, _ := run(t, store, false); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	run(t, store, true)
	if got, _ := run(t, store, false); len(got) > 0 {
		t.Errorf("found again: %v", got)
	}
}

// In a Cluster faults are found and repaired on the server of the slot, whatever keys of other prefixes and programs the others hold.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute) // longer than a busy machine keeps a node waiting
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	store := openAt(t, cluster.URL(), "")
	for _, key := range []string{"a", "b", "c", "bellhop:other"} {
		storetest.Must(t, store.Client().Set(t.Context(), key, "x", 0).Err())
	}
	fill(t, store)
	do(t, store, "DEL", "scheduled:orders")
	stop := await(t, store, "mail")
	want := []string{
		"index orders scheduled", "no place orders:again messages", "no place orders:scheduled messages",
	}
	if got, _ := run(t, store, true); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got, sum := run(t, store, false); len(got) > 0 || sum.Messages != 8 {
		t.Errorf("found again: %v, %+v", got, sum)
	}
	stop()
	wantDelivered(t, store, everything)
}

// await runs a subscriber, and returns when it waits for a message of a topic.
func await(t *testing.T, store *notify.Store, topic string) (stop func()) {
	t.Helper()
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }, subscribers.HandleOptions{}))
	before := store.Client().ZCard(t.Context(), store.Keys().Waiting(topic)).Val()
	stop = storetest.Run(t, sub.Run)
	storetest.Eventually(t, "it waits", func() bool {
		return store.Client().ZCard(t.Context(), store.Keys().Waiting(topic)).Val() > before
	})
	return stop
}
