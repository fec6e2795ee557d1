package notify_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
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
	storetest.Must(t, err)
}

// members returns a command that adds n members to a sorted set, with a score.
func members(key string, n int, score int64) []any {
	command := []any{"ZADD", key}
	for i := range n {
		command = append(command, score, fmt.Sprint("m", i))
	}
	return command
}

// fill makes a topic that has some of everything, by a number, and returns its counts.
func fill(t testing.TB, store *notify.Store, name string, n int) notify.Counts {
	t.Helper()
	k := store.KeysOf(name)
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
		counters = append(counters, name+":settings", " paused=1")
	}
	do(t, store, counters, []any{"ZADD", k.TopicNames(), 0, name}, members(k.Scheduled(name), n%6+1, future.UnixMilli()),
		members(k.Ready(name), n%3+1, past.UnixMilli()), members(k.Dead(name), n%4+1, 1),
		members(k.Waiting(name), n%5+1, 1), []any{"XADD", k.Log(name), "*", "id", "x"})
	return c
}

// A page counts each topic as Count does alone, whatever else is in Redis.
func TestTopicsInPages(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	var want []notify.Counts
	for i := range 450 {
		want = append(want, fill(t, store, fmt.Sprintf("t.%03d", i), i))
	}
	z := store.KeysOf("z")
	do(t, store, []any{
		"HSET", z.Topics(), "bad topic:published", 1, "", 1, ":", 1, "..:acked", 1, "t.000:unheard-of", 1, "z:published", 1,
	}, []any{"ZADD", z.TopicNames(), 0, "bad topic", 0, "", 0, "..", 0, "z"}, []any{"SET", z.Ready("z"), "x"}, []any{"SET", z.Waiting("z"), "x"}, []any{"SET", z.Log("z"), "x"})
	want = append(want, notify.Counts{Topic: "z", Published: 1})
	before := time.Since(past)
	all, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(all) != len(want) {
		t.Fatalf("%d topics, %v; want %d", len(all), err, len(want))
	}
	for i := range all {
		alone := count(t, pub, all[i].Topic)
		if overdue := all[i].Overdue; all[i].Ready > 0 && (overdue < before-time.Minute || alone.Overdue < overdue) {
			t.Errorf("%s is overdue for %v, then for %v; want %v", all[i].Topic, overdue, alone.Overdue, before)
		}
		all[i].Overdue, alone.Overdue = 0, 0
		storetest.Same(t, "one of all (-alone +in a page)", alone, all[i])
	}
	storetest.Same(t, "topics", want, all)
}

// A foreign counter spoils no count but its own.
func TestForeignCounters(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	for _, value := range []any{"x", "", "inf", "-inf", "nan", "1e300", "99999999999999999999", "0x", "\xff"} {
		counters := []any{"HSET", store.KeysOf(topic).Base() + "topics", topic + ":sent", 7}
		for _, what := range []string{"leased", "published", "acked", "broadcasts", "died", "lateness", "settings"} {
			counters = append(counters, topic+":"+what, value)
		}
		do(t, store, counters, []any{"ZADD", store.KeysOf(topic).Ready(topic), "-inf", "m"})
		storetest.Is(t, fmt.Sprintf("%q", value), count(t, pub, topic), (notify.Counts{Topic: topic, Ready: 1, Sent: 7}))
	}
}

// A foreign member in a ready set spoils no count when it is claimed.
func TestForeignLateness(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	for _, due := range []string{"-inf", "-1e300", "-1", "0", "1.5"} {
		do(t, store, []any{"ZADD", store.KeysOf(topic).Ready(topic), due, topic + ":" + due}, []any{"HSET", store.KeysOf(topic).Messages(), topic + ":" + due, "1\nx"})
		claim(t, store, 1)
		if c := count(t, pub, topic); c.Lateness < 50*365*24*time.Hour {
			t.Errorf("due %s: %+v", due, c)
		}
	}
}

// A claim that returns nothing leaves the lateness as it was; any other claim sets it to
// that of the oldest message.
func TestLatenessOfTheLastClaim(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	lateness := func() time.Duration {
		return count(t, pub, topic).Lateness
	}
	try := func() {
		storetest.Must(t, storetest.ErrOf(subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})))
	}
	try()
	storetest.Is(t, "lateness before anything was claimed", lateness(), 0)
	now := redisTime(t, store).Truncate(time.Millisecond)
	publish(t, pub, overdue("a", now.Add(-anHour)))
	publish(t, pub, overdue("b", now.Add(-2*anHour)))
	claim(t, store, 2)
	if got := lateness(); got < 2*anHour || got > 2*anHour+time.Minute {
		t.Errorf("late by %v, want two hours", got)
	}
	before := lateness()
	try()
	storetest.Is(t, fmt.Sprintf("a claim of nothing changed it from %v", before), lateness(), before)
	// A message that is buried is not claimed: it does not count.
	publish(t, pub, notify.Message{Topic: topic, ID: "expired", Body: []byte("x"), Due: now.Add(-3 * anHour), TTL: anHour})
	publish(t, pub, overdue("c", now.Add(-anHour)))
	claim(t, store, 2)
	if got := lateness(); got < anHour || got > anHour+time.Minute {
		t.Errorf("late by %v, want an hour", got)
	}
}

