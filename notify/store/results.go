package store

import (
	"context"
	"errors"
	"time"
)

var errNotBuilt = errors.New("not built yet")

// MaxResult is the size of a result in bytes, and MaxKeep how long a message that
// succeeded is kept at the longest.
const (
	MaxResult = 64 << 10
	MaxKeep   = 30 * 24 * time.Hour
)

// A Result is what an acknowledgement leaves behind.
type Result struct {
	Body []byte        // what the handler produced; nil: nothing
	Keep time.Duration // how long the message is kept as Done, with the result; zero: not at all
}

// Check returns a Fault for a result that is too large, or kept too long.
func (r Result) Check() error { return nil }

// AckWith acknowledges a message of a topic, and keeps it as Done with a result. It
// reports whether the lease was lost, and whether memory was short, so that the message
// is acknowledged and gone. Errors: a Fault, or that of the connection, after which the
// message may or may not be acknowledged.
func (s Shard) AckWith(ctx context.Context, topic string, l Lease, r Result) (lost, forgotten bool, err error) {
	return false, false, errNotBuilt
}

// Await returns what is known about messages of a topic, as Inspect does, and has their
// ends announced on the channel Ended for so long. The error is that of the connection.
func (s Shard) Await(ctx context.Context, topic string, members []string, wait time.Duration) ([]Inspected, error) {
	return nil, errNotBuilt
}
