package notify_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	tests := []struct {
		name  string
		sets  []any  // of its configuration, which the cases before changed
		unfit string // what the error says; empty: it is fit
	}{
		{"as it comes", nil, ""},
		{"limited, no eviction", []any{"maxmemory", "100mb"}, ""},
		{"a policy without a limit", []any{"maxmemory", "0", "maxmemory-policy", "allkeys-lru"}, ""},
		{"evicting", []any{"maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"}, "allkeys-lru"},
		{"evicting keys with a time to live", []any{"maxmemory", "100mb", "maxmemory-policy", "volatile-ttl"}, "volatile-ttl"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.sets != nil {
				do(t, root, append([]any{"CONFIG", "SET"}, test.sets...))
			}
			db := storetest.Unhurried(storetest.At(t, server.URL(), "test-"+notify.NewID()))
			if test.unfit == "" {
				storetest.Should(t, db.Check(t.Context()))
				return
			}
			wantUnfit(t, db, server.Addr(), test.unfit)
			db.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
			storetest.Is(t, "after it was put right", db.Check(t.Context()), nil)
		})
	}
}

// wantUnfit checks that a Redis is refused, also by the first call that uses it, which
// changes nothing.
func wantUnfit(t *testing.T, db *notify.Store, says ...string) {
	t.Helper()
	_, err := clientOf(t, db).Publish(t.Context(), message("a", future))
	for _, err := range []error{err, db.Check(t.Context())} {
		if !errors.Is(err, notify.ErrUnfit) {
			t.Fatalf("%v; want ErrUnfit", err)
		}
		for _, what := range says {
			if !strings.Contains(err.Error(), what) {
				t.Errorf("%q does not say %q", err, what)
			}
		}
	}
}

// The test has no Redis older than 7, so it talks to a listener that knows only the
// reply to INFO, and the format of its store.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "what answers has the format of such a store")
	tests := []struct {
		version string
		fit     bool
	}{
		{"6.2.14", false},
		{"2.8.0", false},
		{"garbage", false},
		{"", false},
		{"7.0.0", true},
		{"7.2.4", true},
		{"8.0.0", true},
		{"10.1.0", true},
	}
	for _, test := range tests {
		t.Run(test.version, func(t *testing.T) {
			addr := answerInfo(t, "# Server\r\nredis_version:"+test.version+"\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n")
			db := storetest.At(t, "redis://"+addr, "")
			if !test.fit {
				wantUnfit(t, db, addr, test.version, "7.0")
				return
			}
			storetest.Should(t, db.Check(t.Context()))
		})
	}
}

