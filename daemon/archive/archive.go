// Package archive keeps what ended in a PostgreSQL database: a row for each message that
// died, expired, was dropped or removed by the housekeeping, and for each that was
// acknowledged, if its topic's settings say so.
//
// While an archive is registered in Redis, the scripts that end messages add them to the
// stream of endings. The daemon whose carrier is elected moves the stream of endings into the database
// in batches: it inserts, then removes what it inserted from the stream of endings. A batch may be
// inserted twice, by a daemon that was killed in between or by two of which one was
// paused; its rows have the same keys then, and stay one each. So no row is lost that
// Redis kept, and there is none twice.
//
// Each shard of a store has a stream of endings, and an id of its own that its rows have as that of
// their store. The daemon that carries the shard moves it: those of several side by side, over
// a few connections, of which one stays open at rest.
//
// While the database is away the stream of endings grows up to its room, and nothing else is late:
// Redis needs no database to end a message. What the housekeeping removes beyond the room
// is counted.
//
// The schema is bellhop. Its table messages is partitioned by the month of the end, in
// UTC, so that old months are removed at once. It is made, and changed to newer versions,
// by the archiving daemon; the other calls only read it or remove rows. The README of
// this folder shows how to search it with SQL.
package archive

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// DefaultRoom is how many entries the stream of endings holds while the database is away, unless
// Options.Room is set: twice the dead letters that a topic keeps by default.
const DefaultRoom = 200_000

const (
	storeWithin = 30 * time.Second // a batch
	askWithin   = 30 * time.Second // a statement of the other calls
	lockWithin  = 10 * time.Second // until a statement gives up that something else holds up
	idleFor     = time.Minute      // until a connection that is not used is closed
	readers     = 4                // connections of the other calls
)

// Options are the options of an Archive.
type Options struct {
	URL          string       // postgres://USER@HOST/DATABASE, with parameters as libpq has them; required
	PasswordFile string       // read for each connection; overrides a password in URL; empty: that of URL
	Room         int          // entries that the stream of endings of a shard holds while the database is away; zero: DefaultRoom
	Logger       *slog.Logger // nil: slog.Default(); to log nothing: slog.New(slog.DiscardHandler)
}

// address returns where the database is.
func (o Options) address() database.Address {
	return database.Address{URL: o.URL, PasswordFile: o.PasswordFile}
}

// Check returns a joined notify.Fault for what is wrong with the options.
func (o Options) Check() error {
	var room error
	if o.Room < 0 {
		room = fault.New("room", "room %d: use 1 or more entries, or 0 for %d", o.Room, DefaultRoom)
	}
	return errors.Join(o.address().Check(), room)
}

// An Archive is a database of messages that ended. It is safe for concurrent use.
type Archive struct {
	store   *notify.Store
	o       Options
	config  *pgxpool.Config
	pool    *pgxpool.Pool // of all but Term, which has writers
	writers writers
	unread  *outage.Many // the streams of endings of these shards cannot be read
	trouble *outage.Many // these shards cannot be archived for other reasons: the database's
	pub     *notify.Publisher

	inspector *notify.Inspector

	stored, failed, unreadable atomic.Int64
	away                       away
}

// away are the numbers of the shards whose last call to the database failed, in a term that runs.
type away struct{ shards sync.Map }

func (a *away) note(shard int, is bool) {
	if is {
		a.shards.Store(shard, true)
	} else {
		a.shards.Delete(shard)
	}
}

func (a *away) some() bool {
	for range a.shards.Range {
		return true
	}
	return false
}

// New returns an archive of a store. It checks its options, and connects to nothing. The
// error is a joined notify.Fault.
func New(s *notify.Store, o Options) (*Archive, error) {
	if err := errors.Join(store.CheckStore(s), o.Check()); err != nil {
		return nil, err
	}
	o.Room = cmp.Or(o.Room, DefaultRoom)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := &Archive{store: s, o: o}
	a.writers.free = make(chan struct{}, mostWriters)
	a.unread = outage.NewMany(o.Logger, slog.LevelError, "cannot read the stream of endings; retrying", "reading the stream of endings again").Patient()
	a.trouble = outage.NewMany(o.Logger, slog.LevelError, "cannot archive what ended; retrying", "archiving what ended again")
	var err error
	if a.config, err = o.address().Config(); err != nil {
		return nil, err
	}
	a.config.MaxConns, a.config.MaxConnIdleTime = readers, idleFor
	if a.pub, err = notify.NewPublisher(s, notify.PublisherOptions{MaxBody: math.MaxInt}); err != nil {
		return nil, err
	}
	if a.inspector, err = notify.NewInspector(s); err != nil {
		return nil, err
	}
	// The pool only dials when it is asked for a connection.
	a.pool, err = pgxpool.NewWithConfig(context.Background(), a.config)
	return a, err
}

// Close closes the connections to the database. Term must have returned.
func (a *Archive) Close() { a.pool.Close() }

// Address returns the URL of the database without passwords.
func (a *Archive) Address() string { return a.o.address().String() }

// Stats are what an archive did since it was made.
type Stats struct {
	Stored     int64 // rows that were new to the database
	Failed     int64 // batches that the database did not take, and connections that it refused
	Unreadable int64 // rows that were read and are unreadable: somebody else wrote them
	Away       bool  // the last call to the database failed of a shard that this process archives
}

// Stats returns the statistics of the archive.
func (a *Archive) Stats() Stats {
	return Stats{Stored: a.stored.Load(), Failed: a.failed.Load(), Unreadable: a.unreadable.Load(), Away: a.away.some()}
}

// Backlog returns how far the archive is behind, in all shards. The error is that of the
// connection to Redis; or a store.MissingError beside the backlog of the other shards.
func (a *Archive) Backlog(ctx context.Context) (store.Backlog, error) { return a.store.Backlog(ctx) }

// A Row is a message that ended.
type Row struct {
	Ended    time.Time
	Topic    string
	ID       string
	State    string // dead, dropped, acked or removed
	Reason   string
	Attempts int
	History  []notify.Attempt
	Store    string // id of the store, of several shards of the one
	Entry    string // its id in the stream of endings of the store

	notify.Record        // with when it was published and first due; without the body, if the reader may not read that
	Result        []byte // of an acknowledgement; nil: none, or the reader may not read it
	Size          int    // of the body in bytes
	Fault         string // why the record was unreadable, and the body is all of it; or why the row is; empty: neither is
}

// A Page is a part of what a query selects, newest first.
type Page struct {
	Rows   []Row
	Cursor string // for the next page; empty: this was the last
}
