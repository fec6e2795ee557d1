package notify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// A Line is a message as one line of JSON. Bulk publishing reads lines and exports
// write them, so an export can be published again.
type Line struct {
	Topic       string            `json:"topic"`
	Mode        string            `json:"mode,omitempty" enum:"message,broadcast"` // message is the default
	ID          string            `json:"id,omitempty"`
	Key         string            `json:"key,omitempty"`
	IfBusy      string            `json:"if_busy,omitempty"`
	Group       string            `json:"group,omitempty"`
	AfterGroup  string            `json:"after_group,omitempty"`
	OnDead      string            `json:"on_dead,omitempty"`
	Delay       string            `json:"delay,omitempty"` // such as 90s, 1h30m or 1d
	Due         *time.Time        `json:"due,omitempty"`   // RFC 3339, or with a zone without an offset, such as 2030-01-02T08:00
	Zone        string            `json:"zone,omitempty"`
	Spread      string            `json:"spread,omitempty"` // such as 10m
	TTL         string            `json:"ttl,omitempty"`    // such as 24h
	MaxAttempts int               `json:"attempts,omitempty"`
	Lease       string            `json:"lease,omitempty"`
	TryTimeout  string            `json:"try_timeout,omitempty"`
	Fail        Fail              `json:"fail,omitempty"`
	LateAfter   string            `json:"late_after,omitempty"`
	Late        Late              `json:"late,omitempty"`
	IfExists    IfExists          `json:"if_exists,omitempty"`
	MaxWait     string            `json:"max_wait,omitempty"`
	Then        Then              `json:"then,omitempty"`
	UniqueFor   string            `json:"unique_for,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Body        *string           `json:"body,omitempty" nullable:"false"` // text, which may be empty; or
	BodyBase64  []byte            `json:"body_base64,omitempty"`           // anything

	// Of a dead letter. Publishing ignores them and makes a new message of it.
	FirstDue     *time.Time `json:"first_due,omitempty"`
	Died         *time.Time `json:"died,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	AttemptsUsed int        `json:"attempts_used,omitempty"`

	// Of a message in the export of a whole store. ParseExported reads it.
	Restore *Restore `json:"restore,omitempty" hidden:"true"`
}

// ParseLine reads a message from a line of JSON. The error is a joined Fault for each
// wrong field. Publishing checks the message as a whole. A restore field is refused:
// that takes the right to write the whole store.
func ParseLine(raw []byte) (Message, error) {
	m, err := ParseExported(raw)
	if err == nil && m.Restore != nil {
		return Message{}, fault.New("restore", "restore: it is part of an export, and nothing is restored here; leave it out to publish a new message")
	}
	return m, err
}

// ParseExported is ParseLine for a line that may be one of [Inspector.Export].
func ParseExported(raw []byte) (Message, error) {
	var l LineReader
	if err := strictjson.Members(raw, l.Read); err != nil {
		return Message{}, lineFault(err)
	}
	return l.Message()
}

// ParseAsked reads a message that stands in a row: asked has, unless it is nil, all members of its line but the topic, the id and the body. The
// error is that of ParseLine.
func ParseAsked(topic, id string, body, asked []byte) (Message, error) {
	l := LineReader{m: Message{Topic: topic, ID: id, Body: body}, text: true}
	if asked != nil {
		if err := strictjson.Members(asked, l.Read); err != nil {
			return Message{}, lineFault(err)
		}
	}
	m, err := l.Message()
	m.Topic, m.ID, m.Body, m.Restore = topic, id, body, nil
	return m, err
}

// A LineReader reads the members of a line into a message: described fields as HTTP,
// NATS and flags read them, the others as Line defines them. It is for a caller that has
// other members beside these.
type LineReader struct {
	m             Message
	given         uint64 // a bit for each described field, by index
	text, encoded bool   // whether body is given, and body_base64
	faults        []error
}

func (l *LineReader) add(fault error) {
	if fault != nil {
		l.faults = append(l.faults, fault)
	}
}

// Read reads a member. A null counts as not given.
func (l *LineReader) Read(member strictjson.Member) { l.add(l.read(member)) }

// Message returns the message. The error is a joined Fault for each wrong field.
func (l *LineReader) Message() (Message, error) {
	l.finish()
	return l.m, errors.Join(l.faults...)
}

func (l *LineReader) read(member strictjson.Member) error {
	names := lineNames()
	i, known := names[string(member.Name)]
	if !known {
		for name, index := range names {
			if strings.EqualFold(name, string(member.Name)) { // as encoding/json reads it
				member.Name, i, known = []byte(name), index, true
			}
		}
	}
	switch name := string(member.Name); {
	case member.IsNull() && known:
		return nil
	case known && i >= 0:
		return l.field(i, member)
	case name == "topic":
		return l.topic(member)
	case name == "mode":
		return l.mode(member)
	case name == "body":
		return l.body(member)
	case name == "body_base64":
		return l.bodyBase64(member)
	case name == "headers":
		return l.headers(member)
	case name == "restore":
		return l.restore(member)
	}
	return asLine(member) // ignored, or unknown
}