// answerInfo listens as a server that has one answer to INFO, and one to a script.
func answerInfo(t *testing.T, info string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { listener.Close() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					switch lines.Text() {
					case "hello":
						fmt.Fprint(conn, "-ERR unknown command\r\n")
					case "eval": // of the rehearsal: no right is missing
						fmt.Fprint(conn, "*2\r\n*0\r\n*0\r\n")
					case "get":
						fmt.Fprint(conn, "$-1\r\n")
					case "info":
						fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
					case "evalsha": // which found.lua is run by
						fmt.Fprintf(conn, "$4\r\n%d ID\r\n", reach.Newest().Number)
					}
				}
			})
		}
	})
	return listener.Addr().String()
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--requirepass", "right")
	file := filepath.Join(t.TempDir(), "password")
	storetest.Must(t, os.WriteFile(file, []byte("right\n"), 0o600))
	tests := []struct {
		name   string
		config notify.Config
		ok     bool
	}{
		{"none", notify.Config{URL: server.URL()}, false},
		{"wrong", notify.Config{URL: "redis://:secret@" + server.Addr()}, false},
		{"of another user", notify.Config{URL: "redis://someone:secret@" + server.Addr()}, false},
		{"right", notify.Config{URL: "redis://:right@" + server.Addr()}, true},
		{"from a file", notify.Config{URL: "redis://:secret@" + server.Addr(), PasswordFile: file}, true},
		{"from a file, with a name", notify.Config{URL: server.URL(), Username: "default", PasswordFile: file}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := notify.Open(test.config)
			storetest.Must(t, err)
			defer db.Close()
			storetest.Unhurried(db)
			_, err = clientOf(t, db).Publish(t.Context(), notify.Message{Topic: topic, Body: []byte("x")})
			switch {
			case test.ok && err != nil:
				t.Error(err)
			case !test.ok && (err == nil || !strings.Contains(err.Error(), server.Addr()) || strings.Contains(err.Error(), "secret")):
				t.Errorf("%v; want an error that names %s and not the password", err, server.Addr())
			}
			if strings.Contains(db.Address(), "secret") {
				t.Errorf("the address shows the password: %s", db.Address())
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:" + strconv.Itoa(storetest.Port(t))
	db := storetest.At(t, "redis://user:secret@"+addr, "")
	pub := clientOf(t, db)
	_, errPublish := pub.Publish(t.Context(), message("a", future))
	_, errCancel := pub.Cancel(t.Context(), topic, "a")
	_, errTopics := storetest.Collect(pub.Topics(t.Context()))
	for _, err := range []error{errPublish, errCancel, errTopics, db.Check(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want an error that names %s and not the password", err, addr)
		}
		if !reach.NotExecuted(err) || !notify.Retryable(err) {
			t.Errorf("%v is not told as one of a Redis that is away", err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "redis.sock")
	storetest.Server(t, "--unixsocket", path)
	db := storetest.Unhurried(storetest.At(t, "unix://"+path, ""))
	publish(t, clientOf(t, db), message("a", future))
}

// If the memory is full, a publish is refused as a whole; calls that remove or move
// messages work.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	pub := clientOf(t, db)
	for _, id := range []string{"cancel", "reschedule"} {
		publish(t, pub, message(id, future))
	}
	publish(t, pub, message("ack", past))
	storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())

	unchanged(t, db, func() {
		var many []notify.Message
		for i := range 30 {
			m := full(fmt.Sprint(i))
			m.Topic = fmt.Sprint("topic-", i%3)
			m.Delay = time.Duration(i%2) * anHour
			many = append(many, m)
		}
		_, err := pub.Publish(t.Context(), many[0])
		wantOOM(t, err)
		for _, r := range pub.PublishMany(t.Context(), many) {
			wantOOM(t, r.Err)
		}
	})
	if was, err := pub.Cancel(t.Context(), topic, "cancel"); err != nil || was != notify.Scheduled {
		t.Errorf("cancel: it was %v, %v", was, err)
	}
	storetest.Should(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "reschedule", anHour)))
	storetest.Should(t, claim(t, db, 1)[0].Ack(t.Context()))
	wantCounts(t, pub, notify.Counts{Scheduled: 1, Published: 3, Acked: 1})
}

func wantOOM(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "OOM") || reach.NotExecuted(err) {
		t.Errorf("%v; want an error that tells that Redis is out of memory", err)
	}
}

// A Redis that accepts connections and answers nothing, as a stopped process does, is
// unavailable.
func TestRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer deaf.Close()
	db := storetest.At(t, "redis://"+deaf.Addr().String(), "")
	if err := db.Check(t.Context()); !notify.Retryable(err) || reach.NotExecuted(err) {
		t.Errorf("got %v", err)
	}
}

func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redisserver.Server){"stopped": (*redisserver.Server).Stop, "killed": (*redisserver.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
			db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
			pub := clientOf(t, db)
			publish(t, pub, message("before", future))
			before := dump(t, db)
			end(server)
			if _, err := pub.Cancel(t.Context(), topic, "before"); !notify.Retryable(err) {
				t.Errorf("cancel while Redis is away: %v", err)
			}
			storetest.Restart(t, server)
			publish(t, pub, message("after", future)) // the first call, which finds the scripts gone
			storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "after")))
			before["topics"].(map[string]string)[topic+":published"] = "2"
			storetest.Same(t, "what Redis holds", before, dump(t, db))
		})
	}
}

