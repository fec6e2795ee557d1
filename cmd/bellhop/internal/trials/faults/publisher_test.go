package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// The topics of a round, by who handles them.
var (
	handledTopics     = []string{"handled.a", "handled.b"} // subscribers
	claimedTopics     = []string{"claimed.a", "claimed.b"} // claimers
	webTopic          = "web"                              // over HTTP
	deliveredTopic    = "delivered"                        // pushed to NATS
	askedTopic        = "asked"                            // over NATS, by claims
	orderedTopic      = "ordered"                          // one subscriber of concurrency 1
	webOrderedTopic   = "web-ordered"                      // over HTTP, by one caller
	askedOrderedTopic = "asked-ordered"                    // over NATS, by one caller
	slowTopic         = "slow"                             // subscribers of few hands
	keyedTopic        = "keyed"                            // claimers, of messages with keys
	limitedTopic      = "limited"                          // claimers, of a topic with limits
	hookedTopic       = "hooked"                           // pushed to a URL, of messages with keys
	broadcastTopics   = []string{"news.a", "news.b", "news.c"}
)

// phase returns how an operation with an error ended.
func phase(err error) history.Phase {
	switch {
	case err == nil:
		return history.OK
	case refused(err):
		return history.No
	}
	return history.Unknown
}

// refused reports whether an error means for certain that nothing was changed.
func refused(err error) bool {
	for _, known := range []error{notify.ErrInvalid, notify.ErrExists, notify.ErrNotFound, notify.ErrLeased, notify.ErrDead, notify.ErrLeaseLost, store.ErrCancelled, store.ErrGroupComplete, store.ErrGroupTaken, store.ErrFormat} {
		if errors.Is(err, known) {
			return true
		}
	}
	return reach.NotExecuted(err) || redis.HasErrorPrefix(err, "OOM")
}

// text returns the text of an error, or nothing without one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// publishing is one goroutine of a publisher.
type publishing struct {
	*actor
	pub *notify.Publisher
	rnd *rand.Rand
	id  string // beginning of its ids
	n   int

	sent   []notify.Message      // delayed messages, which may be cancelled or rescheduled
	groups map[string]*gathering // by topic

	awaits *awaits
}

const publishers = 3 // goroutines of a publisher

// publish publishes, cancels and reschedules until ctx ends.
func (a *actor) publish(ctx context.Context) error {
	pub, err := notify.NewPublisher(a.store)
	if err != nil {
		return err
	}
	say("ready")
	var all sync.WaitGroup
	var failed error
	if os.Getenv("FAULTS_OUTBOX") != "" {
		all.Go(func() { failed = a.publishInTransactions(ctx) })
	}
	for i := range publishers {
		p := &publishing{actor: a, pub: pub, rnd: rand.New(rand.NewPCG(a.random, uint64(i))), id: fmt.Sprintf("%s-%d", a.process, i), groups: make(map[string]*gathering)}
		p.awaits = &awaits{ctx: ctx, actor: a}
		all.Go(func() {
			defer p.awaits.all.Wait()
			for ctx.Err() == nil {
				p.step(context.WithoutCancel(ctx))
				rest(ctx, time.Duration(p.rnd.ExpFloat64()*float64(12*time.Millisecond)))
			}
		})
	}
	all.Wait()
	return failed
}

// step makes one random call.
func (p *publishing) step(ctx context.Context) {
	switch n := p.rnd.IntN(100); {
	case n < 40:
		m := p.message()
		p.one(ctx, m)
		p.gather(ctx)
		if slices.Contains(claimedTopics, m.Topic) && p.rnd.IntN(4) == 0 {
			p.awaits.begin(m, time.Duration(1+p.rnd.IntN(3000))*time.Millisecond)
		}
	case n < 44:
		p.many(ctx)
	case n < 60:
		p.publishAgain(ctx)
	case n < 66:
		p.stop(ctx)
	case n < 68:
		p.cancelAgain(ctx)
	case n < 80:
		p.one(ctx, p.broadcast())
	case n < 90:
		p.cancel(ctx)
	default:
		p.reschedule(ctx)
	}
}

func (p *publishing) nextID() string {
	p.n++
	return fmt.Sprintf("%s-%d", p.id, p.n)
}

// message returns a message for a worker.
func (p *publishing) message() notify.Message {
	topics := slices.Concat(handledTopics, handledTopics, claimedTopics, claimedTopics, []string{webTopic, packagedTopic, packagedTopic, deliveredTopic, askedTopic, orderedTopic, slowTopic, onceTopic, commandedTopic, commandedTopic, keyedTopic, keyedTopic, limitedTopic, limitedTopic, hookedTopic, hookedTopic})
	if p.lodges {
		topics = slices.Concat(handledTopics, handledTopics, claimedTopics, claimedTopics, []string{slowTopic, onceTopic, keyedTopic})
	}
	m := notify.Message{Topic: topics[p.rnd.IntN(len(topics))], ID: p.nextID(), Body: []byte("x")[p.n%2:]} // every other body is empty
	if p.branches && p.rnd.IntN(5) == 0 {
		m.Topic = branchedTopic
	}
	if p.rnd.IntN(4) > 0 {
		m.Delay = time.Duration(p.rnd.IntN(1500)) * time.Millisecond
	}
	switch p.rnd.IntN(20) {
	case 3:
		m.Spread = time.Duration(1+p.rnd.IntN(500)) * time.Millisecond
	case 0:
		m.TTL = time.Duration(200+p.rnd.IntN(1000)) * time.Millisecond
	case 1, 2:
		m.MaxAttempts = 1 + p.rnd.IntN(3)
	}
	if m.Topic == hookedTopic {
		m.Key, m.TTL, m.MaxAttempts = []string{"", "a", "b", "c", "d", "e"}[p.rnd.IntN(6)], 0, hookedAttempts
	}
	if m.Topic == keyedTopic {
		if m.Key = []string{"", "a", "b", "c"}[p.rnd.IntN(4)]; m.Key != "" && p.rnd.IntN(4) == 0 {
			m.IfBusy = "drop"
		}
	}
	if m.Topic == branchedTopic {
		p.branch(&m)
	}
	if slices.Contains(groupedTopics, m.Topic) && m.Topic != branchedTopic {
		askFor(p.rnd.IntN, &m)
	}
	if slices.Contains(groupedTopics, m.Topic) && p.rnd.IntN(7) == 0 { // one in 20 of all
		p.join(&m)
	}
	return m
}

