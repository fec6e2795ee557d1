package natsgate

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Timeouts of a connection to NATS.
const (
	connectTimeout = 2 * time.Second
	writeTimeout   = 3 * time.Second
	pingInterval   = time.Second // a silently cut connection is noticed after three of them
	pingsOut       = 2
	stopTimeout    = 5 * time.Second // to finish requests, if Quiesce was not called before
)

// A connection is one connection to NATS. The client does not reconnect it: the
// gateway makes another, so that nothing is buffered, no call waits while NATS is
// dialled, and each failure to connect has its reason.
type connection struct {
	nc     *nats.Conn
	server server
	closed context.Context // ends when the connection is lost or closed, and its last callback has run

	checking    sync.Mutex          // held while a bridge checks the stream, for all
	js          jetstream.JetStream // of the bridges; nil before its first use
	fits        bool                // the stream was checked, and has refused nothing since
	discardsNew bool                // the stream refuses what does not fit, when it was checked last

	subscribing sync.Mutex // held while deliveries subscribe to their answers
	answers     *answers   // nil before the first delivery

	mu     sync.Mutex
	denied map[string]bool // subjects that deliveries need and NATS does not permit
}

// announce waits until the server knows all subscriptions, or ctx ends: from then
// on no request is answered with "no responders".
func (c *connection) announce(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.nc.FlushWithContext(limited)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// drain waits until all received messages have been passed to their callbacks,
// or ctx ends. It is called when the subscriptions are ended.
func (c *connection) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if c.nc.FlushWithContext(ctx) != nil {
		return
	}
	drained := make(chan struct{})
	if c.nc.Barrier(func() { close(drained) }) != nil {
		return
	}
	select {
	case <-drained:
	case <-c.closed.Done():
	case <-ctx.Done():
	}
}

// lost reports whether a connection is lost.
func (c *connection) lost() bool { return c.nc.IsClosed() }

// during returns a context that ends when ctx does or a connection is lost.
func during(ctx context.Context, c *connection) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// deny records a subject that a connection is not permitted, if deliveries need it:
// without it they could not know that no client got a message, or can answer. Reply
// subjects are not recorded, since requesters may name any number of them.
func (c *connection) deny(err error) {
	kind, rest, _ := strings.Cut(err.Error(), ` to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	c.subscribing.Lock()
	a := c.answers
	c.subscribing.Unlock()
	if a == nil || !a.expects(subject) && !(strings.HasSuffix(kind, "Subscription") && subject == a.inbox+"*") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied == nil {
		c.denied = make(map[string]bool)
	}
	c.denied[subject] = true
}

// denies reports whether NATS is known not to permit a subject.
func (c *connection) denies(subject string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[subject]
}
