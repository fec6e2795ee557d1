package notify_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

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
		db := storetest.At(t, url, notify.NewID())
		inspector := storetest.Inspector(t, db)
		stop := impatient(t, inspector, time.Millisecond)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), storetest.Deadline)
			if _, err := inspector.Count(ctx, topic); err != nil {
				t.Error(err)
			}
			cancel()
		}
		stop()
		storetest.Eventually(t, "all connections are free", func() bool {
			stats := db.PoolStats()
			return stats.TotalConns == stats.IdleConns
		})
		if err := db.Close(); err != nil {
			t.Error(err)
		}
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
	server := storetest.Server(t)
	storetest.Found(t, storetest.At(t, server.URL(), ""))
	proxy := newProxy(t, server.Addr())
	proxy.lag.Store(int64(60 * time.Millisecond))
	inspector := storetest.Inspector(t, storetest.At(t, "redis://"+proxy.addr, ""))
	for range 2 {
		storetest.Eventually(t, "a call has enough time", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 110*time.Millisecond) // of the three answers that the first call awaits there is time for one
			defer cancel()
			_, err := inspector.Inspect(ctx, topic, "none")
			return errors.Is(err, notify.ErrNotFound)
		})
		proxy.swallow()
	}
}

// A call returns at its deadline where Redis hangs, and so does Close; neither leaves anything behind.
func TestCallsEndThoughRedisHangs(t *testing.T) {
	t.Parallel()
	for try := 1; ; try++ { // this machine may stand still
		most := callThoughRedisHangs(t)
		if most <= 2*time.Second || t.Failed() { // a read alone would take 3 s
			return
		}
		if try == 3 {
			t.Fatalf("a call, or Close, returned after %v", most)
		}
	}
}

// callThoughRedisHangs returns how long the slowest of calls and Close took.
func callThoughRedisHangs(t *testing.T) (most time.Duration) {
	t.Helper()
	server := storetest.Server(t)
	proxy := newProxy(t, server.Addr())
	proxy.lag.Store(int64(time.Hour))
	db := storetest.At(t, "redis://"+proxy.addr, "")
	inspector := storetest.Inspector(t, db)
	patient := make(chan error, 1)
	go func() {
		_, err := inspector.Count(t.Context(), topic)
		patient <- err
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err := inspector.Count(ctx, topic)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || !notify.Retryable(err) {
			t.Errorf("it returned after %v: %v", took, err)
		} else {
			most = max(most, took)
		}
		cancel()
	}
	began := time.Now()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	most = max(most, time.Since(began))
	if err := storetest.Receive(t, "the call ends", patient); !notify.Retryable(err) || errors.Is(err, context.Canceled) {
		t.Errorf("a call on a store that was closed: %v", err)
	}
	return most
}
