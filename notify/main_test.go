package notify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.MainWaiting(m) }

const (
	topic  = "order.timeout"
	anHour = time.Hour
)

// The due times that steps call so.
var past, future = storetest.Past, storetest.Future

// A client does all that package notify does with a store.
type client struct {
	*notify.Publisher
	*notify.Inspector
}

func clientOf(t testing.TB, store *notify.Store) client {
	t.Helper()
	return client{storetest.Publisher(t, store), storetest.Inspector(t, store)}
}

// reschedule reschedules a message to a due time or, if that is zero, by a delay.
func (c client) reschedule(ctx context.Context, topic, id string, delay time.Duration, due time.Time) (notify.Publication, error) {
	if due.IsZero() {
		return c.RescheduleIn(ctx, topic, id, delay)
	}
	return c.RescheduleAt(ctx, topic, id, due)
}

// open returns a client of a store of the test's own, and the store.
func open(t testing.TB) (client, *notify.Store) {
	t.Helper()
	store := storetest.Open(t)
	return clientOf(t, store), store
}

// message returns a message that is due at a time; the zero time is at once.
func message(id string, due time.Time) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id), Due: due}
}

// overdue returns a message that has been due since a time: only a restored one has a
// due time in the past.
func overdue(id string, due time.Time) notify.Message {
	m := message(id, due)
	m.Restore = &notify.Restore{}
	return m
}

// publish publishes one message, which must succeed.
func publish(t testing.TB, pub client, m notify.Message) notify.Publication {
	t.Helper()
	p, err := pub.Publish(t.Context(), m)
	storetest.Must(t, err)
	return p
}

// claim claims up to n messages of the topic, at least one of which must be there.
func claim(t testing.TB, store *notify.Store, n int) []subscribers.Delivery {
	t.Helper()
	ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: n, Lease: time.Minute})
	storetest.Must(t, err)
	if len(ds) == 0 {
		t.Fatal("there was nothing to claim")
	}
	return ds
}

// bury claims up to n messages of the topic and buries them.
func bury(t testing.TB, store *notify.Store, n int) {
	t.Helper()
	for _, d := range claim(t, store, n) {
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "the test says so")))
	}
}

// inState publishes a message and brings it into a state.
func inState(t testing.TB, store *notify.Store, m notify.Message, state notify.State) {
	t.Helper()
	m.Due = time.Time{}
	if state == notify.Scheduled {
		m.Due = future
	}
	publish(t, clientOf(t, store), m)
	switch state {
	case notify.Leased:
		claim(t, store, 1)
	case notify.Dead:
		bury(t, store, 1)
	}
}

var states = []notify.State{notify.Scheduled, notify.Ready, notify.Leased, notify.Dead}

// stateOf returns the state of a message of the topic; zero if there is none.
func stateOf(t testing.TB, pub client, id string) notify.State {
	t.Helper()
	info, err := pub.Inspect(t.Context(), topic, id)
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		t.Fatal(err)
	}
	return info.State
}

// count returns the counts of any topic.
func count(t testing.TB, pub client, topic string) notify.Counts {
	t.Helper()
	all, err := pub.Count(t.Context(), topic)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	return all[0]
}

// counts returns the counts of the topic without Overdue and Lateness, which no test can
// predict.
func counts(t testing.TB, pub client) notify.Counts {
	t.Helper()
	c := count(t, pub, topic)
	c.Overdue, c.Lateness = 0, 0
	return c
}

// wantCounts checks the counts of the topic.
func wantCounts(t testing.TB, pub client, want notify.Counts) {
	t.Helper()
	want.Topic = topic
	storetest.Same(t, "counts", want, counts(t, pub))
}

// hash returns the fields of a hash without lateness, which no test can predict, and
// counters of all topics.
func hash(reply *redis.MapStringStringCmd) (map[string]string, error) {
	all, err := reply.Result()
	maps.DeleteFunc(all, func(field, _ string) bool {
		return strings.HasSuffix(field, ":lateness") || strings.HasPrefix(field, "*:")
	})
	return all, err
}

// dump returns all that a store holds, by key, without lateness, counters of all topics,
// its notes about free memory, and the times when topics were busy. Keys of other shards
// than the topic's are named so.
func dump(t testing.TB, store *notify.Store) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for k, keys := range store.KeysOfAll() {
		for key, content := range dumpOf(t, store, keys) {
			if k != store.Of(topic).Number() {
				key = fmt.Sprintf("%s of shard %d", key, k)
			}
			all[key] = content
		}
	}
	return all
}

