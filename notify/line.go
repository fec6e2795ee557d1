package notify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// A Line is a message as one line of JSON: what bulk publishing reads, and what
// the export of dead letters writes, so that an export can be published again.
type Line struct {
	Topic       string            `json:"topic"`
	Mode        string            `json:"mode,omitempty"` // message, which is the default, or broadcast
	ID          string            `json:"id,omitempty"`
	Delay       string            `json:"delay,omitempty"` // such as 90s or 1h30m
	Due         *time.Time        `json:"due,omitempty"`   // RFC 3339
	TTL         string            `json:"ttl,omitempty"`   // such as 24h
	Attempts    int               `json:"attempts,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Body        string            `json:"body,omitempty"`        // text; or
	BodyBase64  []byte            `json:"body_base64,omitempty"` // anything

	// Of a dead letter. Publishing ignores them.
	Died         *time.Time `json:"died,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	AttemptsUsed int        `json:"attempts_used,omitempty"`
}

// ParseLine reads a message from a line of JSON. The error is an ErrInvalid
// that names the field. The message is checked when it is published.
func ParseLine(raw []byte) (Message, error) {
	if !utf8.Valid(raw) {
		return Message{}, fmt.Errorf("%w line: it is not UTF-8; write other bytes as body_base64", ErrInvalid)
	}
	var line Line
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		return Message{}, fmt.Errorf("%w line: %s; write a JSON object such as {\"topic\":\"orders\",\"delay\":\"30s\",\"body\":\"hello\"}", ErrInvalid, jsonFault(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Message{}, fmt.Errorf("%w line: something follows the JSON object; write one object a line", ErrInvalid)
	}
	m := Message{
		Topic: line.Topic, ID: line.ID, MaxAttempts: line.Attempts,
		Headers: line.Headers, ContentType: line.ContentType, Body: []byte(line.Body),
	}
	switch line.Mode {
	case "", ModeMessage:
	case ModeBroadcast:
		m.Broadcast = true
	default:
		return m, fmt.Errorf("%w mode %.100q: use message or broadcast, or leave it out", ErrInvalid, line.Mode)
	}
	if len(line.BodyBase64) > 0 {
		if line.Body != "" {
			return m, fmt.Errorf("%w body and body_base64: both are given; give one of them", ErrInvalid)
		}
		m.Body = line.BodyBase64
	}
	if line.Due != nil {
		m.Due = *line.Due
		if m.Due.IsZero() { // which would stand for no due time
			return m, fmt.Errorf("%w due %s: it is before 1970", ErrInvalid, m.Due.Format(time.RFC3339))
		}
		if line.Delay != "" {
			return m, fmt.Errorf("%w delay and due: both are given; give one of them", ErrInvalid)
		}
	}
	var errDelay, errTTL error
	m.Delay, errDelay = ParseDuration("delay", line.Delay)
	m.TTL, errTTL = ParseDuration("ttl", line.TTL)
	return m, errors.Join(errDelay, errTTL)
}

// jsonFault says what is wrong with a line in the words of who wrote it.
func jsonFault(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		want := map[reflect.Kind]string{reflect.Int: "number", reflect.Map: "object"}[kind.Type.Kind()]
		return fmt.Sprintf("%s is a JSON %s, and should be a JSON %s", kind.Field, kind.Value, cmp.Or(want, "string"))
	case errors.As(err, &kind):
		return "it is a JSON " + kind.Value
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it is not JSON"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// ParseDuration reads a duration of a named field, such as 90s or 1h30m; an
// empty one is zero. The error is an ErrInvalid that names the field.
func ParseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%w %s %.100q: write a duration such as 500ms, 90s or 1h30m; the largest unit is h, so a day is 24h", ErrInvalid, field, text)
	}
	return d, nil
}

// Line returns a message that was looked at as a line of JSON. A record that
// cannot be read is the body as a whole.
func (i Info) Line() Line {
	line := Line{
		Topic: i.Topic, ID: i.ID, Mode: modeOf(i.Broadcast), Attempts: i.MaxAttempts, Headers: i.Headers, ContentType: i.ContentType,
		Reason: i.Reason, AttemptsUsed: i.Attempts,
	}
	if i.TTL > 0 {
		line.TTL = i.TTL.String()
	}
	if !i.Died.IsZero() {
		line.Died = &i.Died
	}
	if utf8.Valid(i.Body) {
		line.Body = string(i.Body)
	} else {
		line.BodyBase64 = i.Body
	}
	return line
}
