package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	batchItems = 500     // messages in one call of a script
	asItems    = 50      // such messages if they say what happens if their id is in use
	batchBytes = 4 << 20 // bytes of bodies after which a batch is full
)

// PublisherOptions are the options of a Publisher. The zero value is the default.
type PublisherOptions struct {
	MaxBody int // bytes of the largest body; zero: DefaultMaxBody
}

// A Publisher sends messages. It is safe for concurrent use and needs no closing. Use
// one per process: calls that come while another is under way share the next call to
// Redis.
type Publisher struct {
	store   *Store
	maxBody int
	newID   func() string
	gathers [reach.MaxShards]gather // by the number of the shard

	outcomes outcomes
}

// NewPublisher returns a publisher to a store; options may be left out. The error is a
// joined Fault for a nil store, a wrong option, or more than one PublisherOptions.
func NewPublisher(s *Store, options ...PublisherOptions) (*Publisher, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, o.check()); err != nil {
		return nil, err
	}
	p := &Publisher{store: s, maxBody: cmp.Or(o.MaxBody, DefaultMaxBody), newID: NewID}
	for i := range p.gathers {
		p.gathers[i].send = p.send
	}
	return p, nil
}

func (o PublisherOptions) check() error {
	if o.MaxBody < 0 {
		return fault.New("max_body", "max body %d: use 1 or more, or 0 for %d", o.MaxBody, DefaultMaxBody)
	}
	return nil
}

// A Publication is the outcome of a publish or a reschedule.
type Publication struct {
	Topic string    `json:"topic"`
	ID    string    `json:"id"`
	Due   time.Time `json:"due"`
	State State     `json:"state"` // Scheduled, or Ready if it is due already, even if it waits behind overdue messages; Dead, without Due, for a restored dead letter; Leased for one that follows a leased message; Done, without Due, if the message that was kept has ended

	Left *int64 `json:"left,omitempty"` // how many are left of the group that the message waits for, which has no Due unless it was given a time; nil: it waits for none

	Outcome     Outcome   `json:"outcome,omitempty"`     // what a publish did; Refused beside its error; empty for a reschedule
	PreviousDue time.Time `json:"previous_due,omitzero"` // due time of the message that was there, or that followed; zero: there was none, or it was dead
}

// A Result is a Publication, or the error that kept the message from being published.
type Result struct {
	Publication
	Err error
}

// An outgoing message has passed its checks and waits for its result.
type outgoing struct {
	Message
	drawn  bool   // its id is generated
	tail   string // the end of its record, and behind that what is noted of a restored message
	marked bool   // its record begins with a +
	result Result

	restored *store.Restored // of a message from an export

	taken bool          // by a batch
	done  chan struct{} // closed when the result is there
}

// Publish publishes one message. Calls that come while a call to Redis is under way
// share the next one to the same shard (group commit); a call that comes alone does not wait.
//
// m.IfExists and m.Then say what happens if the id is in use:
//
//	                 waits, ready   leased      leased, Then: After   dead       ended, UniqueFor
//	Refuse           ErrExists      ErrExists   it follows            ErrExists  ErrExists
//	Keep             Kept           ErrLeased   it follows, or Kept   ErrDead    Kept
//	Replace          Replaced       ErrLeased   it follows            Replaced   ErrExists
//	Debounce         Moved          ErrLeased   it follows            ErrDead    ErrExists
//
// What waits or is ready is replaced with all that was kept beside it, such as used
// attempts, a snooze and a message that follows. Debounce puts a message off: it is due
// Delay from now, but not later than MaxWait after the first publish; one that is due
// then stays so, in its place. What follows a leased message is published once that is
// acknowledged, dead or dropped, not when it is tried again; no dead letter is kept of a
// message that is followed. Another one of the id that is to follow is refused, kept, or
// takes its place, as IfExists says. One that is to be cancelled ([Publisher.Cancel], Stop)
// is not followed any more: ErrLeased. Only Replace turns a broadcast that waits into a
// message, or the reverse; all else is ErrExists.
//
// Errors: ErrInvalid, ErrExists, ErrLeased and ErrDead for an id that m names, ErrFull,
// ErrUnfit, ErrUnreplicated, or that of the connection. After an error of the connection
// the message may be published or not; it is safe to publish it again with the same id,
// in every mode: nothing is lost. If it was published and claimed meanwhile, Then: After
// lets it follow itself, and without UniqueFor an acknowledged one is published anew. While
// Redis cannot be reached, the call is repeated for about a second. If ctx ends while the
// call is under way, Publish may return only when Redis answers, or after a timeout of
// three seconds.
func (p *Publisher) Publish(ctx context.Context, m Message) (Publication, error) {
	if err := ctx.Err(); err != nil {
		return Publication{}, err
	}
	out, err := p.prepare(m)
	if err != nil {
		return Publication{}, err
	}
	shard, err := p.store.ShardOf(ctx, m.Topic)
	if err == nil {
		err = p.checkShard(ctx, shard, &out.Message)
	}
	if err != nil {
		out.result = out.failed(err)
	} else if err := p.gathers[shard.Number()].do(ctx, out); err != nil {
		return Publication{}, err
	}
	return out.result.Publication, out.result.Err
}

