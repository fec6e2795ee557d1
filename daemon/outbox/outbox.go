package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// Options are the options of an Outbox.
type Options struct {
	database.Address              // of the database that has the outbox; required
	MaxBody          int          // bytes of the largest body that is relayed; zero: notify.DefaultMaxBody
	Logger           *slog.Logger // nil: slog.Default(); to log nothing: slog.New(slog.DiscardHandler)
}

// An Outbox is a table of messages in a database, which one daemon at a time moves into a store. It is safe for concurrent use.
type Outbox struct {
	store  *notify.Store
	o      Options
	config *pgxpool.Config // of the relay's connection
	pool   *pgxpool.Pool   // of all else
	pub    *notify.Publisher

	trouble *outage.Retry // the database's
	away    *outage.Many  // shards that take no rows
	stale   stale         // other relays

	tellPooled sync.Once

	relayed, kept, refused, failures atomic.Int64
	state                            state
}

// state is what is true while a term runs.
type state struct {
	mu     sync.Mutex
	since  time.Time // of the connection; zero: none
	pooled bool
}

// set notes since when there is a connection, and of which kind.
func (s *state) set(since time.Time, pooled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.pooled = since, pooled
}

// readers is how many connections there are at the most beside that of the relay.
const readers = 2

// idleFor is how long one of them stays open that is not used.
const idleFor = time.Minute

// New returns the outbox of a database, for a store. It checks its options, and connects to nothing. The error is a joined notify.Fault.
func New(s *notify.Store, o Options) (*Outbox, error) {
	if err := errors.Join(store.CheckStore(s), o.Check()); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	b := &Outbox{store: s, o: o}
	b.trouble = outage.NewRetry(o.Logger, "cannot relay what the outbox holds; retrying", "relaying what the outbox holds again")
	b.away = outage.NewMany(o.Logger, slog.LevelError, "cannot relay what the outbox holds to a shard; retrying", "relaying what the outbox holds to all shards again").Patient()
	var err error
	if b.pub, err = notify.NewPublisher(s, notify.PublisherOptions{MaxBody: cmp.Or(o.MaxBody, notify.DefaultMaxBody)}); err != nil {
		return nil, err
	}
	if b.config, err = o.relayConfig(); err != nil {
		return nil, err
	}
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MaxConnIdleTime = readers, idleFor
	b.pool, err = pgxpool.NewWithConfig(context.Background(), config) // it only dials when it is asked for a connection
	return b, err
}

// Close closes the connections to the database. Term must have returned.
func (b *Outbox) Close() { b.pool.Close() }

// Address returns the URL of the database without passwords.
func (b *Outbox) Address() string { return b.o.Address.String() }

// Stats are what an outbox did since it was made, and how it is.
type Stats struct {
	Relayed  int64     // rows that left the outbox for the store, those that were kept among them
	Kept     int64     // of these: their ids were in use, and the messages that had them stayed
	Refused  int64     // rows that stay, with the reason
	Failures int64     // of the connection to the database, and of statements
	Since    time.Time // when this process began to relay; zero: it does not, or the database is away
	Pooled   bool      // it does so through a pool of connections, and has to look again and again
}

// Stats returns the statistics of the outbox.
func (b *Outbox) Stats() Stats {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return Stats{
		Relayed: b.relayed.Load(), Kept: b.kept.Load(), Refused: b.refused.Load(), Failures: b.failures.Load(),
		Since: b.state.since, Pooled: b.state.pooled,
	}
}
