package belltest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whoever waits for a year makes few calls, logs nothing, and hears of what comes then.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		store := belltest.Open(t)
		var mu sync.Mutex
		calls := make(map[string]int)
		store.Observe(func(script string, _ time.Duration, _ error) { mu.Lock(); defer mu.Unlock(); calls[script]++ })
		belltest.Run(t, store)
		s := over(t, store)
		s.log = slog.New(slog.NewTextHandler(&log, nil))
		s.work(1, succeed)
		listener, err := subscribers.NewListener(s.store, subscribers.ListenerOptions{Logger: s.log})
		must(t, err)
		for _, name := range []string{"", "named"} {
			s.run(func(ctx context.Context) error {
				return listener.Listen(ctx, ">", func(_ context.Context, b *subscribers.Broadcast) error { s.note(b.ID, " ", name); return nil }, subscribers.ListenOptions{Name: name})
			})
		}
		second, err := carrier.New(s.store, carrier.Options{Name: "standby", Logger: s.log})
		must(t, err)
		s.run(second.Run)
		log.Reset() // of "standing by"
		s.until(60 * day)
		if err := errors.Join(second.Alive(), listener.Alive()); err != nil {
			s.Errorf("it rests, and is no more alive: %v", err)
		}
		mu.Lock()
		n := 0
		for _, one := range calls {
			n += one
		}
		if n > 100 {
			s.Errorf("calls in 60 days: %v", calls)
		}
		mu.Unlock()
		if log.Len() > 0 {
			s.Errorf("it logs\n%s", &log)
		}
		s.publish(notify.Message{ID: "a"}, notify.Message{ID: "b", Broadcast: true})
		s.until(60*day + time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.seen) != 3 || strings.Count(strings.Join(s.seen, "\n"), "1440h0m0s ") != 3 {
			s.Errorf("it got %q", s.seen)
		}
	})
}

// More calls than go-redis has connections by default are under way at a time, in one bubble and in the next.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	for range 3 {
		play(t, func(s *scene) {
			var all sync.WaitGroup
			for i := range 500 {
				all.Go(func() {
					if _, err := s.inspector.Count(s.Context(), fmt.Sprint("t", i)); err != nil {
						s.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// Outside of a bubble a store has real time, and a carrier that beats as any does.
func TestOutsideOfABubble(t *testing.T) {
	store := belltest.New(t, belltest.Options{Logger: slog.New(slog.DiscardHandler)})
	if store.IsCalm() {
		t.Error("the store is calm: what a beat finds comes after a week")
	}
	pub, err := notify.NewPublisher(store)
	must(t, err)
	_, err = pub.Publish(t.Context(), notify.Message{Topic: topic, ID: "a", Delay: 20 * time.Millisecond})
	must(t, err)
	claimer, err := subscribers.NewClaimer(store)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := claimer.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Wait: time.Minute})
	if err != nil || len(ds) != 1 || time.Now().Year() == 2000 {
		t.Errorf("claimed %v, %v, at %v", ds, err, time.Now())
	}
}

// failing is a test that notes why it is ended.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Fatal(why ...any) {
	f.why = fmt.Sprint(why...)
	panic(f)
}

// failure returns why New ends a test.
func failure(t *testing.T, options ...belltest.Options) string {
	t.Helper()
	f := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		belltest.New(f, options...)
	}()
	return f.why
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	wants := func(t *testing.T, want string, options ...belltest.Options) {
		t.Helper()
		if got := failure(t, options...); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	wants(t, "at: the time is that of the machine; call New in a bubble (synctest.Test), or leave it out", belltest.Options{At: time.Now().Add(time.Hour)})
	wants(t, "options", belltest.Options{}, belltest.Options{})
	synctest.Test(t, func(t *testing.T) {
		wants(t, "lease of the carrier: it is three of its beats in a test; leave it out", belltest.Options{Carrier: carrier.Options{Lease: time.Second}})
		wants(t, "sweep of the carrier: it is one of its beats in a test; leave it out", belltest.Options{Carrier: carrier.Options{Sweep: time.Second}})
		wants(t, "carrier batch 5000: use 1 to 1000", belltest.Options{Carrier: carrier.Options{Batch: 5000}})
		wants(t, "at 1999-12-31T00:00:00Z: it is 2000-01-01T00:00:00Z already", belltest.Options{At: time.Now().Add(-day)})
	})
}
