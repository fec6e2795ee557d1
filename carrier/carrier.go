package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Defaults and limits of Options.
const (
	DefaultLease       = 3 * time.Second
	MinLease           = 500 * time.Millisecond
	MaxLease           = 10 * time.Minute
	DefaultBatch       = 500
	MaxBatch           = 1000
	DefaultMaxAttempts = 10
)

// Options are the options of a Carrier. The zero value is the default.
type Options struct {
	Name        string        // who this is, for people; empty: HOST:PID
	Lease       time.Duration // of the election: how long a killed carrier is missed; zero: DefaultLease
	Batch       int           // messages moved in one call at the most; zero: DefaultBatch
	MaxAttempts int           // limit of attempts of a message that has none of its own; zero: DefaultMaxAttempts
	Logger      *slog.Logger  // nil: nothing is logged

	// OnDead is called for each message that the carrier buried: its lease
	// expired on its last attempt, it expired, or it is foreign. It must not block.
	OnDead func(Death)
}

// A Death is a message that the carrier buried.
type Death struct {
	Topic, ID string // Topic is empty, and ID the whole member, where it is foreign
	Reason    string
	Attempts  int // used up
}

// A Carrier moves messages while it is elected. It is run once at a time.
type Carrier struct {
	store *notify.Store
	o     Options
}

// New returns a carrier on a store. The error is a notify.ErrInvalid that names the option.
func New(store *notify.Store, o Options) (*Carrier, error) {
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case strings.ContainsFunc(o.Name, func(r rune) bool { return r < '!' || r > '~' }):
		return nil, fmt.Errorf("%w carrier name %q: use printable ASCII without spaces", notify.ErrInvalid, o.Name)
	case o.Lease < MinLease || o.Lease > MaxLease:
		return nil, fmt.Errorf("%w carrier lease %v: use %v to %v", notify.ErrInvalid, o.Lease, MinLease, MaxLease)
	case o.Batch < 1 || o.Batch > MaxBatch:
		return nil, fmt.Errorf("%w carrier batch %d: use 1 to %d", notify.ErrInvalid, o.Batch, MaxBatch)
	case o.MaxAttempts < 1 || o.MaxAttempts > notify.MostAttempts:
		return nil, fmt.Errorf("%w max attempts %d: use 1 to %d", notify.ErrInvalid, o.MaxAttempts, notify.MostAttempts)
	}
	return &Carrier{store: store, o: o}, nil
}

// Run stands by, carries while elected, and stands by again when deposed, until
// ctx ends; then it gives up its lease and returns nil. A Redis that is away,
// or refuses, does not end it: it logs the change and tries again. The error is
// a notify.ErrUnfit: a Redis that must not hold messages.
func (c *Carrier) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		t, err := c.standBy(ctx)
		if err != nil {
			return err
		}
		if t == nil {
			return nil
		}
		c.o.Logger.Info("elected", "carrier", c.o.Name, "epoch", t.epoch)
		if err := t.carry(ctx); errors.Is(err, errDeposed) {
			c.o.Logger.Warn("deposed: the lease is another's", "carrier", c.o.Name, "epoch", t.epoch)
			continue
		}
		c.resign(ctx, t)
	}
	return nil
}

// backoff is the pause before a call to Redis is made again: it doubles up to
// a second and is random by half, so that many do not return in step.
type backoff struct{ next time.Duration }

const (
	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
)

func (b *backoff) wait(ctx context.Context) {
	b.next = min(max(2*b.next, backoffMin), backoffMax)
	select {
	case <-ctx.Done():
	case <-time.After(b.next/2 + rand.N(b.next/2)):
	}
}
