package natsgate

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// A verb says what becomes of a claimed message. The verbs are those of JetStream's
// acknowledgements, which NATS users know.
type verb int

const (
	verbAck  verb = iota + 1 // +ACK: done
	verbNak                  // -NAK: failed, again later
	verbWork                 // +WPI: work in progress, more time
	verbTerm                 // +TERM: never again
)

// A settlement is a handler's answer to a message.
type settlement struct {
	verb   verb
	delay  *time.Duration // of -NAK; nil: the backoff
	keep   bool           // of -NAK: no attempt is used up
	reason string         // of +TERM or -NAK; empty: none is given

	result *notify.AckResult // of +ACK; nil: the message is gone

	progress *store.Progress // of +WPI; nil: none is told
}

// parseSettlement reads +ACK, +ACK {"keep":"24h","result":"done"}, -NAK, -NAK {"delay":"5s","reason":"busy"}, -NAK
// {"delay":"5s","attempt":"keep"}, +WPI, +WPI {"progress":40,"note":"page 2 of 5"}, +TERM or +TERM REASON. As with JetStream a delay may also be a number of nanoseconds, or
// follow without JSON: -NAK 5s. The error is a notify.ErrInvalid.
func parseSettlement(data []byte) (settlement, error) {
	word, rest, _ := bytes.Cut(bytes.TrimSpace(data), []byte(" "))
	rest = bytes.TrimSpace(rest)
	switch string(word) {
	case "+TERM":
		return settlement{verb: verbTerm, reason: strings.ToValidUTF8(string(rest), "�")}, nil
	case "-NAK":
		return parseNak(rest)
	case "+ACK":
		return parseAck(rest)
	case "+WPI":
		return parseWork(rest)
	}
	return settlement{}, fault.New("settlement", "settlement %.100q: write +ACK, +ACK {\"keep\":\"24h\",\"result\":\"done\"}, -NAK, -NAK {\"delay\":\"5s\"}, +WPI, +WPI {\"progress\":40} or +TERM", data)
}

// parseWork reads what follows +WPI.
func parseWork(rest []byte) (settlement, error) {
	s := settlement{verb: verbWork}
	if len(rest) == 0 {
		return s, nil
	}
	var work struct {
		Progress *int   `json:"progress"`
		Note     string `json:"note"`
	}
	if err := strictjson.Decode(rest, &work); err != nil {
		return s, fault.New(strictjson.FieldOf(err, "settlement"), "+WPI %.100q: %w; write +WPI {\"progress\":40,\"note\":\"page 2 of 5\"}, or +WPI alone", rest, err)
	}
	if work.Progress == nil {
		return s, fault.New("progress", "+WPI %.100q: progress is missing; write +WPI {\"progress\":40,\"note\":\"page 2 of 5\"}, or +WPI alone", rest)
	}
	s.progress = &store.Progress{Percent: *work.Progress, Note: work.Note}
	return s, s.progress.Check()
}

// parseAck reads what follows +ACK. The result is the text of a JSON string, or any other
// JSON as it is; null is none.
func parseAck(rest []byte) (settlement, error) {
	s := settlement{verb: verbAck}
	if len(rest) == 0 {
		return s, nil
	}
	var ack struct {
		Keep   string          `json:"keep"`
		Result json.RawMessage `json:"result"`
	}
	if err := strictjson.Decode(rest, &ack); err != nil {
		return s, fault.New(strictjson.FieldOf(err, "settlement"), "+ACK %.100q: %w; write +ACK {\"keep\":\"24h\",\"result\":\"done\"}, or +ACK alone", rest, err)
	}
	keep, err := fields.ParseDuration("keep", ack.Keep)
	if err == nil {
		err = fault.Within("keep", "keep", keep, time.Millisecond, store.MaxKeep)
	}
	if err != nil {
		return s, err
	}
	s.result = &notify.AckResult{Keep: keep, Body: ack.Result}
	var text string
	switch {
	case string(ack.Result) == "null":
		s.result.Body = nil
	case json.Unmarshal(ack.Result, &text) == nil:
		s.result.Body = []byte(text)
	}
	return s, s.result.Check()
}

// parseNak reads what follows -NAK.
func parseNak(rest []byte) (s settlement, err error) {
	s.verb = verbNak
	var nak struct {
		Delay   nakDelay `json:"delay"`
		Reason  string   `json:"reason"`
		Attempt string   `json:"attempt"`
	}
	switch {
	case len(rest) == 0:
		return s, nil
	case rest[0] != '{':
		s.delay, err = nak.Delay.set(string(rest))
		return s, err
	}
	if err := strictjson.Decode(rest, &nak); err != nil {
		return s, fault.New(strictjson.FieldOf(err, "settlement"), "-NAK %.100q: %w; write -NAK {\"delay\":\"5s\",\"reason\":\"busy\"}, with \"attempt\":\"keep\" to use up no attempt, or any of the three", rest, err)
	}
	if nak.Attempt != "" && nak.Attempt != "keep" {
		return s, fault.New("attempt", "attempt %.100q: write keep, which puts the message off and uses up no attempt, or leave it out", nak.Attempt)
	}
	s.delay, s.reason, s.keep = nak.Delay.d, nak.Reason, nak.Attempt != ""
	return s, nil
}

// nakDelay is the delay of a -NAK, a text or a number of nanoseconds.
type nakDelay struct{ d *time.Duration }

// UnmarshalJSON reads a delay.
func (n *nakDelay) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		_, err := n.set(v)
		return err
	case float64:
		if v >= 0 && v < math.MaxInt64 {
			d := time.Duration(v)
			n.d = &d
			return nil
		}
	}
	return fault.New("delay", "delay %.100s: write a duration such as \"5s\", or nanoseconds", data)
}

func (n *nakDelay) set(text string) (*time.Duration, error) {
	d, err := fields.ParseDuration("delay", text)
	switch {
	case err != nil:
		return nil, err
	case text == "" || d < 0:
		return nil, fault.New("delay", "delay %.100q: write a duration such as 5s, zero or more", text)
	}
	n.d = &d
	return n.d, nil
}