// Broadcast publishes a message for everyone who listens to its topic: it is Publish
// with m.Broadcast set, and has the same errors. The carrier sends broadcasts, in the
// order of their due times. So even one that is due at once is Scheduled for a fraction
// of a millisecond. Once it is sent, its id is free again, or after m.UniqueFor.
func (p *Publisher) Broadcast(ctx context.Context, m Message) (Publication, error) {
	m.Broadcast = true
	return p.Publish(ctx, m)
}

// PublishMany publishes many messages, broadcasts among them, up to 500 in one call to
// Redis. It returns a result for each, in order. A refused message does not hold up the
// others, and neither does a shard that cannot be reached or is full: each call is to one
// shard, and as a whole it succeeds or fails. Messages of a topic are published in order.
func (p *Publisher) PublishMany(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	parts, err := p.parts(ctx, messages)
	if err != nil {
		for i := range messages {
			out, fault := p.prepare(messages[i])
			if results[i] = refusedBy(&messages[i], fault); fault == nil {
				results[i] = out.failed(err)
			}
		}
		return results
	}
	_, _ = store.GatherFrom(ctx, slices.Collect(maps.Keys(parts)), func(ctx context.Context, shard store.Shard) (struct{}, error) {
		p.publishPart(ctx, shard, messages, parts[shard], results)
		return struct{}{}, nil // each result has its own error
	})
	return results
}

// parts returns the indexes of messages by their shards. The error is that of the
// connection.
func (p *Publisher) parts(ctx context.Context, messages []Message) (map[store.Shard][]int, error) {
	parts := make(map[store.Shard][]int, 1)
	for i := range messages {
		shard, err := p.store.ShardOf(ctx, messages[i].Topic)
		if err != nil {
			return nil, err
		}
		parts[shard] = append(parts[shard], i)
	}
	return parts, nil
}

// publishPart publishes messages of one shard, in batches, and fills in their results.
func (p *Publisher) publishPart(ctx context.Context, shard store.Shard, messages []Message, part []int, results []Result) {
	batch := make([]*outgoing, 0, min(len(part), batchItems))
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
	for _, i := range part {
		out, err := p.prepare(messages[i])
		if err == nil {
			err = p.checkShard(ctx, shard, &out.Message)
		}
		if err != nil {
			results[i] = refusedBy(&messages[i], err)
			continue
		}
		batch, places = append(batch, out), append(places, i)
		if size += len(out.Body); len(batch) == batchItems || size >= batchBytes {
			flush()
		}
	}
	flush()
}

// refusedBy returns the result of a message that is refused with a Fault.
func refusedBy(m *Message, fault error) Result {
	return Result{Publication{Topic: m.Topic, ID: m.ID}, fault}
}

// prepare checks a message and gives it an id.
func (p *Publisher) prepare(m Message) (*outgoing, error) {
	out := &outgoing{Message: m}
	if err := out.check(p.maxBody); err != nil {
		return nil, err
	}
	out.Due, _ = calendar.Local(out.Due, out.Zone) // check refuses a fault
	if out.drawn = out.ID == ""; out.drawn {
		out.ID = p.newID()
	}
	record := out.record()
	out.marked = record.IsMarked()
	tail, err := record.EncodeTail()
	if err != nil {
		return nil, err
	}
	restored, noted, err := restoredOf(&out.Message, out.marked)
	out.tail, out.restored = tail+noted, restored
	return out, err
}

