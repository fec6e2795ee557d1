package crash_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// Redis and the carrier are killed together, and the clock is an hour earlier when Redis is
// back. By that clock the dead carrier's lease lasts for an hour, but another carrier takes
// over after the time for which the lease was granted.
func TestClockIsBehindAfterACrash(t *testing.T) {
	t.Parallel()
	m, redis := machine.Start(t, "--appendfsync", "always")
	store := storetest.At(t, redis.URL(), "clock")
	first := start(t, store, "carrier", func(string) {}, "CRASH_NAME=first")
	elected(t, store, "")

	redis.Kill()
	first.end(syscall.SIGKILL)
	storetest.Must(t, m.SetClock(-time.Hour))
	storetest.Restart(t, redis)
	if s := elected(t, store, ""); s.Name != "first" || s.Whole != carrier.DefaultLease || s.Lease < time.Hour-carrier.DefaultLease {
		t.Fatalf("the lease does not last for an hour: %+v", s)
	}
	watch := standstill.Start(t)
	start(t, store, "carrier", func(string) {}, "CRASH_NAME=second")
	storetest.Eventually(t, "the second stands by, or carries", func() bool {
		n, err := carrier.Standbys(t.Context(), store.Home())
		s, unknown := carrier.Look(t.Context(), store.Home())
		return err == nil && unknown == nil && (n == 1 || s.Name == "second")
	})
	standing := clock(t, store)
	taken := elected(t, store, "first").Since
	watch.Judge(t, "a takeover", standing.Add(time.Hour), taken.Add(time.Hour), takenOver) // by the machine's clock
	at := claims(t, store)
	publishSoon(t, store)
	storetest.Receive(t, "the message is handled", at)
}

// The TTL of a broadcast counts by Redis's clock, as whoever reads the broadcast finds it
// then. What is left of it in a process does not change when that clock is set.
func TestTTLOfABroadcastWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	m, redis := machine.Start(t, "--appendfsync", "always")
	store := storetest.At(t, redis.URL(), "clock")
	storetest.Must(t, m.SetClock(time.Hour))
	carriertest.Run(t, store)
	const ttl = 10 * time.Second // longer than it takes to send them
	storetest.Publish(t, store,
		notify.Message{Topic: topic, ID: "a", Body: []byte("x"), Broadcast: true},
		notify.Message{Topic: topic, ID: "b", Body: []byte("x"), Broadcast: true, TTL: ttl},
	)
	hold, early := make(chan struct{}), make(chan string, 10)
	listen := func(got chan<- string, hold <-chan struct{}) {
		l := subscriberstest.Listener(t, store)
		storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
				got <- b.ID
				<-hold
				return nil
			}, subscribers.ListenOptions{From: subscribers.FromBeginning()})
		})
	}
	want := func(who string, from <-chan string, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if got := storetest.Receive(t, id, from); got != id {
				t.Errorf("%s received %s, want %s", who, got, id)
			}
		}
	}
	sent := func(n int64) {
		storetest.Eventually(t, "they are sent", func() bool {
			return store.Client().XLen(t.Context(), store.Keys().Log(topic)).Val() == n
		})
	}
	sent(2)
	listen(early, hold)
	want("the first", early, "a") // and it has read b
	began := time.Now()
	storetest.Must(t, m.SetClock(0))
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "c", Body: []byte("x"), Broadcast: true})
	sent(3)
	storetest.Eventually(t, "what was left of b is over", func() bool { return time.Since(began) > ttl+time.Second })
	close(hold)
	want("the first", early, "c")
	later := make(chan string, 10)
	listen(later, hold)
	want("who reads it by the earlier clock", later, "a", "b", "c")
	storetest.Must(t, m.SetClock(2*time.Hour))
	last := make(chan string, 10)
	listen(last, hold)
	want("who reads it by the later clock", last, "a", "c")
}