// A publish that begins while Redis is unavailable succeeds if Redis is back soon.
func TestPublishWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	pub := clientOf(t, storetest.Unhurried(storetest.At(t, server.URL(), "")))
	publish(t, pub, message("before", future))
	server.Kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		storetest.Eventually(t, "a publish that succeeds", func() bool {
			_, err := pub.Publish(t.Context(), message("during", future))
			if err != nil && !notify.Retryable(err) {
				t.Error(err)
			}
			return err == nil
		})
	}()
	storetest.Restart(t, server)
	<-done
	wantCounts(t, pub, notify.Counts{Scheduled: 2, Published: 2})
}

func TestFunctionsAreLost(t *testing.T) {
	pub, db := open(t)
	calls := []func() error{
		func() error { return storetest.ErrOf(pub.Publish(t.Context(), message("a", future))) },
		func() error { return storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", past)) },
		func() error { return storetest.ErrOf(pub.Inspect(t.Context(), topic, "a")) },
		func() error { return storetest.ErrOf(pub.List(t.Context(), topic, notify.Ready, 1, "")) },
		func() error { return storetest.ErrOf(storetest.Collect(pub.Topics(t.Context()))) },
		func() error { return storetest.ErrOf(pub.Cancel(t.Context(), topic, "a")) },
	}
	for i, call := range calls {
		storetest.Must(t, db.Client().FunctionFlush(t.Context()).Err())
		storetest.Is(t, fmt.Sprintf("call %d", i), call(), nil)
	}
	wantCounts(t, pub, notify.Counts{Published: 1})
}

func words(text string) []any {
	var all []any
	for _, word := range strings.Fields(text) {
		all = append(all, word)
	}
	return all
}

// limit reaches limits of a topic, and takes them away.
func limit(t *testing.T, db *notify.Store, pub client) {
	t.Helper()
	claimer := subscriberstest.Claimer(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Concurrency: new(1), Rate: new(record.PerHour), Burst: new(2)})
	for _, id := range []string{"a", "b", "c"} {
		publish(t, pub, message(id, past))
	}
	for range 2 { // the topic has a slot; then it has no token
		first := claim(t, db, 1)
		if more, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: anHour}); err != nil || len(more) > 0 {
			t.Fatalf("claimed %v, %v", more, err)
		}
		storetest.Must(t, first[0].Ack(t.Context()))
	}
	if more, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: anHour}); err != nil || len(more) > 0 {
		t.Fatalf("claimed %v, %v", more, err)
	}
	storetest.Set(t, db, topic, notify.SettingsChange{Default: []string{"concurrency", "rate", "burst"}})
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "c")))
}

