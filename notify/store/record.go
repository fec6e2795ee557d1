package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Record is what Redis holds of a message beside its place: one line, a newline,
// and the body verbatim. The line is AT[,IN][,OBJECT]: when the message was published,
// in Unix milliseconds; how many milliseconds after that its first attempt is due, if
// that is later; and JSON of what else its publisher gave, if that is anything. A
// broadcast has no IN.
type Record struct {
	Published   time.Time         // by Redis's clock, to the millisecond
	FirstDue    time.Time         // due time of the first attempt, which a retry leaves; zero: a broadcast, which has none
	ContentType string            //
	Headers     map[string]string //
	TTL         time.Duration     // counted from the due time; zero: never expires
	MaxAttempts int               // limit of attempts; zero: the default
	Broadcast   bool              // for everyone who listens
	Body        []byte            //
}

// recordObject is the OBJECT of a record. carry.lua and nack.lua read "attempts",
// reschedule.lua and requeue.lua read "ttl", and requeue.lua reads "mode".
type recordObject struct {
	ContentType string            `json:"type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	TTL         int64             `json:"ttl,omitempty"`
	Attempts    int               `json:"attempts,omitempty"`
	Mode        string            `json:"mode,omitempty"` // empty, or ModeBroadcast
}

// How a line of JSON, and a record, tell whom a message is for.
const (
	ModeMessage   = "message"   // one worker
	ModeBroadcast = "broadcast" // everyone who listens
)

// Mode returns ModeBroadcast for a broadcast, and nothing for what is for one worker.
func (r Record) Mode() string {
	if r.Broadcast {
		return ModeBroadcast
	}
	return ""
}

// ErrRecord is the error of a record that is not what this package writes.
var ErrRecord = errors.New("unreadable record")

// EncodeTail returns the record as Redis holds it without its times, which only Redis knows.
func (r *Record) EncodeTail() (string, error) {
	if r.ContentType == "" && len(r.Headers) == 0 && r.TTL == 0 && r.MaxAttempts == 0 && !r.Broadcast {
		return "\n" + string(r.Body), nil
	}
	object, err := json.Marshal(recordObject{
		ContentType: r.ContentType, Headers: r.Headers,
		TTL: r.TTL.Milliseconds(), Attempts: r.MaxAttempts, Mode: r.Mode(),
	})
	if err != nil {
		return "", fmt.Errorf("encode record: %w", err)
	}
	return "," + string(object) + "\n" + string(r.Body), nil
}

// EncodeTimes returns the times that a record begins with, of a message that was
// published at one time and first due at another. Redis writes those of a new message.
func EncodeTimes(published, firstDue time.Time) string {
	at := published.UnixMilli()
	text := strconv.FormatInt(at, 10)
	if in := firstDue.UnixMilli() - at; in > 0 {
		text += "," + strconv.FormatInt(in, 10)
	}
	return text
}

// DecodeRecord reads a record as Redis holds it. What is not one is an ErrRecord.
func DecodeRecord(raw string) (Record, error) {
	line, body, ok := strings.Cut(raw, "\n")
	if !ok {
		return Record{}, fmt.Errorf("%w: it has no line before the body", ErrRecord)
	}
	times, object := line, ""
	if i := strings.Index(line, ",{"); i >= 0 {
		times, object = line[:i], line[i+1:]
	}
	at, in, ok := decodeTimes(times)
	if !ok || in > maxDueMs-at {
		return Record{}, fmt.Errorf("%w: its line does not begin with times, such as 1700000000000,90000", ErrRecord)
	}
	r := Record{Published: time.UnixMilli(at), FirstDue: time.UnixMilli(at + in), Body: []byte(body)}
	if object == "" {
		return r, nil
	}
	return r.withObject(object)
}

// decodeTimes reads AT[,IN]. An IN is more than zero.
func decodeTimes(text string) (at, in int64, ok bool) {
	first, second, delayed := strings.Cut(text, ",")
	at, ok = decodeMs(first)
	if ok && delayed {
		in, ok = decodeMs(second)
		ok = ok && in > 0
	}
	return at, in, ok
}

// decodeMs reads a number of milliseconds as Redis writes it: digits without zeros in front.
func decodeMs(digits string) (ms int64, ok bool) {
	if digits == "" || len(digits) > len("253402300799999") || digits[0] == '0' && digits != "0" {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		ms = 10*ms + int64(digits[i]-'0')
	}
	return ms, ms <= maxDueMs
}

// withObject returns the record with what the OBJECT of its line holds.
func (r Record) withObject(text string) (Record, error) {
	var object recordObject
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if object.TTL < 0 || object.TTL > math.MaxInt64/int64(time.Millisecond) || object.Attempts < 0 {
		return Record{}, fmt.Errorf("%w: a number in it is out of range", ErrRecord)
	}
	r.ContentType, r.Headers, r.MaxAttempts = object.ContentType, object.Headers, object.Attempts
	r.TTL = time.Duration(object.TTL) * time.Millisecond
	if r.Broadcast = object.Mode == ModeBroadcast; r.Broadcast {
		r.FirstDue = time.Time{}
	}
	return r, nil
}
