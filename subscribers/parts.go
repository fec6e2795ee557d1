package subscribers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// slowClaim is how long a call to one shard may keep back what is wanted from all. With a
// call that takes longer, more is claimed elsewhere; what it brings may be too much, which
// the engine releases.
const slowClaim = 20 * time.Millisecond

// A several is what the parts of a name bring, where there are several: each shard is asked
// by a goroutine of its own, so that one that does not answer delays no other.
type several struct {
	asks sync.WaitGroup

	mu      sync.Mutex
	turn    int       // which part is asked next
	arrived []arrival // not queued yet
	ended   error     // of a claim, which ends the listener
}

// An arrival is what a call brought that was made at a time.
type arrival struct {
	part    *part
	turns   []turn
	since   time.Time
	notNows int // of the engine then
}

// An asking is a part's call to its shard. It is guarded by several.mu.
type asking struct {
	retry   *outage.Retry // for the goroutine that asks alone
	busy    bool          // a call is under way, or the pause after one that failed
	since   time.Time     // when the call was made
	free    int           // how many broadcasts it asks for
	notNows int           // of the engine then
	done    []turn        // to be acknowledged by the next call
}

// claimTurns claims up to free broadcasts, and acknowledges the handled ones with the same
// calls. Of several parts it begins the calls, and returns what those before brought.
func (n *named) claimTurns(ctx context.Context, free int, done []turn) (batch[turn], error) {
	if len(n.parts) == 1 {
		return n.parts[0].claim(ctx, free, done)
	}
	n.mu.Lock()
	notNows := n.notNows
	n.mu.Unlock()
	s := &n.several
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return batch[turn]{}, s.ended
	}
	for _, t := range done {
		t.part.asking.done = append(t.part.asking.done, t)
	}
	got := batch[turn]{work: n.collect(ctx, notNows)}
	free -= len(got.work)
	waits := false
	for _, p := range n.parts {
		if a := &p.asking; a.busy && time.Since(a.since) < slowClaim {
			free, waits = free-a.free, true
		}
	}
	more, asked := n.askParts(ctx, max(free, 0), notNows)
	switch {
	case more && (waits || asked): // an answer rings, unless it comes too late
		got.again = slowClaim
	case more:
		got.more = true
	}
	return got, nil
}

// collect returns what calls brought. It releases what was claimed before a NotNow, since
// that would overtake what the NotNow released, and what may be lost soon. The mutex is held.
func (n *named) collect(ctx context.Context, notNows int) (all []turn) {
	s := &n.several
	for _, a := range s.arrived {
		if a.notNows == notNows && time.Since(a.since) < n.o.Lease/4 {
			all = append(all, a.turns...)
			continue
		}
		s.asks.Go(func() {
			if err := n.settleRest(ctx, a.part, nil, a.turns); err != nil {
				n.log.Warn("cannot release broadcasts; they come again when their leases end", "error", err)
			}
		})
	}
	s.arrived = nil
	return all
}

// askParts begins a call to each shard that has something to take or to acknowledge. It
// reports whether some may have more to take than was asked for, and whether any was asked
// for some. The mutex is held.
func (n *named) askParts(ctx context.Context, free, notNows int) (more, asked bool) {
	s := &n.several
	var takes []*part
	for i := range n.parts {
		p := n.parts[(s.turn+i)%len(n.parts)]
		switch {
		case p.asking.busy || !p.member.isReady():
		case p.hasRung() || p.mayTake():
			takes = append(takes, p)
		case len(p.asking.done) > 0:
			n.ask(ctx, p, 0, notNows)
		}
	}
	for i, p := range takes {
		share := (free + len(takes) - i - 1) / (len(takes) - i)
		if share == 0 && len(p.asking.done) == 0 && !p.hasRung() {
			more = true
			continue
		}
		s.turn = slices.Index(n.parts, p) + 1
		free, asked = free-share, asked || share > 0
		n.ask(ctx, p, share, notNows)
	}
	return more, asked
}

// hasRung reports whether the hub rang for a part, which has not noted it yet.
func (p *part) hasRung() bool {
	h, m := p.member.hub, p.member
	h.mu.Lock()
	defer h.mu.Unlock()
	return m.stale || m.left || len(m.rung) > 0
}

