package runner

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The pause doubles from failure to failure, not by those of several hands at once, and begins
// anew after a success.
func TestPauseOfStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(slog.New(slog.DiscardHandler))
		fails := func() time.Duration {
			var un *unstarted
			if err := s.failed(&os.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOENT}); !errors.As(err, &un) {
				t.Fatalf("got %v", err)
			}
			return un.pause
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			if got := fails(); got != want*time.Second {
				t.Errorf("got %v, want %v", got, want*time.Second)
			}
			time.Sleep(want * time.Second / 2)
			if got := fails(); got != want*time.Second/2 {
				t.Errorf("for another hand: %v, want what is left, %v", got, want*time.Second/2)
			}
			time.Sleep(want * time.Second / 2)
		}
		s.succeeded()
		if got := fails(); got != startPauseMin {
			t.Errorf("got %v after a success", got)
		}
		if err := s.failed(os.ErrInvalid); errors.As(err, new(*unstarted)) {
			t.Errorf("what the system did not refuse is the message's own: %v", err)
		}
	})
}
