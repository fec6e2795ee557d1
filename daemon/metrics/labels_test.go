package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// series returns the name of a series of a topic.
func series(name, topic string) string { return fmt.Sprintf("%s{topic=%q}", name, topic) }

func published(topic string) string { return series("bellhop_published_total", topic) }

// labels returns the topics that have a label of their own, sorted.
func labels(got map[string]float64) []string {
	var all []string
	for name := range maps.Keys(got) {
		if topic, ok := strings.CutPrefix(name, `bellhop_published_total{topic="`); ok {
			all = append(all, strings.TrimSuffix(topic, `"}`))
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(topic string) bool { return topic == "other" })
}

// noise publishes to n topics.
func noise(t testing.TB, store *notify.Store, n int) {
	t.Helper()
	pub := storetest.Publisher(t, store)
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{Topic: fmt.Sprintf("noise.%06d", i), ID: "x", Body: []byte("x")}
	}
	for page := range slices.Chunk(messages, 500) {
		for _, r := range pub.PublishMany(t.Context(), page) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// overdue makes the ready messages of a topic overdue by so long.
func overdue(t testing.TB, store *notify.Store, topic, id string, age time.Duration) {
	t.Helper()
	due := time.Now().Add(-age).UnixMilli()
	k := store.KeysOf(topic)
	for _, command := range [][]any{{"ZADD", k.Ready(topic), "XX", due, topic + ":" + id}, {"ZADD", k.ReadyTopics(), "LT", due, topic}} {
		storetest.Must(t, store.Client().Do(t.Context(), command...).Err())
	}
}

// block makes the first blocked message of a key as old as it is to be.
func block(t testing.TB, store *notify.Store, topic, key string, age time.Duration) {
	t.Helper()
	due := float64(time.Now().Add(-age).UnixMilli())
	k := store.KeysOf(topic)
	for _, at := range []struct{ index, member string }{{k.Heads(topic), key}, {k.KeyedTopics(), topic}} {
		storetest.Must(t, store.Client().ZAddXX(t.Context(), at.index, redis.Z{Score: due, Member: at.member}).Err())
	}
}

// die has the oldest message of a topic die.
func die(t testing.TB, store *notify.Store, topic string) {
	t.Helper()
	claimer := subscriberstest.Claimer(t, store)
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "for a test")))
}

// A topic in trouble has a label however many names others made before; topics without one are other.
func TestTroubleBehindManyTopics(t *testing.T) {
	store, began := storetest.Open(t), time.Now()
	m := newMetrics(t, store, metrics.Options{TopicLimit: 10, Topics: []string{"vip", "never.used"}})
	scrape(t, m)
	noise(t, store, 10_000)
	if got := labels(scrape(t, m)); len(got) != 10+2 {
		t.Errorf("the labels are %q", got)
	}
	for _, topic := range []string{"z.late", "z.held", "z.dying", "vip"} {
		publish(t, store, topic, 1, 0)
	}
	storetest.Publish(t, store, notify.Message{Topic: "z.keyed", ID: "a", Key: "k"}, notify.Message{Topic: "z.keyed", ID: "b", Key: "k"})
	block(t, store, "z.keyed", "k", time.Hour)
	storetest.Publish(t, store, notify.Message{Topic: "z.late", ID: "late", Body: []byte("x")})
	overdue(t, store, "z.late", "late", 30*time.Minute)
	die(t, store, "z.dying")
	storetest.Must(t, storetest.Inspector(t, store).Pause(t.Context(), "z.held"))
	got := together(scrape(t, m))
	want(t, got, map[string]float64{
		published("z.late"): 2, published("vip"): 1, published("never.used"): 0,
		series("bellhop_paused", "z.held"): 1, `bellhop_messages{state="dead",topic="z.dying"}`: 1, "bellhop_topics": 10_005,
		`bellhop_messages{state="blocked",topic="z.keyed"}`: 1,
		`bellhop_messages{state="dead",topic="other"}`:      0,
	})
	if age := got[series("bellhop_oldest_blocked_seconds", "z.keyed")]; age < 3600 || age > 3601+time.Since(began).Seconds() {
		t.Errorf("z.keyed is blocked for %v s", age)
	}
	if age := got[series("bellhop_oldest_overdue_seconds", "z.late")]; age < 1800 || age > 1801+time.Since(began).Seconds() {
		t.Errorf("z.late is overdue by %v s", age)
	}
	if at, now := got[series("bellhop_newest_death_timestamp_seconds", "z.dying")], float64(time.Now().Unix()); at < float64(began.Unix()) || at > now+1 {
		t.Errorf("the newest death of z.dying was at %v, now is %v", at, now)
	}
	if got := labels(got); len(got) != 10+2 {
		t.Errorf("the labels are %q", got)
	}
	all := 0.0
	for name, value := range got {
		if strings.HasPrefix(name, "bellhop_messages{") {
			all += value
		}
	}
	if all != 10_007 {
		t.Errorf("%v messages are shown, of other: %v", all, got[`bellhop_messages{state="scheduled_or_ready",topic="other"}`])
	}
}