// failed returns the result of a message that an error kept from being published.
func (out *outgoing) failed(err error) Result {
	return Result{Publication{Topic: out.Topic, ID: out.ID}, fmt.Errorf("publish %s: %w", record.Member(out.Topic, out.ID), err)}
}

// send publishes one batch, of one shard, and fills in the results. A generated id that is in use is
// drawn anew until it is not.
func (p *Publisher) send(ctx context.Context, batch []*outgoing) {
	for again := batch; len(again) > 0; again = p.redraw(again) {
		p.call(ctx, again)
	}
	p.outcomes.note(batch)
}

// redraw returns those of a batch whose generated id is in use, with new ids.
func (p *Publisher) redraw(batch []*outgoing) (again []*outgoing) {
	mu := &p.gathers[p.store.Of(batch[0].Topic).Number()].mu
	for _, out := range batch {
		if out.drawn && errors.Is(out.result.Err, ErrExists) {
			mu.Lock() // abandon reads the id
			out.ID = p.newID()
			mu.Unlock()
			again = append(again, out)
		}
	}
	return again
}

// call publishes one batch and fills in the results: in one call, unless some say what
// happens if their id is in use.
func (p *Publisher) call(ctx context.Context, batch []*outgoing) {
	for len(batch) > 0 {
		plain, as, rest := split(batch, (*outgoing).member)
		p.callBy(ctx, store.Shard.Publish, plain)
		for page := range slices.Chunk(as, asItems) {
			p.callBy(ctx, store.Shard.PublishAs, page)
		}
		batch = rest
	}
}

// split returns the messages of a batch for either way to publish, and the rest, which
// begins with a name that the other way has: so those of one name are published in order.
func split(batch []*outgoing, name func(*outgoing) string) (plain, as, rest []*outgoing) {
	if !slices.ContainsFunc(batch, (*outgoing).isAs) {
		return batch, nil, nil
	}
	way := make(map[string]bool, len(batch)) // of each name: whether it is that of as
	for i, out := range batch {
		one, isAs := name(out), out.isAs()
		if other, known := way[one]; known && other != isAs {
			return plain, as, batch[i:]
		}
		if way[one] = isAs; isAs {
			as = append(as, out)
		} else {
			plain = append(plain, out)
		}
	}
	return plain, as, nil
}

// callBy publishes messages of one shard in one call, in one of two ways, and fills in the results.
func (p *Publisher) callBy(ctx context.Context, publish func(store.Shard, context.Context, []store.Publish) ([]store.Placed, error), batch []*outgoing) {
	if len(batch) == 0 {
		return
	}
	messages := make([]store.Publish, len(batch))
	for i, out := range batch {
		messages[i] = out.publish()
	}
	placed, err := publish(p.store.Of(batch[0].Topic), ctx, messages)
	for i, out := range batch {
		if err != nil {
			out.result = out.failed(err)
		} else {
			out.result = resultOf(&out.Message, placed[i])
		}
	}
}

// dropped is the value of Message.IfBusy that is no default.
const dropped = "drop"

// isAs reports whether what becomes of the message depends on another one of its id.
func (out *outgoing) isAs() bool { return out.Restore == nil && out.as() != nil }

// as returns what the message asks for that depends on another one of its id.
func (out *outgoing) as() *store.As {
	if (out.IfExists == "" || out.IfExists == Refuse) && out.Then == "" && out.UniqueFor == 0 && out.IfBusy != dropped && out.AfterGroup == "" {
		return nil
	}
	return &store.As{
		IfExists: out.IfExists, MaxWait: out.MaxWait, After: out.Then == After, Unique: out.UniqueFor, Drop: out.IfBusy == dropped,
		AfterGroup: out.AfterGroup, OnDead: out.OnDead,
	}
}

func (out *outgoing) member() string { return record.Member(out.Topic, out.ID) }

// publish returns the message as the store takes it.
func (out *outgoing) publish() store.Publish {
	member := out.member()
	due := out.Due
	if out.AfterGroup != "" && out.Restore == nil {
		due = record.MaxDue // until nobody is left of the group
	}
	return store.Publish{
		Topic: out.Topic, Member: member, Tail: out.tail,
		When: when(out.Delay, due, record.Spread(member, out.Spread)), TTL: out.TTL, Broadcast: out.Broadcast, Marked: out.marked, Key: out.Key, Group: out.Group,
		Restored: out.restored, As: out.as(),
	}
}

