package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

// The shortest and the longest pause after a start that failed.
const (
	startPauseMin = time.Second
	startPauseMax = 30 * time.Second
)

// ErrLater is wrapped by the error of a command that exited with ExitLater, or did not start.
var ErrLater = errors.New("it asks to be tried later")

// unstarted is the error of a command that the system did not start: the fault of this machine, not of
// the message. For the pause nothing is to be started. It is an ErrLater.
type unstarted struct {
	error
	pause time.Duration
}

func (u *unstarted) Unwrap() []error { return []error{u.error, ErrLater} }

// starts notes whether a command can be started. It is safe for concurrent use.
type starts struct {
	notice *outage.Notice

	mu    sync.Mutex
	pause time.Duration
	until time.Time
}

func newStarts(log *slog.Logger) *starts {
	return &starts{notice: outage.New(log, slog.LevelError, "cannot start the command; retrying, without using up attempts", "the command starts again")}
}

// failed notes a start that failed, and returns its unstarted, whose pause doubles from failure to failure.
// Failures during a pause, of other hands, belong to the one before. An error that is not of the
// system is returned as it is.
func (s *starts) failed(err error) error {
	if !errors.As(err, new(syscall.Errno)) {
		return err
	}
	s.notice.Note(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.until) {
		s.pause = min(max(2*s.pause, startPauseMin), startPauseMax)
		s.until = now.Add(s.pause)
	}
	return &unstarted{err, s.until.Sub(now)}
}

// succeeded notes a start that succeeded.
func (s *starts) succeeded() {
	s.notice.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause, s.until = 0, time.Time{}
}

// notNow has the message, or the broadcast, of an unstarted command released, and others left alone for its pause.
func (u *unstarted) notNow() error { return subscribers.NotNow(u, u.pause) }

// UntilStarted returns a handler that calls another one again while its command cannot be
// started, for a listener without a name, to which no broadcast comes again. Once stop has ended it
// waits no longer.
func UntilStarted(stop context.Context, handler func(context.Context, *subscribers.Broadcast) error) func(context.Context, *subscribers.Broadcast) error {
	return func(ctx context.Context, b *subscribers.Broadcast) error {
		for {
			err := handler(ctx, b)
			var un *unstarted
			if !errors.As(err, &un) {
				return err
			}
			select {
			case <-stop.Done():
				return fmt.Errorf("%w: %w", subscribers.ErrStopping, err)
			case <-time.After(un.pause):
			}
		}
	}
}
