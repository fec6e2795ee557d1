package natsgate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	nobodyPause  = 500 * time.Millisecond // until the next message is tried while no client listens
	answerBuffer = 16                     // waiting answers for one message
)

// delivered returns the configured topics that are in the shard.
func (t *term) delivered() (topics []Deliver) {
	for _, d := range t.o.Deliver {
		if t.store.Of(d.Topic).Number() == t.number() {
			topics = append(topics, d)
		}
	}
	return topics
}

// deliver sends messages of topics to NATS subscribers until ctx ends. While NATS is away
// it claims nothing.
func (t *term) deliver(ctx context.Context, topics []Deliver) {
	var pause backoff.Pause
	for ctx.Err() == nil {
		c := t.await(ctx)
		if c == nil {
			return
		}
		began := time.Now()
		if err := t.deliverOn(ctx, c, topics); err != nil {
			t.notices.begin("cannot deliver over nats; retrying", err, "")
		}
		if time.Since(began) > backoff.Max {
			pause.Reset()
		}
		pause.Wait(ctx)
	}
}

// deliverOn delivers on one connection, until it is lost.
func (g *Gate) deliverOn(ctx context.Context, c *connection, topics []Deliver) error {
	d := &deliverer{Gate: g, conn: c, inbox: c.nc.NewInbox() + ".", waiting: make(map[string]chan *nats.Msg)}
	sub, err := c.nc.Subscribe(d.inbox+"*", d.answer)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // if it fails, the connection is lost
	s, err := subscribers.NewSubscriber(g.store, subscribers.SubscriberOptions{Version: g.o.Version, Grace: g.o.Grace, Logger: g.o.Logger})
	if err != nil {
		return err
	}
	for _, topic := range topics {
		err := s.Handle(topic.Topic, d.handle, subscribers.HandleOptions{Concurrency: topic.InFlight})
		if err != nil {
			return err
		}
	}
	ctx, cancel := during(ctx, c)
	defer cancel()
	defer g.handovers.of(s)()
	return s.Run(ctx)
}

// A deliverer delivers on one connection.
type deliverer struct {
	*Gate
	conn  *connection
	inbox string // prefix of the reply subjects

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg // for answers, by the last token of the reply subject
}

// answer passes an answer to the handle call that waits for it.
func (d *deliverer) answer(m *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.waiting[strings.TrimPrefix(m.Subject, d.inbox)]
	select {
	case waiting <- m: // never if nil: the answer comes too late
	default:
		d.count.lateAnswers.Add(1)
	}
}

// expect returns a reply subject, and a channel that gets its answers until done is called.
func (d *deliverer) expect() (reply string, answers <-chan *nats.Msg, done func()) {
	key := rand.Text() // so that a client cannot guess the reply subject of another delivery
	waiting := make(chan *nats.Msg, answerBuffer)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[key] = waiting
	return d.inbox + key, waiting, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, key)
	}
}

// Reasons why a message was not delivered.
var (
	errNobody   = errors.New("nobody listens over nats")
	errNoAnswer = errors.New("no answer over nats within the lease")
	errNak      = errors.New("refused over nats with -NAK")
)

// termed is the reason why a message was buried by a +TERM that gives none.
const termed = "refused for good over nats with +TERM"

// buried is the literal reason why a message is never delivered again.
type buried string

func (b buried) Error() string { return string(b) }

func (b buried) Unwrap() error { return subscribers.ErrBury }

// handle sends a message and waits for its answer.
func (d *deliverer) handle(ctx context.Context, m *subscribers.Delivery) error {
	reply, answers, done := d.expect()
	defer done()
	out := d.deliveryMessage(m, reply)
	err := d.conn.nc.PublishMsg(out)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		d.count.tooLarge.Add(1)
		return buried(fmt.Sprintf("too large for nats: %d bytes of body, and max_payload is %d with the headers; claim it over HTTP or Redis", len(m.Body), d.conn.nc.MaxPayload()))
	case err != nil:
		return subscribers.NotNow(err, nobodyPause)
	}
	d.handedOut(*m)
	return d.answered(ctx, m, out.Subject, answers)
}

// answered waits until a message that was sent to a subject is settled by an answer. The client
// has the time of a lease from now, and from each answer that asks for more.
func (d *deliverer) answered(ctx context.Context, m *subscribers.Delivery, subject string, answers <-chan *nats.Msg) error {
	timer := time.NewTimer(m.Lease)
	defer timer.Stop()
	for {
		select {
		case answer := <-answers:
			settled, err := d.settled(ctx, m, answer)
			if settled {
				return err
			}
			timer.Reset(m.Lease)
		case <-timer.C:
			if d.conn.denies(subject) || d.conn.denies(d.inbox+"*") {
				return subscribers.NotNow(nats.ErrPermissionViolation, nobodyPause)
			}
			d.count.noAnswer.Add(1)
			return subscribers.RetryAfter(errNoAnswer, 0)
		case <-d.conn.closed.Done():
			return subscribers.NotNow(nats.ErrConnectionClosed, nobodyPause)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled returns what an answer makes of a message; false if it asks for more time.
func (d *deliverer) settled(ctx context.Context, m *subscribers.Delivery, answer *nats.Msg) (bool, error) {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		d.count.nobody.Add(1)
		return true, subscribers.NotNow(errNobody, nobodyPause)
	}
	s, err := parseSettlement(answer.Data)
	if err != nil {
		d.count.badAnswers.Add(1)
		return true, fmt.Errorf("answer over nats: %w", err)
	}
	switch s.verb {
	case verbWork:
		if s.progress != nil {
			_ = m.Extend(store.WithProgress(ctx, *s.progress), 0) // the lease is extended anyway, and what is told is for show
		}
		return false, nil
	case verbNak:
		return true, d.again(s)
	case verbTerm:
		return true, buried(cmp.Or(s.reason, termed))
	}
	if s.result != nil {
		if _, err := m.AckWith(ctx, *s.result); err != nil {
			return true, err
		}
	}
	d.count.delivered.Add(1)
	return true, nil
}

// again returns the error of a handler for a -NAK.
func (d *deliverer) again(s settlement) error {
	delay, why := subscribers.ByBackoff, errNak
	if s.delay != nil {
		delay = *s.delay
	}
	if s.reason != "" {
		why = errors.New(s.reason)
	}
	switch {
	case s.keep:
		d.count.snoozed.Add(1)
		return fmt.Errorf("%w: %w", why, subscribers.Snooze(delay))
	case s.delay != nil:
		return subscribers.RetryAfter(why, delay)
	}
	return why
}

// deliveryMessage returns a message as it is delivered.
func (d *deliverer) deliveryMessage(m *subscribers.Delivery, reply string) *nats.Msg {
	return &nats.Msg{Subject: d.o.Prefix + ".deliver." + m.Topic, Reply: reply, Header: d.deliveryHeader(m), Data: m.Body}
}

// deny records a subject that a connection is not permitted, if deliveries need it:
// without it they could not know that no client got a message, or can answer. Reply
// subjects are not recorded, since requesters may name any number of them.
func (g *Gate) deny(c *connection, err error) {
	kind, rest, _ := strings.Cut(err.Error(), ` to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	listening := strings.HasSuffix(kind, "Subscription") && strings.HasPrefix(subject, nats.InboxPrefix)
	if !listening && !strings.HasPrefix(subject, g.o.Prefix+".deliver.") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied == nil {
		c.denied = make(map[string]bool)
	}
	c.denied[subject] = true
}

// denies reports whether NATS is known not to permit a subject.
func (c *connection) denies(subject string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[subject]
}
