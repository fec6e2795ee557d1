package crash_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// announce publishes n broadcasts to five topics. The first is due after begin, the others evenly over the time after it.
func announce(t *testing.T, db *notify.Store, n int, begin, over time.Duration) {
	t.Helper()
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{
			Topic: fmt.Sprintf("%s.%d", topic, i%5), ID: fmt.Sprintf("b%06d", i), Body: []byte("x"), Broadcast: true,
			Delay: begin + over*time.Duration(i)/time.Duration(n),
		}
	}
	storetest.Publish(t, db, messages...)
}

// A logged broadcast is an entry of a log in Redis.
type logged struct {
	id  string
	due int64
	at  notify.Position
}

// sent waits until all broadcasts are sent, and returns them in order.
func sent(t *testing.T, db *notify.Store) (all []logged) {
	t.Helper()
	client, keys := db.Client(), db.Keys()
	storetest.Eventually(t, "all broadcasts are sent", func() bool {
		n, err := client.ZCard(context.Background(), keys.Broadcasts()).Result()
		return err == nil && n == 0
	})
	topics, err := client.ZRange(t.Context(), keys.Logs(), 0, -1).Result()
	storetest.Must(t, err)
	for _, topic := range topics {
		entries, err := client.XRange(t.Context(), keys.Log(topic), "-", "+").Result()
		storetest.Must(t, err)
		for _, e := range entries {
			at, err := record.ParsePosition(e.ID)
			storetest.Must(t, err)
			due, err := strconv.ParseInt(e.Values["due"].(string), 10, 64)
			storetest.Must(t, err)
			all = append(all, logged{e.Values["id"].(string), due, at})
		}
	}
	slices.SortFunc(all, func(a, b logged) int { return cmp.Compare(a.at, b.at) })
	return all
}

// wantSent checks that n broadcasts were sent, each once, none early, in the order of their due times, and returns them.
func wantSent(t *testing.T, db *notify.Store, n int) []logged {
	t.Helper()
	all := sent(t, db)
	ids := make(map[string]bool)
	for i, b := range all {
		switch {
		case ids[b.id]:
			t.Errorf("%s was sent twice", b.id)
		case i > 0 && b.due < all[i-1].due:
			t.Errorf("%s, due %d, was sent after %s, due %d", b.id, b.due, all[i-1].id, all[i-1].due)
		case i > 0 && b.at == all[i-1].at:
			t.Errorf("%s and %s are at %v", b.id, all[i-1].id, b.at)
		case b.at.Time().UnixMilli() < b.due:
			t.Errorf("%s, due %d, was sent at %v", b.id, b.due, b.at)
		}
		ids[b.id] = true
	}
	if len(ids) != n {
		t.Errorf("%d were sent, want %d", len(ids), n)
	}
	return all
}

// A listener collects the broadcasts that it receives in this process.
type listener struct {
	mu       sync.Mutex
	received []subscribers.Broadcast
	last     time.Time // when it received the last one
	gaps     int
}

func (l *listener) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.received)
}

// listen listens to everything until the test ends.
func listen(t *testing.T, db *notify.Store) *listener {
	t.Helper()
	l := &listener{}
	started := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return subscriberstest.Listener(t, db).Listen(ctx, ">", func(_ context.Context, b *subscribers.Broadcast) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.received, l.last = append(l.received, *b), time.Now()
			return nil
		}, subscribers.ListenOptions{
			OnStart: func(subscribers.Bookmark) { close(started) },
			OnGap: func(subscribers.Gap) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.gaps++
			},
		})
	})
	storetest.Receive(t, "it listens", started)
	return l
}

