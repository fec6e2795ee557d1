package machine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

func connect(t *testing.T, s *redisserver.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, PoolSize: 1, ReadTimeout: storetest.Deadline, WriteTimeout: storetest.Deadline})
	t.Cleanup(func() { client.Close() })
	return client
}

// The clock has its offset for TIME and in scripts, while the server runs.
func TestSetClock(t *testing.T) {
	m, s := machine.Start(t)
	client := connect(t, s)
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -3 * time.Minute, 1500 * time.Millisecond, 0} {
		storetest.Must(t, m.SetClock(ahead))
		before := time.Now()
		direct, err := client.Time(t.Context()).Result()
		storetest.Must(t, err)
		inside, err := client.Eval(t.Context(), "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)", nil).Int64()
		storetest.Must(t, err)
		after := time.Now()
		for _, got := range []time.Time{direct, time.UnixMilli(inside)} {
			if got.Before(before.Add(ahead-time.Millisecond)) || got.After(after.Add(ahead)) {
				t.Errorf("with a clock that is %v ahead Redis has %v, the machine %v to %v", ahead, got, before, after)
			}
		}
	}
}

// The clock expires keys, and keeps its offset over a restart.
func TestClockExpiresKeys(t *testing.T) {
	m, s := machine.Start(t)
	client := connect(t, s)
	storetest.Must(t, client.Set(t.Context(), "k", "v", time.Minute).Err())
	storetest.Must(t, m.SetClock(2*time.Minute))
	if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a minute after its expiry GET of the key returns the error %v", err)
	}
	s.Stop()
	s = storetest.Restart(t, s)
	now, err := connect(t, s).Time(t.Context()).Result()
	if ahead := time.Until(now); err != nil || ahead < time.Minute || ahead > 2*time.Minute {
		t.Errorf("after a restart the clock is %v ahead, error %v", ahead, err)
	}
}

// With appendfsync always a power cut loses no acknowledged write, even while the file is
// rewritten.
func TestPowerCutWithAlways(t *testing.T) {
	m, s := machine.Start(t, "--appendfsync", "always")
	total := 0
	for round := range 3 {
		client := connect(t, s)
		total += write(t, client, total, 300, func() {
			storetest.Must(t, client.BgRewriteAOF(t.Context()).Err())
		})
		storetest.Must(t, storetest.ErrOf(m.PowerCut(s)))
		s = storetest.Restart(t, s)
		if got := size(t, connect(t, s)); got != total {
			t.Fatalf("after power cut %d there are %d of %d keys", round+1, got, total)
		}
	}
}

// With everysec a power cut loses the writes since the last synchronisation, and no more; kill
// -9 alone loses nothing.
func TestPowerCutWithEverysec(t *testing.T) {
	m, s := machine.Start(t, "--appendfsync", "everysec")
	client := connect(t, s)
	synced := write(t, client, 0, 100, func() {})
	storetest.Eventually(t, "all is synchronised", m.AllSynced)
	s.Kill()
	s = storetest.Restart(t, s)
	if got := size(t, connect(t, s)); got != synced {
		t.Fatalf("after kill -9 there are %d of %d keys", got, synced)
	}
	client = connect(t, s)
	lost := int64(0)
	total := synced
	storetest.Eventually(t, "a power cut loses something", func() bool {
		total += write(t, client, total, 20, func() {})
		var err error
		if lost, err = m.PowerCut(s); err != nil {
			t.Fatal(err)
		}
		s = storetest.Restart(t, s)
		client = connect(t, s)
		return lost > 0
	})
	if got := size(t, client); got < synced || got >= total {
		t.Errorf("after a power cut that lost %d bytes there are %d keys, want at least %d and fewer than %d", lost, got, synced, total)
	}
}

// On a full disk a Redis with everysec refuses writes, until there is space again.
func TestFullDiskWithEverysec(t *testing.T) {
	m, s := machine.Start(t, "--appendfsync", "everysec")
	client := connect(t, s)
	written := write(t, client, 0, 10, func() {})
	storetest.Must(t, m.FillDisk())
	storetest.Eventually(t, "writes are refused", func() bool {
		err := client.Set(t.Context(), fmt.Sprint(written), strings.Repeat("x", 1000), 0).Err()
		if err == nil {
			written++
		}
		return redis.HasErrorPrefix(err, "MISCONF")
	})
	if got := size(t, client); got != written {
		t.Errorf("there are %d of %d keys", got, written)
	}
	storetest.Must(t, m.FreeDisk())
	storetest.Eventually(t, "writes are accepted again", func() bool { return client.Set(t.Context(), "again", "x", 0).Err() == nil })
	s.Stop()
	s = storetest.Restart(t, s)
	if got := size(t, connect(t, s)); got != written+1 {
		t.Errorf("after a restart there are %d of %d keys", got, written+1)
	}
}

// On a full disk a Redis with always ends itself; after a restart it has all acknowledged writes.
func TestFullDiskWithAlways(t *testing.T) {
	m, s := machine.Start(t, "--appendfsync", "always")
	client := connect(t, s)
	written := write(t, client, 0, 10, func() {})
	storetest.Must(t, m.FillDisk())
	for client.Set(t.Context(), fmt.Sprint(written), strings.Repeat("x", 1000), 0).Err() == nil {
		written++
	}
	storetest.Receive(t, "Redis ends itself", s.Done())
	storetest.Must(t, m.FreeDisk())
	s = storetest.Restart(t, s)
	if got := size(t, connect(t, s)); got != written {
		t.Errorf("after a restart there are %d of %d keys", got, written)
	}
}

// Only Redis sees the disk, which ends with the machine.
func TestDiskIsOfItsOwn(t *testing.T) {
	m, s := machine.Start(t)
	inside, err := os.ReadDir(m.Disk())
	if err != nil || len(inside) == 0 {
		t.Fatalf("on the disk: %v, error %v", inside, err)
	}
	outside, err := os.ReadDir(m.Data())
	if err != nil || len(outside) > 0 {
		t.Errorf("outside: %v, error %v", outside, err)
	}
	s.Stop()
	m.Close()
	if _, err := os.Stat(filepath.Join(m.Disk(), inside[0].Name())); err == nil {
		t.Error("the disk is still there")
	}
}

// write writes n keys from a number on, calls between in the middle, and returns n.
func write(t *testing.T, client *redis.Client, from, n int, between func()) int {
	t.Helper()
	for i := range n {
		if i == n/2 {
			between()
		}
		storetest.Must(t, client.Set(context.Background(), fmt.Sprint(from+i), "x", 0).Err())
	}
	return n
}

func size(t *testing.T, client *redis.Client) int {
	t.Helper()
	n, err := client.DBSize(t.Context()).Result()
	storetest.Must(t, err)
	return int(n)
}
