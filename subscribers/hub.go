package subscribers

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	windowItems = 2048     // broadcasts that a hub keeps in memory for its listeners
	windowBytes = 4 << 20  // bytes of bodies that the hub keeps
	windowPage  = 64       // broadcasts that a listener takes from the window at a time
	pageBytes   = 64 << 10 // bytes of bodies after which a listener takes no more, from the window or from Redis: a slow listener keeps them for long
	leastPage   = 4 << 10  // of one shard at the least, where several share those
	exactTopics = 16       // topics that a hub subscribes to one by one; for more it subscribes to all logs
	maxBells    = 1024     // bells that are not weighed yet; with more the hub checks all logs instead
	maxOthers   = 500      // topics that have grown, which a read reports beside those it reads
	maxPassed   = 250      // topics that are rung for and not read, before a hub checks all logs: a read would report them

	checksApart = 100 * time.Millisecond // between checks of all logs that bells cause
)

// A hub is what the listeners of a process share in a shard: one subscription to the
// growth of its logs, one reader of what is new in them, and a window of what was read
// last. A listener that is too slow falls behind the window and reads the logs by
// itself until it has caught up: it delays no other listener.
//
// A bell may be lost, or be foreign. So a bell only says that there is something to
// read. Redis answers what there is, up to where, and whether other logs have grown.
// Where bells and beats do not follow one another, or Redis does not confirm them,
// the hub checks all logs that its listeners want, at most once in 100 ms whatever is
// published. So a broadcast whose bell is lost comes with the next bell, or else with
// the next beat, within a second.
type hub struct {
	logs
	log   *slog.Logger
	sums  *outage.Summary // of what the hubs of several shards log
	here  *attendance     // the hub is the only one, so its connection keeps the entry; nil: it does not
	watch *watch          // of the connection
	news  chan struct{}   // the reader has something to do, or the connection received something
	loop  *progress.Loop  // of the reader

	life sync.Mutex // held while the hub starts or stops
	stop func()     // ends the connection and the reader; nil while there are no members

	mu    sync.Mutex
	plain map[*member]bool // members for which the hub reads
	exact map[string]int   // how many of plain want a topic,
	wild  map[*member]bool // and those with a pattern
	named map[*member]bool // members that read by themselves: the hub only rings them

	tuning     uint64 // number of the connection
	subscribed uint64 // number of the connection that is up
	all        bool   // it subscribes to all logs, and not only to those of
	topics     map[string]bool
	names      map[string]bool
	retune     func() // makes the connection anew

	stale   bool      // any log may have grown: all are checked, at once
	doubt   bool      // what was received suggests so: see checksApart
	checked time.Time // when all logs were checked last,
	checks  uint64    // and how often the hub began to
	bells   []hint    // bells that were received and not weighed yet

	id       string          // of the store, when all logs were checked last,
	known    notify.Position // where the logs ended then,
	reported notify.Position // and where they end by the bells since
	rang     notify.Position // of the last bell on the channel of a topic
	claim    notify.Position // the farthest that a bell named, of those that are not read yet
	passed   int             // topics that were rung for since the last read, and that no member wants
	rung     map[string]bool // logs that have grown

	window []item // what was sent behind begin, up to tail
	begin  notify.Position
	tail   notify.Position
	bytes  int
	large  larges

	joining bool            // members wait for the last check, until the hub has read
	upTo    notify.Position // up to here, and it was made on
	on      uint64          // this connection,
	joins   uint64          // as the hub's check of this number,
	since   notify.Position // at this time
}

// A hint is a bell as a hub received it.
type hint struct {
	record.Bell
	beat  bool   // it came with the beat,
	store string // which names this store
	alone bool   // it came on the channel of a topic: this connection does not receive the bells of all others
}

// A member is a listener of a hub. All but the channels is guarded by hub.mu.
type member struct {
	hub     *hub
	pattern notify.Pattern
	name    string        // of a named listener
	page    int           // bytes of bodies after which it takes no more at a time
	ready   chan struct{} // closed when the hub receives bells for it
	bell    chan struct{} // it has something to do, or is ready

	needs   uint64          // number of the connection that receives bells for it
	checks  uint64          // of the hub, when the member joined
	since   notify.Position // where a broadcast would have been that was sent when it was ready
	valid   notify.Position // from where on the window holds its topics
	cursor  notify.Position // up to where it has read
	idle    bool            // it has read all there is; cursor means nothing
	lagging bool            // it reads by itself, and did not before
	begun   map[string]bool // of a member that begins at the beginning: topics of which it has read,
	floor   notify.Position // and up to where the logs were when it began
	lost    *Gap            // Redis lost all its data; to be reported

	// Of a named one:
	stale bool            // any log may have grown
	left  bool            // a process that died may have left broadcasts
	rung  map[string]bool // logs that have grown
}

// count adds a member, by 1, or removes it, by -1. The mutex is held.
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

// covers reports whether the connection receives the bells of a member. The mutex is held.
func (h *hub) covers(m *member) bool {
	if m.name != "" && !h.names[m.name] {
		return false
	}
	topic, one := m.pattern.Topic()
	return h.all || one && h.topics[topic]
}

// channels returns the channels that the connection subscribes to for all members. The mutex is held.
func (h *hub) channels() []reach.Channel {
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
	var channels []reach.Channel
	for name := range h.names {
		channels = append(channels, h.shard.NameChannel(name))
	}
	if h.all {
		return append(channels, h.shard.LogsChannel())
	}
	for topic := range h.topics {
		channels = append(channels, h.shard.LogChannel(topic))
	}
	return channels
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

// wanted is wants for a caller without the mutex.
func (h *hub) wanted(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wants(topic)
}

// concerns reports whether any member wants a topic.
func (h *hub) concerns(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wants(topic) {
		return true
	}
	for m := range h.named {
		if m.pattern.Match(topic) {
			return true
		}
	}
	return false
}

// own returns the topics to which the connection subscribes, nil where it subscribes
// to all logs. The mutex is held.
func (h *hub) own() []string {
	if h.all {
		return nil
	}
	return slices.Collect(maps.Keys(h.topics))
}