// check waits until the listener has received as many broadcasts as were sent, and checks that they are these, in order.
func (l *listener) check(t *testing.T, all []logged) {
	t.Helper()
	storetest.Eventually(t, "all are received", func() bool { return l.size() >= len(all) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.received) != len(all) || l.gaps > 0 {
		t.Errorf("it received %d, and %d were sent; gaps: %d", len(l.received), len(all), l.gaps)
	}
	for i := range min(len(l.received), len(all)) {
		if l.received[i].ID != all[i].id || l.received[i].Position != all[i].at {
			t.Fatalf("the %dth that it received is %s at %v, want %s at %v", i, l.received[i].ID, l.received[i].Position, all[i].id, all[i].at)
		}
	}
}

// Carriers are killed, paused and stopped amid 10,000 broadcasts: each broadcast is sent
// once, in due order, and a listener receives each once.
func TestCarriersChangeAmongBroadcasts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	all := make(map[string]*process)
	for i, name := range []string{"one", "two", "three"} {
		all[name] = start(t, db, "carrier", func(string) {}, "CRASH_NAME="+name, "CRASH_LEASE=1s")
		elected(t, db, "")
		standingBy(t, db, int64(i))
	}
	l := listen(t, db)
	const n = 10_000
	announce(t, db, n, 200*time.Millisecond, 4*time.Second)
	underWay := func(part int) {
		t.Helper()
		storetest.Eventually(t, "broadcasts are under way", func() bool { return l.size() > n*part/10 })
	}
	underWay(1)
	storetest.Must(t, all["one"].Process.Signal(syscall.SIGSTOP))
	second := elected(t, db, "one").Name // after the lease of the first has expired
	storetest.Must(t, all["one"].Process.Signal(syscall.SIGCONT))
	underWay(5)
	all[second].end(syscall.SIGTERM)
	third := elected(t, db, second).Name
	underWay(7)
	all[third].end(syscall.SIGKILL)
	last := elected(t, db, third).Name
	t.Logf("carried by one, %s, %s, %s", second, third, last)
	l.check(t, wantSent(t, db, n))
}

// A listener's connections are cut silently while broadcasts are sent: it misses three
// beats, reconnects and catches up in order, each broadcast once.
func TestListenerIsSilentlyCut(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	run(t, db)
	p := newProxy(t, strings.TrimPrefix(storetest.URL(), "redis://"))
	far := storetest.At(t, "redis://"+p.addr, db.Keys().Prefix())
	l := listen(t, far)
	named := newLedger()
	started := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return subscriberstest.Listener(t, far).Listen(ctx, ">", func(_ context.Context, b *subscribers.Broadcast) error {
			named.add(b.ID, b.Attempt, time.Since(b.Due))
			return nil
		}, subscribers.ListenOptions{Name: "n", OnStart: func(subscribers.Bookmark) { close(started) }, Lease: time.Second})
	})
	storetest.Receive(t, "it listens", started)
	const n = 3000
	announce(t, db, n, 100*time.Millisecond, 2*time.Second)
	storetest.Eventually(t, "some are received", func() bool { return l.size() > n/10 })
	watch := standstill.Start(t)
	p.swallow()
	cut := time.Now()
	l.check(t, wantSent(t, db, n))
	watch.Judge(t, "the last after a silent cut", cut, l.last, heard)
	storetest.Eventually(t, "the named one has all", func() bool { return named.size() == n })
	named.check(t, n)
}

// A process of a named listener is killed by kill -9: after the lease another process handles what it had leased, and only that.
func TestKillNamedListener(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carriers(t, db)
	l := newLedger()
	env := []string{"CRASH_NAME=n", "CRASH_PAUSE=2ms", "CRASH_LEASE=10s"} // longer than a busy machine stands still
	victim := start(t, db, "listener", l.line, append(env, "CRASH_KILL=800")...)
	registered(t, db)
	const n = 8000
	announce(t, db, n, 300*time.Millisecond, time.Second)
	storetest.Receive(t, "the process is killed", victim.ended)
	start(t, db, "listener", l.line, env...)
	wantSent(t, db, n)
	storetest.Eventually(t, "all are handled", func() bool { return l.size() == n })
	settledName(t, db)
	l.check(t, n)
	again := l.again()
	t.Logf("%d were leased to the killed process", again)
	if again == 0 || again > 500+16 {
		t.Errorf("%d came again, want those leased to the killed process", again)
	}
}

