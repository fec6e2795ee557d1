package subscribers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// listenerBound is how long a round of a listener's loop takes at most, whatever
// happens to Redis: that of its connection, and a call to Redis.
const listenerBound = time.Minute

// ListenerOptions are the options of a Listener. The zero value is the default.
type ListenerOptions struct {
	Name    string        // among the workers; empty: HOST-PID
	Version string        // of the program
	Grace   time.Duration // how long handlers of named listeners may go on when they stop; zero: 20s
	Logger  *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
}

// ListenOptions are the options of one listener. The zero value is the default.
type ListenOptions struct {
	From From // where it begins

	// Name keeps its place in Redis: processes that listen under one name share
	// the broadcasts among them, each is acknowledged when its handler returns
	// nil, and what a process had leased when it died is handed to another. The grammar is
	// that of a topic. A name belongs to one pattern and one From.
	Name string

	// Shard has it receive only what is sent to the topics in a shard, of those that the
	// pattern matches; nil: in all. A named listener has none.
	Shard *store.Shard

	OnStart func(Bookmark) // called once when it listens: it misses nothing that is sent from now on, behind this bookmark

	// OnGap is called in the place of broadcasts that are missing, or that may be missing since Redis lost its data. Gaps
	// are also logged and counted. One of trimmed broadcasts comes again to a named listener that died in OnGap.
	OnGap func(Gap)

	// Of a named listener. A broadcast that failed keeps its goroutine until its next
	// attempt, so that none overtakes it with a Concurrency of one. One whose handler
	// returns NotNow is released, and comes before those that were sent later.
	Concurrency int            // broadcasts handled at the same time, of all shards, up to 10000; zero: one
	Lease       time.Duration  // of a broadcast, extended while the handler runs; zero: 30s
	BackoffMin  time.Duration  // upper bound of the random wait after the first failed attempt; zero: 1s
	BackoffMax  time.Duration  // the same after many, as it doubles with each; zero: 10m
	MaxAttempts int            // after which a broadcast is given up; zero: 10
	Budget      *budget.Budget // of what this and other handlers have in hand together; nil: none

	// OnGivenUp is called when a broadcast is given up: out of attempts, or its handler returned ErrBury.
	OnGivenUp func(b *Broadcast, reason string)
}

// A Listener listens for broadcasts. One Listener for a whole process is best: it has
// one connection to Redis and reads each broadcast once, for all calls of Listen. It
// is safe for concurrent use and needs no closing.
type Listener struct {
	store *notify.Store
	o     ListenerOptions
	stats counters
	here  *attendance
	watch *watch // of the hub, where it is the only one
	sums  *outage.Summary

	laying sync.Mutex
	hubs   []*hub // of each shard; nil: their number is not known yet

	checked atomic.Bool // Redis is fit
}

// NewListener returns a listener to a store. It starts nothing. The error is a
// notify.Fault.
func NewListener(s *notify.Store, options ...ListenerOptions) (*Listener, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, fillRun(&o.Grace, &o.Logger), fillName(&o.Name)); err != nil {
		return nil, err
	}
	worker := store.Worker{Name: o.Name, Version: o.Version, Kind: kindListener}
	return &Listener{store: s, o: o, here: newAttendance(s, worker), watch: newWatch(s.Home(), o.Logger), sums: newSummary(o.Logger)}, nil
}

// Stats returns what the listener counted so far.
func (l *Listener) Stats() ListenerStats {
	stats := l.stats.stats()
	for _, h := range l.made() {
		if last := h.loop.Last(); stats.Progress.IsZero() || !last.IsZero() && last.Before(stats.Progress) {
			stats.Progress = last
		}
	}
	return stats
}

// Alive returns an error if a loop that reads for all calls of Listen is stuck, for
// watchdogs. It is nil while Redis is unavailable, and while nothing listens.
func (l *Listener) Alive() error {
	var errs []error
	for _, h := range l.made() {
		errs = append(errs, h.loop.Alive())
	}
	return errors.Join(errs...)
}

