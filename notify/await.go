package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// An Attempt is one attempt to handle a message that failed.
type Attempt = record.Attempt

// A Worker is a daemon, a worker or a listener that is there.
type Worker = store.Worker

// An AckResult is what an acknowledgement leaves behind: Body, what the handler produced, up to 64 KiB, and for how long to Keep the
// message as Done with it, up to 30 days.
type AckResult = store.Result

// ErrGone is the error of a message that ended, and of which nothing is kept: whether it
// succeeded is not known.
var ErrGone = errors.New("the message ended, and nothing is kept of it")

const (
	// lastLook is how long the look may take that follows the end of a wait.
	lastLook = 3 * time.Second

	// longestWait is for how long the end of a message is announced to a wait without a
	// deadline.
	longestWait = 10 * 365 * 24 * time.Hour
)

// Await waits until a message is Dead, or Done with a result or without, and returns what
// the store holds of it then. Where ctx ends first it returns the error of that, beside the
// message as it is then, as far as that can still be read. A message is Done only where
// its acknowledgement said so ([store.Result]); of any other that ended nothing tells
// whether it succeeded. One that another publish replaces is awaited as the one that takes
// its place; one that is followed (After) has ended, and so has a broadcast that was sent.
// The end is announced by Redis, to one subscription for all who wait, and looked for with
// each heartbeat, in case that was lost. Errors: ErrInvalid; ErrNotFound for a message that
// is not there at first; ErrGone; that of ctx; or that of the connection.
func (i *Inspector) Await(ctx context.Context, topic, id string) (Info, error) {
	if err := checkName(topic, id); err != nil {
		return Info{}, err
	}
	info, err := i.await(ctx, topic, id)
	if err != nil {
		return info, fmt.Errorf("await %s: %w", record.Member(topic, id), err)
	}
	return info, nil
}

// errClosed is the error of a wait on a store that is closed meanwhile.
var errClosed = errors.New("the store is closed")

func (i *Inspector) await(ctx context.Context, topic, id string) (Info, error) {
	member := record.Member(topic, id)
	wait := longestWait
	if end, ok := ctx.Deadline(); ok {
		wait = max(time.Until(end), 0)
	}
	look, err := one(i.store.Of(topic).Await(ctx, topic, []string{member}, wait))
	if err != nil && ctx.Err() != nil {
		look, err = i.lastly(ctx, topic, member)
	}
	switch {
	case err != nil:
		return Info{}, err
	case look.State == 0:
		return Info{}, i.absent(ctx, topic)
	case hasEnded(look) || ctx.Err() != nil:
		return endingOf(ctx, topic, id, look)
	}
	watch, err := i.store.Of(topic).Watch(ctx, member)
	if err != nil {
		return Info{}, err
	}
	defer watch.Close()
	for over := false; ; {
		select {
		case <-watch.Rung():
			look, err = one(i.store.Of(topic).Inspect(ctx, topic, []string{member}))
			if ctx.Err() != nil || err != nil && reach.Retryable(err) {
				continue // the end of ctx, or the next ring, looks again
			}
		case <-watch.Closed():
			return Info{}, errClosed
		case <-ctx.Done():
			over = true
		}
		if over {
			look, err = i.lastly(ctx, topic, member)
		}
		switch {
		case err != nil:
			return Info{}, err
		case !hasEnded(look) && !look.Awaited: // it is gone, or another message was published with its id
			return Info{}, ErrGone
		case hasEnded(look) || over:
			return endingOf(ctx, topic, id, look)
		}
	}
}

// one returns the first of what is known about members.
func one(looks []store.Inspected, err error) (store.Inspected, error) {
	if err != nil {
		return store.Inspected{}, err
	}
	return looks[0], nil
}

// lastly returns what is known about a member when the wait is over.
func (i *Inspector) lastly(ctx context.Context, topic, member string) (store.Inspected, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return one(i.store.Of(topic).Inspect(ctx, topic, []string{member}))
}

// hasEnded reports whether a message is over, or dead.
func hasEnded(look store.Inspected) bool { return look.State == Dead || look.State == Done }

// endingOf returns what an Await ends with. The error is ErrGone where nothing is kept of a
// message but its id, or not even that, and that of ctx for one that has not ended.
func endingOf(ctx context.Context, topic, id string, look store.Inspected) (Info, error) {
	info := infoOf(topic, id, &look)
	switch {
	case info.State == 0 || info.State == Done && info.Ended.IsZero() && info.Fault == nil:
		return Info{}, ErrGone
	case !hasEnded(look):
		return info, ctx.Err()
	}
	return info, nil
}

// Workers returns the daemons, workers and listeners that are there, by name. The error
// is that of the connection.
func (i *Inspector) Workers(ctx context.Context) ([]Worker, error) {
	return i.store.Home().Workers(ctx)
}
