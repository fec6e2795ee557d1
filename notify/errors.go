package notify

import (
	"errors"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Errors of invalid input; nothing was changed.
var (
	ErrInvalid  = fault.ErrInvalid                // input outside its grammar or limits; every Fault is one
	ErrTooLarge = fault.New("body", "body")       // the Fault of a body over the limit
	ErrExists   = errors.New("id already in use") // a message with that id is scheduled, ready, leased or dead, or ended and keeps its id taken
)

// Errors of a message in another state than the call needs; nothing was changed.
var (
	ErrNotFound  = errors.New("no such message")
	ErrLeased    = errors.New("message is leased") // a worker has the message
	ErrDead      = errors.New("message is dead")
	ErrLeaseLost = errors.New("lease lost") // the receipt is stale: the lease expired, or the message was settled already
)

// ErrNoListener is the error of a named listener that does not exist, or was removed.
var ErrNoListener = store.ErrNoListener

// Errors of Redis.
var (
	ErrFull         = reach.ErrFull         // it uses the share of its memory that publishes may fill
	ErrUnfit        = reach.ErrUnfit        // it is too old, may evict messages, or holds a store of another format
	ErrUnreplicated = reach.ErrUnreplicated // the change is made, but too few replicas confirmed it
)

// A Fault is an ErrInvalid that names the wrong field. errors.As finds it.
type Fault = fault.Fault

// Retryable reports whether the call that failed with err may succeed later: Redis
// cannot be reached, does not answer, refuses its user a right or lacks replicas. Any
// other error is about the call itself, or a refused password, or ErrFull: publishes
// succeed again once memory is free.
func Retryable(err error) bool { return reach.Retryable(err) }
