package subscribers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	takeTopics = 50  // logs from which one call claims
	takeAhead  = 256 // broadcasts that are claimed before a goroutine is free, at the most
)

// A named is one process of a named listener in one shard. Fields without a mutex are for the
// goroutine that claims there alone.
type named struct {
	*Listener
	*engine[turn] // whose hands those of all shards share
	name          string
	pattern       notify.Pattern
	handler       func(context.Context, *Broadcast) error
	o             ListenOptions
	home          *atomic.Pointer[registration] // in the first shard
	shards        []*named                      // of all shards
	member        *member
	stopping      <-chan struct{}

	latest notify.Position // of the broadcasts that were handed out
	topics map[string]bool // whose logs may hold more
	left   bool            // a process that died may have left broadcasts
	called bool            // the name was rung: the name may also have been removed

	at           atomic.Pointer[registration] // written by the claiming goroutine alone; nil: the shard has not answered yet
	unregistered bool                         // at was gone when a broadcast was settled; guarded by hands.mu
	lostAfter    notify.Position              // before the first broadcast that was released then, or endOfLogs; guarded by hands.mu
}

// shard returns the shard.
func (n *named) shard() store.Shard { return n.member.hub.shard }

// listenNamed is Listen with a name.
func (l *Listener) listenNamed(ctx context.Context, hubs []*hub, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) error {
	home, err := l.register(ctx, hubs, p, o)
	if err != nil || home.Text == "" {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	members, leave := l.join(hubs, p, o.Name)
	defer leave()
	defer stop(nil)
	all := l.newNamed(ctx, stop, members, home, p, handler, o)
	registerSoon(ctx, all)
	if awaitReady(ctx, members) != nil {
		return nil // ctx ended
	}
	l.watch.redis.End()
	if o.OnStart != nil {
		o.OnStart(bookmarkOf(place(members, slices.Repeat([]beginning{{from: FromNow().text}}, len(hubs)))))
	}
	var others sync.WaitGroup
	for _, n := range all[1:] {
		others.Go(func() { n.listen(ctx) })
	}
	all[0].listen(ctx)
	others.Wait()
	if err := context.Cause(ctx); all[0].ends(err) {
		return err
	}
	return nil
}

// listen handles broadcasts until ctx ends.
func (n *named) listen(ctx context.Context) {
	_ = n.run(ctx) // its error is the cause of that
	n.findAgain(ctx)
}

// newNamed returns what handles broadcasts in the shard of each member, until ctx ends. An error
// that ends a claim stops them all.
func (l *Listener) newNamed(ctx context.Context, stop context.CancelCauseFunc, members []*member, home registration, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) []*named {
	all, shared, at := make([]*named, len(members)), new(hands[turn]), new(atomic.Pointer[registration])
	at.Store(&home)
	for i, m := range members {
		n := &named{
			Listener: l, name: o.Name, pattern: p, handler: handler, o: o, home: at, shards: all, member: m, stopping: ctx.Done(),
			topics: make(map[string]bool), lostAfter: endOfLogs,
		}
		n.engine = shared.engine(source[turn]{
			claim: func(ctx context.Context, free int, done []turn) (batch[turn], error) {
				got, err := n.claimTurns(ctx, free, done)
				if n.ends(err) {
					stop(err)
				}
				return got, err
			},
			handle: n.handleTurn, ack: n.ackTurns, release: n.releaseTurns, extend: n.extendTurns,
			lease: func(*turn) (lease, most time.Duration) { return o.Lease, 0 },
			ends:  func(err error) bool { return errors.Is(err, notify.ErrNoListener) || errors.Is(err, notify.ErrInvalid) },
			size:  func(t *turn) int { return len(t.Body) },
			about: func(t *turn) []any { return []any{"topic", t.Topic, "id", t.ID, "attempt", t.attempt} },
			noun:  "broadcast",
		}, terms{
			concurrency: o.Concurrency, ahead: takeAhead, grace: l.o.Grace, claimsSettle: true, budget: o.Budget,
		}, m.bell, l.o.Logger.With("name", o.Name))
		n.outages = m.hub.log.With("name", o.Name)
		all[i] = n
	}
	return all
}

// check returns a joined Fault for each wrong option, and puts in the defaults of a
// named listener.
func (o *ListenOptions) check(pattern string) error {
	if o.Name == "" {
		if o.Concurrency != 0 || o.Budget != nil || o.Lease != 0 || o.MaxAttempts != 0 || o.BackoffMin != 0 || o.BackoffMax != 0 || o.OnGivenUp != nil {
			return fault.New("name", "options of %s: concurrency, budget, lease, backoff, attempts and OnGivenUp are for a named listener; give it a name", pattern)
		}
		return nil
	}
	if o.Shard != nil {
		return fault.New("shard", "options of %s: a named listener is one in all shards; leave the shard out", pattern)
	}
	o.Concurrency = cmp.Or(o.Concurrency, 1)
	o.Lease = cmp.Or(o.Lease, store.DefaultLease)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, store.DefaultAttempts)
	backoff := o.jitter()
	return errors.Join(
		record.CheckListener(o.Name),
		fault.Within("concurrency", "concurrency", o.Concurrency, 1, record.MaxConcurrency),
		store.SettingsChange{Attempts: &o.MaxAttempts, Lease: &o.Lease, BackoffMin: &backoff.least, BackoffMax: &backoff.most}.Check(),
	)
}

