package outlet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// slowly is a writer whose writes last until they are let go.
type slowly struct {
	wrote bytes.Buffer
	let   chan struct{}
}

func (s *slowly) Write(p []byte) (int, error) {
	<-s.let
	return s.wrote.Write(p)
}

// Somebody who has to go on waits for Patience once; while the output is stuck what others write is lost at once. What
// comes after it is written.
func TestOutlet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slowly{let: make(chan struct{})}
		o := New(to)
		writes := func(text string, ctx context.Context, after time.Duration, want error) {
			t.Helper()
			began := time.Now()
			if _, err := UpTo(ctx, o).Write([]byte(text)); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", text, err, want)
			}
			if took := time.Since(began); took != after {
				t.Errorf("%s: it takes %v, want %v", text, took, after)
			}
		}
		timed := func(d time.Duration) context.Context {
			ctx, stop := context.WithTimeoutCause(t.Context(), d, os.ErrDeadlineExceeded)
			t.Cleanup(stop)
			return ctx
		}
		writes("a", over(), Patience, ErrUnread)
		writes("b", over(), 0, ErrUnread)
		writes("c", timed(time.Hour), time.Hour, ErrUnread)
		writes("d", timed(time.Hour), time.Hour, os.ErrDeadlineExceeded)
		to.let <- struct{}{}
		synctest.Wait()
		go func() { time.Sleep(Patience / 2); to.let <- struct{}{} }()
		writes("e", over(), Patience/2, nil)
		if got := to.wrote.String(); got != "ae" {
			t.Errorf("wrote %q", got)
		}
	})
}
