package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const (
	maxLines = 10_000 // messages in one call
	maxKept  = 1000   // errors of lines, behind which only the first of a line is kept: they are much longer than what they are about
)

// A bulkResult is the result of one line: a publication, or an error.
type bulkResult struct {
	Topic string       `json:"topic,omitempty" example:"order.timeout"`
	ID    string       `json:"id,omitempty" doc:"the given id, or a generated one" example:"order-4711"`
	Due   time.Time    `json:"due,omitzero" doc:"when it is due, by the clock of Redis"`
	State notify.State `json:"state,omitempty" enum:"scheduled,ready,blocked,leased,done"`

	Outcome     notify.Outcome `json:"outcome,omitempty" enum:"created,kept,replaced,moved,dropped" doc:"a new message; or, as if_exists says, the one that was there is kept, replaced, or moved by debounce; dropped, as if_busy says: another of its key is under way"`
	PreviousDue *time.Time     `json:"previous_due,omitempty" doc:"when the message that was there was due"`

	Left *int64 `json:"left,omitempty" doc:"of a message with after_group: how many of the group are left"`

	Error *api.Problem `json:"error,omitempty" doc:"why the line was refused"`
}

// resultOf returns the result of a line in its JSON form.
func resultOf(r notify.Result) bulkResult {
	if r.Err != nil {
		p := problemOf(api.PublishError(r.Publication, r.Err))
		return bulkResult{Error: &p}
	}
	p := api.PublicationOf(r.Publication)
	return bulkResult{Topic: p.Topic, ID: p.ID, Due: p.Due, State: p.State, Outcome: p.Outcome, PreviousDue: p.PreviousDue, Left: p.Left}
}

// bulk publishes many messages, a line of JSON each, and answers a line each, in the
// same order. A refused line does not affect the others.
func (g *Gate) bulk(ctx context.Context, c *call, _ *struct{}) (any, error) {
	data, err := c.readList(maxBulk)
	if err != nil {
		return nil, err
	}
	messages, faults, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	published := g.pub.PublishMany(ctx, messages)
	if len(published) > 0 && unavailable(published) {
		return nil, published[0].Err // nothing was published
	}
	c.answerLines(published, faults)
	return nil, nil
}

// parse reads the lines. It returns a fault for each line, nil where the line is a
// message, or for each thing that is wrong with it. Too many lines, or none, are an error:
// nothing is published then.
func (c *call) parse(data []byte) (messages []notify.Message, faults []error, err error) {
	lines := bytes.Count(data, []byte{'\n'}) + 1
	messages, faults = make([]notify.Message, 0, min(lines, maxLines)), make([]error, 0, min(lines, maxLines))
	kept := 0
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(faults) == maxLines {
			return nil, nil, fault.Renamed("body", fmt.Errorf("%w: more than %d lines", notify.ErrTooLarge, maxLines))
		}
		m, err := notify.ParseLine(line)
		if err == nil {
			err = cmp.Or(c.grant.AllowTopic(m.Topic), c.grant.AllowGroup(&m))
		}
		if err == nil {
			messages = append(messages, m)
		}
		if all := fault.All(err); kept+len(all) > maxKept {
			err = all[0]
		} else {
			kept += len(all)
		}
		faults = append(faults, err)
	}
	if len(faults) == 0 {
		return nil, nil, fault.New("body", `body: it is empty; write lines such as {"topic":"orders","delay":"30s","body":"hello"}`)
	}
	return messages, faults, nil
}

// unavailable reports whether every publish failed because Redis cannot be used.
func unavailable(results []notify.Result) bool {
	for _, r := range results {
		if r.Err == nil || problemOf(r.Err).Status != http.StatusServiceUnavailable {
			return false
		}
	}
	return true
}

// answerLines answers a line for each line of the request.
func (c *call) answerLines(published []notify.Result, faults []error) {
	_ = c.writeAll(http.StatusOK, ndjson, func(e *json.Encoder) error { // an error means that the client is gone
		var errs []error
		for _, fault := range faults {
			var r notify.Result
			if r.Err = fault; fault == nil {
				r, published = published[0], published[1:]
			}
			errs = append(errs, e.Encode(resultOf(r)))
		}
		return errors.Join(errs...)
	})
}
