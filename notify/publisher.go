package notify

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

//go:embed publish.lua
var publishSource string

var publishScript = store.NewGrowingScript("publish", publishSource).Promised()

const (
	batchItems = 500     // messages in one call of a script
	batchBytes = 4 << 20 // bytes of bodies after which a batch is full
)

// PublisherOptions are the options of a Publisher. The zero value is the default.
type PublisherOptions struct {
	MaxBody int // bytes of the largest body; zero: DefaultMaxBody
}

// A Publisher sends messages. It is safe for concurrent use and needs no
// closing; one per process is best, because calls that come while another is
// under way travel together in the next.
type Publisher struct {
	store   *Store
	maxBody int
	gather  gather
}

// NewPublisher returns a publisher to a store.
func NewPublisher(store *Store, o PublisherOptions) *Publisher {
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	p := &Publisher{store: store, maxBody: o.MaxBody}
	p.gather.send = p.send
	return p
}

// A Publication says what became of a published message.
type Publication struct {
	Topic string    `json:"topic"`
	ID    string    `json:"id"`
	Due   time.Time `json:"due"`
	State State     `json:"state"` // Scheduled, or Ready if it was due already, also where it waits behind what is overdue; Dead, with no Due, of a dead letter that is restored
}

// A Result is a Publication, or the error that kept the message from being published.
type Result struct {
	Publication
	Err error
}

// An outgoing message is one that was found right and awaits its result.
type outgoing struct {
	Message
	tail   string // the end of its record
	result Result
	taken  bool          // by a batch that is under way
	done   chan struct{} // closed when result is there
}

// Publish publishes one message. Concurrent calls are gathered: those that
// come while a call to Redis is under way share the next one; alone, a call
// does not wait. Errors: ErrInvalid, ErrExists, ErrFull, ErrUnfit, ErrUnreplicated,
// or that of the connection, after which it may or may not be published: publishing
// it again with the same id is safe. A call to a Redis that is away is repeated for about a second. A
// context that ends while the call is under way may be noticed only when it is
// answered, or has timed out after three seconds.
func (p *Publisher) Publish(ctx context.Context, m Message) (Publication, error) {
	if err := ctx.Err(); err != nil {
		return Publication{}, err
	}
	out, err := p.prepare(m)
	if err != nil {
		return Publication{}, err
	}
	if err := p.gather.do(ctx, out); err != nil {
		return Publication{}, err
	}
	return out.result.Publication, out.result.Err
}

// Broadcast publishes a message for everyone who listens to its topic. The
// carrier sends broadcasts, in the order of their due times, so one that is due
// at once is Scheduled, too, for a fraction of a millisecond; once it is sent
// its id is free again. It is Publish with m.Broadcast; errors as Publish's.
func (p *Publisher) Broadcast(ctx context.Context, m Message) (Publication, error) {
	m.Broadcast = true
	return p.Publish(ctx, m)
}

// PublishMany publishes many messages, broadcasts among them, up to 500 in one call to Redis, and
// returns a result for each, in order. One that is refused does not keep the
// others back.
func (p *Publisher) PublishMany(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	batch := make([]*outgoing, 0, min(len(messages), batchItems))
	places := make([]int, 0, cap(batch))
	size := 0
	flush := func() {
		if len(batch) > 0 {
			p.send(ctx, batch)
		}
		for i, out := range batch {
			results[places[i]] = out.result
		}
		batch, places, size = batch[:0], places[:0], 0
	}
	for i, m := range messages {
		out, err := p.prepare(m)
		if err != nil {
			results[i] = Result{Publication{Topic: m.Topic, ID: m.ID}, err}
			continue
		}
		batch, places = append(batch, out), append(places, i)
		if size += len(m.Body); len(batch) == batchItems || size >= batchBytes {
			flush()
		}
	}
	flush()
	return results
}

// prepare checks a message and gives it an id.
func (p *Publisher) prepare(m Message) (*outgoing, error) {
	if err := m.check(p.maxBody); err != nil {
		return nil, err
	}
	if m.ID == "" {
		m.ID = NewID()
	}
	tail, err := m.record().EncodeTail()
	if err != nil {
		return nil, err
	}
	return &outgoing{Message: m, tail: tail}, nil
}

// send publishes one batch and fills in the results.
func (p *Publisher) send(ctx context.Context, batch []*outgoing) {
	keys, args, order := p.arguments(batch)
	reply, err := store.Retry(ctx, func() ([]any, error) { return p.store.Run(ctx, publishScript, keys, args...) })
	if err == nil && len(reply) != len(batch)+1 {
		err = fmt.Errorf("publish script: %d results for %d messages", len(reply)-1, len(batch))
	}
	if err != nil {
		for _, out := range batch {
			out.result = Result{Publication{Topic: out.Topic, ID: out.ID}, fmt.Errorf("publish %s: %w", Member(out.Topic, out.ID), err)}
		}
		return
	}
	now, _ := reply[0].(int64)
	for i, out := range order {
		due, _ := reply[i+1].(int64)
		out.result = resultOf(out, now, due)
	}
}