// dumpOf is dump for one shard.
func dumpOf(t testing.TB, db *notify.Store, of script.Keys) map[string]any {
	t.Helper()
	ctx := context.Background()
	client := db.Client()
	all := make(map[string]any)
	keys, err := client.Keys(ctx, of.Base()+"*").Result()
	storetest.Must(t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, of.Base()+"room:") || key == of.BusyTopics() || key == of.Claims() || key == of.Workers() {
			continue
		}
		var content any
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			content, err = hash(client.HGetAll(ctx, key))
		case "set":
			content, err = client.SMembersMap(ctx, key).Result()
		case "zset":
			content, err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "string":
			content, err = client.Get(ctx, key).Result()
		default:
			err = fmt.Errorf("key %s is a %s", key, kind)
		}
		storetest.Must(t, err)
		all[strings.TrimPrefix(key, of.Base())] = content
	}
	delete(all, "format")
	return all
}

// unchanged runs f and checks that it leaves what the store holds as it was.
func unchanged(t testing.TB, store *notify.Store, f func()) {
	t.Helper()
	before := dump(t, store)
	f()
	storetest.Same(t, "it changed what Redis holds", before, dump(t, store))
}

// redisTime returns the time by Redis's clock.
func redisTime(t testing.TB, store *notify.Store) time.Time {
	t.Helper()
	now, err := store.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

// score returns a member's score in a sorted set as a time.
func score(t testing.TB, store *notify.Store, key, member string) time.Time {
	t.Helper()
	ms, err := store.Client().ZScore(t.Context(), store.KeysOf(topic).Base()+key, member).Result()
	if err != nil {
		t.Fatalf("%s in %s: %v", member, key, err)
	}
	return time.UnixMilli(int64(ms))
}

// A recorder records what is published on channels, in order.
type recorder struct {
	t     testing.TB
	store *notify.Store
	sub   *redis.PubSub
}

// recording returns a recorder that is subscribed already.
func recording(t testing.TB, store *notify.Store, channels ...string) *recorder {
	t.Helper()
	sub := store.Client().Subscribe(t.Context(), endChannel(store))
	t.Cleanup(func() { sub.Close() })
	subscribe := sub.Subscribe
	if len(store.KeysOfAll()) > 1 {
		subscribe = sub.SSubscribe
	}
	storetest.Must(t, subscribe(t.Context(), channels...))
	for range len(channels) + 1 {
		storetest.Must(t, storetest.ErrOf(sub.ReceiveTimeout(t.Context(), storetest.Deadline)))
	}
	return &recorder{t, store, sub}
}

// wakes returns the channel that tells programs of any language that messages of a topic
// are ready.
func wakes(store *notify.Store, topic string) string {
	if len(store.KeysOfAll()) > 1 {
		return store.KeysOf(topic).Wakes()
	}
	return store.KeysOf(topic).Wake(topic)
}

// wake is what is recorded on that channel of n messages.
func wake(store *notify.Store, topic string, n int) string {
	if len(store.KeysOfAll()) > 1 {
		return fmt.Sprintf("wakes %s %d", topic, n)
	}
	return fmt.Sprintf("wake:%s %d", topic, n)
}

// endChannel is a channel for the tests' own marks.
func endChannel(store *notify.Store) string { return store.Keys().Prefix() + ":end" }

// recorded returns all that was published until now, each as "CHANNEL PAYLOAD", without
// the beginning that all channels share.
func (e *recorder) recorded() []string {
	e.t.Helper()
	storetest.Must(e.t, e.store.Client().Publish(e.t.Context(), endChannel(e.store), "").Err())
	var all []string
	for {
		got, err := e.sub.ReceiveTimeout(e.t.Context(), storetest.Deadline)
		storetest.Must(e.t, err)
		m, ok := got.(*redis.Message)
		switch {
		case !ok:
			e.t.Fatalf("received %v", got)
		case m.Channel == endChannel(e.store):
			return all
		}
		name := strings.TrimPrefix(m.Channel, e.store.Keys().Prefix()+":")
		for _, keys := range e.store.KeysOfAll() {
			name = strings.TrimPrefix(name, strings.TrimPrefix(keys.Base(), keys.Prefix()+":"))
		}
		all = append(all, name+" "+m.Payload)
	}
}

func signal(t testing.TB, server *redisserver.Server, s os.Signal) {
	t.Helper()
	storetest.Must(t, server.Signal(s))
}
