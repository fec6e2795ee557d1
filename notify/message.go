package notify

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// DefaultMaxBody is the largest body in bytes, unless PublisherOptions.MaxBody is set.
const DefaultMaxBody = 256 << 10

// A Message is what is published. The tags describe the fields that have a name over
// HTTP, over NATS and as flags; they become flag descriptions and the OpenAPI document.
type Message struct {
	Topic string // required: tokens of A-Z a-z 0-9 _ - joined by dots, at most MaxTopic bytes
	Body  []byte // opaque; empty if the message is only a signal

	// ID is A-Z a-z 0-9 . _ ~ : -, at most MaxID bytes, not . or ..; empty: generated, sortable by time.
	ID string `field:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"names it, so that a publish may be repeated, a broadcast until it is sent; missing: one is made"`

	// Delay is how long after Redis accepts the message it is due. Due is the time
	// itself; one in the past becomes the time of the publish, except for a broadcast.
	// Give at most one of the two. Both are rounded up to a millisecond.
	Delay time.Duration `field:"delay" shortest:"0s" example:"30m" doc:"due so long after Redis has taken it"`
	Due   time.Time     `field:"due" without:"delay" example:"2030-01-02T15:04:05.678Z" doc:"due at this time; in the past: at once, and the answer tells since when. Give a delay, or this, or neither"`

	// TTL is how long after the due time the message is buried as expired, rounded down
	// to a millisecond; zero: never.
	TTL time.Duration `field:"ttl" of:"message" shortest:"1ms" example:"24h" doc:"time to live behind the due time; missing: for ever"`

	// MaxAttempts is the limit of attempts; zero: that of the topic's settings.
	MaxAttempts int `field:"attempts" of:"message" minimum:"1" maximum:"1000000" example:"5" doc:"limit of attempts; missing: that of the topic's settings"`

	// ContentType is that of the body, such as application/json.
	ContentType string `field:"content_type" is:"media type" maxLength:"255" example:"application/json" doc:"of the body; is kept with it"`

	Headers map[string]string // kept with the body; no two names are equal without regard to case

	// Broadcast sends the message to everyone who listens to the topic, instead of to
	// one worker. A broadcast has no TTL and no MaxAttempts.
	Broadcast bool

	// Restore is what the message had in another store; nil: it is new.
	Restore *Restore
}

// maxDueMs is MaxDue in Unix milliseconds.
var maxDueMs = store.MaxDue.UnixMilli()

// record returns the record of a message, without times.
func (m *Message) record() *Record {
	return &Record{
		ContentType: m.ContentType, Headers: m.Headers, TTL: m.TTL, MaxAttempts: m.MaxAttempts, Broadcast: m.Broadcast, Body: m.Body,
	}
}

// A State is one of the four states of a message.
type State = store.State

// The states of a message.
const (
	Scheduled = store.Scheduled // waits for its due time
	Ready     = store.Ready     // due, waits for a worker
	Leased    = store.Leased    // a worker has it
	Dead      = store.Dead      // out of attempts, expired or refused for good
)

// ParseState reads the name of a state. The error is a Fault.
func ParseState(name string) (State, error) { return store.ParseState(name) }

// check returns a joined Fault for each invalid field of a message.
func (m *Message) check(maxBody int) error {
	return errors.Join(
		store.CheckTopic(m.Topic), m.checkID(), m.checkBody(maxBody), m.checkTTL(), m.checkAttempts(),
		store.CheckContentType(m.ContentType), checkWhen(m.Delay, m.Due), store.CheckHeaders(m.Headers), m.checkRestore(),
	)
}

func (m *Message) checkID() error {
	if m.ID == "" {
		return nil
	}
	return store.CheckID(m.ID)
}

func (m *Message) checkBody(most int) error {
	if len(m.Body) > most {
		return &Fault{Field: "body", Err: fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrTooLarge, len(m.Body), most)}
	}
	return nil
}

func (m *Message) checkTTL() error {
	switch {
	case m.Broadcast && m.TTL != 0:
		return store.Faultf("ttl", "ttl %v: a broadcast has none; leave it out", m.TTL)
	case m.TTL < 0:
		return store.Faultf("ttl", "ttl %v: it is negative; leave it out for a message that never expires", m.TTL)
	case m.TTL > 0 && m.TTL < time.Millisecond:
		return store.Faultf("ttl", "ttl %v: the shortest is 1ms", m.TTL)
	}
	return nil
}

func (m *Message) checkAttempts() error {
	switch {
	case m.Broadcast && m.MaxAttempts != 0:
		return store.Faultf("attempts", "attempts %d: a broadcast has none; leave it out", m.MaxAttempts)
	case m.MaxAttempts < 0 || m.MaxAttempts > store.MostAttempts:
		return store.Faultf("attempts", "attempts %d: use 1 to %d, or 0 for the default", m.MaxAttempts, store.MostAttempts)
	}
	return nil
}

// checkWhen returns a joined Fault for an invalid delay, an invalid due time, and for
// both if both are given.
func checkWhen(delay time.Duration, due time.Time) error {
	var both, early, at error
	if delay != 0 && !due.IsZero() {
		both = store.Faultf("due", "delay and due: both are given; give one of them")
	}
	if delay < 0 {
		early = store.Faultf("delay", "delay %v: it is negative; use zero or more", delay)
	}
	switch {
	case due.IsZero():
	case due.After(store.MaxDue):
		at = store.Faultf("due", "due %s: it is past the year 9999", due.Format(time.RFC3339))
	case due.Before(time.UnixMilli(0)):
		at = store.Faultf("due", "due %s: it is before 1970", due.Format(time.RFC3339))
	}
	return errors.Join(both, early, at)
}