func resultOf(out *outgoing, now, due int64) Result {
	r := Result{Publication: Publication{Topic: out.Topic, ID: out.ID}}
	switch {
	case due == -1:
		r.Err = fmt.Errorf("publish %s: %w", Member(out.Topic, out.ID), ErrExists)
	case due == -2:
		r.Err = Faultf("delay", "delay %v: it ends past the year 9999", out.Delay)
	case due == -3:
		r.Err = fmt.Errorf("publish %s: the ready set of the topic is foreign: it is no sorted set of ours", Member(out.Topic, out.ID))
	case due == -5:
		r.Err = fmt.Errorf("publish %s: the schedule of the topic or the set of all schedules is foreign: it is no sorted set of ours", Member(out.Topic, out.ID))
	case due == -4:
		r.Err = fmt.Errorf("publish %s: the set of broadcasts is foreign: it is no sorted set of ours", Member(out.Topic, out.ID))
	case due == -6:
		r.Err = fmt.Errorf("publish %s: the dead letters of the topic are foreign: they are no sorted set of ours", Member(out.Topic, out.ID))
	case out.Restore.dead():
		r.State = Dead
	default:
		r.Due = time.UnixMilli(due)
		r.State = Scheduled
		if due <= now && !out.Broadcast {
			r.State = Ready
		}
	}
	return r
}

// arguments returns what publish.lua is given for a batch, and the messages in the order of its reply.
func (p *Publisher) arguments(batch []*outgoing) (keys []string, args []any, order []*outgoing) {
	var topics []string
	byTopic := make(map[string][]*outgoing, 1)
	for _, out := range batch {
		of, known := byTopic[out.Topic]
		if !known {
			topics = append(topics, out.Topic)
		}
		byTopic[out.Topic] = append(of, out)
	}
	args = make([]any, 0, 1+2*len(topics)+3*len(batch))
	args = append(args, len(topics))
	order = make([]*outgoing, 0, len(batch))
	for _, topic := range topics {
		keys = append(keys, p.store.Keys().Topic(topic)...)
		args = append(args, topic, len(byTopic[topic]))
		order = append(order, byTopic[topic]...)
	}
	for _, out := range order {
		args = append(args, Member(out.Topic, out.ID), when(&out.Message), out.tail)
	}
	return keys, args, order
}

// when tells publish.lua and reschedule.lua a due time: -DELAY, 0 for at once,
// or DUE, in milliseconds, and /TTL behind it if there is one, or * before it for a broadcast.
// Of a message that is restored it is all that is.
func when(m *Message) string {
	if m.Restore != nil {
		return restoredOf(m)
	}
	var spec string
	switch {
	case !m.Due.IsZero():
		spec = strconv.FormatInt(max(ceilMs(m.Due), 1), 10)
	case m.Delay > 0:
		spec = "-" + store.Ms(m.Delay)
	default:
		spec = "0"
	}
	switch {
	case m.Broadcast:
		spec = "*" + spec
	case m.TTL > 0:
		spec += "/" + strconv.FormatInt(m.TTL.Milliseconds(), 10) // as in the record
	}
	return spec
}

// ceilMs returns a time in Unix milliseconds, rounded up, so that it is never early.
func ceilMs(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// A gather sends messages of concurrent callers in batches, like the group
// commit of a database: whoever finds it idle sends at once; who comes while a
// batch is under way is in the next. When enough are pending a second batch is
// sent before the first is answered, so that neither side waits for the other.
type gather struct {
	send func(context.Context, []*outgoing)

	mu      sync.Mutex
	senders int // batches under way
	pending []*outgoing
}

const (
	maxSenders = 2
	enough     = 4 // pending messages for a second batch
)

// do sends a message: alone and at once if nothing is under way, else with
// whatever else is pending. An error is that of a context that ended first.
func (g *gather) do(ctx context.Context, out *outgoing) error {
	g.mu.Lock()
	if g.senders == 0 {
		g.senders++
		g.mu.Unlock()
		g.send(ctx, []*outgoing{out})
		go g.run(context.WithoutCancel(ctx)) // what came meanwhile; one caller's cancellation is not the others'
		return nil
	}
	out.done = make(chan struct{})
	g.pending = append(g.pending, out)
	if g.senders < maxSenders && len(g.pending) >= enough {
		g.senders++
		go g.run(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case <-out.done:
		return nil
	case <-ctx.Done():
		return g.abandon(out, ctx.Err())
	}
}

// run sends batches until nothing is pending.
func (g *gather) run(ctx context.Context) {
	for {
		batch := g.take()
		if len(batch) == 0 {
			return
		}
		g.send(ctx, batch)
		for _, out := range batch {
			close(out.done)
		}
		runtime.Gosched() // who just got a result publishes the next
	}
}

// take removes the next batch from the pending messages. An empty one says that run ends.
func (g *gather) take() []*outgoing {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < len(g.pending) && n < batchItems && size < batchBytes {
		g.pending[n].taken = true
		size += len(g.pending[n].Body)
		n++
	}
	batch := g.pending[:n:n]
	g.pending = g.pending[n:]
	if n == 0 {
		g.senders--
	}
	return batch
}

// abandon gives up waiting for a message. One that is not under way yet is not sent.
func (g *gather) abandon(out *outgoing, cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if out.taken {
		return fmt.Errorf("publish %s: it was sent, the outcome is unknown: %w", Member(out.Topic, out.ID), cause)
	}
	for i, other := range g.pending {
		if other == out {
			g.pending = append(g.pending[:i:i], g.pending[i+1:]...)
			break
		}
	}
	return fmt.Errorf("publish %s: %w", Member(out.Topic, out.ID), cause)
}