// claimTurns claims up to free broadcasts, and acknowledges handled ones with the same call.
func (n *named) claimTurns(ctx context.Context, free int, done []turn) (batch[turn], error) {
	if err := n.registered(ctx); err != nil {
		return batch[turn]{}, err
	}
	if err := n.noteRung(ctx); err != nil {
		return batch[turn]{}, err
	}
	if !n.mayTake() {
		free = 0
	}
	if free == 0 && len(done) == 0 && !n.called {
		return batch[turn]{more: n.mayTake()}, nil
	}
	var topics []string
	if free > 0 {
		topics = slices.Collect(maps.Keys(n.topics))
		topics = topics[:min(len(topics), takeTopics)]
	}
	ctx = context.WithoutCancel(ctx)
	asked := time.Now()
	got, err := n.take(ctx, n.at.Load(), free, topics, done, nil)
	switch {
	case err != nil:
		return batch[turn]{}, err
	case got.Gone:
		return batch[turn]{more: true}, n.gone(ctx, got)
	}
	n.called = false
	n.left = n.left && (free == 0 || len(got.Gaps)+len(got.Broadcasts) == free)
	for _, topic := range topics {
		delete(n.topics, topic)
	}
	for _, topic := range got.More {
		n.topics[topic] = true
	}
	for _, one := range got.Broadcasts {
		n.latest = max(n.latest, one.Position)
	}
	return batch[turn]{work: n.turnsOf(got, asked), more: n.mayTake()}, nil
}

// mayTake reports whether there may be broadcasts to claim.
func (n *named) mayTake() bool { return n.left || len(n.topics) > 0 }

// noteRung notes the topics that the hub rang for. Where any log may have grown it asks
// Redis for all that have since the name began.
func (n *named) noteRung(ctx context.Context) error {
	m := n.member
	h := m.hub
	h.mu.Lock()
	stale, left, rung := m.stale, m.left, m.rung
	m.stale, m.left, m.rung = false, false, make(map[string]bool)
	h.mu.Unlock()
	n.left, n.called = n.left || left || stale, n.called || left
	maps.Copy(n.topics, rung)
	if !stale {
		return nil
	}
	grown, err := h.grown(ctx, n.at.Load().Start, m.only(), m.pattern.Match)
	if err != nil {
		h.mu.Lock()
		m.stale = true
		h.mu.Unlock()
		return err
	}
	for _, topic := range grown.topics {
		n.topics[topic] = true
	}
	return nil
}