// useEverything makes every kind of call on an empty store.
func useEverything(t *testing.T, db *notify.Store) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	pub := clientOf(t, db)
	claimer, letters := subscriberstest.Claimer(t, db), storetest.Inspector(t, db)
	must("check", db.Check(ctx))
	archive(t, db)
	for _, id := range []string{"a", "b", "c", "d"} {
		publish(t, pub, full(id))
	}
	_, err := pub.RescheduleIn(ctx, topic, "d", anHour)
	must("reschedule", err)
	_, err = pub.Inspect(ctx, topic, "d")
	must("inspect", err)
	list(t, pub, topic, notify.Scheduled, 1, nil)
	_, err = pub.Cancel(ctx, topic, "d")
	must("cancel", err)

	ds := claim(t, db, 3)
	must("extend", ds[0].Extend(ctx, anHour))
	_, err = ds[0].AckWith(ctx, notify.AckResult{Body: []byte("done"), Keep: anHour})
	must("acknowledge", err)
	_, err = pub.Cancel(ctx, topic, ds[0].ID)
	must("cancel what is kept", err)
	until, end := context.WithTimeout(ctx, time.Millisecond)
	defer end()
	if _, err = pub.Await(until, topic, "b"); !errors.Is(err, context.DeadlineExceeded) {
		must("await", err)
	}
	_, err = ds[1].Nack(ctx, anHour, "again")
	must("nack", err)
	_, err = claimer.ReleaseMany(ctx, topic, ds[2:])
	must("release", err)
	tried, err := db.Of(topic).Claim(ctx, store.Claim{Topic: topic, Max: 1, Lease: time.Minute, Try: true})
	must("try", err)
	for _, one := range tried.Messages {
		_, err = db.Of(topic).Release(ctx, topic, reach.Inbox{}, 0, []store.Return{{Lease: one.Lease}})
		must("release", err)
	}
	bury(t, db, 1)
	must("list", storetest.ErrOf(letters.List(ctx, topic, notify.Dead, 10, "")))
	must("requeue", storetest.ErrOf(letters.Requeue(ctx, topic, storetest.Dead(t, db, topic)...)))
	bury(t, db, 1)
	must("purge", storetest.ErrOf(letters.Purge(ctx, topic, storetest.Dead(t, db, topic)...)))
	for _, id := range []string{"b", "c"} {
		_, err = pub.Cancel(ctx, topic, id)
		if !errors.Is(err, notify.ErrNotFound) {
			must("cancel", err)
		}
	}
	publish(t, pub, notify.Message{Topic: topic, ID: "first", Key: "k"})
	publish(t, pub, notify.Message{Topic: topic, ID: "second", Key: "k"})
	if keys, _, err := store.ListKeys(ctx, db, topic, store.MostBlocked, 1); err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	for _, id := range []string{"second", "first"} {
		must("cancel", storetest.ErrOf(pub.Cancel(ctx, topic, id)))
	}
	limit(t, db, pub)
	deliver(t, db, pub)
	announce(t, db, pub)
	recur(t, db)
	pushAll(t, db, pub)
	must("topics", storetest.ErrOf(storetest.Collect(pub.Topics(ctx))))
	must("survey", storetest.ErrOf(pub.Survey(ctx, 1)))
	must("forecast", storetest.ErrOf(forecast.Of(ctx, db, forecast.Options{})))
	must("deaths", storetest.ErrOf(forecast.DeathsOf(ctx, db, []string{topic}, time.Hour, 24)))
	must("workers", storetest.ErrOf(storetest.Inspector(t, db).Workers(ctx)))
	must("export all", storetest.ErrOf(pub.Export(ctx, io.Discard, nil)))
}

// recur has a schedule make a message and a broadcast, and withdraws them.
func recur(t *testing.T, db *notify.Store) {
	t.Helper()
	ctx, shard := t.Context(), db.Of(topic)
	e, err := shard.Elect(ctx, "me", time.Minute, 0)
	if err != nil || !e.Won {
		t.Fatal(e, err)
	}
	for _, broadcast := range []bool{false, true} {
		s := store.Schedule{Topic: topic, Name: "daily", Spec: calendar.Spec{Every: anHour}, Message: record.Record{Broadcast: broadcast}}
		if _, _, err := shard.PutSchedule(ctx, &s, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
		f, err := shard.FillSchedules(ctx, e.Token, true, nil)
		if err != nil || len(f.Due) != 1 {
			t.Fatal(f, err)
		}
		at := f.Now.Add(anHour).Truncate(time.Second)
		storetest.Must(t, storetest.ErrOf(shard.FillSchedules(ctx, e.Token, false, []store.Fill{{Of: f.Due[0], Cursor: at, Occurrences: []store.Occurrence{{At: at}}, Next: at}})))
	}
	_, _, listed := shard.Schedules(ctx, topic, "")
	_, _, _, read := shard.Schedule(ctx, topic, "daily")
	storetest.Must(t, errors.Join(listed, read, shard.PauseSchedule(ctx, topic, "daily", store.AnyRevision), shard.DeleteSchedule(ctx, topic, "daily", store.AnyRevision)))
	storetest.Must(t, storetest.ErrOf(shard.Resign(ctx, e.Token, "", 0)))
}

// archive lets an archive store what ended, and a name hear of the deaths.
func archive(t *testing.T, db *notify.Store) {
	t.Helper()
	s := db.Of("buried")
	storetest.Must(t, s.OpenArchive(t.Context(), 1))
	if _, _, err := s.Register(t.Context(), "mourner", store.Registration{Pattern: "$dead.buried", From: "now"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		storetest.Publish(t, db, notify.Message{Topic: "buried"})
		ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "buried", subscribers.ClaimOptions{Max: 1})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "no")))
	}
	got, err := s.Endings(t.Context(), 10)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	storetest.Must(t, s.Archived(t.Context(), got[0].Entry))
	if b, err := s.Backlog(t.Context()); err != nil || b.Entries != 0 || b.Removed != 1 {
		t.Fatal(b, err)
	}
	storetest.Must(t, storetest.ErrOf(s.CloseArchive(t.Context())))
	storetest.Must(t, storetest.ErrOf(s.Unregister(t.Context(), "mourner")))
	storetest.Must(t, storetest.ErrOf(storetest.Inspector(t, db).Purge(t.Context(), "buried", storetest.Dead(t, db, "buried")...)))
}

