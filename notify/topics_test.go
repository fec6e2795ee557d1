package notify_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// do sends commands, which must succeed.
func do(t testing.TB, store *notify.Store, commands ...[]any) {
	t.Helper()
	_, err := store.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, command := range commands {
			p.Do(t.Context(), command...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// members returns a command that adds n members to a sorted set, with a score.
func members(key string, n int, score int64) []any {
	command := []any{"ZADD", key}
	for i := range n {
		command = append(command, score, fmt.Sprint("m", i))
	}
	return command
}

// fill makes a topic that has something of everything, by a number, and returns its counts.
func fill(t testing.TB, store *notify.Store, name string, n int) notify.Counts {
	t.Helper()
	k := store.Keys()
	c := notify.Counts{
		Topic: name, Scheduled: int64(n%6 + 1), Ready: int64(n%3 + 1), Leased: int64(n + 1), Dead: int64(n%4 + 1), Waiting: int64(n%5 + 1),
		Published: int64(n + 2), Acked: int64(n + 3), Broadcasts: int64(n + 4), Sent: int64(n + 5), Log: 1,
		Died: int64(n + 6), Lateness: time.Duration(n+7) * time.Microsecond, Paused: n%2 == 0,
	}
	counters := []any{
		"HSET", k.Base() + "topics", name + ":leased", c.Leased, name + ":published", c.Published,
		name + ":acked", c.Acked, name + ":broadcasts", c.Broadcasts, name + ":sent", c.Sent, name + ":died", c.Died, name + ":lateness", n + 7,
	}
	if c.Paused {
		counters = append(counters, name+":paused", 1)
	}
	do(t, store, counters, members(k.Schedule(name), n%6+1, future.UnixMilli()),
		members(k.Ready(name), n%3+1, past.UnixMilli()), members(k.Dead(name), n%4+1, 1),
		members(k.Waiting(name), n%5+1, 1), []any{"XADD", k.Log(name), "*", "id", "x"})
	return c
}

// Pages of topics are counted as each alone is, whatever else stands in Redis.
func TestTopicsInPages(t *testing.T) {
	pub, store := open(t)
	var want []notify.Counts
	for i := range 450 {
		want = append(want, fill(t, store, fmt.Sprintf("t.%03d", i), i))
	}
	hash := store.Keys().Base() + "topics"
	do(t, store, []any{
		"HSET", hash, "bad topic:published", 1, "", 1, ":", 1, "..:acked", 1, "t.000:unheard-of", 1, "z:published", 1,
	}, []any{"SET", store.Keys().Ready("z"), "x"}, []any{"SET", store.Keys().Waiting("z"), "x"}, []any{"SET", store.Keys().Log("z"), "x"})
	want = append(want, notify.Counts{Topic: "z", Published: 1})
	before := time.Since(past)
	all, err := pub.Topics(t.Context())
	if err != nil || len(all) != len(want) {
		t.Fatalf("%d topics, %v; want %d", len(all), err, len(want))
	}
	for i := range all {
		alone, err := pub.Topic(t.Context(), all[i].Topic)
		if err != nil {
			t.Fatal(err)
		}
		if overdue := all[i].Overdue; all[i].Ready > 0 && (overdue < before-time.Minute || alone.Overdue < overdue) {
			t.Errorf("%s is overdue for %v, then for %v; want %v", all[i].Topic, overdue, alone.Overdue, before)
		}
		all[i].Overdue, alone.Overdue = 0, 0
		if diff := cmp.Diff(alone, all[i]); diff != "" {
			t.Errorf("one of all (-alone +in a page):\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

// Counters that are foreign spoil no count but their own.
func TestForeignCounters(t *testing.T) {
	pub, store := open(t)
	for _, value := range []any{"x", "", "inf", "-inf", "nan", "1e300", "99999999999999999999", "0x", "\xff"} {
		counters := []any{"HSET", store.Keys().Base() + "topics", topic + ":sent", 7}
		for _, what := range []string{"leased", "published", "acked", "broadcasts", "died", "lateness", "paused"} {
			counters = append(counters, topic+":"+what, value)
		}
		do(t, store, counters, []any{"ZADD", store.Keys().Ready(topic), "-inf", "m"})
		if c, err := pub.Topic(t.Context(), topic); err != nil || c != (notify.Counts{Topic: topic, Ready: 1, Sent: 7}) {
			t.Errorf("%q: %+v, %v", value, c, err)
		}
	}
}

// What is foreign in a ready set is no reason to count nonsense when it is claimed.
func TestForeignLateness(t *testing.T) {
	pub, store := open(t)
	for _, due := range []string{"-inf", "-1e300", "-1", "0", "1.5"} {
		do(t, store, []any{"ZADD", store.Keys().Ready(topic), due, topic + ":" + due}, []any{"HSET", store.Keys().Messages(), topic + ":" + due, "{}\nx"})
		claim(t, store, 1)
		if c, err := pub.Topic(t.Context(), topic); err != nil || c.Lateness < 50*365*24*time.Hour {
			t.Errorf("due %s: %+v, %v", due, c, err)
		}
	}
}

// A claim that brings nothing says nothing of lateness, and one that brings something does so of the oldest.
func TestLatenessOfTheLastClaim(t *testing.T) {
	pub, store := open(t)
	lateness := func() time.Duration {
		c, err := pub.Topic(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		return c.Lateness
	}
	try := func() {
		if _, err := subscribers.NewClaimer(store, 0).Claim(t.Context(), topic, 1, time.Minute, 0); err != nil {
			t.Fatal(err)
		}
	}
	try()
	if got := lateness(); got != 0 {
		t.Errorf("late by %v before anything was claimed", got)
	}
	now := redisTime(t, store).Truncate(time.Millisecond)
	publish(t, pub, message("a", now.Add(-anHour)))
	publish(t, pub, message("b", now.Add(-2*anHour)))
	claim(t, store, 2)
	if got := lateness(); got < 2*anHour || got > 2*anHour+time.Minute {
		t.Errorf("late by %v, want two hours", got)
	}
	before := lateness()
	try()
	if got := lateness(); got != before {
		t.Errorf("a claim of nothing changed it from %v to %v", before, got)
	}
	// One that is buried is not claimed: it does not count.
	publish(t, pub, notify.Message{Topic: topic, ID: "expired", Body: []byte("x"), Due: now.Add(-3 * anHour), TTL: anHour})
	publish(t, pub, message("c", now.Add(-anHour)))
	claim(t, store, 2)
	if got := lateness(); got < anHour || got > anHour+time.Minute {
		t.Errorf("late by %v, want an hour", got)
	}
}

// A topic of which nothing but a death is known is listed, and a member that has no topic makes none.
func TestTopicKnownByADeath(t *testing.T) {
	pub, store := open(t)
	do(t, store, []any{"SET", store.Keys().Log(topic), "x"},
		[]any{"ZADD", store.Keys().Schedules(), 1, "bad topic:1", 1, "no-topic", 1, ":", 1, "..:1"},
		[]any{"ZADD", store.Keys().Leased(), 1, "worse topic:1"})
	carry(t, store)
	publish(t, pub, announcement("a", time.Time{}))
	storetest.Eventually(t, "it is dead", func() bool { return counts(t, pub).Dead == 1 })
	topics := func() (names []string) {
		all, err := pub.Topics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			names = append(names, c.Topic)
		}
		return names
	}
	storetest.Eventually(t, "all that is foreign was carried", func() bool {
		n, err := store.Client().ZCard(t.Context(), store.Keys().Schedules()).Result()
		return n == 0 && err == nil
	})
	if diff := cmp.Diff([]string{topic}, topics()); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	if c := counts(t, pub); c.Died != 1 {
		t.Errorf("%+v", c)
	}
	names, err := store.Client().HKeys(t.Context(), store.Keys().Base()+"topics").Result()
	if err != nil || len(names) != 1 {
		t.Errorf("counters %q, %v; want that of its deaths", names, err)
	}
}

// BenchmarkTopics counts 10,000 topics that have something of everything, and
// tells how long the calls of the script took Redis.
func BenchmarkTopics(b *testing.B) {
	store := storetest.At(b, storetest.Server(b, "--slowlog-log-slower-than", "100", "--slowlog-max-len", "1000").URL(), "")
	for i := range 10_000 {
		fill(b, store, fmt.Sprintf("some.topic.%05d", i), i)
	}
	pub := notify.NewPublisher(store, notify.PublisherOptions{})
	for b.Loop() {
		if all, err := pub.Topics(b.Context()); err != nil || len(all) != 10_000 {
			b.Fatal(len(all), err)
		}
	}
	slow, err := store.Client().SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	var took []float64 // by the script, in us
	for _, call := range slow {
		if call.Args[0] == "evalsha" {
			took = append(took, float64(call.Duration.Microseconds()))
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "us/call-p50")
	b.ReportMetric(took[len(took)*99/100], "us/call-p99")
	b.ReportMetric(took[len(took)-1], "us/call-max")
}

// Page after page of those that are wanted are all of them, each once and by name.
func TestTopicsAfter(t *testing.T) {
	pub, store := open(t)
	var want []notify.Counts
	for i := range 25 {
		c := fill(t, store, fmt.Sprintf("t.%02d", i), i)
		if i%5 != 0 {
			want = append(want, c)
		}
	}
	wanted := func(topic string) bool { return !strings.HasSuffix(topic, "0") && !strings.HasSuffix(topic, "5") }
	for _, limit := range []int{1, 7, 10, 19, 20, 21} {
		var all []notify.Counts
		for after, more := "", true; more; {
			var page []notify.Counts
			var err error
			if page, more, err = pub.TopicsAfter(t.Context(), after, limit, wanted); err != nil {
				t.Fatal(err)
			}
			if len(page) > limit || more && len(page) < limit {
				t.Fatalf("a page of %d has %d, and more is %v", limit, len(page), more)
			}
			for i := range page {
				page[i].Overdue = 0
			}
			all = append(all, page...)
			after = page[len(page)-1].Topic
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("in pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	if page, more, err := pub.TopicsAfter(t.Context(), "t.24", 1, wanted); len(page) > 0 || more || err != nil {
		t.Errorf("behind the last one there is %+v, %v, %v", page, more, err)
	}
	if _, _, err := pub.TopicsAfter(t.Context(), "", 0, wanted); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("a limit of 0: %v", err)
	}
}
