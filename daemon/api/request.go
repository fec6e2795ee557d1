package api

import (
	"bytes"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
	"github.com/bellhopd/bellhop/subscribers"
)

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
