// Package stream sends server-sent events to a page of the console.
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
package stream

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// Event returns a text as an event of a stream, with a name or, as what a page shows then, without.
func Event(name string, text []byte) []byte {
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		fmt.Fprintf(&b, "data: %s\n", bytes.ReplaceAll(line, []byte("\r"), nil)) // which ends a line, too
	}
	b.WriteString("\n")
	return b.Bytes()
}

// A Sender sends events that differ from the one before.
type Sender struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
	quiet    time.Duration
	before   []byte
	sent     time.Time
}

// To returns a sender to a client. A write fails after patience; where nothing differs for as long as quiet, an event says
// that the stream is alive.
func To(w http.ResponseWriter, patience, quiet time.Duration) *Sender {
	return &Sender{w: w, rc: http.NewResponseController(w), patience: patience, quiet: quiet}
}

// Send sends an event, unless the one before was the same.
func (s *Sender) Send(event []byte) error {
	switch {
	case !bytes.Equal(event, s.before):
		s.before = event
	case time.Since(s.sent) >= s.quiet:
		event = []byte("event: alive\ndata:\n\n") // scripts of a page do not hear comments
	default:
		return nil
	}
	s.sent = time.Now()
	return s.write(event)
}

// End has the client not connect again.
func (s *Sender) End() { _ = s.write([]byte("event: end\ndata:\n\n")) } // the client may be gone

func (s *Sender) write(text []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.patience))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.rc.Flush()
}
