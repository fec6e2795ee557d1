package main

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

// patience is for how long somebody who has to go on waits for an output that is not read.
const patience = 3 * time.Second

// errUnread is wrapped by the error of a write that was given up.
var errUnread = errors.New("nobody reads it")

// An outlet is standard output or standard error of a process that has to go on, and to stop, where
// nobody reads it: the pipe is full, or the terminal is stopped. One write at a time is under way, in a
// goroutine of its own, and its caller can give it up. It is safe for concurrent use.
type outlet struct {
	to   io.Writer
	turn chan struct{} // full while a write is under way

	mu    sync.Mutex
	begun time.Time // when the last write began
}

func newOutlet(w io.Writer) *outlet { return &outlet{to: w, turn: make(chan struct{}, 1)} }

// upTo returns a writer to w that waits for a reader until ctx ends, if w is an outlet.
func upTo(ctx context.Context, w io.Writer) io.Writer {
	if o, ok := w.(*outlet); ok {
		return outletUpTo{ctx, o}
	}
	return w
}

type outletUpTo struct {
	ctx context.Context
	*outlet
}

// Write writes p, or gives up.
func (o outletUpTo) Write(p []byte) (int, error) { return o.write(o.ctx, p) }

// over is a context that has ended.
func over() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// Write writes p, for the log and for reports. It gives up once a write has been under way for
// patience: p is lost then.
func (o *outlet) Write(p []byte) (int, error) { return o.write(over(), p) }

// Stat describes the file that the outlet writes to.
func (o *outlet) Stat() (fs.FileInfo, error) {
	if f, ok := o.to.(*os.File); ok {
		return f.Stat()
	}
	return nil, fs.ErrInvalid
}

// write writes p. Once ctx has ended, and a write has been under way for patience, it gives up.
// The error is an errUnread then.
func (o *outlet) write(ctx context.Context, p []byte) (int, error) {
	select {
	case o.turn <- struct{}{}:
	default:
		given, stop := o.giveUp(ctx)
		defer stop()
		select {
		case o.turn <- struct{}{}:
		case <-given:
			return 0, fmt.Errorf("%w: %w", context.Cause(ctx), errUnread)
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
		return 0, fmt.Errorf("%w: %w", context.Cause(ctx), errUnread)
	}
}

// giveUp returns a channel that is closed once ctx has ended and the write under way has taken
// for patience, unless stop is called before ctx ends.
func (o *outlet) giveUp(ctx context.Context) (given <-chan struct{}, stop func() bool) {
	c := make(chan struct{})
	return c, context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		time.AfterFunc(patience-time.Since(o.begun), func() { close(c) })
	})
}
