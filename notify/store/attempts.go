package store

import (
	"context"
	"time"
)

// An Attempt is one attempt to handle a message that failed.
type Attempt struct {
	Ended  time.Time     // by Redis's clock, to the millisecond
	Took   time.Duration // from its claim on; negative: unknown
	By     string        // name of the worker that had it; empty: unknown
	Reason string        // why it failed, up to MaxReason bytes
}

// MaxHistory is how many attempts of a message are kept, and MaxReason how many bytes of
// the reason of each.
const (
	MaxHistory = 10
	MaxReason  = 1024
)

// MaxWorkerName is the length of the name of a worker in bytes.
const MaxWorkerName = 64

// A Worker is a daemon, a worker or a listener that is there.
type Worker struct {
	ID      string // of its subscription
	Name    string // as its operator calls it; empty: HOST-PID
	Host    string
	Version string
	Kind    string // daemon, worker or listener
	Topics  []string
	Since   time.Time // by Redis's clock
}

// Arrive notes a worker that is subscribed to its channel Here. The error is that of the
// connection.
func (s Shard) Arrive(ctx context.Context, w Worker) error { return errNotBuilt }

// Depart forgets a worker. The error is that of the connection.
func (s Shard) Depart(ctx context.Context, id string) error { return errNotBuilt }

// Workers returns the workers that are there, by name. The error is that of the
// connection.
func (s Shard) Workers(ctx context.Context) ([]Worker, error) { return nil, errNotBuilt }