// Trouble of listed topics does not hide that of others.
func TestTroubleBehindListed(t *testing.T) {
	store := storetest.Open(t)
	m := newMetrics(t, store, metrics.Options{TopicLimit: 1, Topics: []string{"a", "b", "c"}})
	for i, topic := range []string{"a", "b", "c", "d", "e"} {
		storetest.Publish(t, store, notify.Message{Topic: topic, ID: "x", Body: []byte("x")})
		overdue(t, store, topic, "x", time.Duration(9-i)*time.Hour)
	}
	got := scrape(t, m)
	storetest.Same(t, "labels", []string{"a", "b", "c", "d"}, labels(got))
	if age := got[series("bellhop_oldest_overdue_seconds", "other")]; age < 5*3600 {
		t.Errorf("the others are overdue by %v s", age)
	}
}

// Below the limit every topic has a label, even one with only a scheduled broadcast. A topic "other" never has one.
func TestRoomForAll(t *testing.T) {
	store := storetest.Open(t)
	m := newMetrics(t, store, metrics.Options{})
	publish(t, store, "a", 2, 0)
	publish(t, store, "other", 3, time.Hour)
	storetest.Publish(t, store, notify.Message{Topic: "prices", Broadcast: true, Body: []byte("x"), Delay: time.Hour})
	got := scrape(t, m)
	storetest.Same(t, "labels", []string{"a", "prices"}, labels(got))
	want(t, got, map[string]float64{
		published("other"): 0, `bellhop_messages{state="scheduled_or_ready",topic="other"}`: 3, series("bellhop_scheduled_broadcasts", "prices"): 1,
	})
	publish(t, store, "other", 4, time.Hour)
	want(t, scrape(t, m), map[string]float64{published("other"): 4, published("a"): 2})
	for _, name := range []string{"bellhop_waiting_subscribers", "bellhop_paused", "bellhop_log_broadcasts", "bellhop_last_claim_lateness_seconds"} {
		if _, ok := got[series(name, "other")]; ok {
			t.Errorf("%s of other is shown, but has no total", name)
		}
	}
}

// Counts of messages handed out by this process have the labels of the last scrape, and no others.
func TestHandedOutByLabel(t *testing.T) {
	store := storetest.Open(t)
	m := newMetrics(t, store, metrics.Options{TopicLimit: 1})
	claimed := func(topic string) string { return series("bellhop_claimed_total", topic) }
	m.Claimed("a", 0)
	publish(t, store, "a", 1, 0)
	scrape(t, m)
	m.Claimed("a", 0)
	m.Claimed("b", 0)
	want(t, scrape(t, m), map[string]float64{claimed("a"): 1, claimed("other"): 2})
	storetest.Publish(t, store, notify.Message{Topic: "b", ID: "late", Body: []byte("x")})
	overdue(t, store, "b", "late", time.Hour)
	scrape(t, m)
	m.Claimed("b", 0)
	m.Claimed("a", 0)
	got := scrape(t, m)
	want(t, got, map[string]float64{claimed("b"): 1, claimed("other"): 3})
	if _, ok := got[claimed("a")]; ok {
		t.Error("a has a series, but no longer a label")
	}
}

// Redis is asked once for all scrapes within a while, and only about topics that stand out.
func TestScrapesAreBounded(t *testing.T) {
	store := storetest.Open(t)
	noise(t, store, 3000)
	m := newMetrics(t, store, metrics.Options{Fresh: time.Hour})
	var mu sync.Mutex
	runs := make(map[string]int)
	store.Observe(func(script string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		runs[script]++
	})
	first := scrape(t, m)
	publish(t, store, topic, 1, 0)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { get(t, m.Handler()) })
	}
	all.Wait()
	want(t, scrape(t, m), map[string]float64{"bellhop_topics": first["bellhop_topics"]})
	shards := storetest.Shards()
	surveys := 1
	if shards > 1 {
		surveys = 2 * shards // one for how much each shard published
	}
	if runs["joined"]+runs["survey"] != surveys || runs["notable"] > 4*shards || runs["topics"] > 10*shards {
		t.Errorf("the scripts that were run: %v", runs)
	}
}

func TestFaultsOfTopics(t *testing.T) {
	store := storetest.Open(t)
	for _, limit := range []int{-1, metrics.MaxTopicLimit + 1} {
		if _, err := metrics.New(store, metrics.Options{TopicLimit: limit}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), strconv.Itoa(limit)) {
			t.Errorf("a limit of %d: %v", limit, err)
		}
	}
	for _, topics := range [][]string{{"a", "other"}, {"a.*"}, {""}, make([]string, metrics.MaxTopicLimit+1)} {
		if _, err := metrics.New(store, metrics.Options{Topics: topics}); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%d topics: %v", len(topics), err)
		}
	}
}

// How long workers have had messages is shown for topics with a label, and as other for those without one.
func TestOldestLeases(t *testing.T) {
	store := storetest.Open(t)
	publish(t, store, "vip", 1, 0)
	publish(t, store, "quiet", 1, 0)
	claimer := subscriberstest.Claimer(t, store)
	m := newMetrics(t, store, metrics.Options{TopicLimit: 1, Topics: []string{"vip"}})
	noise(t, store, 10)
	for _, topic := range []string{"vip", "quiet"} {
		if ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Hour}); err != nil || len(ds) != 1 {
			t.Fatalf("claimed %v, %v", ds, err)
		}
	}
	storetest.Eventually(t, "workers have had messages for some time", func() bool {
		got := together(scrape(t, m))
		return got[series("bellhop_oldest_lease_seconds", "vip")] > 0 && got[series("bellhop_oldest_lease_seconds", "other")] > 0
	})
}
