package subscribers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
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

	OnStart func(notify.Position) // called once when it listens: it misses nothing that is sent from now on, behind this position
	OnGap   func(Gap)             // called in the place of broadcasts that are missing, or that may be missing since Redis lost its data; gaps are also logged and counted

	// Of a named listener. A broadcast that failed keeps its goroutine until its next
	// attempt, so that none overtakes it with a Concurrency of one. One whose handler
	// returns NotNow is released, and comes before those that were sent later.
	Concurrency int           // broadcasts handled at the same time, up to 10000; zero: one
	Lease       time.Duration // of a broadcast, extended while the handler runs; zero: 30s
	Backoff     Backoff       // between attempts
	MaxAttempts int           // after which a broadcast is given up; zero: 10

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
	hub   *hub // of all shards

	hubs   sync.Mutex
	shards map[int]*hub // of calls of Listen that name a shard

	checked atomic.Bool // Redis is fit
}

// NewListener returns a listener to a store. It starts nothing. The error is a
// notify.Fault.
func NewListener(s *notify.Store, options ...ListenerOptions) (*Listener, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, fillRun(&o.Grace, &o.Logger), fillName(&o.Name)); err != nil {
		return nil, err
	}
	l := &Listener{store: s, o: o, shards: make(map[int]*hub)}
	l.hub = l.newHub(s.Home())
	return l, nil
}

// newHub returns a hub for the logs of a shard.
func (l *Listener) newHub(shard store.Shard) *hub {
	return &hub{
		logs: logs{l.store, shard, &l.stats}, log: l.o.Logger, watch: newWatch(l.store, l.o.Logger),
		worker: store.Worker{Name: l.o.Name, Version: l.o.Version, Kind: kindListener},
		news:   make(chan struct{}, 1), loop: progress.New("listener", listenerBound),
	}
}

// hubOf returns the hub for ListenOptions.Shard.
func (l *Listener) hubOf(shard *store.Shard) *hub {
	if shard == nil {
		return l.hub
	}
	l.hubs.Lock()
	defer l.hubs.Unlock()
	h := l.shards[shard.Number()]
	if h == nil {
		h = l.newHub(*shard)
		l.shards[shard.Number()] = h
	}
	return h
}

// slowest returns the loop of the hubs that came around the longest ago.
func (l *Listener) slowest() *progress.Loop {
	l.hubs.Lock()
	defer l.hubs.Unlock()
	slowest := l.hub.loop
	for _, h := range l.shards {
		if last := h.loop.Last(); !last.IsZero() && (slowest.Last().IsZero() || last.Before(slowest.Last())) {
			slowest = h.loop
		}
	}
	return slowest
}

// Stats returns what the listener counted so far.
func (l *Listener) Stats() ListenerStats {
	stats := l.stats.stats()
	stats.Progress = l.slowest().Last()
	return stats
}

// Alive returns an error if the loop that reads for all calls of Listen is stuck, for
// watchdogs. It is nil while Redis is unavailable, and while nothing listens.
func (l *Listener) Alive() error { return l.slowest().Alive() }

// Listen calls handler for each broadcast of a topic, or of a pattern such as
// prices.* or prices.> (notify.ParsePattern), until ctx ends; then it returns
// nil. It does not poll: it is woken when a log grows, and reads on from its
// position. After a lost connection it gets all that is still kept. The carrier's
// beat makes up for a lost wake-up within a second.
//
// Where Redis loses all its data, every listener gets a gap, and a name is registered
// anew: as its From says, by default from then on.
//
// A broadcast whose TTL is over is left out; it is no gap.
//
// Without a name, handler is called for one broadcast after the other, each once,
// in the order in which they were sent, also where they are of many topics. An
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
		errHandler = store.Faultf("handler", "handler of %s: it is nil; use a function", pattern)
	}
	if err := errors.Join(errPattern, errHandler, errOptions, o.check(pattern)); err != nil {
		return err
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if o.Name != "" {
		return l.listenNamed(ctx, p, handler, o)
	}
	hub := l.hubOf(o.Shard)
	m, err := hub.join(ctx, p, "")
	if err != nil {
		return nil // ctx ended
	}
	defer hub.leave(m)
	hub.place(m, o.From)
	if o.OnStart != nil {
		o.OnStart(hub.cursor(m))
	}
	for {
		items, err := hub.next(ctx, m)
		if err != nil {
			return nil // ctx ended
		}
		for _, i := range items {
			if ctx.Err() != nil {
				return nil
			}
			if err := l.handle(ctx, i, handler, o.OnGap); err != nil {
				return err
			}
		}
	}
}

// check refuses a Redis that is unfit. It logs one that is unavailable, for which Listen waits.
func (l *Listener) check(ctx context.Context) error {
	if l.checked.Load() {
		return nil
	}
	redis := l.hub.watch.redis
	answered := redis.After(store.Patience, "error", l.store.NoAnswer())
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

// handle hands an item of a log to its handler, or to onGap.
func (l *Listener) handle(ctx context.Context, i item, handler func(context.Context, *Broadcast) error, onGap func(Gap)) error {
	switch {
	case i.gap != nil:
		l.missed(*i.gap, i.why, onGap)
	case i.broadcast != nil && !i.broadcast.Expired():
		b := *i.broadcast
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
