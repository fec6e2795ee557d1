package faults_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A takeover with the default lease stays within its bound, -faults.takeovers times for each
// signal: see make takeovers.
func TestTakeover(t *testing.T) {
	if *takeoversFlag == 0 {
		t.Skip("make takeovers runs this")
	}
	w, err := newWorld(t.Context(), folder(t), plan{Fsync: "everysec"}, carrier.DefaultLease)
	t.Cleanup(w.close)
	storetest.Must(t, err)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		var whole, vacant history.Times
		for range *takeoversFlag {
			takes, without, err := w.takeover(t.Context(), signal)
			storetest.Must(t, err)
			whole, vacant = append(whole, takes), append(vacant, without)
		}
		slices.Sort(whole)
		slices.Sort(vacant)
		report := func(what string, times history.Times) {
			t.Logf("%d times %v, %s until the next one's first beat: p50 %s, p99 %s, max %s", len(times), signal, what, shown(times, 0.5), shown(times, 0.99), shown(times, 1))
		}
		report("from the signal", whole)
		report("from when nobody carried", vacant)
		bound := 100 * time.Millisecond
		if signal == syscall.SIGKILL {
			bound = carrier.DefaultLease + 500*time.Millisecond
		}
		if got := vacant.Quantile(0.99); got > bound {
			t.Errorf("the p99 of %v is %v, the bound is %v", signal, got, bound)
		}
	}
}

// takeover ends the carrying daemon, and returns the time until the next carrier's first
// beat: from the signal, and from when nobody carried. On SIGTERM a daemon carries until its
// clients are answered.
func (w *world) takeover(ctx context.Context, signal syscall.Signal) (takes, without time.Duration, err error) {
	keys := w.store.Keys()
	if err := until("one stands by", func() bool {
		n, err := w.store.Client().PubSubNumSub(ctx, keys.Vacant()).Result()
		return err == nil && n[keys.Vacant()] == 1
	}); err != nil {
		return 0, 0, err
	}
	carries, epoch, err := w.carrier(ctx)
	if err != nil {
		return 0, 0, err
	}
	sub := w.store.Client().Subscribe(ctx, keys.Beat(), keys.Vacant())
	defer sub.Close()
	for range 2 {
		if _, err := sub.Receive(ctx); err != nil { // the confirmation of a subscription
			return 0, 0, err
		}
	}
	begun := time.Now()
	vacant := begun
	if err := carries.running().Signal(signal); err != nil {
		return 0, 0, err
	}
	for {
		m, err := sub.ReceiveTimeout(ctx, patience)
		if err != nil {
			return 0, 0, err
		}
		message, ok := m.(*redis.Message)
		switch {
		case ok && message.Channel == keys.Vacant():
			vacant = time.Now()
		case ok && epochOf(message.Payload) > epoch:
			takes, without = time.Since(begun), time.Since(vacant)
			<-carries.running().Done()
			return takes, without, carries.again(ctx)
		}
	}
}

// epochOf reads the epoch of a beat.
func epochOf(beat string) int64 {
	text, _, _ := strings.Cut(beat, " ")
	epoch, _ := strconv.ParseInt(text, 10, 64)
	return epoch
}
