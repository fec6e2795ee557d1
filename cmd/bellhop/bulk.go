package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const (
	bulkBatch    = 50      // lines that are published together
	bulkBytes    = 4 << 20 // of lines, after which a batch is full
	listedFaults = 20      // refused lines that are reported one by one
)

// batch is lines that are published together.
type batch struct {
	first, last int // line numbers
	bytes       int64
	messages    []notify.Message
	lines       []int // of messages
	restored    []restored
	faults      map[int]error   // of lines that are no messages
	results     []notify.Result // of messages
	err         error           // of reading more
	done        chan struct{}   // closed when results are set
	over        chan struct{}   // closed behind the pause that follows
}

// bulk publishes the lines of a file.
type bulk struct {
	app                *app
	session            *session
	in                 *bufio.Reader
	bar                *progressbar.ProgressBar
	published, refused int
	upTo               int // the last line whose result is known

	later     []restored      // behind all messages
	groups    map[string]bool // TOPIC:GROUP of what is restored, see noteGroups
	restored  int             // of later
	ofGroups  int             // as restored
	unchanged int             // lines of an export that were there already, of messages, too
}

// publishFile publishes the lines of a file, "-" for standard input.
func (a *app) publishFile(ctx context.Context, s *session, path string) error {
	in, size := a.in, int64(-1)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if about, err := f.Stat(); err == nil && about.Mode().IsRegular() {
			size = about.Size()
		}
		in = f
	} else if text.IsTerminal(a.in) {
		fmt.Fprintln(a.err, "bellhop: reading messages from the terminal, a line of JSON each; Ctrl-D ends the input")
	}
	b := &bulk{
		app: a, session: s, in: bufio.NewReaderSize(in, 1<<20), groups: make(map[string]bool),
		bar: a.progress("publishing", size, progressbar.OptionShowBytes(true)),
	}
	err := b.run(ctx)
	if a.json {
		sum := map[string]int{"published": b.published, "refused": b.refused}
		if len(b.later) > 0 || b.unchanged > 0 {
			sum["restored"], sum["groups"], sum["unchanged"] = b.restored, b.ofGroups, b.unchanged
		}
		if bad := a.printJSON(sum); err == nil {
			err = bad
		}
	} else {
		terminal.Printf(a.out, "published %d, refused %d\n", b.published, b.refused)
		if len(b.later) > 0 {
			groups := ""
			if b.ofGroups > 0 {
				groups = fmt.Sprintf(", and %d groups", b.ofGroups)
			}
			terminal.Printf(a.out, "restored %d schedules and pushes%s\n", b.restored, groups)
		}
		if b.unchanged > 0 {
			terminal.Printf(a.out, "%d lines were there unchanged\n", b.unchanged)
		}
	}
	if err == nil && b.refused > 0 {
		err = errReported
	}
	return err
}

// run publishes all lines. One batch is published while the next is read.
func (b *bulk) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan *batch)
	go b.read(ctx, batches)
	defer b.bar.Finish()
	for {
		select {
		case <-ctx.Done():
			return b.cut(ctx.Err())
		case next, more := <-batches:
			if !more && ctx.Err() != nil { // which ends the batches, too
				return b.cut(ctx.Err())
			}
			if !more {
				return b.restoreAll(ctx)
			}
			<-next.done
			if err := b.account(ctx, next); err != nil {
				return err
			}
		}
	}
}

// read reads batches, starts to publish each, and sends it to batches, until the
// input or ctx ends. It may outlive run in a read, which cannot be interrupted.
func (b *bulk) read(ctx context.Context, batches chan<- *batch) {
	defer close(batches)
	before := make(chan struct{})
	close(before)
	for line, more := 1, true; more; {
		next := &batch{first: line, done: make(chan struct{}), over: make(chan struct{}), faults: make(map[int]error)}
		more = b.fill(next)
		line = next.last + 1
		go b.publish(ctx, next, before)
		before = next.over
		select {
		case batches <- next:
		case <-ctx.Done():
			return
		}
	}
}