// A topic of which only a death is known is listed, and a member without a topic adds
// none.
func TestTopicKnownByADeath(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	do(t, store, []any{"SET", store.KeysOf(topic).Log(topic), "x"},
		[]any{"ZADD", store.KeysOf(topic).ScheduledTopics(), 1, "bad topic:1", 1, "no-topic", 1, ":", 1, "..:1"},
		[]any{"ZADD", store.KeysOf(topic).Leased(), 1, "worse topic:1"})
	carry(t, store)
	publish(t, pub, announcement("a", time.Time{}))
	storetest.Eventually(t, "it is dead", func() bool { return counts(t, pub).Dead == 1 })
	topics := func() (names []string) {
		all, err := storetest.Collect(pub.Topics(t.Context()))
		storetest.Must(t, err)
		for _, c := range all {
			names = append(names, c.Topic)
		}
		return names
	}
	storetest.Eventually(t, "all that is foreign was carried", func() bool {
		n, err := store.Client().ZCard(t.Context(), store.KeysOf(topic).ScheduledTopics()).Result()
		return n == 0 && err == nil
	})
	storetest.Same(t, "topics", []string{topic}, topics())
	if c := counts(t, pub); c.Died != 1 {
		t.Errorf("%+v", c)
	}
	names, err := store.Client().HKeys(t.Context(), store.KeysOf(topic).Base()+"topics").Result()
	if err != nil || len(names) != 3 {
		t.Errorf("counters %q, %v; want that of its deaths, and of all, and that there is a history", names, err)
	}
}

// BenchmarkTopics counts 10,000 topics that have some of everything, and reports how
// long the script ran in Redis.
func BenchmarkTopics(b *testing.B) {
	store := storetest.At(b, storetest.Server(b, "--slowlog-log-slower-than", "100", "--slowlog-max-len", "1000").URL(), "")
	for i := range 10_000 {
		fill(b, store, fmt.Sprintf("some.topic.%05d", i), i)
	}
	pub := clientOf(b, store)
	for b.Loop() {
		if all, err := storetest.Collect(pub.Topics(b.Context())); err != nil || len(all) != 10_000 {
			b.Fatal(len(all), err)
		}
	}
	slow, err := store.Client().SlowLogGet(b.Context(), -1).Result()
	storetest.Must(b, err)
	var took []float64 // by the script, in us
	for _, call := range slow {
		if call.Args[0] == "fcall" {
			took = append(took, float64(call.Duration.Microseconds()))
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "us/call-p50")
	b.ReportMetric(took[len(took)*99/100], "us/call-p99")
	b.ReportMetric(took[len(took)-1], "us/call-max")
}

// patterns reads patterns.
func patterns(t testing.TB, texts ...string) (all []notify.Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := notify.ParsePattern(text)
		storetest.Must(t, err)
		all = append(all, p)
	}
	return all
}

// The pages of the topics that match patterns are all of them, each once and by name.
func TestTopicsAfter(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	var all []notify.Counts
	for i, name := range []string{
		"a", "a-b", "a.b", "a.b.c", "a.c", "a.c.c", "a0", "aa.b", "b", "b.b", "c.b.b.b", "t.00", "t.01", "t.02", "t.03", "t.04", "t.05", "z",
	} {
		all = append(all, fill(t, store, name, i))
	}
	do(t, store, []any{"ZADD", store.KeysOf(topic).TopicNames(), 0, "", 0, "*", 0, "a..", 0, "a.\x00", 0, "t.04 ", 0, "\xff\xff"})
	for _, texts := range [][]string{
		{},
		{">"},
		{"*"},
		{"*.b"},
		{"*.*.>"},
		{"a.>"},
		{"a.*"},
		{"a.*.c"},
		{"a"},
		{"none"},
		{"t.>", "a.b"},
		{"a.>", "a.b.c", "a.b.*", "a0", "a"},
		{"b", "b.b", "z"},
		{"z", "*.b", "a.c"},
		{"t.*", "*", "none.>"},
	} {
		ps := patterns(t, texts...)
		want := slices.DeleteFunc(slices.Clone(all), func(c notify.Counts) bool {
			return len(ps) > 0 && !slices.ContainsFunc(ps, func(p notify.Pattern) bool { return p.Match(c.Topic) })
		})
		for _, limit := range []int{1, 2, 3, 17, 18, 19, 500} {
			storetest.Same(t, fmt.Sprintf("%v in pages of %d", texts, limit), want, pages(t, pub, limit, ps), cmpopts.EquateEmpty())
		}
		got, err := storetest.Collect(pub.Topics(t.Context(), ps...))
		if diff := cmp.Diff(want, withoutTimes(got), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("all of %v: %v (-want +got):\n%s", texts, err, diff)
		}
	}
	if page, next, err := pub.TopicsAfter(t.Context(), "z", 1); len(page) > 0 || next != "" || err != nil {
		t.Errorf("behind the last one there is %+v, %q, %v", page, next, err)
	}
	if _, _, err := pub.TopicsAfter(t.Context(), "", 0); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("a limit of 0: %v", err)
	}
}

