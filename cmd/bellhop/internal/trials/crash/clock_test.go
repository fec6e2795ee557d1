package crash_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/machine"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Redis and the carrier are killed together, and the clock is an hour earlier when Redis is
// back. By that clock the dead carrier's lease lasts for an hour, but another carrier takes
// over after the time for which the lease was granted.
func TestClockIsBehindAfterACrash(t *testing.T) {
	const disk = 16 << 20
	dir := t.TempDir()
	library, err := machine.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.New(t.Context(), dir, library, disk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	redis, err := redisserver.Start(t.Context(), m.Options(redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Stop)
	store := storetest.At(t, redis.URL(), "clock")
	first := start(t, store, "carrier", func(string) {}, "CRASH_NAME=first")
	elected(t, store, "")

	redis.Kill()
	first.end(syscall.SIGKILL)
	if err := m.SetClock(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if redis, err = redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Stop)
	if s := elected(t, store, ""); s.Name != "first" || s.Whole != carrier.DefaultLease || s.Lease < time.Hour-carrier.DefaultLease {
		t.Fatalf("the lease does not last for an hour: %+v", s)
	}
	began := time.Now()
	start(t, store, "carrier", func(string) {}, "CRASH_NAME=second")
	elected(t, store, "first")
	took := time.Since(began)
	t.Logf("took over in %v", took)
	if bound := carrier.DefaultLease + slack; took > bound {
		t.Errorf("it took %v until another carried; the bound is %v", took, bound)
	}
	late := lateWorker(t, store)
	storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	handled(t, late)
}
