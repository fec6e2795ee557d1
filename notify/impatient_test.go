package notify_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// impatient makes calls, each with so little time, from several goroutines until stop is called.
func impatient(t *testing.T, inspector *notify.Inspector, most time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := g; ctx.Err() == nil; n++ {
				short, cancel := context.WithTimeout(ctx, most*time.Duration(1+n%10)/10)
				inspector.Inspect(short, topic, "none") // it may find nothing, or have no time to
				cancel()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// A call fails only by its own deadline, however short those of other calls are: while the store is
// checked for the first time, and after that.
func TestImpatientCallsFailNoOther(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--requirepass", "secret")
	url := "redis://:secret@" + server.Addr()
	for range 5 {
		db := storetest.Unhurried(storetest.At(t, url, notify.NewID()))
		inspector := storetest.Inspector(t, db)
		stop := impatient(t, inspector, time.Millisecond)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), storetest.Deadline)
			storetest.Should(t, storetest.ErrOf(inspector.Count(ctx, topic)))
			cancel()
		}
		stop()
		storetest.Eventually(t, "all connections are free", func() bool {
			stats := db.PoolStats()
			return stats.TotalConns == stats.IdleConns
		})
		storetest.Should(t, db.Close())
	}
	watcher := storetest.At(t, url, "")
	storetest.Eventually(t, "all connections are closed", func() bool {
		fields, err := watcher.Home().Info(t.Context(), "clients")
		return err == nil && fields["connected_clients"] == "1"
	})
}

// Calls get through that have enough time for an answer, though too little for the set-up of a connection.
func TestSetUpOutlastsCalls(t *testing.T) {
	t.Parallel()
	_, there := open(t)
	proxy := newProxy(t, address())
	proxy.lag.Store(int64(250 * time.Millisecond))
	inspector := storetest.Inspector(t, storetest.At(t, "redis://"+proxy.addr, there.Prefix()))
	for range 2 {
		storetest.Eventually(t, "a call has enough time", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond) // of the three answers that the first call awaits there is time for two
			defer cancel()
			_, err := inspector.Inspect(ctx, topic, "none")
			return errors.Is(err, notify.ErrNotFound)
		})
		proxy.swallow()
	}
}

// address returns that of the Redis of all tests.
func address() string { return strings.TrimPrefix(storetest.URL(), "redis://") }

// A call returns at its deadline where Redis hangs, and so does Close; neither leaves anything behind.
func TestCallsEndThoughRedisHangs(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t, address())
	proxy.lag.Store(int64(time.Hour))
	db := storetest.At(t, "redis://"+proxy.addr, notify.NewID())
	db.Client().(*redis.Client).Options().ReadTimeout = time.Hour // so that nothing ends by it
	inspector := storetest.Inspector(t, db)
	patient, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := inspector.Count(t.Context(), topic)
		patient <- err
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		go func() {
			_, err := inspector.Count(ctx, topic)
			ended <- err
		}()
		if err := storetest.Receive(t, "a call ends whose time is up", ended); !errors.Is(err, context.DeadlineExceeded) || !notify.Retryable(err) {
			t.Errorf("it ended with %v", err)
		}
		cancel()
	}
	go func() { ended <- db.Close() }()
	storetest.Should(t, storetest.Receive(t, "the store is closed", ended))
	if err := storetest.Receive(t, "the call ends", patient); !notify.Retryable(err) || errors.Is(err, context.Canceled) {
		t.Errorf("a call on a store that was closed: %v", err)
	}
}
