package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
)

// An output passes on what commands print. What cannot be passed on is thrown away, so that the
// exit code of a command decides about its message, and not the output of this process.
type output struct {
	to     io.Writer
	notice *outage.Notice
}

// newOutput returns an output to w; what names it in the log.
func newOutput(w io.Writer, what string, log *slog.Logger) output {
	return output{w, outage.New(log, slog.LevelError, "cannot pass on the "+what+" of the command", "the "+what+" of the command is passed on again")}
}

var (
	errWaits  = errors.New("nobody reads it, and the command waits until somebody does")
	errThrown = errors.New("nobody reads it; it is thrown away")
)

// passUntil returns a function that passes on what it gets. It waits for a reader until ctx ends.
func (o output) passUntil(ctx context.Context) func([]byte) {
	to := upTo(ctx, o.to)
	return func(p []byte) {
		read := o.notice.After(patience, "error", errWaits)
		_, err := to.Write(p)
		read()
		if errors.Is(err, errUnread) {
			err = errThrown
		}
		o.notice.Note(err)
	}
}

// A pipe carries what a command writes to one of its outputs.
type pipe struct {
	from, end *os.File // end is the command's
	copied    chan struct{}
}

func newPipe() (*pipe, error) {
	from, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pipe{from, end, make(chan struct{})}, nil
}

// copyTo copies to w, once the command has the pipe's end.
func (p *pipe) copyTo(w io.Writer) {
	p.end.Close()
	go func() {
		defer close(p.copied)
		_, _ = io.Copy(w, p.from) // w reports no error, and to read ends with the command, or with finish
	}()
}

// finish ends the copying when nobody has the pipe's end any more, or at a time. It reports
// whether somebody still had it.
func (p *pipe) finish(by time.Time) (held bool) {
	timer := time.AfterFunc(time.Until(by), func() { p.from.Close() })
	<-p.copied
	held = !timer.Stop()
	p.from.Close()
	return held
}

// close gives up a pipe that no command got.
func (p *pipe) close() {
	p.from.Close()
	p.end.Close()
}
