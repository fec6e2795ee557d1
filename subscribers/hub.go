package subscribers

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/bellhopd/bellhop/notify"
)

const (
	windowItems = 2048    // broadcasts that a hub keeps in memory for its listeners
	windowBytes = 4 << 20 // bytes of bodies that it keeps
	windowPage  = 64      // that a listener takes from it at a time
	exactTopics = 16      // topics whose logs a hub hears of one by one; of more it hears all there are
)

// A hub is what the listeners of a process share: one connection that hears when
// logs grow, one reader of what is new in them, and a window of what was read
// last. A listener that is too slow falls behind the window, and reads the logs by
// itself until it is back: it holds up nobody.
type hub struct {
	logs
	log      *slog.Logger
	news     chan struct{} // the reader has something to do, or its connection heard something
	progress Progress      // of the reader

	life sync.Mutex // held while the hub starts or stops
	stop func()     // ends the connection and the reader; nil while there are no members

	mu    sync.Mutex
	plain map[*member]bool // for whom the hub reads
	exact map[string]int   // how many of them want a topic,
	wild  map[*member]bool // and those with a pattern
	named map[*member]bool // who read by themselves: the hub only rings them

	tuning uint64 // number of the connection
	heard  uint64 // number of the connection that stands
	all    bool   // it hears of every log, and not only of
	topics map[string]bool
	names  map[string]bool
	retune func() // makes the connection anew

	stale  bool            // any log may have grown
	looks  uint64          // how often the hub began to look at them all
	rung   map[string]bool // logs that have grown
	target notify.Position // up to where they have

	window []item // what was sent behind begin, up to tail
	begin  notify.Position
	tail   notify.Position
	bytes  int
}

// A member is a listener of a hub. All but the channels is guarded by hub.mu.
type member struct {
	pattern notify.Pattern
	name    string        // of a named listener
	ready   chan struct{} // closed when the hub hears for it
	bell    chan struct{} // it has something to do

	needs   uint64          // number of the connection that hears for it
	looks   uint64          // of the hub, when it joined
	valid   notify.Position // from where on the window holds its topics
	cursor  notify.Position // up to where it has read
	idle    bool            // it has read all there is; cursor says nothing
	lagging bool            // it reads by itself, and did not before
	begun   map[string]bool // of one that begins at the beginning: topics that it has read of,
	floor   notify.Position // and up to where the logs were when it began

	// Of a named one:
	stale bool            // any log may have grown
	left  bool            // a process that died may have left broadcasts
	rung  map[string]bool // logs that have grown
}

// join makes a listener a member; the first one starts the hub. It returns when
// the hub hears for it, and has looked at all logs since.
func (h *hub) join(ctx context.Context, pattern notify.Pattern, name string) (*member, error) {
	m := &member{
		pattern: pattern, name: name, stale: true, rung: make(map[string]bool),
		ready: make(chan struct{}), bell: make(chan struct{}, 1),
	}
	h.enter(m)
	select {
	case <-m.ready:
		return m, nil
	case <-ctx.Done():
		h.leave(m)
		return nil, ctx.Err()
	}
}

func (h *hub) enter(m *member) {
	h.life.Lock()
	defer h.life.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		h.start()
	}
	h.count(m, 1)
	m.looks = h.looks
	if !h.covers(m) {
		h.tuning++
		h.retune()
	}
	m.needs = h.tuning
	h.stale = true
	signal(h.news)
}

// count enters a member, by 1, or strikes it out, by -1. The mutex is held.
func (h *hub) count(m *member, by int) {
	topic, one := m.pattern.Topic()
	in := func(set map[*member]bool) {
		if delete(set, m); by > 0 {
			set[m] = true
		}
	}
	switch {
	case m.name != "":
		in(h.named)
		return
	case !one:
		in(h.wild)
	default:
		if h.exact[topic] += by; h.exact[topic] == 0 {
			delete(h.exact, topic)
		}
	}
	in(h.plain)
}

// leave ends a membership; with the last one the hub stops.
func (h *hub) leave(m *member) {
	h.life.Lock()
	defer h.life.Unlock()
	h.mu.Lock()
	h.count(m, -1)
	last := len(h.plain)+len(h.named) == 0
	h.mu.Unlock()
	if last {
		h.stop()
		h.stop = nil
	}
}

