package notify

import (
	"errors"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/strictjson"
)

// A Line is a message as one line of JSON: what bulk publishing reads, and what
// the export of dead letters writes, so that an export can be published again.
type Line struct {
	Topic       string            `json:"topic"`
	Mode        string            `json:"mode,omitempty"` // message, which is the default, or broadcast
	ID          string            `json:"id,omitempty"`
	Delay       string            `json:"delay,omitempty"` // such as 90s, 1h30m or 1d
	Due         *time.Time        `json:"due,omitempty"`   // RFC 3339
	TTL         string            `json:"ttl,omitempty"`   // such as 24h
	Attempts    int               `json:"attempts,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Body        *string           `json:"body,omitempty" nullable:"false"` // text, which may be empty; or
	BodyBase64  []byte            `json:"body_base64,omitempty"`           // anything

	// Of a dead letter. Publishing ignores them: what died is a message again.
	FirstDue     *time.Time `json:"first_due,omitempty"`
	Died         *time.Time `json:"died,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	AttemptsUsed int        `json:"attempts_used,omitempty"`

	// Of a message in the export of a whole store, which ParseExported reads.
	Restore *Restore `json:"restore,omitempty" hidden:"true"`
}

// ParseLine reads a message from a line of JSON. The error is an ErrInvalid
// that names the field. The message is checked when it is published. What another
// store knew of a message is refused: it is for who may write the whole store.
func ParseLine(raw []byte) (Message, error) {
	m, err := ParseExported(raw)
	if err == nil && m.Restore != nil {
		return Message{}, Faultf("restore", "restore: only bellhop publish --file takes it, from an export; leave it out to publish a new message")
	}
	return m, err
}

// ParseExported is ParseLine for a line that may be one of [Publisher.Export].
func ParseExported(raw []byte) (Message, error) {
	var line Line
	if err := strictjson.Decode(raw, &line); err != nil {
		return Message{}, Faultf(strictjson.FieldOf(err, "line"), "line: %w; write one JSON object a line, such as {\"topic\":\"orders\",\"delay\":\"30s\",\"body\":\"hello\"}, and what is not UTF-8 as body_base64", err)
	}
	m := Message{
		Topic: line.Topic, ID: line.ID, MaxAttempts: line.Attempts,
		Headers: line.Headers, ContentType: line.ContentType, Restore: line.Restore,
	}
	switch line.Mode {
	case "", ModeMessage:
	case ModeBroadcast:
		m.Broadcast = true
	default:
		return m, Faultf("mode", "mode %.100q: use message or broadcast, or leave it out", line.Mode)
	}
	if line.Due != nil {
		m.Due = *line.Due
		if m.Due.IsZero() { // which would stand for no due time
			return m, Faultf("due", "due %s: it is before 1970", m.Due.Format(time.RFC3339))
		}
		if line.Delay != "" {
			return m, Faultf("due", "delay and due: both are given; give one of them")
		}
	}
	var errDelay, errTTL, errBody error
	m.Delay, errDelay = ParseDuration("delay", line.Delay)
	m.TTL, errTTL = ParseDuration("ttl", line.TTL)
	m.Body, errBody = line.body()
	return m, errors.Join(errDelay, errTTL, errBody)
}

// body returns the body, of which exactly one name is given.
func (l *Line) body() ([]byte, error) {
	switch {
	case l.Body == nil && l.BodyBase64 == nil:
		return nil, Faultf("body", "body: it is missing; give body or body_base64, \"\" for an empty one")
	case l.Body != nil && l.BodyBase64 != nil:
		return nil, Faultf("body", "body and body_base64: both are given; give one of them")
	case l.Body != nil:
		return []byte(*l.Body), nil
	}
	return l.BodyBase64, nil
}

// Line returns a message that was looked at as a line of JSON. A record that
// cannot be read is the body as a whole; where there is none the line has no body,
// so it is refused where it is published.
func (i Info) Line() Line {
	line := Line{
		Topic: i.Topic, ID: i.ID, Mode: i.Mode(), Attempts: i.MaxAttempts, Headers: i.Headers, ContentType: i.ContentType,
		Reason: i.Reason, AttemptsUsed: i.Attempts,
	}
	if i.TTL > 0 {
		line.TTL = i.TTL.String()
	}
	if !i.Died.IsZero() {
		died := i.Died.UTC()
		line.Died = &died
		if first := i.FirstDue.UTC(); !first.IsZero() {
			line.FirstDue = &first
		}
	}
	switch text := string(i.Body); {
	case i.lost():
	case utf8.ValidString(text):
		line.Body = &text
	default:
		line.BodyBase64 = i.Body
	}
	return line
}