// broadcast returns a message for all listeners.
func (p *publishing) broadcast() notify.Message {
	m := notify.Message{Topic: broadcastTopics[p.rnd.IntN(len(broadcastTopics))], ID: p.nextID(), Body: []byte("x")[p.n%2:], Broadcast: true}
	if p.rnd.IntN(2) > 0 {
		m.Delay = time.Duration(p.rnd.IntN(700)) * time.Millisecond
	}
	askAll(p.rnd.IntN, &m)
	return m
}

// calls records that a message is about to be published.
func (a *actor) calls(m notify.Message) *history.Operation {
	r := asked(m)
	if r.Op = history.Publish; m.Broadcast {
		r.Op = history.Broadcast
	}
	return a.Call(r)
}

// published records how that ended.
func published(op *history.Operation, result notify.Publication, err error) {
	r, how := history.Record{Error: text(err)}, phase(err)
	switch {
	case inUse(err):
		r.Outcome = string(notify.Refused)
	case err == nil:
		r.Due, r.State, r.Outcome, r.Previous = dueOf(result.Due), result.State.String(), string(result.Outcome), dueOf(result.PreviousDue)
	}
	if r.Outcome == string(notify.Kept) {
		how = history.No
	}
	op.End(how, r)
}

// one publishes a message. After an unknown outcome it may repeat that.
func (p *publishing) one(ctx context.Context, m notify.Message) {
	for {
		op := p.calls(m)
		result, err := p.pub.Publish(ctx, m)
		published(op, result, err)
		if phase(err) != history.Unknown || p.rnd.IntN(2) == 0 {
			break
		}
	}
	p.remember(m)
}

func (p *publishing) many(ctx context.Context) {
	messages := make([]notify.Message, 2+p.rnd.IntN(10))
	ops := make([]*history.Operation, len(messages))
	for i := range messages {
		messages[i] = p.message()
		ops[i] = p.calls(messages[i])
	}
	for i, result := range p.pub.PublishMany(ctx, messages) {
		published(ops[i], result.Publication, result.Err)
		p.remember(messages[i])
	}
}

// remembered is how many messages sent keeps.
const remembered = 20

func (p *publishing) remember(m notify.Message) {
	if m.Delay == 0 || slices.Contains(sharedTopics, m.Topic) {
		return
	}
	p.sent = append(p.sent, m)
	if len(p.sent) > remembered {
		p.sent = p.sent[1:]
	}
}

// recall takes a random message out of sent.
func (p *publishing) recall() (m notify.Message, ok bool) {
	if len(p.sent) == 0 {
		return m, false
	}
	i := p.rnd.IntN(len(p.sent))
	m = p.sent[i]
	p.sent = append(p.sent[:i:i], p.sent[i+1:]...)
	return m, true
}

func (p *publishing) cancel(ctx context.Context) {
	if m, ok := p.recall(); ok {
		p.cancelOne(ctx, m.Topic, m.ID)
	}
}

// stop publishes a message that is due now, and cancels it a moment later, with a stop of the work on it.
func (p *publishing) stop(ctx context.Context) {
	topics := []string{slowTopic, handledTopics[0], claimedTopics[0], keyedTopic}
	if !p.lodges {
		topics = append(topics, webTopic, packagedTopic, deliveredTopic, askedTopic, commandedTopic, hookedTopic)
	}
	m := notify.Message{Topic: topics[p.rnd.IntN(len(topics))], ID: p.nextID(), Body: []byte("x")}
	switch m.Topic {
	case hookedTopic:
		m.MaxAttempts = hookedAttempts
		fallthrough
	case keyedTopic:
		m.Key = []string{"a", "b", "c"}[p.rnd.IntN(3)]
	}
	p.one(ctx, m)
	rest(ctx, time.Duration(p.rnd.IntN(8))*time.Millisecond)
	p.cancelOne(ctx, m.Topic, m.ID, store.CancelOptions{Stop: true})
}

func (p *publishing) cancelOne(ctx context.Context, topic, id string, o ...store.CancelOptions) {
	op := p.Call(history.Record{Op: history.Cancel, Topic: topic, ID: id, Stop: len(o) > 0 && o[0].Stop})
	state, err := p.pub.Cancel(ctx, topic, id, o...)
	r := history.Record{Error: text(err)}
	if err == nil {
		r.State = state.String()
	}
	op.End(phase(err), r)
}

func (p *publishing) reschedule(ctx context.Context) {
	m, ok := p.recall()
	if !ok {
		return
	}
	delay := time.Duration(p.rnd.IntN(1000)) * time.Millisecond
	op := p.Call(history.Record{Op: history.Reschedule, Topic: m.Topic, ID: m.ID})
	result, err := p.pub.RescheduleIn(ctx, m.Topic, m.ID, delay)
	published(op, result, err)
	if err == nil {
		p.sent = append(p.sent, m)
	}
}
