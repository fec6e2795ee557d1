// Package storetest gives tests a store on a real redis-server of their own, and the
// few ways to wait that tests need.
package storetest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// Deadline is how long a test waits for something that should happen soon.
const Deadline = time.Minute

var server *redisserver.Server

// Main runs the tests of a package with one redis-server for them all, and fails if
// they leave goroutines behind. It makes the process Patient. TestMain calls it.
func Main(m *testing.M) {
	Patient()
	MainInTime(m)
}

// MainInTime is Main for tests of what is late by how much, and of programs that are not Patient.
func MainInTime(m *testing.M) { os.Exit(run(m)) }

// Patient makes the lease of a hand-over, a wait for replicas, what a stop may take to settle, or to give up a lease, a wait for a connection
// and a task in the background longer than a machine stands still, and short enough to be waited for. All processes of a test have to agree: a test binary
// that is also another process calls Patient there.
func Patient() {
	record.HandoverLease, reach.ReplicaWait, reach.SettleFor, reach.ResignWait = 5*time.Second, reach.Patience, 10*time.Second, 10*time.Second
	reach.PoolWait, reach.BackgroundWait = Deadline, Deadline
}

// MainWaiting is Main for tests that wait more than they compute: four of those that
// are parallel run at a time, unless -parallel says how many.
func MainWaiting(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if !given {
		if err := flag.Set(parallel, "4"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	Main(m)
}

const parallel = "test.parallel"

func run(m *testing.M) int {
	logging.Disable()                              // go-redis logs every connection that a test breaks,
	slog.SetDefault(slog.New(slog.DiscardHandler)) // and the packages log that they wait for Redis
	dir, err := os.MkdirTemp("", "bellhop-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if server, err = redisserver.Start(context.Background(), redisserver.Options{Dir: dir}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop()
	code := m.Run()
	for _, end := range atEnd {
		end()
	}
	if code != 0 {
		return code
	}
	if err := leaks(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// atEnd is what is called when all tests have ended.
var atEnd []func()

// AtEnd has a function called when all tests of the package have ended: it is for a server
// that tests share. It may be called by one test at a time.
func AtEnd(f func()) { atEnd = append(atEnd, f) }

// notLeaks are what waits for a child, and what a nats-server of a test leaves that stops
// while it makes a stream.
var notLeaks = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/bellhopd/bellhop/notify/servers/child.Start.func1"),
	goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
	goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
}

// leaks reports goroutines that are left. It waits longer than goleak does by itself:
// an HTTP server sleeps half a second over a connection that it refused.
func leaks() (err error) {
	for end := time.Now().Add(Deadline); ; {
		err = goleak.Find(notLeaks...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// URL returns the URL of the package's redis-server.
func URL() string { return server.URL() }

// Open returns a store under a prefix of the test's own, closed when the test ends.
func Open(t testing.TB) *notify.Store {
	t.Helper()
	store := At(t, server.URL(), "test-"+notify.NewID())
	Found(t, store)
	return store
}

// Found founds a store by a first call to each shard, so that the test may write keys by
// other ways. A store of Open is founded.
func Found(t testing.TB, s *notify.Store) {
	t.Helper()
	_, err := store.Gather(t.Context(), s, func(ctx context.Context, shard store.Shard) ([]store.Inspected, error) {
		return shard.Inspect(ctx, "none", []string{"none:none"})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shardsVariable names the environment variable with the number of shards that the stores
// of all tests have: make shards runs them with 8.
const shardsVariable = "BELLHOP_TEST_SHARDS"

var shardsWanted = os.Getenv(shardsVariable) // before a test changes its environment

// Shards returns how many shards the stores of tests have.
func Shards() int {
	_ = os.Getenv(shardsVariable) // go test keeps results by what tests read
	n, err := strconv.Atoi(cmp.Or(shardsWanted, "1"))
	if err != nil {
		panic(shardsVariable + ": " + err.Error())
	}
	return n
}

// OneShard skips a test where stores have several shards, for a reason.
func OneShard(t testing.TB, why string) {
	t.Helper()
	if Shards() > 1 {
		t.Skip("only where there is one shard: " + why)
	}
}

// Near returns a name like the given one, of a topic that is in the same shard as all that
// Near returns.
func Near(s *notify.Store, name string) string { return Beside(s, "near", name) }

// Beside returns a name like the given one, of a topic that is in the same shard as another.
func Beside(s *notify.Store, topic, name string) string {
	for one, i := name, 0; ; i++ {
		if s.Of(one) == s.Of(topic) {
			return one
		}
		one = fmt.Sprint(name, "-", i)
	}
}

// At returns a store at a URL, closed when the test ends.
func At(t testing.TB, url, prefix string) *notify.Store {
	t.Helper()
	return With(t, notify.Config{URL: url, Prefix: prefix, Shards: Shards()})
}

// Trial returns the trial server, and a store at it, closed when the test ends. It is interpreted in this process, so a busy machine may
// keep calls waiting until a Deadline.
func Trial(t testing.TB, prefix string) (*memory.Server, *notify.Store) {
	t.Helper()
	server := memory.New()
	t.Cleanup(server.Stop)
	return server, Following(With(t, notify.Config{URL: server.URL(), Dial: server.Dial, Prefix: prefix, Shards: Shards()}))
}

// With returns a store of a configuration, closed when the test ends. A busy machine may keep calls to the package's server, or to one
// of Lend, waiting until a Deadline, also where no carrier beats: no test makes those hang for a call to fail. So the store is not to
// know its connections, or it would give them up.
func With(t testing.TB, c notify.Config) *notify.Store {
	t.Helper()
	store, err := notify.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if c.URL == server.URL() || lends(c.URL) {
		awaitCalls(store)
	}
	return store
}

// awaitCalls has a store wait for a Deadline for the answers to its calls.
func awaitCalls(store *notify.Store) {
	awaitAnswers(store)
	dial := redis.NewDialer(&redis.Options{DialTimeout: Deadline})
	switch client := store.Client().(type) {
	case *redis.Client:
		client.Options().Dialer = dial
	case *redis.ClusterClient:
		client.Options().Dialer = dial
	}
}

// awaitAnswers is awaitCalls without the dialer.
func awaitAnswers(store *notify.Store) {
	switch client := store.Client().(type) {
	case *redis.Client:
		o := client.Options()
		o.ReadTimeout, o.WriteTimeout = Deadline, Deadline
	case *redis.ClusterClient:
		o := client.Options()
		o.ReadTimeout, o.WriteTimeout = Deadline, Deadline
	}
}

// Unhurried has a store, before it is used, wait for a Deadline for answers and for beats: its Redis holds them back,
// or no carrier beats, and no connection is to be made anew for that.
func Unhurried(store *notify.Store) *notify.Store {
	awaitCalls(store)
	store.BearSilence(Deadline)
	return store
}

// Following is Unhurried for a store that has to know its connections: those to a server that is no longer the master are to be closed,
// or its dialer finds the master.
func Following(store *notify.Store) *notify.Store {
	awaitAnswers(store)
	store.BearSilence(Deadline)
	return store
}

// Server starts a redis-server for one test, stopped when the test ends.
func Server(t testing.TB, args ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir(), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Restart starts a redis-server again that was stopped or killed, until the test ends.
func Restart(t testing.TB, s *redisserver.Server) *redisserver.Server {
	t.Helper()
	again, err := s.Restart(t.Context())
	Must(t, err)
	t.Cleanup(again.Stop)
	return again
}

// Port returns a port of 127.0.0.1 that no other test uses while this process runs.
func Port(t testing.TB) int {
	t.Helper()
	port, err := child.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Vacated waits until nobody listens at a port of 127.0.0.1: a child that is being started has a copy of a listener that this
// process closed, until its program begins.
func Vacated(t testing.TB, port int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("port %d is free", port), func() bool { return child.CanListen(port) == nil })
}

// Eventually waits until a condition is true, and fails the test after Deadline. The longer it has waited the more rarely it
// looks: most conditions call Redis, and tests that look all the time keep others from running.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); {
		waited := time.Since(began)
		if waited > Deadline {
			t.Fatalf("waited %v for this: %s", Deadline, what)
		}
		time.Sleep(min(2*time.Millisecond+waited/20, 20*time.Millisecond))
	}
}

// Poll checks a condition at an interval until it is true, and reports false after
// timeout. It is for conditions that another process brings about.
func Poll(every, timeout time.Duration, condition func() bool) bool {
	for end := time.Now().Add(timeout); !condition(); time.Sleep(every) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Receive waits for a value, and fails the test after Deadline.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Deadline):
		t.Fatalf("waited %v for this: %s", Deadline, what)
		panic("unreachable")
	}
}

// Run runs f in the background. stop ends f's context, waits for f, and fails the
// test if f returned an error; it is also called when the test ends.
func Run(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// Publisher returns a publisher to a store.
func Publisher(t testing.TB, store *notify.Store, o ...notify.PublisherOptions) *notify.Publisher {
	t.Helper()
	pub, err := notify.NewPublisher(store, o...)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

// Inspector returns an inspector of a store.
func Inspector(t testing.TB, store *notify.Store) *notify.Inspector {
	t.Helper()
	inspector, err := notify.NewInspector(store)
	if err != nil {
		t.Fatal(err)
	}
	return inspector
}

// Answered returns how many bytes the Redis of a store, of several its first one, has answered so far.
func Answered(t testing.TB, store *notify.Store) int64 {
	t.Helper()
	fields, err := store.Home().Info(t.Context(), "stats")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(fields["total_net_output_bytes"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Count counts the messages of a topic.
func Count(store *notify.Store, topic string) (c notify.Counts, err error) {
	inspector, err := notify.NewInspector(store)
	if err != nil {
		return c, err
	}
	all, err := inspector.Count(context.Background(), topic)
	if err == nil {
		c = all[0]
	}
	return c, err
}

// Dead returns the ids of up to 500 dead letters of a topic, the oldest death first.
func Dead(t testing.TB, store *notify.Store, topic string) (ids []string) {
	t.Helper()
	page, err := Inspector(t, store).List(t.Context(), topic, notify.Dead, notify.MaxPage, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range page.Messages {
		ids = append(ids, one.ID)
	}
	return ids
}

// Collect returns what a loop is given until it ends, and the error that it ends with.
func Collect[T any](of iter.Seq2[T, error]) (all []T, err error) {
	for one, err := range of {
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Publish publishes messages, and fails the test if one is refused.
func Publish(t testing.TB, store *notify.Store, messages ...notify.Message) {
	t.Helper()
	for _, result := range Publisher(t, store).PublishMany(t.Context(), messages) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// Awaited waits until the end of a message is awaited: a call that waits is counted before it has looked at the message.
func Awaited(t testing.TB, s *notify.Store, topic, id string) {
	t.Helper()
	Eventually(t, "the end of "+id+" is awaited", func() bool {
		looks, err := s.Of(topic).Inspect(t.Context(), topic, []string{record.Member(topic, id)})
		return err == nil && looks[0].Awaited
	})
}

// Hasten has all that is scheduled in topics, but broadcasts, be due so much earlier: a test publishes it as due in hours, so
// that it is never due before the test says so. It sends no nudge.
func Hasten(t testing.TB, s *notify.Store, by time.Duration, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		keys := s.KeysOf(topic)
		all, err := s.Client().ZRangeWithScores(t.Context(), keys.Scheduled(topic), 0, -1).Result()
		if err != nil || len(all) == 0 {
			t.Fatalf("%d of %s are scheduled, %v", len(all), topic, err)
		}
		for i := range all {
			all[i].Score -= float64(by.Milliseconds())
		}
		if err := s.Client().ZAdd(t.Context(), keys.Scheduled(topic), all...).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Client().ZAdd(t.Context(), keys.ScheduledTopics(), redis.Z{Score: all[0].Score, Member: topic}).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// kept are the beginnings of the keys that remain when every message is gone.
var kept = []string{"format", "carrier", "epoch", "standbys", "deaths-oldest", "deaths-newest", "deaths-kept", "done-first", "topics-seen", "topics-names", "topics-busy", "waiting:", "log:", "logs", "listeners", "places:", "room:", "claims", "workers", "relayed", "lateness", "history-"}

// forEver are the fields of a topic that remain: its totals, times and settings.
var forEver = []string{"published", "acked", "sent", "died", "dropped", "unarchived", "lateness", "fence", "spent", "released", "idle", "settings", "revised", "history", "schedules", "zones", "made", "missed", "taken", "refused"}

// Empty fails the test if a key is left that should not outlast the messages. Allowed
// are those of the format, the election, the housekeeping, totals and settings,
// waiting lists, logs and listeners, workers and what they claimed, rows of outboxes, the measure of
// free memory, how often pushes were changed, and the history.
func Empty(t testing.TB, store *notify.Store) {
	t.Helper()
	for _, keys := range store.KeysOfAll() {
		empty(t, store, keys.Base())
	}
}

func empty(t testing.TB, store *notify.Store, base string) {
	t.Helper()
	keys, err := store.Client().Keys(t.Context(), base+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		switch name := strings.TrimPrefix(key, base); {
		case slices.ContainsFunc(kept, func(begin string) bool { return strings.HasPrefix(name, begin) }):
		case name == "topics":
			fields, err := store.Client().HGetAll(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			for field, n := range fields {
				if _, what, _ := strings.Cut(field, ":"); !slices.Contains(forEver, what) {
					t.Errorf("the counter %s is %s, but nothing is left to count", field, n)
				}
			}
		case name == "pushes":
			if fields, err := store.Client().HKeys(t.Context(), key).Result(); err != nil || !slices.Equal(fields, []string{"*"}) {
				t.Errorf("pushes are left: %q, %v", fields, err)
			}
		default:
			t.Errorf("key %s is left", name)
		}
	}
}

// Heads fails the test unless the index of scheduled sets holds exactly the topics that have
// a scheduled set, each with the due time of its first message.
func Heads(t testing.TB, store *notify.Store) {
	t.Helper()
	for _, keys := range store.KeysOfAll() {
		heads(t, store.Client(), keys)
	}
}

func heads(t testing.TB, client redis.UniversalClient, keys script.Keys) {
	t.Helper()
	names, err := client.Keys(t.Context(), keys.Scheduled("*")).Result()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]float64)
	for _, name := range names {
		first, err := client.ZRangeWithScores(t.Context(), name, 0, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		want[strings.TrimPrefix(name, keys.Scheduled(""))] = first[0].Score
	}
	heads, err := client.ZRangeWithScores(t.Context(), keys.ScheduledTopics(), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, head := range heads {
		got[head.Member.(string)] = head.Score
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("heads of the scheduled sets (-sets +index):\n%s", diff)
	}
}

// BeatOfNothing is the payload of the beats of Beat.
const BeatOfNothing = "0 1"

// Beat has beats that name no topic received until the test ends, as if there were a carrier: a ring that is lost is not repeated,
// and no connection is made anew, after which those who wait look for themselves.
func Beat(t testing.TB, db *notify.Store) {
	t.Helper()
	BeatWith(t, db, func(script.Keys) string { return BeatOfNothing }, nil)
}

// BeatWith has beats with a payload received in each shard until the test ends, and calls beside, if it is not nil, before those.
func BeatWith(t testing.TB, db *notify.Store, payload func(script.Keys) string, beside func(context.Context)) {
	t.Helper()
	every := time.NewTicker(reach.Heartbeat / 10)
	t.Cleanup(every.Stop)
	Run(t, func(ctx context.Context) error {
		for {
			if beside != nil {
				beside(ctx)
			}
			for _, keys := range db.KeysOfAll() {
				_, _ = Tell(ctx, db, keys.Beat(), payload(keys)) // one that fails does no harm
			}
			select {
			case <-every.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
