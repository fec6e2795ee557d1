package runner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/outlet"
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
	to := outlet.UpTo(ctx, o.to)
	return func(p []byte) {
		read := o.notice.After(outlet.Patience, "error", errWaits)
		_, err := to.Write(p)
		read()
		if errors.Is(err, outlet.ErrUnread) {
			err = errThrown
		}
		o.notice.Note(err)
	}
}

// A pipe carries what a command writes to one of its outputs.
type pipe struct {
	from, end *os.File // end is the command's
	copied    chan struct{}
	held      bool // somebody still had the end when the copying ended; known then
}

func newPipe() (*pipe, error) {
	from, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pipe{from: from, end: end, copied: make(chan struct{})}, nil
}

// copyTo copies to w, which reports no error, once the command has the pipe's end.
func (p *pipe) copyTo(w io.Writer) {
	p.end.Close()
	go func() {
		defer close(p.copied)
		if _, err := io.Copy(w, p.from); err != nil { // the time of finish
			p.held = p.copyRest(w)
		}
	}()
}

// mostRest is how much copyRest copies: more than a pipe holds, while a child may go on writing.
const mostRest = 1 << 20

// copyRest copies what is in the pipe, without waiting for more. It reports whether somebody has the pipe's end.
func (p *pipe) copyRest(w io.Writer) (held bool) {
	conn, err := p.from.SyscallConn()
	part := make([]byte, 64<<10)
	for rest := mostRest; err == nil && rest > 0; {
		n := 0
		err = conn.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), part) }) // -1 if it would wait
		if n <= 0 {
			return n < 0
		}
		_, _ = w.Write(part[:n])
		rest -= n
	}
	return true
}

// finish ends the copying when nobody has the pipe's end any more, or at a time, with what is in the
// pipe by then. It reports whether somebody still had the end.
func (p *pipe) finish(by time.Time) (held bool) {
	_ = p.from.SetReadDeadline(by)
	<-p.copied
	p.from.Close()
	return p.held
}

// close gives up a pipe that no command got.
func (p *pipe) close() {
	p.from.Close()
	p.end.Close()
}
