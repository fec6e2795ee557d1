package notify

import (
	"context"
	"errors"

	"github.com/bellhopd/bellhop/notify/store"
)

// An Attempt is one attempt to handle a message that failed.
type Attempt = store.Attempt

// A Worker is a daemon, a worker or a listener that is there.
type Worker = store.Worker

// An AckResult is what an acknowledgement leaves behind.
type AckResult = store.Result

// ErrGone is the error of a message that ended, and of which nothing is kept: whether it
// succeeded is not known.
var ErrGone = errors.New("the message ended, and nothing is kept of it")

// Await waits until a message is Dead or Done, and returns what the store holds of it
// then; or as it is when ctx ends, without an error. The end is announced by Redis, and
// looked for with each heartbeat, in case that was lost. Errors: ErrInvalid; ErrNotFound
// for a message that is not there at first; ErrGone; or that of the connection.
func (i *Inspector) Await(ctx context.Context, topic, id string) (Info, error) {
	return Info{}, errors.New("not built yet")
}

// Workers returns the daemons, workers and listeners that are there, by name. The error
// is that of the connection.
func (i *Inspector) Workers(ctx context.Context) ([]Worker, error) {
	return i.store.Home().Workers(ctx)
}