// when returns a due time from a delay or a time, of which at most one is given, and how much later it is.
func when(delay time.Duration, due time.Time, spread time.Duration) store.When {
	if due.IsZero() {
		return store.In(delay + min(spread, math.MaxInt64-delay))
	}
	return store.At(due.Add(spread))
}

// resultOf returns the outcome of a call for a message.
func resultOf(m *Message, placed store.Placed) Result {
	r := Result{Publication: Publication{Topic: m.Topic, ID: m.ID, Outcome: placed.Outcome, PreviousDue: placed.Previous}}
	switch {
	case placed.Refusal != 0:
		if r.Err = m.refusedByGroup(placed); r.Err == nil {
			r.Err = m.refused(placed.Refusal)
		}
	case placed.Left != nil:
		r.State, r.Left = placed.State, placed.Left
		if !placed.Due.Equal(record.MaxDue) {
			r.Due = placed.Due
		}
	case placed.State != 0:
		r.Due, r.State = placed.Due, placed.State
	case m.Restore.dead():
		r.State = Dead
	case placed.Ready:
		r.Due, r.State = placed.Due, Ready
	default:
		r.Due, r.State = placed.Due, Scheduled
	}
	return r
}

// refused returns the error of a message that was refused.
func (m *Message) refused(why store.Refusal) error {
	member := record.Member(m.Topic, m.ID)
	switch why {
	case store.TooLate:
		if !m.Due.IsZero() {
			return fault.New("due", "due %s: with its zone or spread it is past the year 9999", m.Due.Format(time.RFC3339))
		}
		return fault.New("delay", "delay %v: it ends past the year 9999", m.Delay)
	case store.IDInUse:
		return fmt.Errorf("publish %s: %w", member, ErrExists)
	case store.IDLeased:
		if m.Then == After {
			return fmt.Errorf("publish %s: %w, and is to be cancelled; publish this one once it has ended", member, ErrLeased)
		}
		return fmt.Errorf("publish %s: %w; let this one follow with then=after", member, ErrLeased)
	case store.IDDead:
		return fmt.Errorf("publish %s: %w; requeue or purge it, or take its place with if_exists=replace", member, ErrDead)
	}
	return fmt.Errorf("publish %s: %s", member, foreign[why])
}

// foreign names the key that is foreign.
var foreign = map[store.Refusal]string{
	store.ForeignReady:      "the ready set of the topic is foreign: it is no sorted set of ours",
	store.ForeignBroadcasts: "the set of broadcasts is foreign: it is no sorted set of ours",
	store.ForeignScheduled:  "the scheduled set of the topic or the index of scheduled sets is foreign: it is no sorted set of ours",
	store.ForeignDead:       "the dead letters of the topic are foreign: they are no sorted set of ours",
	store.ForeignExtras:     "the extras of messages are foreign: they are no hash of ours",
}

// A gather sends messages of concurrent callers to one shard in batches, like the group commit of a
// database: a caller that finds it idle sends at once; one that comes while a batch is
// under way is in the next. When enough are pending, a second batch is sent before the
// first is answered, so that neither side waits for the other.
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

// do sends a message: alone and at once if nothing is under way, otherwise with all
// that is pending. The error is that of a context that ended first.
func (g *gather) do(ctx context.Context, out *outgoing) error {
	g.mu.Lock()
	if g.senders == 0 {
		g.senders++
		g.mu.Unlock()
		g.send(ctx, []*outgoing{out})
		go g.run(context.WithoutCancel(ctx)) // sends what came meanwhile; one caller's cancellation is not the others'
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
		runtime.Gosched() // callers that just got a result publish the next
	}
}

// take removes the next batch from the pending messages. An empty batch ends run.
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

// abandon gives up waiting for a message. If it is not under way yet, it is not sent.
func (g *gather) abandon(out *outgoing, cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if out.taken {
		return fmt.Errorf("publish %s: it was sent, the outcome is unknown: %w", record.Member(out.Topic, out.ID), cause)
	}
	for i, other := range g.pending {
		if other == out {
			g.pending = append(g.pending[:i:i], g.pending[i+1:]...)
			break
		}
	}
	return fmt.Errorf("publish %s: %w", record.Member(out.Topic, out.ID), cause)
}
