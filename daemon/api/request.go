package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// Claim asks for messages of a topic.
type Claim struct {
	Max   int    `json:"max"`   // messages at the most
	Lease string `json:"lease"` // such as 30s; empty: as configured
}

// Name names a message of a topic: to be cancelled, or looked at.
type Name struct {
	ID string `json:"id"`
}

// Reschedule gives a message of a topic another due time; with neither a delay
// nor a time it is due at once.
type Reschedule struct {
	ID    string `json:"id"`
	Delay string `json:"delay"` // such as 90s
	Due   string `json:"due"`   // RFC 3339
}

// When returns the delay and the due time, each zero if it is not given. The
// error is a notify.ErrInvalid that names the field.
func (r Reschedule) When() (delay time.Duration, due time.Time, err error) {
	if delay, err = notify.ParseDuration("delay", r.Delay); err != nil {
		return 0, time.Time{}, err
	}
	if r.Due == "" {
		return delay, time.Time{}, nil
	}
	due, err = ParseTime("due", r.Due)
	return delay, due, err
}

// timeGrammar is that of RFC 3339: time.Parse takes 1:02:03,4Z, too, and any offset.
var timeGrammar = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTime reads a time of a named field, as RFC 3339 has it. The error is a
// notify.ErrInvalid that names the field.
func ParseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timeGrammar.MatchString(text) {
		return time.Time{}, fmt.Errorf("%w %s %.100q: write a time such as 2030-01-02T15:04:05Z or 2030-01-02T15:04:05.678+02:00", notify.ErrInvalid, field, text)
	}
	if t.IsZero() { // which would stand for no time
		return time.Time{}, fmt.Errorf("%w %s %s: it is before 1970", notify.ErrInvalid, field, text)
	}
	return t, nil
}

// Decode reads a request, one JSON object, into a struct that holds the
// defaults. The error is a notify.ErrInvalid that names the field.
func Decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return refuse(into, "it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '{' {
		return refuse(into, "it is not a JSON object")
	}
	if err := decoder.Decode(into); err != nil {
		return refuse(into, jsonFault(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return refuse(into, "something follows the JSON object")
	}
	return nil
}

// refuse says what is wrong with a request, and which fields it may have.
func refuse(into any, fault string) error {
	var fields []string
	of := reflect.TypeOf(into).Elem()
	for i := range of.NumField() {
		fields = append(fields, of.Field(i).Tag.Get("json"))
	}
	return fmt.Errorf("%w request: %s; write one JSON object whose fields are %s", notify.ErrInvalid, fault, strings.Join(fields, ", "))
}

// jsonFault says what is wrong with JSON in the words of who wrote it.
func jsonFault(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		want := "string"
		if kind.Type.Kind() == reflect.Int {
			want = "whole number"
		}
		return fmt.Sprintf("%s is a JSON %s, and should be a %s", kind.Field, kind.Value, want)
	}
	if text, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Sprintf("the field %.100s is unknown", text)
	}
	return "it is not JSON"
}

// Receipt names a claimed message that is to be acknowledged.
type Receipt struct {
	ID      string              `json:"id" example:"order-4711"`
	Receipt subscribers.Receipt `json:"receipt" example:"1735830245678" doc:"that came with the message, or that of the last extension"`
}

// DecodeReceipt reads a receipt. The error is a notify.ErrInvalid.
func DecodeReceipt(data []byte, into *Receipt) error {
	if err := Decode(data, into); err != nil {
		return err
	}
	if into.Receipt < 1 {
		return fmt.Errorf("%w receipt %d of %.100s: give the one that came with the message", notify.ErrInvalid, into.Receipt, into.ID)
	}
	return notify.CheckID(into.ID)
}
