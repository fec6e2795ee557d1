package crash_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// carriers starts two carrier processes, the first of which is elected.
func carriers(t *testing.T, store *notify.Store, env ...string) map[string]*process {
	t.Helper()
	all := make(map[string]*process)
	for i, name := range []string{"one", "two"} {
		all[name] = start(t, store, "carrier", func(string) {}, append(env, "CRASH_NAME="+name)...)
		elected(t, store, "")
		standingBy(t, store, int64(i))
	}
	return all
}

// loggedBy reports whether one of the processes logged something.
func loggedBy(all map[string]*process, text string) bool {
	for _, p := range all {
		if strings.Contains(p.log.String(), text) {
			return true
		}
	}
	return false
}

// takenOver is the stated bound of a takeover after kill -9.
const takenOver = 3 * time.Second

// The carrier is killed by kill -9 in the middle of a burst: the standby takes over when the
// lease expires. No message is lost, early, or handled twice.
func TestKillCarrier(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	all := carriers(t, store)
	l := newLedger()
	worker(t, store, l, subscribers.HandleOptions{Concurrency: 16})
	const n = 20_000
	spread(t, store, n, 500*time.Millisecond, 2*time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	watch := standstill.Start(t)
	all["one"].end(syscall.SIGKILL)
	killed := clock(t, store)
	watch.Judge(t, "a takeover", killed, elected(t, store, "one").Since, takenOver)
	gone(t, store)
	l.check(t, n)
	l.once(t)
	storetest.Empty(t, store)
}

// The carrier gets SIGTERM: another takes over at once, long before the lease would expire.
func TestTermCarrier(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	all := carriers(t, store, "CRASH_LEASE=10m") // longer than the test waits for another
	l := newLedger()
	worker(t, store, l, subscribers.HandleOptions{Concurrency: 16})
	const n = 5000
	spread(t, store, n, 300*time.Millisecond, time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	storetest.Must(t, all["one"].Process.Signal(syscall.SIGTERM))
	elected(t, store, "one")
	gone(t, store)
	l.check(t, n)
	l.once(t)
}

// The carrier is stopped beyond its lease. When it continues, its late call moves nothing,
// and it stands by.
func TestPauseCarrier(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	all := carriers(t, store, "CRASH_LEASE=10s") // longer than a busy machine stands still
	l := newLedger()
	worker(t, store, l, subscribers.HandleOptions{Concurrency: 16})
	const n = 5000
	spread(t, store, n, 300*time.Millisecond, 20*time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/20 })
	storetest.Must(t, all["one"].Process.Signal(syscall.SIGSTOP))
	s := elected(t, store, "one")
	if c, err := storetest.Count(store, topic); err != nil || c.Scheduled == 0 {
		t.Fatalf("the burst is over: %+v, %v", c, err)
	}
	storetest.Must(t, all["one"].Process.Signal(syscall.SIGCONT))
	all["one"].log.Await(t, "deposed")
	standingBy(t, store, 1)
	gone(t, store)
	if now := elected(t, store, ""); now.Name != "two" || now.Epoch != s.Epoch {
		t.Errorf("now %+v carries, it was %+v", now, s)
	}
	l.check(t, n)
	l.once(t)
}

// A publisher is killed by kill -9: acknowledged messages are delivered. The one in flight
// may or may not be published; publishing all of them again publishes it once.
func TestKillPublisher(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	run(t, store)
	var mu sync.Mutex
	var acknowledged []string
	size := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	p := start(t, store, "publisher", func(id string) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged = append(acknowledged, id)
	})
	storetest.Eventually(t, "some are published", func() bool { return size() > 500 })
	p.end(syscall.SIGKILL)

	n := size() + 1 // the one in flight
	pub := storetest.Publisher(t, store)
	again := 0
	for i := range n {
		_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: fmt.Sprintf("m%06d", i), Body: []byte("x")})
		switch {
		case errors.Is(err, notify.ErrExists):
		case err != nil:
			t.Fatal(err)
		default:
			again++
		}
	}
	if again > 1 {
		t.Errorf("%d of %d had to be published again, and %d were acknowledged", again, n, n-1)
	}
	l := newLedger()
	worker(t, store, l, subscribers.HandleOptions{Concurrency: 16})
	gone(t, store)
	l.check(t, n)
	l.once(t)
	storetest.Empty(t, store)
}