// ask calls a shard in a goroutine. The mutex is held.
func (n *named) ask(ctx context.Context, p *part, free, notNows int) {
	a := &p.asking
	done := a.done[:min(len(a.done), record.MaxClaim)]
	a.done = a.done[len(done):]
	a.busy, a.since, a.free, a.notNows = true, time.Now(), free, notNows
	n.several.asks.Go(func() {
		got, err := p.claim(ctx, free, done)
		n.answered(p, got.work, done, err)
		if err == nil || !n.ends(err) {
			a.retry.Wait(ctx, err)
		}
		n.several.mu.Lock()
		a.busy = false
		n.several.mu.Unlock()
		signal(n.rung)
	})
}

// answered notes what a call brought.
func (n *named) answered(p *part, got, done []turn, err error) {
	s := &n.several
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &p.asking
	switch {
	case err != nil && n.ends(err):
		s.ended = err
	case err != nil:
		a.done = append(done, a.done...)
	case len(got) > 0:
		s.arrived = append(s.arrived, arrival{p, got, a.since, a.notNows})
	}
}

// settleParts waits for the calls that are under way, acknowledges what is left to be, and
// releases what was not queued. The context of the calls has ended.
func (n *named) settleParts(ctx context.Context) {
	if len(n.parts) == 1 {
		return
	}
	s := &n.several
	s.asks.Wait()
	s.mu.Lock()
	n.collect(ctx, -1) // releases all
	s.mu.Unlock()
	s.asks.Wait()
	err := n.inParts(func(p *part) error { return n.settleRest(ctx, p, p.asking.done, nil) })
	if err != nil {
		n.log.Error("cannot acknowledge broadcasts; they come again", "error", err)
	}
}

// settleRest acknowledges and releases broadcasts of a part, also when ctx has ended.
func (n *named) settleRest(ctx context.Context, p *part, done, back []turn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.SettleFor)
	defer cancel()
	released := make([]*job[turn], len(back))
	for i := range back {
		released[i] = &job[turn]{work: back[i]}
	}
	if len(done)+len(back) == 0 {
		return nil
	}
	return p.settle(ctx, done, released)
}

// inParts calls f with each part, at the same time, and returns the errors of all.
func (n *named) inParts(f func(*part) error) error {
	if len(n.parts) == 1 {
		return f(n.parts[0])
	}
	errs := make([]error, len(n.parts))
	var calls sync.WaitGroup
	for i, p := range n.parts {
		calls.Go(func() { errs[i] = f(p) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

// hubs returns the hubs of all parts.
func (n *named) hubs() []*hub {
	all := make([]*hub, len(n.parts))
	for i, p := range n.parts {
		all[i] = p.member.hub
	}
	return all
}

// registerParts registers the name in the shards of all parts that answer soon; those of the
// others follow with their first claim.
func (n *named) registerParts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reach.Patience)
	defer cancel()
	_ = n.inParts(func(p *part) error { return p.registered(ctx) })
}

// registered registers the name in the shard, unless this process has.
func (p *part) registered(ctx context.Context) error {
	if p.at.Load() != nil {
		return nil
	}
	at, err := p.register(ctx, *p.home.Load())
	if err == nil {
		p.at.Store(&at)
	}
	return err
}

// register registers the name in the shard as it is in the first one. An entry that differs
// is of a name that was not removed from all shards: it is replaced.
func (p *part) register(ctx context.Context, home registration) (at registration, err error) {
	if p.shard().Number() == 0 {
		return home, nil
	}
	wanted := store.Registration{Pattern: home.Pattern, From: home.From, Start: home.Began, Began: home.Began}
	if home.From != FromNow().text {
		from, err := ParseFrom(home.From)
		if err != nil {
			return at, err
		}
		begin, err := p.beginnings(from, p.hubs())
		if err != nil {
			return at, err
		}
		wanted.Start = begin[slices.Index(p.parts, p)].after
	}
	at.Registration, at.now, err = p.shard().Register(ctx, p.name, wanted)
	if err == nil && (at.Pattern != home.Pattern || at.From != home.From) {
		if _, err = p.shard().Unregister(ctx, p.name); err == nil {
			at.Registration, at.now, err = p.shard().Register(ctx, p.name, wanted)
		}
	}
	if err != nil {
		err = fmt.Errorf("register the listener %s: %w", p.name, err)
	}
	return at, err
}