// pages returns all topics that match patterns, read in pages.
func pages(t testing.TB, pub client, limit int, ps []notify.Pattern) (all []notify.Counts) {
	t.Helper()
	for after, begun := "", false; after != "" || !begun; begun = true {
		page, next, err := pub.TopicsAfter(t.Context(), after, limit, ps...)
		storetest.Must(t, err)
		if len(page) > limit || next != "" && next <= after {
			t.Fatalf("a page of %d has %d, and goes on from %q to %q", limit, len(page), after, next)
		}
		all = append(all, withoutTimes(page)...)
		after = next
	}
	return all
}

// withoutTimes returns counts without the fields that no test can predict.
func withoutTimes(all []notify.Counts) []notify.Counts {
	for i := range all {
		all[i].Overdue, all[i].Behind = 0, 0
	}
	return all
}

// Without a carrier a message that is due is still scheduled, and counts tell for how long.
func TestBehind(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	pub := clientOf(t, store)
	publish(t, pub, message("later", future))
	publish(t, pub, message("late", future))
	if c := count(t, pub, topic); c.Scheduled != 2 || c.Behind != 0 {
		t.Errorf("got %+v", c)
	}
	do(t, store, []any{"ZADD", store.KeysOf(topic).Scheduled(topic), redisTime(t, store).Add(-time.Minute).UnixMilli(), topic + ":late"})
	if c := count(t, pub, topic); c.Scheduled != 2 || c.Behind < time.Minute || c.Behind > anHour || c.Overdue != 0 {
		t.Errorf("got %+v", c)
	}
}

// A message that is ready, and due by the later time before the clock was set back, is
// not overdue.
func TestNothingIsOverdueBeforeItsTime(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	pub := clientOf(t, store)
	publish(t, pub, message("a", past))
	do(t, store, []any{"ZADD", store.KeysOf(topic).Ready(topic), future.UnixMilli(), topic + ":a"})
	if c := count(t, pub, topic); c.Ready != 1 || c.Overdue != 0 {
		t.Errorf("got %+v", c)
	}
}

// A due time in the past becomes the time of the publish, and the answer says so: no
// message starts late.
func TestDueInThePastIsNow(t *testing.T) {
	t.Parallel()
	for _, due := range []time.Time{past, time.UnixMilli(0)} {
		pub, store := open(t)
		before := redisTime(t, store).Truncate(time.Millisecond)
		since := func() time.Duration { return redisTime(t, store).Sub(before) + time.Millisecond }
		p := publish(t, pub, message("published", due))
		publish(t, pub, message("moved", future))
		moved, err := pub.RescheduleAt(t.Context(), topic, "moved", due)
		storetest.Must(t, err)
		for _, p := range []notify.Publication{p, moved} {
			if p.State != notify.Ready || p.Due.Before(before) || p.Due.Sub(before) > since() {
				t.Errorf("due %v: it is %+v, want it as of %v", due, p, before)
			}
			if got := score(t, store, "ready:"+topic, topic+":"+p.ID); !got.Equal(p.Due) {
				t.Errorf("due %v: in Redis %v, told was %v", due, got, p.Due)
			}
		}
		c := count(t, pub, topic)
		if c.Overdue > since() {
			t.Errorf("due %v: overdue for %v", due, c.Overdue)
		}
		for _, d := range claim(t, store, 2) {
			if late := d.Late(); late > since() {
				t.Errorf("due %v: %s was %v late", due, d.ID, late)
			}
		}
		if c = count(t, pub, topic); c.Lateness > since() {
			t.Errorf("due %v: the last claim was %v late", due, c.Lateness)
		}
	}
}

// A time to live counts from the due time that was asked for: it may be over already.
func TestTimeToLiveThatIsOver(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a due=past ttl=1h
	claim 1 = dead:a
	counts dead=1 published=1 died=1
	`)
}