// A subscriber is killed by kill -9 in the middle of a burst: its leased messages come again
// when their lease expires, and no others.
func TestKillSubscriber(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carriers(t, store)
	l := newLedger()
	storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(10 * time.Second)}) // longer than a busy machine stands still
	victim := start(t, store, "worker", l.line, "CRASH_PAUSE=2ms", "CRASH_KILL=1000")
	const n = 10_000
	spread(t, store, n, 500*time.Millisecond, time.Second)
	storetest.Receive(t, "the process is killed", victim.ended)
	start(t, store, "worker", l.line, "CRASH_PAUSE=2ms")
	gone(t, store)
	l.check(t, n)
	storetest.Empty(t, store)
	l.mu.Lock()
	defer l.mu.Unlock()
	again := 0
	for _, attempts := range l.handled {
		if len(attempts) > 1 || attempts[0] > 1 {
			again++
		}
	}
	t.Logf("%d messages were leased to the killed process", again)
	if again == 0 || again > 500+16 {
		t.Errorf("%d messages came again, want those leased to the killed process", again)
	}
}

// A subscriber gets SIGTERM in the middle of a burst: no message comes again, and no attempt
// is used up.
func TestTermSubscriber(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carriers(t, store)
	l := newLedger()
	storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(30 * time.Second)})
	victim := start(t, store, "worker", l.line, "CRASH_PAUSE=2ms")
	const n = 10_000
	spread(t, store, n, 500*time.Millisecond, time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	start(t, store, "worker", l.line, "CRASH_PAUSE=2ms")
	victim.end(syscall.SIGTERM)
	if code := victim.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %s", code, &victim.log)
	}
	gone(t, store)
	l.check(t, n)
	l.once(t)
	storetest.Empty(t, store)
}

// Redis is killed and restarted with its append-only file: every acknowledged message is
// there, and all processes reconnect by themselves.
func TestKillRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	store := storetest.At(t, server.URL(), "")
	all := carriers(t, store)
	l := newLedger()
	storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(time.Second)})
	start(t, store, "worker", l.line, "CRASH_PAUSE=0s")
	const n = 4000
	spread(t, store, n, 500*time.Millisecond, 2*time.Second)
	storetest.Eventually(t, "the burst is under way", func() bool { return l.size() > n/10 })
	server.Kill()
	storetest.Eventually(t, "a carrier notices", func() bool {
		return loggedBy(all, "cannot carry")
	})
	storetest.Restart(t, server)
	gone(t, store)
	l.check(t, n)
	storetest.Empty(t, store)
}

// Functions and scripts are flushed again and again under load.
func TestFlushFunctions(t *testing.T) {
	t.Parallel()
	store := storetest.At(t, storetest.Lend(t), "")
	carriers(t, store)
	l := newLedger()
	worker(t, store, l, subscribers.HandleOptions{Concurrency: 16})
	const n = 4000
	spread(t, store, n, 200*time.Millisecond, time.Second)
	storetest.Eventually(t, "all are handled", func() bool {
		storetest.Must(t, errors.Join(store.Client().FunctionFlush(t.Context()).Err(), store.Client().ScriptFlush(t.Context()).Err()))
		return l.size() == n
	})
	gone(t, store)
	l.check(t, n)
	l.once(t)
}

// With many publishers, carriers and subscribers at once every message is accounted for.
func TestManyOfAll(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	for i := range 4 {
		carriertest.Run(t, store, carrier.Options{Name: fmt.Sprint(i)})
	}
	l := newLedger()
	for range 8 {
		worker(t, store, l, subscribers.HandleOptions{Concurrency: 4})
	}
	const publishers, each = 8, 500
	pub := storetest.Publisher(t, store)
	var all sync.WaitGroup
	var mu sync.Mutex
	cancelled := 0
	for p := range publishers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", p, i)
				m := notify.Message{Topic: topic, ID: id, Body: []byte("x"), Delay: time.Duration(i%20) * 10 * time.Millisecond}
				storetest.Should(t, storetest.ErrOf(pub.Publish(t.Context(), m)))
				if i%10 != 9 {
					continue
				}
				if _, err := pub.Cancel(t.Context(), topic, id); err == nil {
					mu.Lock()
					cancelled++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	gone(t, store)
	l.check(t, publishers*each-cancelled)
	l.once(t)
	storetest.Empty(t, store)
	t.Logf("%d were cancelled in time", cancelled)
}