// announce sends broadcasts to listeners, with and without a name, that fail, take over
// and are removed, until logs are trimmed and removed.
func announce(t *testing.T, db *notify.Store, pub client) {
	t.Helper()
	ctx := t.Context()
	carry := func(keep time.Duration) (stop func()) {
		return carriertest.Run(t, db, carrier.Options{Lease: carrier.MaxLease, KeepAge: keep, Sweep: carrier.MinSweep})
	}
	stopKeeping := carry(0)
	var stops []func()
	for _, change := range []func() error{
		func() error { return storetest.ErrOf(pub.Broadcast(ctx, announcement("cancelled", future))) },
		func() error { return storetest.ErrOf(pub.RescheduleIn(ctx, topic, "cancelled", anHour)) },
		func() error { return storetest.ErrOf(pub.Broadcasts(ctx, topic, 1, "")) },
		func() error { return storetest.ErrOf(pub.Cancel(ctx, topic, "cancelled")) },
	} {
		storetest.Must(t, change())
	}
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Grace: time.Nanosecond})
	heard := make(chan string, 100)
	listen := func(pattern string, o subscribers.ListenOptions, handler func(context.Context, *subscribers.Broadcast) error) (stop func()) {
		started := make(chan struct{})
		o.OnStart = func(subscribers.Bookmark) { close(started) }
		stop = storetest.Run(t, func(ctx context.Context) error { return l.Listen(ctx, pattern, handler, o) })
		storetest.Receive(t, "it listens", started)
		return stop
	}
	hear := func(_ context.Context, b *subscribers.Broadcast) error { heard <- b.ID; return nil }
	holds := func(ctx context.Context, b *subscribers.Broadcast) error {
		heard <- b.ID
		<-ctx.Done()
		return ctx.Err()
	}
	named := subscribers.ListenOptions{Name: "n", Lease: record.MinLease}
	stops = append(stops, listen(topic, subscribers.ListenOptions{From: subscribers.FromBeginning()}, hear), listen(">", subscribers.ListenOptions{}, hear))
	stopHolding := listen(topic, named, holds)
	publish(t, pub, announcement("sent", time.Time{}))
	for range 3 {
		storetest.Receive(t, "a broadcast", heard)
	}
	until := 0.0
	storetest.Eventually(t, "its lease is extended", func() bool {
		all, err := db.Client().ZRangeWithScores(ctx, db.KeysOf(topic).Held("n"), 0, 0).Result()
		if err != nil || len(all) != 1 {
			return false
		}
		if until == 0 {
			until = all[0].Score
		}
		return all[0].Score > until
	})
	stopHolding()
	stops = append(stops, listen(topic, named, hear))
	storetest.Receive(t, "what was given back", heard)
	storetest.Eventually(t, "a history is kept", func() bool {
		now := time.Now().Unix()
		all, err := db.Home().History(ctx, store.Seconds, now-600, now+600)
		return err == nil && len(all) > 0
	})
	stopKeeping()
	stops = append(stops, carry(carrier.MinKeepAge))
	if names, err := pub.Listeners(ctx); err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	storetest.Eventually(t, "the log is removed", func() bool { return counts(t, pub).Log == 0 })
	for _, stop := range stops {
		stop()
	}
	storetest.Must(t, pub.RemoveListener(ctx, "n"))
}

