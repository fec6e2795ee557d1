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

// A Record is what Redis holds of a message beside its place: AT[,IN][,OBJECT], a
// newline, and the body verbatim. AT is the time of the publish in Unix
// milliseconds. IN is how many milliseconds later the first attempt is due, if that
// is more than 0; a broadcast has none. OBJECT is JSON of what else the publisher
// set, if anything.
type Record struct {
	Published   time.Time // by Redis's clock, to the millisecond
	FirstDue    time.Time // due time of the first attempt, which a retry does not change; zero for a broadcast
	ContentType string
	Headers     map[string]string
	TTL         time.Duration // counted from the due time; zero: never expires
	MaxAttempts int           // limit of attempts; zero: that of the topic's settings
	Broadcast   bool          // for everyone who listens
	Body        []byte
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

// The modes of a message in a line of JSON, and in a record.
const (
	ModeMessage   = "message"   // for one worker
	ModeBroadcast = "broadcast" // for everyone who listens
)

// Mode returns ModeBroadcast for a broadcast, and an empty string for a message to
// one worker.
func (r Record) Mode() string {
	if r.Broadcast {
		return ModeBroadcast
	}
	return ""
}

// ErrRecord is the error of a record that is not what this package writes.
var ErrRecord = errors.New("unreadable record")

// EncodeTail returns the record as Redis holds it, without its times, which only
// Redis knows. The error is that of encoding JSON.
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

// EncodeTimes returns the times at the beginning of the record of an exported
// message. For a new message Redis writes them.
func EncodeTimes(published, firstDue time.Time) string {
	at := published.UnixMilli()
	text := strconv.FormatInt(at, 10)
	if in := firstDue.UnixMilli() - at; in > 0 {
		text += "," + strconv.FormatInt(in, 10)
	}
	return text
}

// DecodeRecord reads a record as Redis holds it. The error is an ErrRecord.
func DecodeRecord(raw string) (Record, error) {
	head, body, ok := strings.Cut(raw, "\n")
	if !ok {
		return Record{}, fmt.Errorf("%w: it has no newline before the body", ErrRecord)
	}
	times, object := head, ""
	if i := strings.Index(head, ",{"); i >= 0 {
		times, object = head[:i], head[i+1:]
	}
	at, in, ok := decodeTimes(times)
	if !ok || in > maxDueMs-at {
		return Record{}, fmt.Errorf("%w: it does not begin with times, such as 1700000000000,90000", ErrRecord)
	}
	r := Record{Published: time.UnixMilli(at), FirstDue: time.UnixMilli(at + in), Body: []byte(body)}
	if object == "" {
		return r, nil
	}
	return r.withObject(object)
}

// decodeTimes reads AT[,IN]. An IN must be more than zero.
func decodeTimes(text string) (at, in int64, ok bool) {
	first, second, delayed := strings.Cut(text, ",")
	at, ok = decodeMs(first)
	if ok && delayed {
		in, ok = decodeMs(second)
		ok = ok && in > 0
	}
	return at, in, ok
}

// decodeMs reads a number of milliseconds as Redis writes it: digits without leading zeros.
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

// withObject returns the record with what its OBJECT holds.
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
