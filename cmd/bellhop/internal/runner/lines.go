package runner

import (
	"bytes"
	"fmt"
	"strings"
)

// lineWriter passes on whole lines, so that the lines of concurrent commands do
// not mix. A line longer than maxLine is passed on in parts.
type lineWriter struct {
	pass    func([]byte)
	pending []byte
}

const (
	maxLine   = 64 << 10
	tailBytes = 400 // of a command's stderr, kept as the reason
)

// Write passes on the complete lines.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	end := bytes.LastIndexByte(l.pending, '\n') + 1
	if end == 0 && len(l.pending) >= maxLine {
		end = len(l.pending)
	}
	if end > 0 {
		l.pass(l.pending[:end])
		l.pending = append(l.pending[:0], l.pending[end:]...)
	}
	return len(p), nil
}

// flush passes on an unfinished last line, and ends it.
func (l *lineWriter) flush() {
	if len(l.pending) > 0 {
		l.pass(append(l.pending, '\n'))
		l.pending = nil
	}
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// reason adds the end of stderr to the error of a failed command.
func (t *tail) reason(err error) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), ""))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}
