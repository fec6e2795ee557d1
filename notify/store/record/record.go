// Package record says what a message is: its names and their grammar, its limits, its times and
// states, and how Redis holds its record and its attempts. It makes no calls.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Record is what Redis holds of a message beside its place: [+]AT[,IN][,OBJECT], a
// newline, and the body verbatim. AT is the time of the publish in Unix
// milliseconds. IN is how many milliseconds later the first attempt is due, if that
// is more than 0; a broadcast has none. OBJECT is JSON of what else the publisher
// set, if anything. A + says that a claim, or the sending of a broadcast, depends on
// OBJECT, which is not read otherwise.
type Record struct {
	Published   time.Time // by Redis's clock, to the millisecond
	FirstDue    time.Time // due time of the first attempt, which a retry does not change; zero for a broadcast
	Key         string    // what the message is about; empty: nothing
	IfBusy      string    // wait, or drop: what becomes of it when it is due, and another of its key is under way; empty: wait
	Group       string    // the group of its topic in which it is; empty: none
	AfterGroup  string    // TOPIC:GROUP of that which it waits for; empty: none
	OnDead      string    // stop, or go: what a dead letter of that does; empty: stop
	ContentType string
	Headers     map[string]string
	TTL         time.Duration // counted from the due time; zero: never expires
	MaxAttempts int           // limit of attempts; zero: that of the topic's settings
	Lease       time.Duration // that a claim gives; zero: that of the claim, or of the topic's settings
	TryTimeout  time.Duration // of an attempt, from its claim on; zero: none
	UniqueFor   time.Duration // how long the id stays taken after the end; zero: not at all
	Fail        Fail          // what becomes of it when its attempts or its time to live end
	LateAfter   time.Duration // counted from FirstDue; zero: never late
	Late        Late          // what becomes of it when it is claimed later than that
	Broadcast   bool          // for everyone who listens
	Body        []byte
}

// Fail says what becomes of a message at its last failed attempt, and at the end of its
// time to live.
type Fail string

// The values of Fail. An empty one is FailBury.
const (
	FailBury Fail = "bury" // it is a dead letter, kept with the reason
	FailDrop Fail = "drop" // it is counted, and gone
)

// Late says what becomes of a message that is claimed too late.
type Late string

// The values of Late. An empty one is LateBury.
const (
	LateDrop Late = "drop" // it is counted, and gone
	LateBury Late = "bury" // it is a dead letter with the reason late
)

// recordObject is the OBJECT of a record. options_of of lua/shared/messages.lua reads all
// but the content type and the headers.
type recordObject struct {
	Key         string            `json:"key,omitempty"`
	IfBusy      string            `json:"if_busy,omitempty"`
	Group       string            `json:"group,omitempty"`
	AfterGroup  string            `json:"after_group,omitempty"`
	OnDead      string            `json:"on_dead,omitempty"`
	ContentType string            `json:"type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	TTL         int64             `json:"ttl,omitempty"`
	Attempts    int               `json:"attempts,omitempty"`
	Lease       int64             `json:"lease,omitempty"`
	Try         int64             `json:"try,omitempty"`
	Unique      int64             `json:"unique,omitempty"`
	Fail        Fail              `json:"fail,omitempty"`
	LateAfter   int64             `json:"late_after,omitempty"`
	Late        Late              `json:"late,omitempty"`
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
	if r.isPlain() {
		return "\n" + string(r.Body), nil
	}
	object, err := json.Marshal(recordObject{
		Key: r.Key, IfBusy: r.IfBusy, Group: r.Group, AfterGroup: r.AfterGroup, OnDead: r.OnDead, ContentType: r.ContentType, Headers: r.Headers,
		TTL: r.TTL.Milliseconds(), Attempts: r.MaxAttempts, Mode: r.Mode(),
		Lease: r.Lease.Milliseconds(), Try: r.TryTimeout.Milliseconds(), Unique: r.UniqueFor.Milliseconds(),
		Fail: r.Fail, LateAfter: r.LateAfter.Milliseconds(), Late: r.Late,
	})
	if err != nil {
		return "", fmt.Errorf("encode record: %w", err)
	}
	return "," + string(object) + "\n" + string(r.Body), nil
}

// isPlain reports whether the record has no OBJECT.
func (r *Record) isPlain() bool {
	return r.Key == "" && r.Group == "" && r.AfterGroup == "" && r.ContentType == "" && len(r.Headers) == 0 && r.TTL == 0 && r.MaxAttempts == 0 && !r.Broadcast &&
		r.UniqueFor == 0 && r.Fail == "" && !r.IsMarked()
}

// IsMarked reports whether the record begins with a +.
func (r *Record) IsMarked() bool {
	if r.Broadcast {
		return r.TTL > 0 || r.UniqueFor > 0
	}
	return r.Lease > 0 || r.TryTimeout > 0 || r.LateAfter > 0
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

// Decode reads a record as Redis holds it. The error is an ErrRecord.
func Decode(raw string) (Record, error) {
	head, body, ok := strings.Cut(raw, "\n")
	if !ok {
		return Record{}, fmt.Errorf("%w: it has no newline before the body", ErrRecord)
	}
	head, marked := strings.CutPrefix(head, "+")
	times, object := head, ""
	if i := strings.Index(head, ",{"); i >= 0 {
		times, object = head[:i], head[i+1:]
	}
	at, in, ok := decodeTimes(times)
	if !ok || in > MaxDueMs-at {
		return Record{}, fmt.Errorf("%w: it does not begin with times, such as 1700000000000,90000", ErrRecord)
	}
	r := Record{Published: time.UnixMilli(at), FirstDue: time.UnixMilli(at + in), Body: []byte(body)}
	switch {
	case object != "":
		return r.withObject(object)
	case marked:
		return Record{}, fmt.Errorf("%w: it begins with a +, and has no object", ErrRecord)
	}
	return r, nil
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
	return ms, ms <= MaxDueMs
}

// withObject returns the record with what its OBJECT holds.
func (r Record) withObject(text string) (Record, error) {
	var object recordObject
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	for _, n := range []int64{object.TTL, object.Lease, object.Try, object.Unique, object.LateAfter, int64(object.Attempts)} {
		if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
			return Record{}, fmt.Errorf("%w: a number in it is out of range", ErrRecord)
		}
	}
	r.Key, r.IfBusy, r.ContentType, r.Headers, r.MaxAttempts = object.Key, object.IfBusy, object.ContentType, object.Headers, object.Attempts
	r.Group, r.AfterGroup, r.OnDead = object.Group, object.AfterGroup, object.OnDead
	r.TTL, r.Lease, r.TryTimeout, r.UniqueFor = Ms(object.TTL), Ms(object.Lease), Ms(object.Try), Ms(object.Unique)
	r.Fail, r.LateAfter, r.Late = object.Fail, Ms(object.LateAfter), object.Late
	if r.Broadcast = object.Mode == ModeBroadcast; r.Broadcast {
		r.FirstDue = time.Time{}
	}
	return r, nil
}