// A process of a named listener gets SIGTERM: nothing comes again, and what it releases is handled long before the lease expires.
func TestTermNamedListener(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carriers(t, db)
	l := newLedger()
	env := []string{"CRASH_NAME=n", "CRASH_PAUSE=2ms", "CRASH_LEASE=10m"}
	victim := start(t, db, "listener", l.line, env...)
	registered(t, db)
	const n = 8000
	announce(t, db, n, 300*time.Millisecond, time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	start(t, db, "listener", l.line, env...)
	victim.end(syscall.SIGTERM)
	if code := victim.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %s", code, &victim.log)
	}
	wantSent(t, db, n)
	storetest.Eventually(t, "all are handled", func() bool { return l.size() == n })
	settledName(t, db)
	l.check(t, n)
	l.once(t)
}

// A process of a named listener is stopped beyond its lease: another one handles what it had leased. When it continues, it takes nothing from the other.
func TestPauseNamedListener(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carriers(t, db)
	l := newLedger()
	env := []string{"CRASH_NAME=n", "CRASH_PAUSE=2ms", "CRASH_LEASE=10s"} // longer than a busy machine stands still
	victim := start(t, db, "listener", l.line, env...)
	registered(t, db)
	const n = 4000
	announce(t, db, n, 300*time.Millisecond, 500*time.Millisecond)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	storetest.Must(t, victim.Process.Signal(syscall.SIGSTOP))
	start(t, db, "listener", l.line, env...)
	storetest.Eventually(t, "all are handled", func() bool { return l.size() == n })
	settledName(t, db)
	storetest.Must(t, victim.Process.Signal(syscall.SIGCONT))
	announce2 := storetest.Publisher(t, db)
	for i := range 200 { // shared by both processes
		storetest.Must(t, storetest.ErrOf(announce2.Broadcast(t.Context(), notify.Message{Topic: topic, ID: fmt.Sprintf("c%06d", i), Body: []byte("x")})))
	}
	storetest.Eventually(t, "those are handled", func() bool { return l.size() == n+200 })
	victim.end(syscall.SIGTERM)
	settledName(t, db)
	l.check(t, n+200)
	if again := l.again(); again > 500+16 {
		t.Errorf("%d came again, want no more than were leased to it", again)
	}
}

// registered waits until the name is registered, so that it gets all broadcasts from now on.
func registered(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "the name is registered", func() bool {
		ok, err := db.Client().HExists(t.Context(), db.Keys().Listeners(), "n").Result()
		return err == nil && ok
	})
}

// settledName waits until the name has no leases, and nothing is left of former ones.
func settledName(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "nothing is leased", func() bool {
		n, err := db.Client().Exists(context.Background(), db.Keys().Held("n"), db.Keys().Tries("n"), db.Keys().Alarms()).Result()
		return err == nil && n == 0
	})
}

// again returns how many were handled more than once, or in a later attempt.
func (l *ledger) again() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, attempts := range l.handled {
		if len(attempts) > 1 || attempts[0] > 1 {
			n++
		}
	}
	return n
}

// Redis is killed and restarted with its append-only file: a listener loses no broadcast
// and gets none twice, and a named listener continues at its position.
func TestKillRedisAmongBroadcasts(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	db := storetest.At(t, server.URL(), "")
	all := carriers(t, db)
	plain, named := listen(t, db), newLedger()
	start(t, db, "listener", named.line, "CRASH_NAME=n", "CRASH_PAUSE=0s", "CRASH_LEASE=1s")
	registered(t, db)
	const n = 4000
	announce(t, db, n, 500*time.Millisecond, 2*time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return plain.size() > n/10 && named.size() > n/10 })
	server.Kill()
	storetest.Eventually(t, "a carrier notices", func() bool { return loggedBy(all, "cannot carry") })
	storetest.Restart(t, server)
	plain.check(t, wantSent(t, db, n))
	storetest.Eventually(t, "the name has all", func() bool { return named.size() == n })
	settledName(t, db)
	named.check(t, n)
}

