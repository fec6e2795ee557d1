// Package outlet writes to standard output and standard error of a process that has to go on, and to stop,
// where nobody reads them: the pipe is full, or the terminal is stopped.
package outlet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Patience is for how long somebody who has to go on waits for an output that is not read.
const Patience = 3 * time.Second

// ErrUnread is wrapped by the error of a write that was given up.
var ErrUnread = errors.New("nobody reads it")

// An Outlet writes to another writer. One write at a time is under way, in a goroutine of its own, and its
// caller can give it up. An Outlet is safe for concurrent use.
type Outlet struct {
	to   io.Writer
	turn chan struct{} // full while a write is under way

	mu    sync.Mutex
	begun time.Time // when the last write began
}

// New returns an outlet to w.
func New(w io.Writer) *Outlet { return &Outlet{to: w, turn: make(chan struct{}, 1)} }

// UpTo returns a writer to w that waits for a reader until ctx ends, if w is an Outlet.
func UpTo(ctx context.Context, w io.Writer) io.Writer {
	if o, ok := w.(*Outlet); ok {
		return upTo{ctx, o}
	}
	return w
}

type upTo struct {
	ctx context.Context
	*Outlet
}

// Write writes p, or gives up.
func (o upTo) Write(p []byte) (int, error) { return o.write(o.ctx, p) }

// over is a context that has ended.
func over() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// Write writes p, for the log and for reports. It gives up once a write has been under way for
// Patience: p is lost then.
func (o *Outlet) Write(p []byte) (int, error) { return o.write(over(), p) }

// Stat describes the file that the outlet writes to.
func (o *Outlet) Stat() (fs.FileInfo, error) {
	if f, ok := o.to.(*os.File); ok {
		return f.Stat()
	}
	return nil, fs.ErrInvalid
}

// write writes p. Once ctx has ended, and a write has been under way for Patience, it gives up.
// The error wraps ErrUnread then.
func (o *Outlet) write(ctx context.Context, p []byte) (int, error) {
	select {
	case o.turn <- struct{}{}:
	default:
		given, stop := o.giveUp(ctx)
		defer stop()
		select {
		case o.turn <- struct{}{}:
		case <-given:
			return 0, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnread)
		}
	}
	o.mu.Lock()
	o.begun = time.Now()
	o.mu.Unlock()
	done := make(chan error, 1)
	go func(p []byte) {
		_, err := o.to.Write(p)
		<-o.turn
		done <- err
	}(bytes.Clone(p)) // the caller may give up
	given, stop := o.giveUp(ctx)
	defer stop()
	select {
	case err := <-done:
		return len(p), err
	case <-given:
		return 0, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnread)
	}
}

// giveUp returns a channel that is closed once ctx has ended and the write under way has taken
// for Patience, unless stop is called before ctx ends.
func (o *Outlet) giveUp(ctx context.Context) (given <-chan struct{}, stop func() bool) {
	c := make(chan struct{})
	return c, context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		time.AfterFunc(Patience-time.Since(o.begun), func() { close(c) })
	})
}
