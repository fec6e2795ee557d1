package notify

import (
	"errors"

	"github.com/bellhopd/bellhop/notify/store"
)

// Errors of an input, which changed nothing.
var (
	ErrInvalid  = store.ErrInvalid                // outside its grammar or limits; every Fault is one
	ErrTooLarge = store.Faultf("body", "body")    // the Fault of a body over the limit
	ErrExists   = errors.New("id already in use") // the id belongs to a message that is waiting, leased or dead
)

// Errors of a message that is in another state than a call needs, which changed nothing.
var (
	ErrNotFound  = errors.New("no such message")
	ErrLeased    = errors.New("message is leased") // a worker has it
	ErrDead      = errors.New("message is dead")
	ErrLeaseLost = errors.New("lease lost") // the receipt is stale: the lease expired, or was settled already
)

// ErrNoListener is the error of a named listener that is not there, or not any more.
var ErrNoListener = errors.New("no such listener")

// Errors of Redis.
var (
	ErrFull         = store.ErrFull         // its memory is used up to the share that publishing may use
	ErrNoRedis      = store.ErrNoRedis      // another program answers at its address
	ErrUnfit        = store.ErrUnfit        // it is too old, may evict messages, or holds a store of another format
	ErrUnreplicated = store.ErrUnreplicated // the change is made, but too few replicas confirmed it
)

// A Fault is an ErrInvalid that says which field is wrong. It is found with errors.As.
type Fault = store.Fault

// Retryable reports whether the call that failed with err may succeed later: Redis cannot be reached, does not
// answer, refuses its user or lacks replicas. Other errors are about what was asked.
func Retryable(err error) bool { return store.Retryable(err) }