// Listen calls handler for each broadcast of a topic, or of a pattern such as
// prices.* or prices.> (notify.ParsePattern), until ctx ends; then it returns
// nil. It does not poll: it is woken when a log grows, and reads on from its
// position. After a lost connection it gets all that is still kept. The carrier's
// beat makes up for a lost wake-up within a second.
//
// Where Redis loses all its data, every listener gets a gap, also one that goes on behind
// a bookmark from before, and a name is registered anew: as its From says, by default from
// then on. Of several shards each may lose its own.
//
// In a store of several shards a listener to many topics gets those of all shards. While
// one is away it gets those of the others. The order of a topic always holds, and that of
// topics that share a shard; others come as they arrive. The shards of a new listener begin
// at the same time, now, as far as their clocks agree; that of one that is away then is taken
// from the others.
//
// A broadcast whose TTL is over is left out; it is no gap.
//
// Without a name, handler is called for one broadcast after the other, each once,
// in the order in which they were sent, also where they are of many topics (of one shard). An
// error of handler ends Listen, which returns it. With a name, see
// ListenOptions: order holds for each topic, with one process of concurrency 1; an
// error of handler has it called again after a backoff, or as RetryAfter, NotNow,
// ErrBury and ErrStopping say. The context of handler ends as that of a Handler.
//
// A slow handler delays no other: its listener falls behind, which is counted, and
// reads from Redis what the others read long before. If it falls behind what Redis
// keeps, OnGap is called with the gap.
//
// Errors: a notify.ErrInvalid that names what is wrong, among them a name that
// is in use with another pattern or From; a notify.ErrNoListener when the name was
// removed meanwhile; a notify.ErrUnfit; or that of handler.
func (l *Listener) Listen(ctx context.Context, pattern string, handler func(context.Context, *Broadcast) error, options ...ListenOptions) error {
	o, errOptions := store.Option(options)
	p, errPattern := notify.ParsePattern(pattern)
	var errHandler error
	if handler == nil {
		errHandler = fault.New("handler", "handler of %s: it is nil; use a function", pattern)
	}
	if err := errors.Join(errPattern, errHandler, errOptions, o.check(pattern)); err != nil {
		return err
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	hubs, err := l.hubsFor(ctx, p, o.Shard)
	if err != nil || hubs == nil {
		return err // nil: ctx ended
	}
	if o.Name != "" {
		return l.listenNamed(ctx, hubs, p, handler, o)
	}
	begin, err := l.beginnings(o.From, hubs)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	members, leave := l.join(hubs, p, "")
	s := &stream{members: members}
	defer leave()
	defer s.shards.Wait()
	defer stop()
	if awaitReady(ctx, members) != nil {
		return nil // ctx ended
	}
	l.watch.redis.End() // of several shards each logs its own
	s.at = place(members, begin)
	if o.OnStart != nil {
		o.OnStart(bookmarkOf(s.at))
	}
	s.start(ctx, begin)
	for {
		items, at, err := s.next(ctx)
		if err != nil {
			return nil // ctx ended
		}
		for _, i := range items {
			if ctx.Err() != nil {
				return nil
			}
			if err := l.handle(ctx, i, at, handler, o.OnGap); err != nil {
				return err
			}
		}
	}
}

// made returns the hubs that there are by now.
func (l *Listener) made() []*hub {
	l.laying.Lock()
	defer l.laying.Unlock()
	return l.hubs
}

// hubsFor returns the hubs of the shards that a pattern needs, retrying until the number of
// shards is known; none when ctx ended. The error is that of Store.Shards.
func (l *Listener) hubsFor(ctx context.Context, p notify.Pattern, only *store.Shard) ([]*hub, error) {
	retry := outage.Retry{Notice: l.watch.redis}
	for ctx.Err() == nil {
		shards, err := l.store.Shards(ctx)
		topic, one := p.Topic()
		switch {
		case err == nil && only != nil:
			return l.allHubs(shards)[only.Number():][:1], nil
		case err == nil && one:
			return l.allHubs(shards)[l.store.Of(topic).Number():][:1], nil
		case err == nil:
			return l.allHubs(shards), nil
		case ctx.Err() == nil && !notify.Retryable(err):
			return nil, err
		}
		retry.Wait(ctx, err)
	}
	return nil, nil
}

// allHubs returns the hubs of all shards.
func (l *Listener) allHubs(shards []store.Shard) []*hub {
	l.laying.Lock()
	defer l.laying.Unlock()
	if l.hubs != nil {
		return l.hubs
	}
	for _, shard := range shards {
		h := &hub{
			logs: logs{shard, &l.stats}, log: l.o.Logger, sums: l.sums, here: l.here, watch: l.watch,
			news: make(chan struct{}, 1), loop: progress.New("listener", shard.Store().Bear(listenerBound)),
		}
		if len(shards) > 1 {
			h.log = l.sums.Logger().With(which(shard)...)
			h.here, h.watch = nil, newWatch(shard, l.sums.Logger())
		}
		l.hubs = append(l.hubs, h)
	}
	return l.hubs
}

// check refuses a Redis that is unfit. It logs one that is unavailable, for which Listen waits.
func (l *Listener) check(ctx context.Context) error {
	if l.checked.Load() {
		return nil
	}
	redis := l.watch.redis
	answered := redis.After(reach.Patience, "error", l.store.NoAnswer())
	err := l.store.Check(ctx)
	answered()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil && notify.Retryable(err):
		redis.Note(err)
		return nil
	}
	l.checked.Store(err == nil)
	return err
}

// handle hands an item of a log to its handler, or to onGap. at is where the listener stood.
func (l *Listener) handle(ctx context.Context, i item, at *standing, handler func(context.Context, *Broadcast) error, onGap func(Gap)) error {
	switch {
	case i.gap != nil:
		g := *i.gap
		g.standing = at
		l.missed(g, i.why, onGap)
	case i.broadcast != nil && !i.broadcast.Expired():
		b := *i.broadcast
		b.standing = at
		l.stats.handled.Add(1)
		return handler(ctx, &b)
	}
	return nil
}

// missed reports a gap.
func (l *Listener) missed(g Gap, why string, onGap func(Gap)) {
	l.stats.gaps.Add(1)
	l.o.Logger.Error(why, "topic", g.Topic, "after", g.After.Time(), "up_to", g.UpTo.Time())
	if onGap != nil {
		onGap(g)
	}
}