// deliver runs two carriers and a subscriber until delayed messages are handled and all
// is gone.
func deliver(t *testing.T, db *notify.Store, pub client) {
	t.Helper()
	var stops []func()
	for range 2 { // one stands by
		stops = append(stops, carriertest.Run(t, db, carrier.Options{Lease: carrier.MaxLease}))
	}
	handled := make(chan string, 2)
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(t, err)
	handler := func(_ context.Context, d *subscribers.Delivery) error {
		handled <- d.ID
		return nil
	}
	storetest.Must(t, sub.Handle(topic, handler, subscribers.HandleOptions{}))
	stops = append(stops, storetest.Run(t, sub.Run))
	for _, id := range []string{"x", "y"} {
		publish(t, pub, notify.Message{Topic: topic, ID: id, Body: []byte("x"), Delay: 20 * time.Millisecond, TTL: anHour})
	}
	for range 2 {
		storetest.Receive(t, "a delivery", handled)
	}
	together := notify.Message{Topic: topic, Delay: 20 * time.Millisecond}
	for _, result := range pub.PublishMany(t.Context(), []notify.Message{together, together}) {
		storetest.Must(t, result.Err)
		storetest.Receive(t, "a delivery", handled)
	}
	status, err := carrier.Look(t.Context(), db.Home())
	if err != nil || status.Epoch == 0 {
		t.Errorf("the carrier is %+v, %v", status, err)
	}
	for _, stop := range stops {
		stop()
	}
}

// A cluster is used for more than one URL; every key of a script is in one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(storetest.Port(t)), "--cluster-announce-ip", "127.0.0.1")
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	storetest.Must(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	storetest.Eventually(t, "cluster_state:ok", func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	db := storetest.Unhurried(storetest.At(t, server.URL()+","+server.URL(), ""))
	if _, ok := db.Client().(*redis.ClusterClient); !ok {
		t.Errorf("two URLs make a %T", db.Client())
	}
	useEverything(t, db)
	storetest.Empty(t, db)
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := storetest.Server(t)
	sentinel, err := redisserver.Sentinel(t.Context(), redisserver.Options{Dir: t.TempDir()}, redisserver.Watch{
		Name: "orders", Master: master, Quorum: 1, DownAfter: storetest.Deadline,
	})
	storetest.Must(t, err)
	t.Cleanup(sentinel.Stop)

	db := storetest.Following(storetest.With(t, notify.Config{URL: sentinel.URL(), Master: "orders"}))
	useEverything(t, db)
	storetest.Empty(t, db)
}

// Each run of a script is observed by its name, whether or not it succeeds.
func TestObserve(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	var mu sync.Mutex
	ran := make(map[string]int)
	failed := make(map[string]error)
	db.Observe(func(script string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		ran[script]++
		if err != nil {
			failed[script] = err
		}
		if took <= 0 || took > storetest.Deadline {
			t.Errorf("%s took %v", script, took)
		}
	})
	pub := clientOf(t, db)
	publish(t, pub, message("a", future))
	publish(t, pub, message("b", past))
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "a")))
	claim(t, db, 1)
	server.Stop()
	if _, err := pub.Cancel(t.Context(), topic, "b"); err == nil {
		t.Error("cancelled without a redis")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Fails(t, "it", storetest.ErrOf(pub.Count(ended, topic)), context.Canceled)
	storetest.Same(t, "scripts", map[string]int{"publish": 2, "cancel": 2, "claim": 1}, ran)
	if err := failed["cancel"]; len(failed) != 1 || !notify.Retryable(err) {
		t.Errorf("failed: %v", failed)
	}
}
