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
)

const (
	takeTopics = 50  // logs from which one call claims
	takeAhead  = 256 // broadcasts that are claimed before a goroutine is free, at the most
)

// A named is one process of a named listener. Fields without a mutex are for the claiming goroutine alone.
type named struct {
	*Listener
	*engine[turn]
	name    string
	latest  notify.Position // of the broadcasts that were handed out
	member  *member
	handler func(context.Context, *Broadcast) error
	o       ListenOptions

	topics map[string]bool // whose logs may hold more
	left   bool            // a process that died may have left broadcasts
	called bool            // the name was rung: the name may also have been removed

	at           atomic.Pointer[registration] // written by the claiming goroutine alone
	unregistered bool                         // at was gone when a broadcast was settled; guarded by engine.mu
	lostFrom     notify.Position              // the first broadcast that was released then, 0: none; guarded by engine.mu

	stopping <-chan struct{}
}

// listenNamed is Listen with a name.
func (l *Listener) listenNamed(ctx context.Context, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) error {
	at, err := l.register(ctx, p, o)
	if err != nil || at.Text == "" {
		return err
	}
	m, err := l.hub.join(ctx, p, o.Name)
	if err != nil {
		return nil // ctx ended
	}
	defer l.hub.leave(m)
	if o.OnStart != nil {
		o.OnStart(l.hub.cursor(m))
	}
	signal(m.bell) // it has checked no log yet
	n := l.newNamed(ctx, m, at, handler, o)
	err = n.run(ctx)
	n.findAgain(ctx)
	return err
}

func (l *Listener) newNamed(ctx context.Context, m *member, at registration, handler func(context.Context, *Broadcast) error, o ListenOptions) *named {
	n := &named{
		Listener: l, name: o.Name, member: m, handler: handler, o: o,
		topics: make(map[string]bool), stopping: ctx.Done(),
	}
	n.at.Store(&at)
	n.engine = newEngine(source[turn]{
		claim: n.claimTurns, handle: n.handleTurn, ack: n.ackTurns, release: n.releaseTurns, extend: n.extendTurns,
		lease: func(*turn) (lease, most time.Duration) { return n.o.Lease, 0 },
		ends:  func(err error) bool { return errors.Is(err, notify.ErrNoListener) || errors.Is(err, notify.ErrInvalid) },
		about: func(t *turn) []any { return []any{"topic", t.Topic, "id", t.ID, "attempt", t.attempt} },
		noun:  "broadcast",
	}, terms{
		concurrency: o.Concurrency, ahead: takeAhead, grace: l.o.Grace, claimsSettle: true,
	}, m.bell, l.o.Logger.With("name", o.Name))
	return n
}

// check returns a joined Fault for each wrong option, and puts in the defaults of a
// named listener.
func (o *ListenOptions) check(pattern string) error {
	if o.Name == "" {
		if o.Concurrency != 0 || o.Lease != 0 || o.MaxAttempts != 0 || o.Backoff != (Backoff{}) || o.OnGivenUp != nil {
			return store.Faultf("name", "options of %s: concurrency, lease, backoff, attempts and OnGivenUp are for a named listener; give it a name", pattern)
		}
		return nil
	}
	o.Concurrency = cmp.Or(o.Concurrency, 1)
	o.Lease = cmp.Or(o.Lease, store.DefaultLease)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, store.DefaultAttempts)
	return errors.Join(
		store.CheckListener(o.Name),
		store.Within("concurrency", "concurrency", o.Concurrency, 1, store.MaxConcurrency),
		store.Within("max_attempts", "max attempts", o.MaxAttempts, 1, store.MostAttempts),
		o.Backoff.check(),
		checkLease(o.Lease),
	)
}

// register registers a name, retrying until Redis answers, and returns the
// registration; none when ctx ended. The error is that of enroll.
func (l *Listener) register(ctx context.Context, p notify.Pattern, o ListenOptions) (registration, error) {
	retry := outage.Retry{Notice: l.hub.watch.redis}
	for ctx.Err() == nil {
		at, err := l.enroll(ctx, p, o)
		if err != nil && ctx.Err() == nil && !notify.Retryable(err) {
			return registration{}, err
		}
		if retry.Wait(ctx, err); err == nil {
			return at, nil
		}
	}
	return registration{}, nil
}

