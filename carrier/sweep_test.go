package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// often is the time between two steps of the housekeeping in tests.
const often = 5 * time.Millisecond

// die makes n messages of a topic die, with a reason and an attempt.
func die(t *testing.T, store *notify.Store, topic string, n int) {
	t.Helper()
	var messages []notify.Message
	for i := range n {
		messages = append(messages, notify.Message{Topic: topic, ID: fmt.Sprintf("%05d", i), Body: []byte("x"), TTL: time.Hour})
	}
	storetest.Publish(t, store, messages...)
	claimer := subscriberstest.Claimer(t, store)
	for left := n; left > 0; {
		got, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: min(left, 500), Lease: time.Minute})
		if err != nil || len(got) == 0 {
			t.Fatalf("claimed %d: %v", len(got), err)
		}
		for _, d := range got {
			storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "no such order")))
		}
		left -= len(got)
	}
}

// aged makes the first n dead letters of a topic older.
func aged(t *testing.T, store *notify.Store, topic string, n int, by time.Duration) {
	t.Helper()
	died := time.Now().Add(-by).UnixMilli()
	for i := range n {
		do(t, store, "ZADD", store.KeysOf(topic).Dead(topic), died, fmt.Sprintf("%s:%05d", topic, i))
	}
	do(t, store, "ZADD", store.KeysOf(topic).OldestDeaths(), died, topic)
}

// size returns how many the hashes or the sorted sets of a name hold, in all shards.
func size(t *testing.T, store *notify.Store, name string) (all int64) {
	t.Helper()
	for _, keys := range store.KeysOfAll() {
		command := "HLEN"
		if kind, err := store.Client().Type(t.Context(), keys.Base()+name).Result(); err != nil {
			t.Fatal(err)
		} else if kind == "zset" {
			command = "ZCARD"
		}
		n, err := store.Client().Do(t.Context(), command, keys.Base()+name).Int64()
		storetest.Must(t, err)
		all += n
	}
	return all
}

// removed returns how many dead letters and topics a carrier removed in all shards.
func removed(c *carrier.Carrier) (dead, topics int64) {
	for _, s := range c.States() {
		dead += s.DeadRemoved
		topics += s.TopicsForgotten
	}
	return dead, topics
}

func deadRemoved(c *carrier.Carrier) int64 { dead, _ := removed(c); return dead }

func topicsForgotten(c *carrier.Carrier) int64 { _, topics := removed(c); return topics }

// A journal keeps the log.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

func (j *journal) has(parts ...string) bool { return j.count(parts...) > 0 }

