package subscribers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

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

// hubs returns the hubs of all shards.
func (n *named) hubs() []*hub {
	all := make([]*hub, len(n.shards))
	for i, one := range n.shards {
		all[i] = one.member.hub
	}
	return all
}

// registerSoon registers the name in all shards that answer soon; in the others it is registered
// with their first claim.
func registerSoon(ctx context.Context, all []*named) {
	ctx, cancel := context.WithTimeout(ctx, reach.Patience)
	defer cancel()
	reach.AtOnce(len(all), func(i int) { _ = all[i].registered(ctx) })
}

// registered registers the name in the shard, unless this process has.
func (n *named) registered(ctx context.Context) error {
	if n.at.Load() != nil {
		return nil
	}
	at, err := n.register(ctx, *n.home.Load())
	if err == nil {
		n.at.Store(&at)
	}
	return err
}

// register registers the name in the shard as it is in the first one. An entry that differs
// is of a name that was not removed from all shards: it is replaced.
func (n *named) register(ctx context.Context, home registration) (at registration, err error) {
	if n.shard().Number() == 0 {
		return home, nil
	}
	wanted := store.Registration{Pattern: home.Pattern, From: home.From, Start: home.Began, Began: home.Began}
	if home.From != FromNow().text {
		from, err := ParseFrom(home.From)
		if err != nil {
			return at, err
		}
		begin, err := n.beginnings(from, n.hubs())
		if err != nil {
			return at, err
		}
		wanted.Start = begin[slices.Index(n.shards, n)].after
	}
	at.Registration, at.now, err = n.shard().Register(ctx, n.name, wanted)
	if err == nil && (at.Pattern != home.Pattern || at.From != home.From) {
		if _, err = n.shard().Unregister(ctx, n.name); err == nil {
			at.Registration, at.now, err = n.shard().Register(ctx, n.name, wanted)
		}
	}
	if err != nil {
		err = fmt.Errorf("register the listener %s: %w", n.name, err)
	}
	return at, err
}

// errChanged is why a listener ends whose name has another registration: what it has in hand is still its own.
var errChanged = fmt.Errorf("it is registered anew: %w", notify.ErrNoListener)

// gone handles a registration that is gone. In the same store the name was removed, or that of a push has another pattern. In
// another one Redis lost all its data, or that of the shard: gone registers the name anew and reports what it
// may have missed as a gap. The gap begins behind the broadcasts that were handed out
// and handled. Leased ones may still be handled, at least as long as their lease would
// have lasted.
func (n *named) gone(ctx context.Context, got store.TakeResult) error {
	switch {
	case got.StoreID != n.at.Load().StoreID:
	case got.Changed:
		return fmt.Errorf("listen as %s: %w", n.name, errChanged)
	default:
		return fmt.Errorf("listen as %s: it was removed: %w", n.name, notify.ErrNoListener)
	}
	home, err := n.enroll(ctx, n.hubs(), n.pattern, n.o)
	if err != nil {
		return err
	}
	n.home.Store(&home)
	at, err := n.register(ctx, home)
	if err != nil {
		return err
	}
	after := n.reached()
	n.mu.Lock()
	n.unregistered, n.lostAfter = false, endOfLogs
	n.at.Store(&at)
	n.mu.Unlock()
	n.latest, n.called = 0, false
	clear(n.topics)
	n.member.hub.mu.Lock()
	n.member.stale = true
	signal(n.member.bell)
	n.member.hub.mu.Unlock()
	n.missed(Gap{Topic: n.pattern.String(), After: min(after, at.now), UpTo: at.now}, storeLost, n.o.OnGap)
	return nil
}

// findAgain registers the name anew where Redis turned out to have lost its data when
// the listener stopped: else no gap would be reported. It has the time of calls that settle.
func (n *named) findAgain(ctx context.Context) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), n.engine.until(nil, time.Now().Add(reach.SettleFor)))
	defer cancel()
	n.mu.Lock()
	unregistered := n.unregistered
	n.mu.Unlock()
	if !unregistered {
		return
	}
	got, err := n.take(ctx, n.at.Load(), 0, nil, nil, nil)
	if err == nil && got.Gone {
		err = n.gone(ctx, got)
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
		after = min(after, t.after())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return min(after, n.lostAfter)
}
