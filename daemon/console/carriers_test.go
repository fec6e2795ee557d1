package console_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
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
	v.get("/ui/carriers").is(200).says(`aria-label="Carriers"`, "Standbys", "no limit", "What the doctor found")
}

// The doctor's findings are those of the store that the page shows, and of the configuration.
func TestDoctorsFindings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	storetest.Publish(t, db, message("orders", "unhandled"))
	o := httpapi.Options{TokensFile: writeTokens(t, tokensFile), Doctor: doctor.Options{Defaults: notify.SettingsChange{Attempts: new(7)}}}
	s := serve(t, db, o)
	v := s.login("root")
	v.get("/ui/carriers").is(200).says("What the doctor found")
	page := wait(t, v, "/ui/carriers", "As of ")
	page.says("✕</span> fail</span> <strong>persistence</strong>: none", "▲</span> warn</span> <strong>standby</strong>: none", "run a second daemon on another machine", "attempts is ", "but 7 in the configuration").
		hides("is looking", "unfit", "did not come to the end", "<strong>reachable", "<strong>carrier</strong>")
	at := asOf.FindString(page.body)
	if asOf.FindString(v.get("/ui/carriers").body) != at {
		t.Error("the doctor looked again at once")
	}
	s.login("metrics").get("/ui/carriers").is(200).hides("doctor", "standby</strong>")
}

var asOf = regexp.MustCompile(`As of [^;]+`)

// wait gets a page until it has a text.
func wait(t testing.TB, v *visitor, path, text string) (page shown) {
	t.Helper()
	storetest.Eventually(t, path+" says "+text, func() bool {
		page = v.get(path)
		return strings.Contains(page.body, text)
	})
	return page
}

// A foreign name shows the characters by which it would look like another.
func TestForeignNamesAreUnmasked(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.store.Client().Set(t.Context(), s.store.KeysOf("t").Carrier(), "9 1 600000 host\u202e1:nimda\x07", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	s.visitor().get("/ui/carriers").is(200).says(`host\u202e1:nimda\u0007`).hides("\u202e", "\x07")
}

// A viewer sees the workers of the topics that the token permits, and Redis only who may see all.
func TestCarriersOfSome(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	storetest.Beat(t, store)
	s := guarded(t, store)
	work(t, store, "mixed", "order.new", "secret.plan")
	work(t, store, "spy", "secret.plan")
	listen(t, store, "warehouse", "order.>")
	claimer, err := subscribers.NewClaimer(store, subscribers.ClaimerOptions{Name: "mixed", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	for topic, n := range map[string]int{"order.old": 3, "secret.past": 4} {
		for range n {
			storetest.Publish(t, store, message(topic, "x"))
			if _, err := claimer.Claim(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.login("root").get("/ui/carriers").is(200).says("mixed", "spy", "secret.plan", "v4.2.0", `<td data-label="Leased" class="n">7</td><td class="below" data-label="Topics">order.new, secret.plan`, `<td data-label="Leased" class="n">0</td><td class="below" data-label="Topics">secret.plan`, "What the doctor found")
	s.login("metrics").get("/ui/carriers").is(200).says("spy", "secret.plan").hides("What the doctor found")
	wait(t, s.login("reader"), "/ui/carriers", ">order.&gt;</td>")
	s.login("reader").get("/ui/carriers").is(200).says("mixed", `<td data-label="Leased" class="n">3</td><td class="below" data-label="Topics">order.new</td>`).hides("spy", "secret", "What the doctor found")
	s.login("shop").get("/ui/carriers").is(200).says(`aria-label="Carriers"`).hides("mixed", "spy", "secret", "What the doctor found")
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
	wait(t, away, "/ui/carriers", "at least 0").is(200).says("Shard 3 is missing", "away: it does not answer", "for shards 0, 1, 2, 4, 5, 6, 7")
}

// Publishes that are refused for want of memory are told on the first page, and by /readyz.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "64mb", "--maxmemory-policy", "noeviction")
	store := storetest.Unhurried(storetest.At(t, server.URL(), "full"))
	storetest.Found(t, store)
	v := serve(t, store, httpapi.Options{}).visitor()
	wait(t, v, "/readyz", `"ready"`)
	v.get("/ui/carriers").is(200).says("of 57.6 MiB", "publishes are refused").hides("refused now") // 90 %
	v.get("/ui/").says("of 57.6 MiB").hides("Publishes are refused")
	wait(t, v, "/readyz", `"ready"`).hides("full")
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	if err := errors.Join(client.ConfigSet(t.Context(), "maxmemory", "1mb").Err(), client.Close()); err != nil {
		t.Fatal(err)
	}
	wait(t, v, "/readyz", `"full":"Redis is full, so publishes are refused`)
	v = serve(t, store, httpapi.Options{}).visitor() // which has not read the memory yet
	wait(t, v, "/ui/", "memory: ").says("MiB: publishes are refused", "start workers, purge dead letters, or raise maxmemory").hides("Nothing is wrong")
	v.get("/ui/carriers").says("publishes are refused now")
}

// Every master that may evict messages is named, not the first alone.
func TestMastersThatEvict(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour, "--maxmemory", "1gb", "--maxmemory-policy", "noeviction") // nobody takes over
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	store := storetest.Unhurried(storetest.With(t, notify.Config{URL: cluster.URL(), Shards: 8}))
	storetest.Found(t, store)
	for _, master := range cluster.Masters[1:] {
		client := redis.NewClient(&redis.Options{Addr: master.Addr()})
		if err := errors.Join(client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(), client.Close()); err != nil {
			t.Fatal(err)
		}
	}
	v := serve(t, store, httpapi.Options{}).visitor()
	evicts := regexp.MustCompile(`>eviction: ([^<]*)`)
	told := wait(t, v, "/ui/", ">eviction: ").field(evicts)
	for i, master := range cluster.Masters {
		if strings.Contains(told, master.Addr()) != (i > 0) {
			t.Errorf("master %d, %s: it says %s", i, master.Addr(), told)
		}
	}
}