// lineNames returns the names of a line's fields, each with its index among the
// described fields, or -1 if only Line has it.
var lineNames = sync.OnceValue(func() map[string]int {
	all := make(map[string]int)
	for field := range reflect.TypeFor[Line]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all[name] = -1
	}
	for i, f := range lineFields() {
		all[f.Name] = i
	}
	return all
})

// lineFields returns the described fields, by index.
var lineFields = sync.OnceValue(func() []fields.Field {
	all := slices.Clone(fields.In[Message]())
	for i := range all {
		all[i] = all[i].OrZero()
	}
	return all
})

// field reads a described field. An empty text or a zero counts as not given.
func (l *LineReader) field(i int, member strictjson.Member) error {
	f := &lineFields()[i]
	text, err := f.TextIn(member)
	if err != nil {
		return lineFault(err)
	}
	if len(text) == 0 {
		return nil
	}
	l.given |= 1 << i
	return f.Set(reflect.ValueOf(&l.m).Elem(), string(text))
}

func (l *LineReader) topic(member strictjson.Member) error {
	text, err := member.Text()
	l.m.Topic = string(text)
	return lineFault(err)
}

func (l *LineReader) mode(member strictjson.Member) error {
	text, err := member.Text()
	if l.m.Broadcast = string(text) == record.ModeBroadcast; l.m.Broadcast || len(text) == 0 || string(text) == record.ModeMessage {
		return lineFault(err)
	}
	return fault.New("mode", "mode %.100q: use message or broadcast, or leave it out", text)
}

func (l *LineReader) body(member strictjson.Member) error {
	text, err := member.Text()
	l.text = true
	l.m.Body = append([]byte{}, text...) // the text may be part of a buffer of many lines
	return lineFault(err)
}

func (l *LineReader) bodyBase64(member strictjson.Member) error {
	l.encoded = true
	text, err := member.Text()
	if err == nil {
		l.m.Body, err = base64.StdEncoding.AppendDecode([]byte{}, text)
	}
	if err != nil {
		return asLine(member)
	}
	return nil
}

func (l *LineReader) headers(member strictjson.Member) (err error) {
	l.m.Headers, err = member.Texts()
	return lineFault(err)
}

func (l *LineReader) restore(member strictjson.Member) error {
	decoder := json.NewDecoder(bytes.NewReader(member.Value))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&l.m.Restore) != nil {
		return asLine(member)
	}
	return nil
}

// asLine returns a Fault if a member does not fit into a Line.
func asLine(member strictjson.Member) error { return lineFault(member.Decode(new(Line))) }

// finish refuses fields that exclude each other, and a missing body. If the line is
// refused anyway, it adds the faults that publishing would find.
func (l *LineReader) finish() {
	for i := range lineFields() {
		f := &lineFields()[i]
		if f.Without != "" && l.given&(1<<i) != 0 && l.given&(1<<lineNames()[f.Without]) != 0 {
			l.add(fault.New(f.Name, "%s and %s: both are given; give one of them", f.Without, f.Name))
		}
	}
	switch {
	case l.text && l.encoded:
		l.add(fault.New("body", "body and body_base64: both are given; give one of them"))
	case !l.text && !l.encoded:
		l.add(fault.New("body", "body: it is missing; give body or body_base64, \"\" for an empty one"))
	}
	if len(l.faults) > 0 {
		var known []string
		for _, f := range fault.All(errors.Join(l.faults...)) {
			known = append(known, f.Field)
		}
		l.add(l.m.Faults(known...))
	}
}

// lineFault returns the Fault for an error in the JSON of a line, nil for nil.
func lineFault(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(strictjson.FieldOf(err, "line"), "line: %w; write one JSON object a line, such as {\"topic\":\"orders\",\"delay\":\"30s\",\"body\":\"hello\"}, and what is not UTF-8 as body_base64", err)
}

// Line returns an inspected message as a line of JSON. If the record cannot be read,
// all of it is the body. If it is missing, the line has no body, and publishing
// refuses it.
func (i Info) Line() Line {
	line := Line{Topic: i.Topic, ID: i.ID, Mode: i.Mode(), Reason: i.Reason, AttemptsUsed: i.Attempts}
	fields.Fill(&line, &i.Record, "FirstDue", "Body")
	if store.ScheduleOfKey(i.Key) != "" { // no message has it that is published
		line.Key, line.IfBusy = "", ""
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
