package natsgate

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const maxHints = 10_000 // topics, and deaths, that wait to be sent

// hints are events to be sent that may be lost. They come on the subscription to
// Redis, which must not wait for NATS: hints that cannot be sent yet are merged,
// and lost beyond a limit.
type hints struct {
	epoch int64         // of the term
	news  chan struct{} // signals that something is to be sent

	mu sync.Mutex
	hinted
}

// hinted is what was received and is not sent yet.
type hinted struct {
	wakes  map[string]int // messages made ready, by topic
	deaths []death
	beat   bool
}

// A death is a message that died, as the store announces it.
type death struct {
	Topic    string `json:"topic"`
	ID       string `json:"id"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
}

func newHints(epoch int64) *hints {
	return &hints{epoch: epoch, news: make(chan struct{}, 1), hinted: hinted{wakes: make(map[string]int)}}
}

// hint sends hints until ctx ends.
func (t *term) hint(ctx context.Context) {
	h := newHints(t.Epoch)
	defer t.unheard.Forget(t.number())
	var subscription sync.WaitGroup
	defer subscription.Wait()
	subscription.Go(func() {
		t.store.Subscribe(ctx, func(e store.Event) { t.note(h, e) }, t.Shard.Wakes(), t.Shard.DeathChannel())
	})
	loop, end := t.hinting.begin()
	defer end()
	for {
		loop.Note()
		select {
		case <-ctx.Done():
			return
		case <-h.news:
			t.sendHints(ctx, h.take())
		}
	}
}

// sendHints sends hints, and counts those that are lost.
func (t *term) sendHints(ctx context.Context, h hinted) {
	for _, m := range t.hintMessages(ctx, h) {
		if t.send(m) == nil {
			t.count.hints.Add(1)
		} else {
			t.count.lostHints.Add(1)
		}
	}
}

// note records an event of the store. It does not block.
func (t *term) note(h *hints, e store.Event) {
	switch e.Kind {
	case reach.Received:
		t.noteHeard(h, e)
	case reach.Beat:
		t.unheard.End(t.number())
		if e.Epoch() != h.epoch {
			break // another carrier's: this one has lost its lease, and is about to notice
		}
		h.mu.Lock()
		h.beat = true
		h.mu.Unlock()
	case reach.Silent:
		t.unheard.End(t.number())
	case reach.Broken:
		t.unheard.Begin(t.number(), "error", e.Err)
	}
	reach.Signal(h.news) // also if there is nothing to send, so that the sending loop shows that it is alive
}

// noteHeard records a wake-up or a death.
func (g *Gate) noteHeard(h *hints, e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if topic, n, ok := e.Woken(); ok {
		g.noteWake(h, topic, int(n))
	} else if topic, ok := e.Died(); ok {
		g.noteDeath(h, topic, e.Payload)
	}
}

// noteWake adds messages that were made ready. The mutex is held.
func (g *Gate) noteWake(h *hints, topic string, n int) {
	_, known := h.wakes[topic]
	if n < 1 || record.CheckTopic(topic) != nil || !known && len(h.wakes) >= maxHints {
		g.count.lostHints.Add(1)
		return
	}
	h.wakes[topic] += n
}

// noteDeath adds a message that died. The mutex is held.
func (g *Gate) noteDeath(h *hints, topic, payload string) {
	var d death
	err := json.Unmarshal([]byte(payload), &d)
	if d.Topic = topic; err != nil || record.CheckTopic(topic) != nil || len(h.deaths) >= maxHints {
		g.count.lostHints.Add(1)
		return
	}
	h.deaths = append(h.deaths, d)
}

// take returns the hints to be sent, and forgets them.
func (h *hints) take() hinted {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.hinted
	h.hinted = hinted{wakes: make(map[string]int)}
	return taken
}

// hintMessages returns hints as sent to NATS. Beats are sent by the carrier of the first
// shard, so that there is one a second however many shards there are.
func (t *term) hintMessages(ctx context.Context, h hinted) []*nats.Msg {
	all := make([]*nats.Msg, 0, len(h.wakes)+len(h.deaths)+1)
	for topic, n := range h.wakes {
		all = append(all, &nats.Msg{Subject: t.o.Prefix + ".wake." + topic, Data: strconv.AppendInt(nil, int64(n), 10)})
	}
	for _, d := range h.deaths {
		all = append(all, t.jsonEvent("event.dead."+d.Topic, d))
	}
	if h.beat && t.number() == 0 {
		now, _ := t.store.Now(ctx) // Redis has just beaten
		all = append(all, t.beatMessage("beat", now))
	}
	return all
}