// publish publishes a batch when the one before is over, so in order, and pauses for others.
func (b *bulk) publish(ctx context.Context, next *batch, before <-chan struct{}) {
	defer close(next.over)
	<-before
	_, _ = store.Paced(ctx, func(ctx context.Context) error { // ctx ended: run says so
		next.results = b.session.pub.PublishMany(ctx, next.messages)
		close(next.done)
		return nil
	})
}

// fill reads the lines of a batch and reports whether more may follow. It returns
// when the next read would wait: a stream may be slow, and delays count from
// when Redis has the message.
func (b *bulk) fill(next *batch) bool {
	next.last = next.first - 1
	most := 6*int(b.session.config.MaxBody) + 64<<10 // JSON may encode a byte as six
	for next.last-next.first+1 < bulkBatch && next.bytes < bulkBytes {
		raw, read, err := readLine(b.in, most)
		next.bytes += read
		if read > 0 {
			next.last++
		}
		text := bytes.TrimSpace(raw)
		switch {
		case read > int64(most):
			next.faults[next.last] = fault.New("line", "line: it is longer than %d bytes", most)
		case len(text) > 0:
			if bad := next.parse(text, int(b.session.config.MaxBody)); bad != nil {
				next.faults[next.last] = bad
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				next.err = err
			}
			return false
		}
		if b.in.Buffered() == 0 {
			return true
		}
	}
	return true
}

// parse reads the last line.
func (next *batch) parse(text []byte, maxBody int) error {
	if kind := calls.KindOf(text); kind != "" {
		r, err := parseRestored(next.last, kind, text, maxBody)
		if err == nil {
			next.restored = append(next.restored, r)
		}
		return err
	}
	m, err := notify.ParseExported(text)
	if err == nil {
		next.messages, next.lines = append(next.messages, m), append(next.lines, next.last)
	}
	return err
}

// readLine reads a line and returns at most most bytes of it, and how many it had.
func readLine(in *bufio.Reader, most int) (line []byte, read int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		read += int64(len(part))
		if read <= int64(most) {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, read, err
		}
	}
}

// account counts a batch's results. It returns the errors that end the run: Redis
// accepts no messages, or the file cannot be read further.
func (b *bulk) account(ctx context.Context, next *batch) error {
	if err := b.settle(ctx, next); err != nil {
		return b.cut(err)
	}
	for line := next.first; line <= next.last; line++ {
		err := next.faults[line]
		if err == nil {
			continue
		}
		if !refusesLine(err) {
			b.published += published(next)
			return b.cut(err)
		}
		b.refuse(line, err)
	}
	b.published += published(next)
	b.later = append(b.later, next.restored...)
	b.noteGroups(next.messages)
	b.upTo = next.last
	_ = b.bar.Add64(next.bytes) // it only draws
	if next.err != nil {
		return fmt.Errorf("read line %d: %w", next.last+1, next.err)
	}
	return nil
}

// refusesLine reports whether an error is about one message, so that others may be published.
func refusesLine(err error) bool {
	for _, about := range []error{notify.ErrInvalid, notify.ErrExists, notify.ErrLeased, notify.ErrDead, store.ErrGroupComplete, store.ErrGroupTaken} {
		if errors.Is(err, about) {
			return true
		}
	}
	return false
}

// published counts the messages of a batch that are published.
func published(next *batch) (n int) {
	for _, r := range next.results {
		if r.Err == nil {
			n++
		}
	}
	return n
}

// cut returns the error of a run that ended before the last line.
func (b *bulk) cut(cause error) error {
	if b.upTo == 0 {
		return fmt.Errorf("%w\nno line is known to be published; some may be", cause)
	}
	more := ""
	if len(b.later)+len(b.groups) > 0 {
		more = "\nno schedule, push and group is restored; publish the file again"
	}
	return fmt.Errorf("%w\nlines 1 to %d are published or refused; of those after, some may be published%s", cause, b.upTo, more)
}

func (b *bulk) refuse(line int, err error) {
	b.refused++
	_ = b.bar.Clear()
	switch {
	case b.refused <= listedFaults:
		terminal.Printf(b.app.err, "bellhop: line %d: %v\n", line, err)
	case b.refused == listedFaults+1:
		fmt.Fprintln(b.app.err, "bellhop: more lines are refused; they are only counted")
	}
}
