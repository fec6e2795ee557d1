package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Record is what Redis holds of a message beside its times: one line of JSON,
// a newline, and the body verbatim. It never changes while the message lives.
type Record struct {
	Published   time.Time         // by Redis's clock, to the millisecond
	ContentType string            //
	Headers     map[string]string //
	TTL         time.Duration     // counted from the due time; zero: never expires
	MaxAttempts int               // limit of attempts; zero: the default
	Broadcast   bool              // for everyone who listens
	Body        []byte            //
}

// recordLine is the JSON line of a record. The script that publishes puts
// "at" in front; carry.lua and nack.lua read "attempts", reschedule.lua and
// requeue.lua read "ttl", and requeue.lua reads "mode".
type recordLine struct {
	At          int64             `json:"at,omitempty"`
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

// EncodeTail returns the record as Redis holds it without its beginning, {"at":MS, which only Redis knows.
func (r *Record) EncodeTail() (string, error) {
	if r.ContentType == "" && len(r.Headers) == 0 && r.TTL == 0 && r.MaxAttempts == 0 && !r.Broadcast {
		return "}\n" + string(r.Body), nil
	}
	line, err := json.Marshal(recordLine{
		ContentType: r.ContentType, Headers: r.Headers,
		TTL: r.TTL.Milliseconds(), Attempts: r.MaxAttempts, Mode: r.Mode(),
	})
	if err != nil {
		return "", fmt.Errorf("encode record: %w", err)
	}
	line[0] = ',' // the brace that opens stands in what the script writes
	return string(line) + "\n" + string(r.Body), nil
}

// DecodeRecord reads a record as Redis holds it. What is not one is an ErrRecord.
func DecodeRecord(raw string) (Record, error) {
	line, body, _ := strings.Cut(raw, "\n")
	if at, ok := plainTime(line); ok && len(raw) > len(line) {
		return Record{Published: time.UnixMilli(at), Body: []byte(body)}, nil
	}
	return decodeFull([]byte(raw))
}

// plainTime reads a line that holds nothing but the time, as that of nearly
// every record does, without the cost of reading JSON.
func plainTime(line string) (at int64, ok bool) {
	digits, before := strings.CutPrefix(line, `{"at":`)
	digits, behind := strings.CutSuffix(digits, "}")
	at, err := strconv.ParseInt(digits, 10, 64)
	return at, before && behind && err == nil && at >= 0 && at <= maxDueMs && strconv.FormatInt(at, 10) == digits
}

// decodeFull reads a record whose line holds more than the time.
func decodeFull(raw []byte) (Record, error) {
	head, body, ok := bytes.Cut(raw, []byte("\n"))
	if !ok {
		return Record{}, fmt.Errorf("%w: it has no line of JSON before the body", ErrRecord)
	}
	var line recordLine
	if err := json.Unmarshal(head, &line); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if line.At < 0 || line.At > maxDueMs || line.TTL < 0 || line.TTL > math.MaxInt64/int64(time.Millisecond) || line.Attempts < 0 {
		return Record{}, fmt.Errorf("%w: a number in it is out of range", ErrRecord)
	}
	return Record{
		Published: time.UnixMilli(line.At), ContentType: line.ContentType, Headers: line.Headers,
		TTL: time.Duration(line.TTL) * time.Millisecond, MaxAttempts: line.Attempts, Broadcast: line.Mode == ModeBroadcast, Body: body,
	}, nil
}
