package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	takeTopics = 50  // logs from which one call claims
	takeAhead  = 256 // broadcasts that are claimed before a goroutine is free, at the most
)

// A named is one process of a named listener.
type named struct {
	*Listener
	*engine[turn]
	name    string
	pattern notify.Pattern
	parts   []*part
	handler func(context.Context, *Broadcast) error
	o       ListenOptions
	several several
	home    atomic.Pointer[registration] // in the first shard

	stopping <-chan struct{}
}

// A part is what a named has in a shard. Fields without a mutex are for the goroutine that
// claims there alone.
type part struct {
	*named
	member *member
	latest notify.Position // of the broadcasts that were handed out

	topics map[string]bool // whose logs may hold more
	left   bool            // a process that died may have left broadcasts
	called bool            // the name was rung: the name may also have been removed

	at           atomic.Pointer[registration] // written by the claiming goroutine alone; nil: the shard has not answered yet
	unregistered bool                         // at was gone when a broadcast was settled; guarded by engine.mu
	lostAfter    notify.Position              // before the first broadcast that was released then, or endOfLogs; guarded by engine.mu

	asking asking // where there are several parts; guarded by several.mu
}

// shard returns the shard of a part.
func (p *part) shard() store.Shard { return p.member.hub.shard }

// listenNamed is Listen with a name.
func (l *Listener) listenNamed(ctx context.Context, hubs []*hub, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) error {
	home, err := l.register(ctx, hubs, p, o)
	if err != nil || home.Text == "" {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	bell := make(chan struct{}, 1)
	members, leave := l.join(hubs, p, o.Name, bell)
	defer leave()
	defer stop()
	n := l.newNamed(ctx, members, bell, p, handler, o)
	n.home.Store(&home)
	n.registerParts(ctx)
	if awaitReady(ctx, members) != nil {
		return nil // ctx ended
	}
	l.watch.redis.End()
	if o.OnStart != nil {
		o.OnStart(bookmarkOf(place(members, slices.Repeat([]beginning{{from: FromNow().text}}, len(hubs)))))
	}
	signal(bell) // it has checked no log yet
	err = n.run(ctx)
	stop()
	n.settleParts(ctx)
	for _, p := range n.parts {
		p.findAgain(ctx)
	}
	return err
}

func (l *Listener) newNamed(ctx context.Context, members []*member, bell chan struct{}, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) *named {
	n := &named{Listener: l, name: o.Name, pattern: p, handler: handler, o: o, stopping: ctx.Done()}
	for _, one := range members {
		n.parts = append(n.parts, &part{named: n, member: one, topics: make(map[string]bool), lostAfter: endOfLogs, asking: asking{retry: newRetry(one.hub.log)}})
	}
	n.engine = newEngine(source[turn]{
		claim: n.claimTurns, handle: n.handleTurn, ack: n.ackTurns, release: n.releaseTurns, extend: n.extendTurns,
		lease: func(*turn) (lease, most time.Duration) { return n.o.Lease, 0 },
		sent:  func(t *turn) time.Time { return t.asked },
		ends:  func(err error) bool { return errors.Is(err, notify.ErrNoListener) || errors.Is(err, notify.ErrInvalid) },
		size:  func(t *turn) int { return len(t.Body) },
		about: func(t *turn) []any { return []any{"topic", t.Topic, "id", t.ID, "attempt", t.attempt} },
		shard: func(t *turn) int { return t.part.shard().Number() },
		noun:  "broadcast",
	}, terms{
		concurrency: o.Concurrency, ahead: takeAhead, grace: l.o.Grace, claimsSettle: true, budget: o.Budget,
	}, bell, l.o.Logger.With("name", o.Name))
	return n
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
	return errors.Join(
		record.CheckListener(o.Name),
		fault.Within("concurrency", "concurrency", o.Concurrency, 1, record.MaxConcurrency),
		fault.Within("max_attempts", "max attempts", o.MaxAttempts, 1, record.MostAttempts),
		o.jitter().check(),
		checkLease(o.Lease),
	)
}

// register registers a name, retrying until Redis answers, and returns the
// registration; none when ctx ended. The error is that of enroll.
func (l *Listener) register(ctx context.Context, hubs []*hub, p notify.Pattern, o ListenOptions) (registration, error) {
	retry := outage.Retry{Notice: l.watch.redis}
	for ctx.Err() == nil {
		at, err := l.enroll(ctx, hubs, p, o)
		if err != nil && ctx.Err() == nil && !notify.Retryable(err) {
			return registration{}, err
		}
		if retry.Wait(ctx, err); err == nil {
			return at, nil
		}
	}
	return registration{}, nil
}

// enroll registers a name in the first shard, where its pattern and From are decided. hubs
// are those that the pattern needs. The error is a notify.ErrInvalid where the name is in use
// for something else, or that of the connection.
func (l *Listener) enroll(ctx context.Context, hubs []*hub, p notify.Pattern, o ListenOptions) (registration, error) {
	from := o.From
	if from == (From{}) {
		from = FromNow()
	}
	begin, err := l.beginnings(from, hubs)
	if err != nil {
		return registration{}, err
	}
	start := begin[0].after // the first of them is in the first shard, or is the only one
	if from == FromNow() {
		start = endOfLogs
	}
	r, now, err := l.store.Home().Register(ctx, o.Name, store.Registration{Pattern: p.String(), From: from.text, Start: start})
	switch {
	case err != nil:
		return registration{}, fmt.Errorf("register the listener %s: %w", o.Name, err)
	case r.Pattern != p.String():
		return registration{}, fault.New("name", "name %s: it is in use for %s; use another name, or remove this one first (notify.Inspector.RemoveListener)", o.Name, r.Pattern)
	case o.From != (From{}) && o.From.text != r.From:
		return registration{}, fault.New("from", "from %s: the name %s is in use and began at %s; leave from out to go on where it is, use another name, or remove this one first (notify.Inspector.RemoveListener)", o.From, o.Name, r.From)
	}
	return registration{r, now}, nil
}

// registration is what a shard holds of a name.
type registration struct {
	store.Registration
	now notify.Position // when it was read
}

// claim claims up to free broadcasts of a shard, and acknowledges handled ones with the same call.
func (p *part) claim(ctx context.Context, free int, done []turn) (batch[turn], error) {
	if err := p.registered(ctx); err != nil {
		return batch[turn]{}, err
	}
	if err := p.noteRung(ctx); err != nil {
		return batch[turn]{}, err
	}
	if !p.mayTake() {
		free = 0
	}
	if free == 0 && len(done) == 0 && !p.called {
		return batch[turn]{more: p.mayTake()}, nil
	}
	var topics []string
	if free > 0 {
		topics = slices.Collect(maps.Keys(p.topics))
		topics = topics[:min(len(topics), takeTopics)]
	}
	ctx = context.WithoutCancel(ctx)
	asked := time.Now()
	got, err := p.take(ctx, p.at.Load(), free, topics, done, nil)
	switch {
	case err != nil:
		return batch[turn]{}, err
	case got.Gone:
		return batch[turn]{more: true}, p.gone(ctx, got)
	}
	p.called = false
	p.left = p.left && (free == 0 || len(got.Gaps)+len(got.Broadcasts) == free)
	for _, topic := range topics {
		delete(p.topics, topic)
	}
	for _, topic := range got.More {
		p.topics[topic] = true
	}
	for _, one := range got.Broadcasts {
		p.latest = max(p.latest, one.Position)
	}
	return batch[turn]{work: p.turnsOf(got, asked), more: p.mayTake()}, nil
}

// mayTake reports whether there may be broadcasts to claim.
func (p *part) mayTake() bool { return p.left || len(p.topics) > 0 }

// noteRung notes the topics that the hub rang for. Where any log may have grown it asks
// Redis for all that have since the name began.
func (p *part) noteRung(ctx context.Context) error {
	m := p.member
	h := m.hub
	h.mu.Lock()
	stale, left, rung := m.stale, m.left, m.rung
	m.stale, m.left, m.rung = false, false, make(map[string]bool)
	h.mu.Unlock()
	p.left, p.called = p.left || left || stale, p.called || left
	maps.Copy(p.topics, rung)
	if !stale {
		return nil
	}
	grown, err := h.grown(ctx, p.at.Load().Start, m.only(), m.pattern.Match)
	if err != nil {
		h.mu.Lock()
		m.stale = true
		h.mu.Unlock()
		return err
	}
	for _, topic := range grown.topics {
		p.topics[topic] = true
	}
	return nil
}

// errChanged is why a listener ends whose name has another registration: what it has in hand is still its own.
var errChanged = fmt.Errorf("it is registered anew: %w", notify.ErrNoListener)

// gone handles a registration that is gone. In the same store the name was removed, or that of a push has another pattern. In
// another one Redis lost all its data, or that of the shard: gone registers the name anew and reports what it
// may have missed as a gap. The gap begins behind the broadcasts that were handed out
// and handled. Leased ones may still be handled, at least as long as their lease would
// have lasted.
func (p *part) gone(ctx context.Context, got store.TakeResult) error {
	switch {
	case got.StoreID != p.at.Load().StoreID:
	case got.Changed:
		return fmt.Errorf("listen as %s: %w", p.name, errChanged)
	default:
		return fmt.Errorf("listen as %s: it was removed: %w", p.name, notify.ErrNoListener)
	}
	home, err := p.enroll(ctx, p.hubs(), p.pattern, p.o)
	if err != nil {
		return err
	}
	p.home.Store(&home)
	at, err := p.register(ctx, home)
	if err != nil {
		return err
	}
	after := p.reached()
	p.mu.Lock()
	p.unregistered, p.lostAfter = false, endOfLogs
	p.at.Store(&at)
	p.mu.Unlock()
	p.latest, p.called = 0, false
	clear(p.topics)
	p.member.hub.mu.Lock()
	p.member.stale = true
	signal(p.member.bell)
	p.member.hub.mu.Unlock()
	p.missed(Gap{Topic: p.pattern.String(), After: min(after, at.now), UpTo: at.now}, storeLost, p.o.OnGap)
	return nil
}

// findAgain registers the name anew where Redis turned out to have lost its data when
// the listener stopped: else no gap would be reported. It has the time of calls that settle.
func (p *part) findAgain(ctx context.Context) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), p.engine.until(nil, time.Now().Add(reach.SettleFor)))
	defer cancel()
	p.mu.Lock()
	unregistered := p.unregistered
	p.mu.Unlock()
	if !unregistered {
		return
	}
	got, err := p.take(ctx, p.at.Load(), 0, nil, nil, nil)
	if err == nil && got.Gone {
		err = p.gone(ctx, got)
	}
	if err != nil && !errors.Is(err, notify.ErrNoListener) {
		p.log.Warn("cannot register the name again; what is missed until it listens again is not reported", "error", err)
	}
}

// reached returns up to where nothing is missed if the leased broadcasts, and those
// that were released in vain, are lost.
func (p *part) reached() notify.Position {
	after := max(p.latest, p.at.Load().Start)
	for _, t := range p.unhandled() {
		if t.part == p {
			after = min(after, t.after())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(after, p.lostAfter)
}