// enroll registers a name. The error is a notify.ErrInvalid where the name is in
// use for something else, or that of the connection.
func (l *Listener) enroll(ctx context.Context, p notify.Pattern, o ListenOptions) (registration, error) {
	from := o.From
	if from == (From{}) {
		from = FromNow()
	}
	r, now, err := l.store.Home().Register(ctx, o.Name, p.String(), from.text, from.after)
	switch {
	case err != nil:
		return registration{}, fmt.Errorf("register the listener %s: %w", o.Name, err)
	case r.Pattern != p.String():
		return registration{}, store.Faultf("name", "name %s: it is in use for %s; use another name, or remove this one first (notify.Inspector.RemoveListener)", o.Name, r.Pattern)
	case o.From != (From{}) && o.From.text != r.From:
		return registration{}, store.Faultf("from", "from %s: the name %s is in use and began at %s; leave from out to go on where it is, use another name, or remove this one first (notify.Inspector.RemoveListener)", o.From, o.Name, r.From)
	}
	return registration{r, now}, nil
}

// registration is what a store holds of a name.
type registration struct {
	store.Registration
	now notify.Position // when it was read
}

// claimTurns claims up to free broadcasts, and acknowledges the handled ones with the same call.
func (n *named) claimTurns(ctx context.Context, free int, done []turn) (batch[turn], error) {
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
		return batch[turn]{more: true}, n.gone(ctx, got.StoreID)
	}
	n.called = false
	n.left = n.left && (free == 0 || len(got.Broadcasts) == free)
	for _, topic := range topics {
		delete(n.topics, topic)
	}
	for _, topic := range got.More {
		n.topics[topic] = true
	}
	for _, gap := range got.Gaps {
		n.missed(Gap(gap), logTrimmed, n.o.OnGap)
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
	h, m := n.hub, n.member
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

// gone handles a registration that is gone. In the same store the name was removed. In
// another one Redis lost all its data: gone registers the name anew and reports what it
// may have missed as a gap. The gap begins behind the broadcasts that were handed out
// and handled. Leased ones may still be handled, at least as long as their lease would
// have lasted.
func (n *named) gone(ctx context.Context, id string) error {
	if id == n.at.Load().StoreID {
		return fmt.Errorf("listen as %s: it was removed: %w", n.name, notify.ErrNoListener)
	}
	at, err := n.enroll(ctx, n.member.pattern, n.o)
	if err != nil {
		return err
	}
	after := n.reached()
	n.mu.Lock()
	n.unregistered, n.lostFrom = false, 0
	n.at.Store(&at)
	n.mu.Unlock()
	n.latest, n.called = 0, false
	clear(n.topics)
	n.hub.mu.Lock()
	n.member.stale = true
	signal(n.member.bell)
	n.hub.mu.Unlock()
	n.missed(Gap{n.member.pattern.String(), min(after, at.now), at.now}, storeLost, n.o.OnGap)
	return nil
}

// findAgain registers the name anew where Redis turned out to have lost its data when
// the listener stopped: else no gap would be reported.
func (n *named) findAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	n.mu.Lock()
	unregistered := n.unregistered
	n.mu.Unlock()
	if !unregistered {
		return
	}
	got, err := n.take(ctx, n.at.Load(), 0, nil, nil, nil)
	if err == nil && got.Gone {
		err = n.gone(ctx, got.StoreID)
	}
	if err != nil && !errors.Is(err, notify.ErrNoListener) {
		n.log.Warn("cannot register the name again; what is missed until it listens again is not reported", "error", err)
	}
}

// reached returns up to where nothing is missed if the leased broadcasts, and those
// that were released in vain, are lost.
func (n *named) reached() notify.Position {
	after := max(n.latest, n.at.Load().Start)
	for _, t := range n.unhandled() {
		after = min(after, t.Position-1)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lostFrom > 0 {
		after = min(after, n.lostFrom-1)
	}
	return after
}