// start starts the connection and the reader. Both mutexes are held.
func (h *hub) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	h.plain, h.named, h.wild = make(map[*member]bool), make(map[*member]bool), make(map[*member]bool)
	h.exact = make(map[string]int)
	h.all, h.topics, h.names, h.retune = false, nil, nil, func() {}
	h.heard, h.target, h.rung, h.window, h.bytes = 0, 0, make(map[string]bool), nil, 0
	h.begin, h.tail = -1, -1
	h.progress.Around()
	all.Go(func() { h.listen(ctx) })
	all.Go(func() { h.follow(ctx) })
	h.stop = func() {
		cancel()
		all.Wait()
		h.progress.Ended()
	}
}

// covers reports whether the connection hears for a member. The mutex is held.
func (h *hub) covers(m *member) bool {
	if m.name != "" && !h.names[m.name] {
		return false
	}
	topic, one := m.pattern.Topic()
	return h.all || one && h.topics[topic]
}

// channels returns what the connection is to hear for all members. The mutex is held.
func (h *hub) channels() []string {
	h.topics, h.names = make(map[string]bool), make(map[string]bool)
	h.all = len(h.wild) > 0
	for topic := range h.exact {
		h.topics[topic] = true
	}
	for m := range h.named {
		h.names[m.name] = true
		if topic, one := m.pattern.Topic(); one {
			h.topics[topic] = true
		} else {
			h.all = true
		}
	}
	h.all = h.all || len(h.topics) > exactTopics
	var channels []string
	for name := range h.names {
		channels = append(channels, h.store.Keys().Name(name))
	}
	if h.all {
		return append(channels, h.store.Keys().Logs())
	}
	for topic := range h.topics {
		channels = append(channels, h.store.Keys().Log(topic))
	}
	return channels
}

// listen keeps the connection until ctx ends.
func (h *hub) listen(ctx context.Context) {
	ear := ear{log: h.log}
	for ctx.Err() == nil {
		tuned, retune := context.WithCancel(ctx)
		h.mu.Lock()
		channels, number := h.channels(), h.tuning
		h.retune = retune
		h.mu.Unlock()
		h.store.Hear(tuned, func(e notify.Event) {
			ear.note(e)
			h.hear(e, number)
		}, channels...)
		retune()
	}
}

// hear takes note of an event of a connection. It does not block.
func (h *hub) hear(e notify.Event, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Kind {
	case notify.Subscribed:
		h.heard, h.stale, h.target = number, true, 0
		for m := range h.named {
			m.stale = true
			signal(m.bell)
		}
	case notify.Heard:
		if name, ok := strings.CutPrefix(e.Channel, h.store.Keys().Name("")); ok {
			h.left(name)
			return
		}
		h.grew(e.Payload)
	}
	signal(h.news) // also where it was only a beat, so that the reader shows that it gets on
}

// left rings those of a name: one of them may have left broadcasts. The mutex is held.
func (h *hub) left(name string) {
	for m := range h.named {
		if m.name == name {
			m.left = true
			signal(m.bell)
		}
	}
}

// grew takes note of a bell: a position, and the topics whose logs have grown up
// to there. The mutex is held.
func (h *hub) grew(bell string) {
	at, topics, _ := strings.Cut(bell, " ")
	target, err := notify.ParsePosition(at)
	if err != nil || target <= h.target { // foreign; or the same bell on another channel
		return
	}
	h.target = target
	for topic := range strings.FieldsSeq(topics) {
		if h.wants(topic) {
			h.rung[topic] = true
		}
		for m := range h.named {
			if m.pattern.Match(topic) {
				m.rung[topic] = true
				signal(m.bell)
			}
		}
	}
}

// wants reports whether the hub is to read a topic. The mutex is held.
func (h *hub) wants(topic string) bool {
	if h.exact[topic] > 0 {
		return true
	}
	for m := range h.wild {
		if m.pattern.Match(topic) {
			return true
		}
	}
	return false
}

// wanted is wants.
func (h *hub) wanted(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wants(topic)
}
