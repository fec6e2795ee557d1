package store

import (
	"context"
	"strings"
	"time"
)

// MaxWorkerName is the length of the name of a worker in bytes.
const MaxWorkerName = 64

// CheckWorker returns a Fault of a field for a name that no worker can have: it stands
// between spaces, and - for nobody.
func CheckWorker(field, name string) error {
	isWrong := func(r rune) bool { return r <= ' ' || r > '~' }
	if name == "" || name == unknown || len(name) > MaxWorkerName || strings.ContainsFunc(name, isWrong) {
		return Faultf(field, "%s %.100q: use 1 to %d letters, digits or other signs of ASCII, without spaces, and not - alone", field, name, MaxWorkerName)
	}
	return nil
}

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
