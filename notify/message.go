package notify

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store"
)

// Limits of a message.
const (
	MaxTopic       = 128       // bytes of a topic
	MaxID          = 128       // bytes of an id
	DefaultMaxBody = 256 << 10 // bytes of a body, unless PublisherOptions.MaxBody says otherwise
	MaxHeaders     = 64        // headers of a message
	MaxHeaderBytes = 8 << 10   // bytes of all header names and values of a message
	MostAttempts   = 1_000_000 // largest limit of attempts
	maxContentType = 255       // bytes of a content type
)

// Errors to branch on, with errors.Is.
var (
	ErrExists    = errors.New("id already in use") // the id belongs to a message that is waiting, leased or dead
	ErrNotFound  = errors.New("no such message")
	ErrLeased    = errors.New("message is leased") // a worker has it in hand
	ErrDead      = errors.New("message is dead")
	ErrLeaseLost = errors.New("lease lost") // the receipt is stale: the lease expired, or was settled already
)

// ErrTooLarge is the Fault of a body over the limit.
var ErrTooLarge = Faultf("body", "body")

// A Fault is an ErrInvalid that says which field is wrong. It is asked for with errors.As.
type Fault = store.Fault

// Faultf returns a Fault whose sentence is "invalid" and the formatted text.
func Faultf(field, format string, args ...any) error { return store.Faultf(field, format, args...) }

// A Message is what is published. The tags describe the fields that are given by
// name over HTTP, over NATS and as flags: there, and in the OpenAPI document, is what
// they say.
type Message struct {
	Topic string // required: tokens of A-Z a-z 0-9 _ - joined by dots, at most MaxTopic bytes
	Body  []byte // opaque; empty where the message is only a signal

	// ID is A-Z a-z 0-9 . _ ~ : -, at most MaxID bytes, not . or ..; empty: generated, sortable by time.
	ID string `field:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"names it, so that a publish may be repeated, a broadcast until it is sent; missing: one is made"`

	// Delay is in how long it is due after Redis has taken it, rounded up to a
	// millisecond. Due is the time, rounded up as well; in the past: at once, and due
	// since the publish; a broadcast keeps it. At most one of the two is given.
	Delay time.Duration `field:"delay" shortest:"0s" example:"30m" doc:"due so long after Redis has taken it"`
	Due   time.Time     `field:"due" without:"delay" example:"2030-01-02T15:04:05.678Z" doc:"due at this time; in the past: at once, and the answer tells since when. Give a delay, or this, or neither"`

	// TTL is how long after the due time it is buried as expired, cut to the millisecond; zero: never.
	TTL time.Duration `field:"ttl" of:"message" shortest:"1ms" example:"24h" doc:"time to live behind the due time; missing: for ever"`

	// MaxAttempts is the limit of attempts; zero: that of the topic's settings.
	MaxAttempts int `field:"attempts" of:"message" minimum:"1" maximum:"1000000" example:"5" doc:"limit of attempts; missing: that of the topic's settings"`

	// ContentType is that of the body, such as application/json.
	ContentType string `field:"content_type" is:"media type" maxLength:"255" example:"application/json" doc:"of the body; is kept with it"`

	Headers map[string]string // carried along; no two names are equal but for case

	// Broadcast says that it is for everyone who listens to the topic, instead of
	// for one worker. It has no TTL and no MaxAttempts.
	Broadcast bool

	// Restore is what it had in another store; nil: it is new.
	Restore *Restore
}

// maxDueMs is MaxDue in Unix milliseconds.
var maxDueMs = MaxDue.UnixMilli()

// record returns what Redis holds of a message beside its times.
func (m *Message) record() *Record {
	return &Record{
		ContentType: m.ContentType, Headers: m.Headers, TTL: m.TTL, MaxAttempts: m.MaxAttempts, Broadcast: m.Broadcast, Body: m.Body,
	}
}

// State is where a message stands.
type State = store.State

// The states of a message.
const (
	Scheduled = store.Scheduled // waits for its due time
	Ready     = store.Ready     // due, waits for a worker
	Leased    = store.Leased    // a worker has it
	Dead      = store.Dead      // out of attempts, expired or refused for good
)

// ParseState reads a state's name.
func ParseState(name string) (State, error) { return store.ParseState(name) }

var (
	topicGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	idGrammar    = regexp.MustCompile(`^[A-Za-z0-9._~:-]+$`)
	nameGrammar  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // a token of RFC 9110
)

// CheckTopic reports, as an ErrInvalid, what is wrong with a topic.
func CheckTopic(topic string) error {
	switch {
	case topic == "":
		return Faultf("topic", "topic: it is empty; name one, such as order.timeout")
	case len(topic) > MaxTopic:
		return Faultf("topic", "topic: %d bytes; at most %d are allowed", len(topic), MaxTopic)
	case !topicGrammar.MatchString(topic):
		return Faultf("topic", "topic %q: use tokens of letters, digits, _ and -, joined by single dots", topic)
	}
	return nil
}

