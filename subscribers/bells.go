package subscribers

import (
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// receive takes note of an event of a connection. It does not block.
func (h *hub) receive(e store.Event, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Kind {
	case reach.Subscribed:
		h.subscribed, h.stale = number, true
		for m := range h.named {
			m.stale = true
			signal(m.bell)
		}
	case reach.Received:
		if name, ok := e.Called(); ok {
			h.left(name)
			return
		}
		h.note(e)
	case reach.Beat:
		h.note(e)
	}
	signal(h.news) // also for a beat alone, so that the reader shows progress
}

// note takes note of a bell. An invalid bell counts as a lost one. The mutex is held.
func (h *hub) note(e store.Event) {
	bell, err := e.Bell()
	if err != nil {
		h.doubt = true
		return
	}
	if len(h.bells) == maxBells {
		h.doubt, h.bells = true, nil
	}
	beat := e.Kind == reach.Beat
	h.bells = append(h.bells, hint{bell, beat, e.StoreID(), !beat && !e.IsOfAllLogs()})
}

// left rings the members of a name: one of its processes may have left broadcasts. The mutex is held.
func (h *hub) left(name string) {
	for m := range h.named {
		if m.name == name {
			m.left = true
			signal(m.bell)
		}
	}
}

// weigh finds out what the received bells mean. The mutex is held.
func (h *hub) weigh() {
	for _, b := range h.bells {
		switch {
		case b.beat && (b.store != h.id || b.Last < h.known): // Redis lost its data
			h.doubt = true
		case b.Last <= h.known: // covered by the last check
		case b.alone:
			if b.Last == h.rang { // the same bell on another channel
				break
			}
			if h.rang = b.Last; b.Since <= h.reported {
				h.reported = max(h.reported, b.Last)
			}
			h.ring(b.Bell)
		case b.Since > h.reported || b.Last < h.reported: // one was lost, or one is foreign
			h.doubt = true
		case b.Last > h.reported:
			h.reported = b.Last
			h.ring(b.Bell)
		}
	}
	h.bells = h.bells[:0]
}

// ring takes note of topics whose logs have grown. The mutex is held.
func (h *hub) ring(b record.Bell) {
	for _, topic := range b.Topics {
		switch {
		case !h.wants(topic):
			h.passed++
		case b.Last > h.tail:
			h.rung[topic] = true
			h.claim = max(h.claim, b.Last)
		}
		h.ringNamed(topic)
	}
}

// ringNamed rings the named members that want a topic. The mutex is held.
func (h *hub) ringNamed(topic string) {
	for m := range h.named {
		if m.pattern.Match(topic) {
			m.rung[topic] = true
			signal(m.bell)
		}
	}
}