// Carriers and listeners come and go while connections are cut and scripts flushed. What was
// acknowledged and not cancelled is sent once, received once by listeners that resume at a
// position, and handled by the named listener.
func TestChurnOfBroadcasts(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var crew sync.WaitGroup
	for range 3 {
		churn(ctx, t, &crew, func(ctx context.Context) error {
			c, err := carrier.New(db, carrier.Options{Lease: carrier.MinLease})
			if err != nil {
				return err
			}
			return c.Run(ctx)
		})
	}
	shared := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Grace: time.Millisecond})
	durable := make([]*listener, 4) // each resumes after the last broadcast that it received
	for i := range durable {
		l := &listener{}
		durable[i] = l
		at := notify.Position(0)
		churn(ctx, t, &crew, func(ctx context.Context) error {
			from := shared
			if i == 0 {
				from = subscriberstest.Listener(t, db)
			}
			return from.Listen(ctx, []string{">", "t.*"}[i%2], func(_ context.Context, b *subscribers.Broadcast) error {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.received, at = append(l.received, *b), b.Position
				return nil
			}, subscribers.ListenOptions{From: subscribers.After(subscribers.At(at)), OnGap: func(subscribers.Gap) { l.gaps++ }})
		})
	}
	var mu sync.Mutex
	handled := map[string]bool{}
	for range 3 {
		churn(ctx, t, &crew, func(ctx context.Context) error {
			return shared.Listen(ctx, ">", func(ctx context.Context, b *subscribers.Broadcast) error {
				switch rand.IntN(40) {
				case 0:
					return errors.New("not this time")
				case 1:
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(rand.N(200 * time.Millisecond)):
					}
				}
				mu.Lock()
				defer mu.Unlock()
				handled[b.ID] = true
				return nil
			}, subscribers.ListenOptions{
				Name: "n", From: subscribers.FromBeginning(), Concurrency: 8, Lease: 300 * time.Millisecond, MaxAttempts: 1000,
				BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
			})
		})
	}
	publishing, enough := context.WithTimeout(ctx, churnFor/2)
	defer enough()
	var publishers sync.WaitGroup
	pub := storetest.Publisher(t, db)
	published, cancelled := map[string]bool{}, map[string]bool{}
	for p := range 3 {
		publishers.Go(func() {
			for i := 0; publishing.Err() == nil; i++ {
				m := notify.Message{Topic: fmt.Sprintf("t.%d", i%20), ID: fmt.Sprintf("%d-%d", p, i), Body: []byte("x"), Delay: rand.N(500 * time.Millisecond)}
				if _, err := pub.Broadcast(ctx, m); err != nil {
					continue // the outcome is unknown
				}
				if i%10 == 0 {
					switch _, err := pub.Cancel(ctx, m.Topic, m.ID); {
					case err == nil:
						mu.Lock()
						cancelled[m.ID] = true
						mu.Unlock()
						continue
					case !errors.Is(err, notify.ErrNotFound):
						continue // the outcome is unknown
					}
				}
				mu.Lock()
				published[m.ID] = true
				mu.Unlock()
			}
		})
	}
	publishers.Go(func() { disturb(publishing, db) })
	publishers.Wait()
	all := sent(t, db)
	ids := map[string]bool{}
	for _, b := range all {
		if ids[b.id] || cancelled[b.id] {
			t.Errorf("%s was sent before: %v, cancelled: %v", b.id, ids[b.id], cancelled[b.id])
		}
		ids[b.id] = true
	}
	for id := range published {
		if !ids[id] {
			t.Errorf("%s was acknowledged and never sent", id)
		}
	}
	for _, l := range durable {
		storetest.Eventually(t, "a listener receives the last", func() bool { return l.size() >= len(all) })
	}
	storetest.Eventually(t, "the name has all", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) == len(all)
	})
	stop()
	crew.Wait()
	for _, l := range durable {
		l.check(t, all)
	}
	t.Logf("%d were published, %d cancelled, %d sent; %+v", len(published), len(cancelled), len(all), shared.Stats())
}
