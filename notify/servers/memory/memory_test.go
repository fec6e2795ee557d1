package memory_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(s *memory.Server) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer: s.Dial, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // else it looks up the host's address
	})
}

// By the clock of a bubble keys expire, and the server tells the time. When it has stopped nothing is left of it.
func TestClockOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		c := client(server)
		defer c.Close()
		began := time.Now()
		if err := c.Set(t.Context(), "k", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Microsecond)
		if v, err := c.Get(t.Context(), "k").Result(); err != nil || v != "v" {
			t.Errorf("a microsecond before its end it is %q, %v", v, err)
		}
		time.Sleep(time.Microsecond)
		if _, err := c.Get(t.Context(), "k").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("at its end: %v", err)
		}
		if now, err := c.Time(t.Context()).Result(); err != nil || !now.Equal(began.Add(time.Hour)) {
			t.Errorf("it is %v, %v", now, err)
		}
		server.Stop()
		if _, err := server.Dial(t.Context(), "tcp", "memory:6379"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("when it has stopped: %v", err)
		}
	})
}

// A pipeline of any length is answered: the server answers the first commands before it has read the last ones.
func TestPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		defer server.Stop()
		c := client(server)
		defer c.Close()
		const n = 10_000
		answers, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range n {
				p.Incr(t.Context(), "n")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if last := answers[n-1].(*redis.IntCmd).Val(); last != n {
			t.Errorf("the last of %d commands was answered %d", n, last)
		}
	})
}

// One that listens is the same server for both ways to it.
func TestListen(t *testing.T) {
	server := memory.New()
	defer server.Stop()
	if url := server.URL(); url != "redis://memory" {
		t.Errorf("before it listens its URL is %s", url)
	}
	if err := server.Listen(0); err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	byPort, byDial := redis.NewClient(o), client(server)
	defer byPort.Close()
	defer byDial.Close()
	if err := byPort.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if v, err := byDial.Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("it is %q, %v", v, err)
	}
	if server.Listen(65536) == nil {
		t.Error("it listens at port 65536")
	}
}

// A clock that stands still passes nothing that no carrier moves, whether it is forced on or not.
func TestNoCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		defer server.Stop()
		store, err := notify.Open(notify.Config{URL: server.URL(), Dial: server.Dial})
		storetest.Must(t, err)
		defer store.Close()
		storetest.Found(t, store)
		began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		clock, err := server.StandStill(t.Context(), store.Keys(), began)
		storetest.Must(t, err)
		defer clock.Close()
		storetest.Publish(t, store, notify.Message{Topic: "mail", ID: "a", Delay: time.Minute})
		for _, force := range []bool{false, true} {
			_, err := clock.Advance(t.Context(), memory.Advance{To: began.Add(time.Hour), Force: force})
			if !errors.Is(err, memory.ErrNotQuiet) || !strings.Contains(err.Error(), "what is due is not moved, since no carrier runs") {
				t.Errorf("force %v: %v", force, err)
			}
			storetest.Is(t, "the time", clock.Now(), began.Add(time.Minute))
		}
	})
}
