package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/subscribers"
)

// A tally counts what a process handles, for the line of status that systemd shows.
type tally struct{ hands, done, failed atomic.Int64 }

// counting returns a handler that counts what another one does.
func counting[M any](t *tally, handler func(context.Context, *M) error) func(context.Context, *M) error {
	return func(ctx context.Context, m *M) error {
		t.hands.Add(1)
		defer t.hands.Add(-1)
		err := handler(ctx, m)
		switch {
		case err == nil:
			t.done.Add(1)
		case !errors.Is(err, subscribers.ErrStopping): // which is given back
			t.failed.Add(1)
		}
		return err
	}
}

// String says how many there were; what failed comes again or not.
func (t *tally) String() string {
	return fmt.Sprintf("%d in hand, %d handled, %d failed", t.hands.Load(), t.done.Load(), t.failed.Load())
}

// sum tells on stderr what was handled, at the end.
func (a *app) sum(t *tally) {
	fmt.Fprintf(a.err, "%sbellhop: handled %d, failed %d\n", daemon.Priority(a.err, slog.LevelInfo), t.done.Load(), t.failed.Load())
}

// tellEvery is how often the line of status may change.
const tellEvery = time.Second

// tell tells systemd how a tally stands, until stop is called. From the end of ctx on it says that the process stops.
func (s *session) tell(ctx context.Context, t *tally) (stop func()) {
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	telling.Go(func() {
		ticker := time.NewTicker(tellEvery)
		defer ticker.Stop()
		for ended.Err() == nil {
			s.manager.Status(s.status(ctx, t))
			select {
			case <-ended.Done():
			case <-ticker.C:
			}
		}
		s.manager.Status(s.status(ctx, t))
	})
	return func() {
		end()
		telling.Wait()
	}
}

func (s *session) status(ctx context.Context, t *tally) string {
	switch waiting := daemon.Waiting(s.store); {
	case ctx.Err() != nil:
		return "stopping: " + t.String()
	case waiting != "":
		return t.String() + "; " + waiting
	}
	return t.String()
}
