package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	ackWithScript = script.New("ack_with", script.Promised)
	awaitScript   = script.New("await")
	endedScript   = script.New("ended")
)

// MaxResult is the size of a result in bytes, and MaxKeep how long a message that
// succeeded is kept at the longest.
const (
	MaxResult = 64 << 10
	MaxKeep   = 30 * 24 * time.Hour
)

// A Result is what an acknowledgement leaves behind.
type Result struct {
	Body []byte        // what the handler produced; nil: nothing
	Keep time.Duration // how long the message is kept as Done, with the result, rounded up to a millisecond; zero: not at all
}

// Check returns a joined Fault for a result that is too large, kept too long, or not
// kept at all.
func (r Result) Check() error {
	var size, keep error
	if len(r.Body) > MaxResult {
		size = fault.New("result", "result of %d bytes: it has more than %d; keep it elsewhere, and leave its address here", len(r.Body), MaxResult)
	}
	switch {
	case r.Keep < 0 || r.Keep > MaxKeep:
		keep = fault.New("keep", "keep %s: use more than zero, and up to %s", fault.Short(r.Keep), fault.Short(MaxKeep))
	case r.Keep == 0 && r.Body != nil:
		keep = fault.New("keep", "keep is missing: without it nothing keeps the result; say how long, such as 24h, or leave the result out")
	}
	return errors.Join(size, keep)
}

// AckWith acknowledges a message of a topic, and keeps it as Done with a result: as long
// as that asks for, but no longer than the store keeps any, and at least as long as the
// publisher wants its id taken. It reports whether the lease was lost, and whether the
// message is forgotten, though it should be kept: memory was short, or a message follows
// it under its id. Errors: a Fault, or that of the connection, after which the message
// may or may not be acknowledged.
func (s Shard) AckWith(ctx context.Context, topic string, l Lease, result Result) (lost, forgotten bool, err error) {
	if err := result.Check(); err != nil {
		return false, false, err
	}
	args := append(make([]any, 0, 8), topic, l.Member, l.receipt(), l.Worker, record.CeilMs(result.Keep))
	if result.Body != nil {
		args = append(args, result.Body)
	}
	r, err := s.Run(ctx, ackWithScript, args...)
	if err != nil {
		return false, false, err
	}
	lost, forgotten = r.Flag(), r.Flag()
	return lost, forgotten, r.End()
}

// A doneObject is the OBJECT in the record of a message that is kept. Times are in ms.
type doneObject struct {
	Published int64  `json:"published"`
	Ended     int64  `json:"ended"`
	Took      *int64 `json:"took"`  // from its claim on; nil: unknown
	By        string `json:"by"`    // name of the worker that acknowledged it; empty: unknown
	Taken     int64  `json:"taken"` // until when its publisher wants its id taken; 0: not
}

// withDone adds what a record holds of a message that is kept: =UNTIL,OBJECT, and a
// newline and the result, if it has one.
func (i *Inspected) withDone(raw string) {
	head, result, there := strings.Cut(raw, "\n")
	_, text, _ := strings.Cut(head, ",")
	var object doneObject
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		i.Fault = fmt.Errorf("%w: %w", record.ErrRecord, err)
		return
	}
	i.By = object.By
	if object.Published > 0 {
		i.Published = record.TimeOfMs(float64(object.Published))
	}
	if object.Ended > 0 {
		i.Ended = record.TimeOfMs(float64(object.Ended))
	}
	if object.Took != nil && !i.Ended.IsZero() {
		i.Since = i.Ended.Add(-record.Ms(min(max(*object.Took, 0), record.MaxDueMs)))
	}
	if there {
		i.Result = []byte(result)
	}
}

// MaxEnded is how many members Ended takes.
const MaxEnded = 500

// Await returns what is known about messages of a topic, as Inspect does, and has the
// ends of those that have not ended announced on the channel Ended for so long. The error
// is that of the connection.
func (s Shard) Await(ctx context.Context, topic string, members []string, wait time.Duration) ([]Inspected, error) {
	return s.inspectBy(ctx, awaitScript, members, topic, min(record.CeilMs(wait), math.MaxInt32*1000))
}

// Ended returns the indexes of those of some members, of any topics, whose end is not
// awaited any more: they ended, or are dead. It takes up to MaxEnded. The error is that of
// the connection.
func (s Shard) Ended(ctx context.Context, members []string) ([]int, error) {
	r, err := s.Run(ctx, endedScript, anys(members)...)
	if err != nil {
		return nil, err
	}
	ended := r.Indexes(len(members))
	return ended, r.End()
}
