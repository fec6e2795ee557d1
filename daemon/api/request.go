package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/strictjson"
	"github.com/bellhopd/bellhop/subscribers"
)

// Claim asks for messages of a topic.
type Claim struct {
	Max    int    `json:"max"`     // limit of messages
	Lease  string `json:"lease"`   // such as 30s; empty: the lease of the topic's settings
	MinAge string `json:"min_age"` // such as 5m: only messages that have been due for this long; empty: any
	Ack    string `json:"ack"`     // now: they are acknowledged at once; empty: they are leased
	Worker string `json:"worker"`  // the name of the worker that the claim is for; empty: that of the daemon
}

// AckNow reports whether the messages of a claim are acknowledged at once. The error is
// a notify.Fault.
func (c Claim) AckNow() (bool, error) {
	if c.Ack != "" && c.Ack != "now" {
		return false, fault.New("ack", "ack %.100q: use now, or leave it out", c.Ack)
	}
	return c.Ack == "now", nil
}

// Inspect names a message of a topic to inspect.
type Inspect struct {
	ID   string `json:"id"`
	Wait string `json:"wait"` // such as 30s: how long to wait for its end; empty: not at all
}

// Find asks for messages by what they hold.
type Find struct {
	Q      string `json:"q"`      // the question, see package find
	Limit  int    `json:"limit"`  // most messages of the answer
	Cursor string `json:"cursor"` // of the answer before; empty: from the beginning
}

// Cancel names a message of a topic to cancel.
type Cancel struct {
	ID   string `json:"id"`
	Next bool   `json:"next"` // the message that follows it, instead of it
}

// CancelIt cancels a message, or with next the one that follows it, and returns its
// state before. Errors are those of notify.Publisher.Cancel and CancelNext.
func CancelIt(ctx context.Context, pub *notify.Publisher, topic, id string, next bool) (notify.State, error) {
	if next {
		return notify.Leased, pub.CancelNext(ctx, topic, id)
	}
	return pub.Cancel(ctx, topic, id)
}

// Reschedule gives a message of a topic another due time; with neither a delay
// nor a time it is due at once.
type Reschedule struct {
	ID    string `json:"id"`
	Delay string `json:"delay"` // such as 90s
	Due   string `json:"due"`   // RFC 3339
}

// When returns the delay and the due time, each zero if it is not given: they are read
// as those of a message. The error is a notify.Fault of each that is wrong.
func (r Reschedule) When() (delay time.Duration, due time.Time, err error) {
	var m notify.Message
	var faults []error
	given := map[string]string{"delay": r.Delay, "due": r.Due}
	for _, f := range fields.In[notify.Message]() {
		if text := given[f.Name]; text != "" {
			faults = append(faults, f.Set(reflect.ValueOf(&m).Elem(), text))
		}
	}
	return m.Delay, m.Due, errors.Join(faults...)
}

// RescheduleTo gives a message another due time: after a delay, or at a time, of which at most one is given.
func RescheduleTo(ctx context.Context, pub *notify.Publisher, topic, id string, delay time.Duration, due time.Time) (notify.Publication, error) {
	switch {
	case due.IsZero():
		return pub.RescheduleIn(ctx, topic, id, delay)
	case delay != 0:
		return notify.Publication{}, fault.New("due", "delay and due: both are given; give one of them")
	}
	return pub.RescheduleAt(ctx, topic, id, due)
}

// Decode reads a request, one JSON object, into a struct that has the defaults. The
// error is a notify.ErrInvalid that names the field.
func Decode(data []byte, into any) error {
	if err := strictjson.Decode(data, into); err != nil {
		return refuse(into, err)
	}
	return nil
}

// refuse returns the error of a request, which also lists its fields.
func refuse(into any, cause error) error {
	var fields []string
	of := reflect.TypeOf(into).Elem()
	for i := range of.NumField() {
		fields = append(fields, of.Field(i).Tag.Get("json"))
	}
	return fault.New(strictjson.FieldOf(cause, "request"), "request: %w; write one JSON object whose fields are %s", cause, strings.Join(fields, ", "))
}

// Receipt names a claimed message to acknowledge.
type Receipt struct {
	ID      string              `json:"id" example:"order-4711"`
	Receipt subscribers.Receipt `json:"receipt" example:"1735830245678900" doc:"the receipt that came with the message; extending its lease does not change it"`
}

// DecodeReceipts reads a JSON array of 1 to most receipts. The error is a
// notify.ErrInvalid that names the wrong element and its fault.
func DecodeReceipts(data []byte, most int) ([]Receipt, error) {
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '[' {
		return nil, fault.New("body", `body: it is not a JSON array; write [{"id":"…","receipt":…}]`)
	}
	var all []Receipt
	for r, err := range strictjson.Elements[Receipt](data) {
		if err != nil {
			err = refuse(&r, err)
		} else {
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(all)+1, err)
		}
		if all = append(all, r); len(all) > most {
			return nil, fault.New("body", "body: more than %d elements; write 1 to %d", most, most)
		}
	}
	if len(all) == 0 {
		return nil, fault.New("body", "body: no element; write 1 to %d", most)
	}
	return all, nil
}

func (r Receipt) check() error {
	if r.Receipt < 1 {
		return fault.New("receipt", "receipt %d of %.100s: give the one that came with the message", r.Receipt, r.ID)
	}
	return record.CheckID(r.ID)
}