// count returns how many lines have all parts.
func (j *journal) count(parts ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

// Dead letters that are too old are removed with all that belonged to them, even more than one step removes; the others stay.
func TestOldDeadLettersAreRemoved(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	const old = 450
	die(t, store, "orders", old+5)
	die(t, store, "mail", 3)
	aged(t, store, "orders", old, 2*time.Hour)
	aged(t, store, "mail", 1, 2*time.Hour)
	var log journal
	c, _ := watch(t, store, carrier.Options{KeepDeadAge: time.Hour, Sweep: often, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Eventually(t, "they are removed", func() bool { return deadRemoved(c) == old+1 })
	storetest.Eventually(t, "the log tells it", func() bool { return log.has("level=INFO", "removed dead letters", "orders") })
	for name, want := range map[string]int64{"dead:orders": 5, "dead:mail": 2, "deaths": 7, "attempts": 7, "messages": 7} {
		storetest.Is(t, fmt.Sprintf("%s holds", name), size(t, store, name), want)
	}
	if info := inspect(t, store, fmt.Sprintf("%05d", old)); info.State != notify.Dead || info.Reason != "no such order" {
		t.Errorf("the first that stays: %+v", info)
	}
}

// What an archive did not store in time is told: what a death removed, and what the
// housekeeping does.
func TestFullEndingsAreTold(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := store.Of(topic)
	for _, room := range []int{20, 5} { // each death leaves 20, then there is room for 5
		storetest.Must(t, s.OpenArchive(t.Context(), room))
		if room == 20 {
			die(t, store, "orders", 30)
		}
	}
	var log journal
	watch(t, store, carrier.Options{Sweep: often, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Eventually(t, "the log tells it", func() bool { return log.has("level=WARN", "its stream of endings is full", "removed=25") })
	if b, err := s.Backlog(t.Context()); err != nil || b.Entries != 5 || b.Removed != 25 {
		t.Errorf("backlog %+v, %v", b, err)
	}
}

// If there are more dead letters than are kept, the oldest are removed.
func TestTooManyDeadLettersAreRemoved(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	die(t, store, "orders", 30)
	die(t, store, "mail", 10)
	aged(t, store, "orders", 20, time.Minute)
	c, _ := watch(t, store, carrier.Options{KeepDeadCount: 10, Sweep: often})
	storetest.Eventually(t, "they are removed", func() bool { return deadRemoved(c) == 20 })
	storetest.Is(t, "left of the other topic", size(t, store, "dead:mail"), 10)
	if info := inspect(t, store, "00020"); info.State != notify.Dead {
		t.Errorf("the first that stays: %+v", info)
	}
}

// Each death keeps a topic's dead letters within the number that is kept, even while no carrier runs: if they are too many it removes two,
// the oldest ones, with all that belonged to them.
func TestDeathsRemoveTheOldest(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	kept := store.KeysOf(topic).KeptDeaths()
	stop := run(t, store, carrier.Options{KeepDeadCount: 10, Sweep: often})
	storetest.Eventually(t, "how many are kept is written down", func() bool {
		most, err := store.Client().HGet(t.Context(), kept, "most").Result()
		return err == nil && most == "10"
	})
	stop()
	die(t, store, "orders", 30)
	for name, want := range map[string]int64{"dead:orders": 10, "deaths": 10, "attempts": 10, "messages": 10} {
		storetest.Is(t, fmt.Sprintf("%s holds", name), size(t, store, name), want)
	}
	if info := inspect(t, store, "00020"); info.State != notify.Dead {
		t.Errorf("the first that stays: %+v", info)
	}

	do(t, store, "HSET", kept, "most", 3)
	die(t, store, "orders", 2)
	storetest.Is(t, "left", size(t, store, "dead:orders"), 8)
	c, _ := watch(t, store, carrier.Options{KeepDeadCount: 10, Sweep: often})
	storetest.Eventually(t, "what deaths removed is counted", func() bool { return deadRemoved(c) == 20+4 })
}

// A message published with the id of a dead letter without a record is another one: it is delivered, however the dead letter is removed.
func TestDeadLetterOfAnIDThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	redis HDEL messages orders:a
	claim 1 = dead:a
	publish a body=another
== swept
	redis ZADD dead:orders 1 orders:a         # it died long ago
	redis ZADD deaths-oldest 1 orders
	sweep
	redis EXISTS dead:orders = 0
== purged
	purge a
	redis EXISTS dead:orders = 0
== requeued
	requeue a = 0
==
	claim 2 = a
	has a state=leased body=another
	`, storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{"sweep": func(p *storetest.Player, _ []string) string {
		p.Sweep(store.Sweep{})
		return "ok"
	}}})
}

// A topic of which nothing is left for long enough is forgotten, and comes back as a new one; a topic of which anything is left is not.
func TestIdleTopicsAreForgotten(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	ctx := t.Context()
	claimer := subscriberstest.Claimer(t, store)
	handle := func(topic string) {
		got, err := claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatalf("claimed %v, %v", got, err)
		}
		storetest.Must(t, got[0].Ack(ctx))
	}
	kept := []string{"scheduled", "ready", "leased", "dead", "announced", "paused", "waits"}
	for _, topic := range append(kept, "gone") {
		storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x")})
		handle(topic)
	}
	storetest.Publish(t, store, notify.Message{Topic: "scheduled", Body: []byte("x"), Delay: time.Hour}, notify.Message{Topic: "ready", Body: []byte("x")},
		notify.Message{Topic: "leased", Body: []byte("x")}, all("announced", "1", time.Hour))
	if got, err := claimer.Claim(ctx, "leased", subscribers.ClaimOptions{Max: 1, Lease: time.Hour}); err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	die(t, store, "dead", 1)
	inspector := storetest.Inspector(t, store)
	storetest.Must(t, inspector.Pause(ctx, "paused"))
	keys := store.KeysOf("waits")
	subscribe(t, store, keys.Inbox("x"))
	do(t, store, "ZADD", keys.Waiting("waits"), 1, keys.Inbox("x"))

	c, _ := watch(t, store, carrier.Options{KeepTopics: carrier.MinKeepAge, KeepAge: carrier.MinKeepAge, Sweep: often})
	storetest.Eventually(t, "it is forgotten", func() bool { return topicsForgotten(c) == 1 })
	known := func() (names []string) {
		all, err := storetest.Collect(inspector.Topics(ctx))
		storetest.Must(t, err)
		for _, c := range all {
			names = append(names, c.Topic)
		}
		return names
	}
	storetest.Is(t, "known are", strings.Join(known(), " "), "announced dead leased paused ready scheduled waits")
	if sum, err := inspector.Survey(ctx, 1); err != nil || sum.Topics != 7 || sum.Published != 12 || sum.Acked != 8 {
		t.Errorf("in all there are %+v, %v; want what was forgotten counted, too", sum, err)
	}
	storetest.Publish(t, store, notify.Message{Topic: "gone", Body: []byte("x")})
	if c := counts(t, store, "gone"); c.Published != 1 || c.Acked != 0 || c.Ready != 1 {
		t.Errorf("it is back: %+v", c)
	}
}

// Use in between postpones that: only the time in which nothing happened counts.
func TestTopicInUseIsNotForgotten(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	for topic, before := range map[string]int{"gone": 1, "used": 0, "leased": 1} { // what was published when it was found idle, long ago
		if topic == "leased" {
			storetest.Publish(t, store, notify.Message{Topic: topic, ID: "1", Body: []byte("x")})
			if ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Hour}); err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
		} else {
			storetest.Publish(t, store, notify.Message{Topic: topic, ID: "1", Body: []byte("x"), Delay: time.Hour})
			storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, store).Cancel(t.Context(), topic, "1")))
		}
		do(t, store, "HSET", store.KeysOf(topic).Topics(), topic+":idle", fmt.Sprint("1 ", before))
		do(t, store, "ZADD", store.KeysOf(topic).SeenTopics(), 1, topic)
	}
	c, _ := watch(t, store, carrier.Options{KeepTopics: time.Hour, Sweep: often})
	storetest.Eventually(t, "one is forgotten, one idle since now, and one was checked", func() bool {
		mark, err := store.Client().HGet(t.Context(), store.KeysOf("used").Topics(), "used:idle").Result()
		seen, _ := store.Client().ZScore(t.Context(), store.KeysOf("leased").SeenTopics(), "leased").Result() // 0 of one that is forgotten
		return err == nil && strings.HasSuffix(mark, " 1") && seen != 1 && topicsForgotten(c) >= 1
	})
	for topic, want := range map[string]int64{"gone": 0, "used": 1, "leased": 1} {
		storetest.Is(t, fmt.Sprintf("of %s it counts", topic), counts(t, store, topic).Published, want)
	}
}

// Positions in the logs are forgotten except for the last one, so that they only
// grow; a listener that was there all the time gets no gap when the topic comes back.
func TestPositionsAreForgotten(t *testing.T) {
	storetest.OneShard(t, "it counts the topics of one")
	t.Parallel()
	store := storetest.Open(t)
	const topics = 120 // more than one step handles
	l := subscriberstest.Listener(t, store)
	heard := make(chan string, 2*topics)
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, "t.*", func(_ context.Context, b *subscribers.Broadcast) error {
			heard <- b.ID
			return nil
		}, subscribers.ListenOptions{Name: "shop", From: subscribers.FromBeginning(), OnGap: func(g subscribers.Gap) { t.Errorf("a gap: %+v", g) }})
	})
	stop := run(t, store, carrier.Options{}) // which keeps what the listener did not hear yet
	var messages []notify.Message
	for i := range topics {
		messages = append(messages, all(fmt.Sprintf("t.%03d", i), "first", 0))
	}
	storetest.Publish(t, store, messages...)
	for range topics {
		storetest.Receive(t, "a broadcast", heard)
	}
	stop()
	stop = run(t, store, carrier.Options{KeepTopics: carrier.MinKeepAge, KeepAge: carrier.MinKeepAge, Sweep: often})
	storetest.Eventually(t, "all but one position are forgotten", func() bool { return size(t, store, "logs") == 1 })
	last, err := store.Client().ZRangeWithScores(t.Context(), store.KeysOf(topic).Logs(), 0, -1).Result()
	storetest.Must(t, err)
	storetest.Eventually(t, "so are the places of who listens", func() bool { return size(t, store, "places:shop") <= 1 })
	stop()
	run(t, store, carrier.Options{})
	storetest.Publish(t, store, all("t.000", "second", 0))
	storetest.Is(t, "heard", storetest.Receive(t, "the next one", heard), "second")
	if log := logOf(t, store, "t.000"); log[len(log)-1].position <= notify.Position(last[0].Score) {
		t.Errorf("it is at %v, the last one before was at %v", log[len(log)-1].position, notify.Position(last[0].Score))
	}
}

// A carrier that was deposed removes nothing.
func TestDeposedCarrierSweepsNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	die(t, db, "orders", 3)
	aged(t, db, "orders", 3, 2*time.Hour)
	do(t, db, "SET", db.KeysOf(topic).Carrier(), "9 1 600000 usurper")
	_, err := db.Of(topic).Sweep(t.Context(), store.Sweep{Token: "8 1 600000 old", KeepDeadAge: time.Hour})
	var deposed *store.DeposedError
	if !errors.As(err, &deposed) {
		t.Errorf("the housekeeping of the old one returns %v", err)
	}
	storetest.Is(t, "left", size(t, db, "dead:orders"), 3)
}

// Foreign keys and values do not keep the housekeeping from anything else, and are left alone.
func TestForeignThingsAreNotSwept(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	die(t, store, "orders", 3)
	aged(t, store, "orders", 3, 2*time.Hour)
	base := store.KeysOf(topic).Base()
	do(t, store, "SET", base+"dead:mail", "x")
	do(t, store, "HSET", base+"topics", "mail:published", "x", "mail:idle", "y", "no topic", "1", "orders:idle", "5")
	do(t, store, "SET", base+"logs", "x")
	do(t, store, "DEL", base+"topics-seen")
	for _, key := range []string{"topics-seen", "topics-names", "topics-busy", "topics-paused", "deaths-newest", "deaths-kept"} {
		do(t, store, "DEL", base+key)
		do(t, store, "SET", base+key, "x")
	}
	do(t, store, "ZADD", base+"deaths-oldest", 1, "mail", 1, "no topic: x")
	c, _ := watch(t, store, carrier.Options{KeepDeadAge: time.Hour, Sweep: often})
	storetest.Eventually(t, "the others are removed", func() bool { return deadRemoved(c) == 3 })
	for _, key := range []string{"dead:mail", "logs", "topics-seen", "topics-names", "topics-busy", "topics-paused", "deaths-newest", "deaths-kept"} {
		if text, err := store.Client().Get(t.Context(), base+key).Result(); err != nil || text != "x" {
			t.Errorf("%s is %q, %v", key, text, err)
		}
	}
}

// An inbox without a subscriber does not keep an idle topic from being forgotten; an inbox with one does.
func TestInboxesWithoutASubscriberAreStruckOff(t *testing.T) {
	t.Parallel()
	store := storetest.Unhurried(storetest.Open(t)) // a subscription made anew would be none for a moment
	storetest.Publish(t, store, notify.Message{Topic: "left", Body: []byte("x")}, notify.Message{Topic: "watched", Body: []byte("x")})
	for _, topic := range []string{"left", "watched"} {
		ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(ds) != 1 || ds[0].Ack(t.Context()) != nil {
			t.Fatal(ds, err)
		}
	}
	waiting, watched := store.KeysOf("left").Waiting("left"), store.KeysOf("watched").Waiting("watched")
	storetest.Must(t, store.Client().ZAdd(t.Context(), waiting, redis.Z{Score: 1, Member: store.KeysOf("left").Inbox("gone")}).Err())
	s, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	storetest.Must(t, s.Handle("watched", func(context.Context, *subscribers.Delivery) error { return nil }, subscribers.HandleOptions{}))
	storetest.Run(t, s.Run)
	storetest.Eventually(t, "it waits", func() bool {
		return store.Client().ZCard(t.Context(), watched).Val() == 1
	})
	c, _ := watch(t, store, carrier.Options{KeepTopics: carrier.MinKeepAge, KeepAge: carrier.MinKeepAge, Sweep: carrier.MinSweep})
	storetest.Eventually(t, "the one is forgotten", func() bool { return topicsForgotten(c) == 1 })
	if n := store.Client().Exists(t.Context(), waiting).Val(); n != 0 {
		t.Error("who is gone still waits")
	}
	if n := store.Client().ZCard(t.Context(), watched).Val(); n != 1 {
		t.Error("who is there was struck off")
	}
}

// However many subscribers were killed while they waited for idle topics, one step strikes off some, and the next check of a topic goes on with the rest.
func TestMoreAreGoneThanOneStepStrikesOff(t *testing.T) {
	storetest.OneShard(t, "it counts the topics of one")
	t.Parallel()
	store := storetest.Open(t)
	const topics, gone = 8, 40
	keys, pipe := store.KeysOf(topic), store.Client().Pipeline()
	for i := range topics {
		topic := fmt.Sprint("t", i)
		pipe.HSet(t.Context(), keys.Topics(), topic+":published", 1, topic+":idle", "1 1")
		for j := range gone {
			pipe.ZAdd(t.Context(), keys.Waiting(topic), redis.Z{Score: float64(j + 1), Member: keys.Inbox(fmt.Sprint(i, "-", j))})
		}
	}
	c := carrier.Elect(t, store.Of(topic), carrier.Options{})
	for left := topics * gone; left > 0; {
		for i := range topics { // all are looked at
			pipe.ZAdd(t.Context(), keys.SeenTopics(), redis.Z{Member: fmt.Sprint("t", i)})
		}
		storetest.Must(t, storetest.ErrOf(pipe.Exec(t.Context())))
		c.Step(t, time.Hour)
		want := max(left-100, 0)
		left = 0
		for i := range topics {
			left += int(store.Client().ZCard(t.Context(), keys.Waiting(fmt.Sprint("t", i))).Val())
		}
		if left != want {
			t.Fatalf("%d wait after a step, want %d", left, want)
		}
	}
	storetest.Is(t, "forgotten", c.State().TopicsForgotten, topics)
}
