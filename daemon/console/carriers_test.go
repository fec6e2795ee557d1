package console_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// work runs a worker of topics until the test ends, and waits until it is there.
func work(t testing.TB, store *notify.Store, name string, topics ...string) {
	t.Helper()
	worker, err := subscribers.NewSubscriber(store, subscribers.SubscriberOptions{Name: name, Version: "v4.2.0", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if err := worker.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Run(t, worker.Run)
	inspector := storetest.Inspector(t, store)
	storetest.Eventually(t, "the worker is there", func() bool {
		all, _ := inspector.Workers(t.Context())
		for _, w := range all {
			if w.Name == name {
				return true
			}
		}
		return false
	})
}

func TestCarriers(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	v := s.login("root")
	v.get("/ui/carriers").is(200).says("No carrier is elected", "nothing falls due")
	carry(t, store)
	storetest.Eventually(t, "a carrier is elected", func() bool { return !strings.Contains(v.get("/ui/carriers").body, "No carrier is elected") })
	v.get("/ui/carriers").is(200).says("Terms of office", "Standbys", "no limit", "bellhop doctor")
}

// A viewer sees the workers of the topics that the token permits, and Redis only who may see all.
func TestCarriersOfSome(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	work(t, store, "mixed", "order.new", "secret.plan")
	work(t, store, "spy", "secret.plan")
	s.login("root").get("/ui/carriers").is(200).says("mixed", "spy", "secret.plan", "v4.2.0", "bellhop doctor")
	s.login("metrics").get("/ui/carriers").is(200).says("spy", "secret.plan").hides("bellhop doctor")
	s.login("reader").get("/ui/carriers").is(200).says("mixed", "order.new").hides("spy", "secret", "bellhop doctor")
	s.login("shop").get("/ui/carriers").is(200).says("Terms of office").hides("mixed", "spy", "secret", "bellhop doctor")
}

func TestCarriersOfShards(t *testing.T) {
	t.Parallel()
	store := storetest.Sharded(t, 8)
	s := serve(t, store, httpapi.Options{})
	carry(t, store)
	v := s.visitor()
	storetest.Eventually(t, "all shards are carried", func() bool { return strings.Contains(v.get("/ui/carriers").body, "8 of 8 shards are carried") })
	v.get("/ui/carriers").says("0, 1, 2, 3, 4, 5, 6, 7")
	v.get("/ui/").says("8 of 8", "by 1 carrier")
	away := serve(t, storetest.ShardAway(t, 8, 3), httpapi.Options{}).visitor()
	away.get("/ui/carriers").is(200).says("Shard 3 is missing", "away: it does not answer", "for shards 0, 1, 2, 4, 5, 6, 7")
}

// A server that is nearly full, and one that may evict messages, stand out.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	store := storetest.At(t, server.URL(), "full")
	storetest.Found(t, store)
	v := serve(t, store, httpapi.Options{}).visitor()
	v.get("/ui/carriers").is(200).says("of 3.0 MiB", "publishes are refused")
}
