package find

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	// MaxLimit is the most messages of a page, and DefaultLimit how many it has unless Options say else.
	MaxLimit     = 500
	DefaultLimit = 100

	// MaxOfBodies is how many searches of bodies a gateway permits a client at a time.
	MaxOfBodies = 2

	pageBytes = 8 << 20 // of records that fill a page unless Options say else
	endAfter  = time.Second
)

// A Finder finds messages of a store. Its searches take turns in Redis, so that all together take half of
// its time at the most. It is safe for concurrent use and needs no closing.
type Finder struct {
	store *notify.Store
	turn  chan struct{}                 // holds one while a search has its turn
	since func(time.Time) time.Duration // time.Since, by which calls end
}

// New returns a finder of a store. The error is a notify.Fault for a nil store.
func New(s *notify.Store) (*Finder, error) {
	if err := store.CheckStore(s); err != nil {
		return nil, err
	}
	return &Finder{store: s, turn: make(chan struct{}, 1), since: time.Since}, nil
}

// Paced makes a call to Redis when it is its turn among those of the searches, and pauses as long as it took. Within CallTime the
// context of the call ends. The error is that of the call, or of ctx.
func (f *Finder) Paced(ctx context.Context, call func(context.Context) error) (took time.Duration, err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-f.turn }()
	within, cancel := context.WithTimeout(ctx, CallTime)
	defer cancel()
	return store.Paced(ctx, func(context.Context) error { return call(within) })
}

// Options are how to search. The zero Options are the defaults.
type Options struct {
	Limit  int                     // most messages of a page, or of a call of an act. Zero: DefaultLimit; of an act as many as fit into its time
	Size   int64                   // bytes of records that fill a page; zero: 8 MiB
	Cursor string                  // of the page before; empty: the beginning
	May    func(topic string) bool // which topics are looked at; nil: all
}

// A Page is a part of what a search finds.
type Page struct {
	Messages []notify.Info
	Looked   int64  // messages that it looked at so far, with those of the pages before; for a whole id, topics in which it looked for that
	Of       int64  // how many there are to look at, as far as they are counted: that takes the first pages if topics are very many
	Cursor   string // where the next page begins; empty at the end
}

// Find returns a page of the messages that a question asks for, by shard, by state, by topic, and
// by time; leased ones and broadcasts that wait by time alone. It returns when the page is full,
// and after a second in any case: read its Cursor. A cursor goes on with the same
// question at any later time; times from now count from its first page. Errors: a notify.Fault, or that of the
// connection; or a notify.MissingError beside the page: those shards are passed over.
func (f *Finder) Find(ctx context.Context, q Query, o Options) (Page, error) {
	var page Page
	s, err := f.search(ctx, q, o, "")
	if err != nil {
		return Page{}, err
	}
	if s.paged = true; s.limit == 0 {
		s.limit = DefaultLimit
	}
	s.take = func(_ context.Context, _ store.Shard, found []notify.Info, _ time.Time) error {
		page.Messages = append(page.Messages, found...)
		return nil
	}
	if err = s.tally(ctx); err == nil {
		err = s.run(ctx)
	}
	page.Looked, page.Of, page.Cursor = s.progress()
	if err != nil && !store.IsPartial(err) {
		return Page{}, fmt.Errorf("find: %w", err)
	}
	return page, err
}
