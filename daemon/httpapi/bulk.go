package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	ndjson   = "application/x-ndjson"
	maxLines = 10_000 // messages in one call
)

// A bulkResult is what became of one line: a publication, or an error.
type bulkResult struct {
	Topic string       `json:"topic,omitempty" example:"order.timeout"`
	ID    string       `json:"id,omitempty" doc:"the one that was given, or a generated one" example:"order-4711"`
	Due   *time.Time   `json:"due,omitempty" doc:"when it is due, by the clock of Redis"`
	State notify.State `json:"state,omitempty" enum:"scheduled,ready"`
	Error *api.Problem `json:"error,omitempty" doc:"why it was refused"`
}

// resultOf returns what became of a line as it is told.
func resultOf(r notify.Result) bulkResult {
	if r.Err != nil {
		p := problemOf(r.Err)
		return bulkResult{Error: &p}
	}
	due := r.Due.UTC()
	return bulkResult{Topic: r.Topic, ID: r.ID, Due: &due, State: r.State}
}

// bulk publishes many messages, a line of JSON each, and answers a line each, in
// their order. One that is refused does not keep the others back.
func (g *Gate) bulk(ctx context.Context, c *call, _ *struct{}) (any, error) {
	data, err := c.body(maxBulk)
	if err != nil {
		return nil, err
	}
	messages, faults, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	published := g.pub.PublishMany(ctx, messages)
	if len(published) > 0 && unavailable(published) {
		return nil, published[0].Err // nothing was done at all
	}
	c.answerLines(published, faults)
	return nil, nil
}

// parse reads the lines. The faults are one for each: nil for one that is a
// message. Nothing is published when there are too many, or none.
func (c *call) parse(data []byte) (messages []notify.Message, faults []error, err error) {
	lines := bytes.Count(data, []byte{'\n'}) + 1
	messages, faults = make([]notify.Message, 0, min(lines, maxLines)), make([]error, 0, min(lines, maxLines))
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(faults) == maxLines {
			return nil, nil, store.Renamed("body", fmt.Errorf("%w: more than %d lines", notify.ErrTooLarge, maxLines))
		}
		m, err := notify.ParseLine(line)
		if err == nil {
			err = c.grant.allowTopic(m.Topic)
		}
		if err == nil {
			messages = append(messages, m)
		}
		faults = append(faults, err)
	}
	if len(faults) == 0 {
		return nil, nil, store.Faultf("body", `body: it is empty; write lines such as {"topic":"orders","delay":"30s","body":"hello"}`)
	}
	return messages, faults, nil
}

// unavailable reports whether nothing was published because Redis cannot be used.
func unavailable(results []notify.Result) bool {
	for _, r := range results {
		if r.Err == nil || problemOf(r.Err).Status != http.StatusServiceUnavailable {
			return false
		}
	}
	return true
}

// answerLines answers a line for each that was read.
func (c *call) answerLines(published []notify.Result, faults []error) {
	_ = c.writeAll(http.StatusOK, ndjson, func(e *json.Encoder) error { // who is gone needs no answer
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
