package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/runner"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// A tally counts what a process handles, for its status in systemd.
type tally struct{ running, done, failed, later atomic.Int64 }

// counting returns a handler that counts the calls of another, and their results.
func counting[M any](t *tally, handler func(context.Context, *M) error) func(context.Context, *M) error {
	return func(ctx context.Context, m *M) error {
		t.running.Add(1)
		defer t.running.Add(-1)
		err := handler(ctx, m)
		switch {
		case err == nil:
			t.done.Add(1)
		case errors.Is(err, runner.ErrLater):
			t.later.Add(1)
		case !errors.Is(err, subscribers.ErrStopping) && !errors.Is(err, store.ErrCancelled): // then it is released, or cancelled
			t.failed.Add(1)
		}
		return err
	}
}

// String describes the counts. Failed attempts are repeated or not.
func (t *tally) String() string {
	return fmt.Sprintf("%d running, %d handled, %d failed%s", t.running.Load(), t.done.Load(), t.failed.Load(), t.putOff(", %d put off"))
}

// putOff describes how often a message was put off; nothing if none was.
func (t *tally) putOff(form string) string {
	if n := t.later.Load(); n > 0 {
		return fmt.Sprintf(form, n)
	}
	return ""
}

// sum prints the results to stderr, at the end.
func (a *app) sum(t *tally) {
	fmt.Fprintf(a.err, "%sbellhop: handled %d, failed %d%s\n", daemon.Priority(a.err, slog.LevelInfo), t.done.Load(), t.failed.Load(), t.putOff(", put off %d"))
}

// statusInterval is how often the status is reported.
const statusInterval = time.Second

// reportStatus reports a tally to systemd until stop is called. Once ctx has ended, it reports that the process stops.
func (s *session) reportStatus(ctx context.Context, t *tally) (stop func()) {
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker := time.NewTicker(statusInterval)
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
		reporting.Wait()
	}
}

func (s *session) status(ctx context.Context, t *tally) string {
	if ctx.Err() != nil {
		return "stopping: " + t.String()
	}
	status := []string{t.String()}
	for _, trouble := range s.troubles {
		status = append(status, terminal.Escape(trouble.State()))
	}
	status = append(status, daemon.Waiting(s.store))
	return strings.Join(slices.DeleteFunc(status, func(text string) bool { return text == "" }), "; ")
}
