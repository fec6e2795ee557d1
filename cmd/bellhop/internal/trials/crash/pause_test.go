package crash_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A pause ends at its time by Redis's clock, and not before: while that clock is set back and forward, Redis and the carrier are killed, and
// another one takes over.
func TestPauseWhileTheClockIsSet(t *testing.T) {
	t.Parallel()
	m, redis := machine.Start(t, "--appendfsync", "always")
	db := storetest.At(t, redis.URL(), "clock")
	carriers := map[string]*process{}
	for _, name := range []string{"first", "second", "third", "fourth"} {
		carriers[name] = start(t, db, "carrier", func(string) {}, "CRASH_NAME="+name, "CRASH_LEASE=1s")
	}
	at := claims(t, db)
	set := func(ahead time.Duration) {
		t.Helper()
		storetest.Must(t, m.SetClock(ahead))
	}
	takeOver := func() { // and the next one has found what there is to do
		t.Helper()
		name := elected(t, db, "").Name
		carriers[name].end(syscall.SIGKILL)
		elected(t, db, name)
		storetest.Publish(t, db, notify.Message{Topic: "other", ID: name, Body: []byte("x"), Delay: time.Millisecond})
		storetest.Eventually(t, "another topic is carried", func() bool {
			i, err := storetest.Inspector(t, db).Inspect(t.Context(), "other", name)
			return err == nil && i.State == notify.Ready
		})
	}
	paused := func(end time.Time) {
		t.Helper()
		if c, err := storetest.Count(db, topic); err != nil || !c.PausedUntil.Equal(end) || len(at) > 0 {
			t.Fatalf("it is paused until %v, %v; want %v, with %d claims before", c.PausedUntil, err, end, len(at))
		}
	}
	pause := func() time.Time {
		t.Helper()
		end, err := store.PauseUntil(t.Context(), db, topic, store.In(time.Hour))
		storetest.Must(t, err)
		publishSoon(t, db)
		return end
	}
	resumed := func(end time.Time) {
		t.Helper()
		if claimed := storetest.Receive(t, "the message is handled", at); claimed.Before(end) {
			t.Errorf("it is claimed at %v, %v before the pause ends", claimed, end.Sub(claimed))
		}
	}

	end := pause()
	set(-time.Hour)
	takeOver()
	paused(end)
	set(time.Hour - 2*time.Second) // shortly before its end
	takeOver()
	resumed(end)

	end = pause()
	redis.Kill()
	set(-3 * time.Hour)
	storetest.Restart(t, redis)
	storetest.Eventually(t, "redis is back", func() bool { return db.Client().Ping(t.Context()).Err() == nil })
	paused(end)
	set(3 * time.Hour)
	resumed(end)
}
