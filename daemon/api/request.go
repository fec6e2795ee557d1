package api

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/strictjson"
	"github.com/bellhopd/bellhop/subscribers"
)

// CancelIt cancels a message, or with next the one that follows it; with stop a leased one,
// too. Errors are those of notify.Publisher.Cancel and CancelNext, and a notify.Fault of
// stop beside next.
func CancelIt(ctx context.Context, pub *notify.Publisher, topic, id string, next, stop bool) (Cancelled, error) {
	switch {
	case next && stop:
		return Cancelled{}, fault.New("stop", "stop and next: both are given, and what follows is not worked on yet; give one of them")
	case next:
		return CancelledOf(notify.Leased), pub.CancelNext(ctx, topic, id)
	}
	was, err := pub.Cancel(ctx, topic, id, store.CancelOptions{Stop: stop})
	stopping := stop && was == notify.Leased
	return Cancelled{Cancelled: !stopping, Was: was, Stopping: stopping}, err
}

// RescheduleTo gives a message another due time: after a delay, or at a time, perhaps in a zone, of which at most one is given.
func RescheduleTo(ctx context.Context, pub *notify.Publisher, topic, id string, delay time.Duration, due time.Time, zone string) (notify.Publication, error) {
	due, err := calendar.Local(due, zone)
	switch {
	case err != nil:
		return notify.Publication{}, err
	case due.IsZero():
		return pub.RescheduleIn(ctx, topic, id, delay)
	case delay != 0:
		return notify.Publication{}, fault.New("due", "delay and due: both are given; give one of them")
	}
	return pub.RescheduleAt(ctx, topic, id, due)
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
			err = fault.New(strictjson.FieldOf(err, "request"), "request: %w; write one JSON object whose fields are id, receipt", err)
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
