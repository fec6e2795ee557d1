package push

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/subscribers"
)

// Stats are what a Pusher does now, and counted since it was made. What becomes of messages over NATS its gateway counts.
type Stats struct {
	Done     int64    // messages that an endpoint acknowledged
	Failed   int64    // requests that failed
	PutOff   int64    // messages put off by an endpoint without an attempt used up
	InFlight int64    // messages handed on, and not settled
	Failing  []string // pushes whose endpoints failed several times in a row
	Closed   int      // pushes whose endpoints want no request for some time
	Unheard  int      // subjects of NATS to which messages are pushed, and on which nobody listens
	Found    int      // topics that patterns name, and that it works for
	LeftOut  int64    // times that a beat named a topic of a pattern for which there was no room

	Handovers subscribers.SubscriberStats
}

// Stats returns the counts.
func (p *Pusher) Stats() Stats {
	s := Stats{
		Done: p.done.Load(), Failed: p.failures.Load(), PutOff: p.putOff.Load(), InFlight: p.underWay.Load(),
		Unheard: len(p.unheardBy(func(*target) bool { return true })), Found: p.web.held() + p.nats.held(), LeftOut: p.leftOut.Load(),
		Handovers: p.handovers.read(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range slices.Concat(slices.Collect(maps.Values(p.pushes)), slices.Collect(maps.Values(p.heard))) {
		t.mu.Lock()
		if t.failures == failuresInARow && !slices.Contains(s.Failing, t.Name) {
			s.Failing = append(s.Failing, t.Name)
		}
		if time.Now().Before(t.closed) {
			s.Closed++
		}
		t.mu.Unlock()
	}
	slices.Sort(s.Failing)
	return s
}

// handovers sums what the subscribers counted that run or ran.
type handovers struct {
	mu   sync.Mutex
	now  map[*subscribers.Subscriber]bool // those that run
	past subscribers.SubscriberStats
}

// of counts what a subscriber does until end is called.
func (h *handovers) of(s *subscribers.Subscriber) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == nil {
		h.now = make(map[*subscribers.Subscriber]bool)
	}
	h.now[s] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.now, s)
		add(&h.past, s.Stats())
	}
}

// read returns the counts of all.
func (h *handovers) read() subscribers.SubscriberStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := h.past
	for s := range h.now {
		add(&sum, s.Stats())
	}
	return sum
}

// add adds the hand-overs of a subscriber to a sum.
func add(sum *subscribers.SubscriberStats, of subscribers.SubscriberStats) {
	sum.HandedOver += of.HandedOver
	sum.Dropped += of.Dropped
}