// CheckID reports, as an ErrInvalid, what is wrong with an id.
func CheckID(id string) error {
	switch {
	case id == "":
		return Faultf("id", "id: it is empty")
	case len(id) > MaxID:
		return Faultf("id", "id: %d bytes; at most %d are allowed", len(id), MaxID)
	case !idGrammar.MatchString(id), id == ".", id == "..":
		return Faultf("id", "id %q: use letters, digits and . _ ~ : -, but not . or .. alone, which no URL can name", id)
	}
	return nil
}

// Member returns the name of a message everywhere in Redis, TOPIC:ID.
func Member(topic, id string) string { return topic + ":" + id }

// SplitMember takes a member apart at its first colon: a topic has none.
func SplitMember(member string) (topic, id string, err error) {
	topic, id, ok := strings.Cut(member, ":")
	if !ok {
		return "", "", Faultf("member", "member %.300q: it has no colon; a member is TOPIC:ID", member)
	}
	if err := CheckTopic(topic); err != nil {
		return "", "", fmt.Errorf("member %.300q: %w", member, err)
	}
	if err := CheckID(id); err != nil {
		return "", "", fmt.Errorf("member %.300q: %w", member, err)
	}
	return topic, id, nil
}

// check reports the first fault of a message as an ErrInvalid.
func (m *Message) check(maxBody int) error {
	if err := CheckTopic(m.Topic); err != nil {
		return err
	}
	if m.ID != "" {
		if err := CheckID(m.ID); err != nil {
			return err
		}
	}
	switch {
	case len(m.Body) > maxBody:
		return &Fault{Field: "body", Err: fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrTooLarge, len(m.Body), maxBody)}
	case m.Broadcast && m.TTL != 0:
		return Faultf("ttl", "ttl %v: a broadcast has none; leave it out", m.TTL)
	case m.Broadcast && m.MaxAttempts != 0:
		return Faultf("attempts", "attempts %d: a broadcast has none; leave it out", m.MaxAttempts)
	case m.TTL < 0:
		return Faultf("ttl", "ttl %v: it is negative; leave it out for a message that never expires", m.TTL)
	case m.TTL > 0 && m.TTL < time.Millisecond:
		return Faultf("ttl", "ttl %v: the shortest is 1ms", m.TTL)
	case m.MaxAttempts < 0 || m.MaxAttempts > MostAttempts:
		return Faultf("attempts", "attempts %d: use 1 to %d, or 0 for the default", m.MaxAttempts, MostAttempts)
	}
	if err := CheckContentType(m.ContentType); err != nil {
		return err
	}
	if err := checkWhen(m.Delay, m.Due); err != nil {
		return err
	}
	if err := checkHeaders(m.Headers); err != nil {
		return err
	}
	return m.checkRestore()
}

// checkWhen reports what is wrong with a delay and a due time, of which at most one is given.
func checkWhen(delay time.Duration, due time.Time) error {
	switch {
	case delay != 0 && !due.IsZero():
		return Faultf("due", "delay and due: both are given; give one of them")
	case delay < 0:
		return Faultf("delay", "delay %v: it is negative; use zero or more", delay)
	case due.IsZero():
		return nil
	case due.After(MaxDue):
		return Faultf("due", "due %s: it is past the year 9999", due.Format(time.RFC3339))
	case due.Before(time.UnixMilli(0)):
		return Faultf("due", "due %s: it is before 1970", due.Format(time.RFC3339))
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return Faultf("headers", "headers: %d of them; at most %d are allowed", len(headers), MaxHeaders)
	}
	size := 0
	names := make(map[string]string, len(headers)) // by themselves in lower case
	for name, value := range headers {
		size += len(name) + len(value)
		if err := CheckHeader(name, value); err != nil {
			return err
		}
		lower := strings.ToLower(name)
		if other, twice := names[lower]; twice {
			return Faultf("headers", "headers %.100s and %.100s: names are equal without regard to case; give one of them", min(name, other), max(name, other))
		}
		names[lower] = name
	}
	if size > MaxHeaderBytes {
		return Faultf("headers", "headers: %d bytes in all; at most %d are allowed", size, MaxHeaderBytes)
	}
	return nil
}

// CheckContentType reports, as an ErrInvalid, what is wrong with a content type; empty is right.
func CheckContentType(text string) error {
	if len(text) > maxContentType || !printable(text) {
		return Faultf("content_type", "content type %.100q: use printable text of at most %d bytes", text, maxContentType)
	}
	return nil
}

// CheckHeader reports, as an ErrInvalid, what is wrong with a header that is carried along.
func CheckHeader(name, value string) error {
	if !nameGrammar.MatchString(name) {
		return Faultf("headers", "header name %.100q: use letters, digits and the signs !#$%%&'*+.^_`|~-", name)
	}
	if !printable(value) {
		return Faultf("headers", "header %.100s: its value is not printable UTF-8 text", name)
	}
	return nil
}

// printable reports whether s is UTF-8 without control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
