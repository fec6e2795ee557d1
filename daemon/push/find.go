package push

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// The topics that patterns name are found without asking: when pushes come, or a connection is new, their names are read; later each beat
// names topics that are ready while nobody waits for them. Workers are there for a bounded number of them, of each kind of pushes, since each takes some memory here
// and a place in Redis, and lets go of those that had nothing for long, since a topic that is waited for is never forgotten.
const (
	mostFound  = 1000 // topics that patterns found, of each kind of pushes
	idleFound  = time.Hour
	sweepEvery = time.Minute // between two looks for idle ones
	namesPage  = 1000        // names read in one call
	spansPage  = 500         // ranges of names read in one call
	mostPages  = 100         // pages of names read of a shard; others are found when they are ready
)

// News is what a loop has to do since it was last looked at.
type news struct {
	rung chan struct{}

	mu    sync.Mutex
	todo            // guarded by mu, as what follows
	store string    // the id of the store in which all pushes were read last
	swept time.Time // when idle topics were looked for; zero: never
}

// A todo is what there is to do.
type todo struct {
	pushes bool                 // all are to be read
	named  map[string]bool      // pushes to be read, by name
	shards map[store.Shard]bool // where names of topics are to be read
	ready  map[string]bool      // topics that patterns name, and that no worker is for
	sweep  bool
}

func newTodo() todo {
	return todo{named: make(map[string]bool), shards: make(map[store.Shard]bool), ready: make(map[string]bool)}
}

// note notes an event of the subscription. It does not block.
func (n *news) note(e store.Event, of *Pusher) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e.Kind {
	case reach.Subscribed:
		n.pushes = n.pushes || e.Shard() == of.store.Home()
		n.shards[e.Shard()] = true
	case reach.Received:
		n.named[e.Payload] = true
	case reach.Beat:
		if id := e.StoreID(); e.Shard() == of.store.Home() && id != "" && id != n.store {
			n.pushes = true // Redis lost those that are known
		}
		for _, topic := range e.Topics() {
			if of.misses(topic) {
				n.ready[topic] = true
			}
		}
		if now := time.Now(); now.Sub(n.swept) >= sweepEvery {
			n.swept, n.sweep = now, true
		}
	}
	if n.pushes || n.sweep || len(n.named) > 0 || len(n.shards) > 0 || len(n.ready) > 0 {
		reach.Signal(n.rung)
	}
}

// readIn notes the store in which all pushes are read: that of beats may be another by then.
func (n *news) readIn(store string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.store = store
}

// again notes that the pushes are to be read again.
func (n *news) again() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pushes = true
	reach.Signal(n.rung)
}

// take returns what there is to do, and forgets it.
func (n *news) take() todo {
	n.mu.Lock()
	defer n.mu.Unlock()
	do := n.todo
	n.todo = newTodo()
	return do
}

// work does what there is to do. The error is one of reading the pushes, which is repeated.
func (p *Pusher) work(ctx context.Context) error {
	do := p.news.take()
	changes := do.pushes || len(do.named) > 0
	if do.pushes {
		p.listening.left.Store(true)
	}
	if changes {
		changed, err := p.read(ctx, do.pushes, do.named)
		var all []store.Shard
		if changed && err == nil {
			all, err = p.store.Shards(ctx)
		}
		if err != nil {
			p.news.again()
			return err
		}
		for _, shard := range all {
			do.shards[shard] = true
		}
	}
	if do.sweep {
		p.sweep()
	}
	p.seekReady(do.ready)
	for shard := range do.shards {
		if err := p.seekNames(ctx, shard); err != nil && ctx.Err() == nil {
			p.o.Logger.Warn("cannot read which topics pushes match; they are found when they are ready", "error", err)
		}
	}
	if (changes || do.sweep) && p.listening.left.Load() && !p.allow.isNone() {
		p.listening.forget(ctx)
	}
	return nil
}

// misses reports whether a pattern names a topic that no worker is for.
func (p *Pusher) misses(topic string) bool {
	t := p.matching(topic)
	return t != nil && !p.workersOf(t).has(topic)
}

// matching returns the target of a topic that a pattern names; nil if none does.
func (p *Pusher) matching(topic string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.patterns.of(topic)
}

// workersOf returns the workers of the kind of a target.
func (p *Pusher) workersOf(t *target) *workers {
	if t.IsNATS() {
		return &p.nats
	}
	return &p.web
}

// find has a worker work for a topic, if a pattern names it, and reports whether there was room.
func (p *Pusher) find(topic string, ready bool) (room bool) {
	t := p.matching(topic)
	if t == nil || record.CheckTopic(topic) != nil {
		return true
	}
	room, err := p.workersOf(t).find(topic, t.share(), ready)
	if err != nil {
		p.o.Logger.Error("cannot push a topic", "push", t.Name, "topic", topic, "error", err)
	}
	return room
}

// seekReady finds topics that are ready while nobody waits for them.
func (p *Pusher) seekReady(topics map[string]bool) {
	left := 0
	for topic := range topics {
		if !p.find(topic, true) {
			left++
		}
	}
	switch {
	case left > 0:
		p.leftOut.Add(int64(left))
		p.full.Begin("topics", left, "most", p.bound)
	case len(topics) > 0:
		p.full.End()
	}
}

// newFull returns the notice of a daemon that has no room for topics.
func newFull(log *slog.Logger) *outage.Notice {
	return outage.New(log, slog.LevelWarn, "topics that pushes match wait, since as many as this daemon works for are busy; run another daemon, or match fewer", "there is room for topics that pushes match again")
}

// seekNames finds the topics of a shard that patterns name, as far as there is room.
func (p *Pusher) seekNames(ctx context.Context, shard store.Shard) error {
	p.mu.Lock()
	web, nats := p.matched[false], p.matched[true]
	p.mu.Unlock()
	return errors.Join(p.seekFor(ctx, shard, web), p.seekFor(ctx, shard, nats))
}

// seekFor is seekNames for the patterns of one kind of pushes.
func (p *Pusher) seekFor(ctx context.Context, shard store.Shard, patterns []record.Pattern) error {
	if len(patterns) == 0 {
		return nil
	}
	spans := record.NamesOf(patterns)
	for page := 0; page < mostPages && len(spans) > 0; page++ {
		some := min(len(spans), spansPage)
		names, err := shard.TopicNames(ctx, namesPage, spans[:some])
		if err != nil {
			return err
		}
		for _, name := range names {
			if !p.find(name, false) {
				return nil
			}
		}
		if len(names) < namesPage {
			spans = spans[some:]
			continue
		}
		last := names[len(names)-1] + record.JustBehind
		spans = slices.DeleteFunc(spans, func(s record.Names) bool { return s.To <= last })
		if len(spans) > 0 {
			spans[0].From = max(spans[0].From, last)
		}
	}
	return nil
}
