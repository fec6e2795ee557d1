package crash_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// PostgreSQL's clock is set while rows wait to be relayed. Forward, a delay is as much shorter; back, it begins anew. A due time is by Redis's clock alone.
func TestClockOfTheOutbox(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "bellhop-clock-") // which other users may enter, as a folder of the test's may not
	storetest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	storetest.Must(t, os.Chmod(dir, 0o755))
	under, err := machine.Clock(t.Context(), dir, 0)
	storetest.Must(t, err)
	s := openShop(t, under...)
	const delay, by = time.Hour, 30 * time.Minute
	for n, ahead := range []time.Duration{by, -by} {
		set := func(ahead time.Duration) {
			t.Helper()
			storetest.Must(t, machine.SetClock(dir, ahead))
			shown := databasetest.Ask(t, s.url, "SELECT clock_timestamp()")[0].(time.Time)
			if off := time.Until(shown) - ahead; off.Abs() > by/2 {
				t.Fatalf("the clock is off by %v", off)
			}
		}
		set(0)
		called := clock(t, s.store)
		due := called.Add(delay).Truncate(time.Millisecond)
		databasetest.Exec(t, s.url, fmt.Sprintf("SELECT bellhop.publish('%s', id => 'delayed-%d', delay => '%v'), bellhop.publish('%[1]s', id => 'due-%[2]d', due => '%[4]s')",
			topic, n, delay, due.Format(time.RFC3339Nano)))
		committed := clock(t, s.store)
		set(ahead)
		began := clock(t, s.store)
		p := s.relay(s.redis.URL(), s.url)
		storetest.Eventually(t, "both are relayed", func() bool { return databasetest.Ask(t, s.url, "SELECT count(*) FROM bellhop.outbox")[0] == int64(0) })
		relayed := clock(t, s.store)
		p.end(syscall.SIGKILL)
		dueOf := func(id string) time.Time {
			info, err := storetest.Inspector(t, s.store).Inspect(t.Context(), topic, id)
			storetest.Must(t, err)
			storetest.Is(t, id, info.State, notify.Scheduled)
			return info.Due
		}
		from, to := called.Add(delay-by), committed.Add(delay-by+relayed.Sub(began)) // later by what a look takes to be answered
		if ahead < 0 {
			from, to = began.Add(delay), relayed.Add(delay)
		}
		if at := dueOf(fmt.Sprint("delayed-", n)); at.Before(from.Add(-time.Millisecond)) || at.After(to.Add(time.Millisecond)) {
			t.Errorf("%v ahead: it is due at %v, want from %v to %v", ahead, at, from, to)
		}
		if at := dueOf(fmt.Sprint("due-", n)); !at.Equal(due) {
			t.Errorf("%v ahead: it is due at %v, want %v", ahead, at, due)
		}
	}
}
