// Package archive keeps what ended in a PostgreSQL database.
package archive

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
)

var errNotBuilt = errors.New("not built yet")

// Options are the options of an Archive.
type Options struct {
	URL          string // postgres://USER@HOST/DATABASE
	PasswordFile string // read for each connection; empty: that of the URL
	Room         int    // entries that the outbox holds while the database is away
	Logger       *slog.Logger
}

// An Archive is a database of messages that ended. It is safe for concurrent use.
type Archive struct{}

// New returns an archive of a store. It checks its options, and connects to nothing. The
// error is a notify.Fault.
func New(s *notify.Store, o Options) (*Archive, error) { return nil, errNotBuilt }

// Term stores what the outbox holds until ctx ends: it runs while this process's carrier
// is elected.
func (a *Archive) Term(ctx context.Context, t carrier.Term) {}

// Close closes the connections to the database.
func (a *Archive) Close() {}

// Stats are what an archive did since it was made, and how far it is behind.
type Stats struct {
	Stored int64 // rows
	Failed int64 // batches that the database did not take
	Away   bool  // the last call to the database failed
}

// Stats returns the statistics of the archive.
func (a *Archive) Stats() Stats { return Stats{} }

// A Row is a message that ended.
type Row struct {
	Ended     time.Time
	Topic     string
	ID        string
	State     string // dead, dropped, acked or removed
	Reason    string
	Attempts  int
	History   []notify.Attempt
	Due       time.Time
	Published time.Time
	Store     string // id of the store
	Entry     string // its id in the outbox of the store

	notify.Record        // without the body, where the reader may not read that
	Result        []byte // nil: none
	Size          int    // of the body in bytes
}

// A Query selects rows. All that is set must hold.
type Query struct {
	Topics  []notify.Pattern // none: all
	ID      string           // whole
	State   string
	Reason  string            // a part of the reason
	Headers map[string]string // name and whole value
	Body    string            // a part of the body
	From    time.Time         // ended then or later
	To      time.Time         // ended before
}

// Check returns a joined notify.Fault for what is wrong with a query.
func (q Query) Check() error { return nil }

// A Page is a part of what a query selects, newest first.
type Page struct {
	Rows   []Row
	Cursor string // for the next page; empty: this was the last
}

// Search returns a page of up to limit rows, behind a cursor. Errors: a notify.Fault, or
// that of the database.
func (a *Archive) Search(ctx context.Context, q Query, limit int, cursor string, bodies bool) (Page, error) {
	return Page{}, errNotBuilt
}

// Show returns all rows of a message, newest first. Errors: notify.ErrNotFound, a
// notify.Fault, or that of the database.
func (a *Archive) Show(ctx context.Context, topic, id string, bodies bool) ([]Row, error) {
	return nil, errNotBuilt
}

// A Change is how many rows a call worked on.
type Change struct {
	Done    int    // rows that were published again, or removed
	Refused int    // rows that could not be published: their ids are in use
	Cursor  string // to go on; empty: all are done
}

// Requeue publishes rows again, as due now, under their ids: up to limit of those that a
// query selects, behind a cursor. What is in use or ended is refused. Errors: a notify.Fault, that of
// Redis or that of the database, with what was done until then.
func (a *Archive) Requeue(ctx context.Context, q Query, limit int, cursor string) (Change, error) {
	return Change{}, errNotBuilt
}

// Prune removes up to limit rows that ended before a time, whole months at once. Errors: a notify.Fault, or that
// of the database.
func (a *Archive) Prune(ctx context.Context, before time.Time, limit int) (Change, error) {
	return Change{}, errNotBuilt
}

// Erase removes up to limit rows that a query selects: what a person asks to be
// forgotten. Errors: a notify.Fault, or that of the database.
func (a *Archive) Erase(ctx context.Context, q Query, limit int) (Change, error) {
	return Change{}, errNotBuilt
}
