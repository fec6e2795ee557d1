package natsgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/daemon/results"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// lostPause is how long a message waits to be tried again that was out when the connection broke.
const lostPause = 500 * time.Millisecond

// answersOf returns where the answers of a connection come, which it subscribes to first.
func (g *Gate) answersOf(c *connection) (*answers, error) {
	c.subscribing.Lock()
	defer c.subscribing.Unlock()
	if c.answers != nil {
		return c.answers, nil
	}
	a := &answers{inbox: c.nc.NewInbox() + ".", waiting: make(map[string]chan *nats.Msg), out: make(map[string]int)}
	_, err := c.nc.Subscribe(a.inbox+"*", func(m *nats.Msg) {
		if !a.pass(m) {
			g.count.lateAnswers.Add(1)
		}
	})
	if err != nil {
		return nil, err
	}
	c.answers = a
	return a, nil
}

// Reasons why a message was not delivered.
var (
	errNoAnswer = errors.New("no answer over nats in time")
	errNak      = errors.New("refused over nats with -NAK")
)

// termed is the reason why a message was buried by a +TERM that gives none.
const termed = "refused for good over nats with +TERM"

// buried is the literal reason why a message is never delivered again.
type buried string

func (b buried) Error() string { return string(b) }

func (b buried) Unwrap() error { return subscribers.ErrBury }

// Connected waits for a connection to NATS, see push.NATS.
func (g *Gate) Connected(ctx context.Context) (connected context.Context, release context.CancelFunc) {
	if c := g.await(ctx); c != nil {
		return during(ctx, c)
	}
	return ctx, func() {}
}

// CheckSubject is that of the gateway's options, see push.NATS.
func (g *Gate) CheckSubject(subject string) error { return g.o.CheckSubject(subject) }

// Reserve has requests refused whose answers would go to these subjects, see push.NATS.
func (g *Gate) Reserve(subjects []string) {
	all := make(map[string]bool, len(subjects))
	for _, subject := range subjects {
		all[subject] = true
	}
	g.reserved.Store(&all)
}

// isReserved reports whether a subject is one of pushes.
func (g *Gate) isReserved(subject string) bool {
	all := g.reserved.Load()
	if all == nil || len(*all) == 0 {
		return false
	}
	for i, c := range subject {
		if c == '.' && (*all)[subject[:i+1]+">"] {
			return true
		}
	}
	return (*all)[subject]
}

// Deliver sends a message to a subject and waits for its answer, see push.NATS. The client has the time within from now, and from each
// answer that asks for more.
func (g *Gate) Deliver(ctx context.Context, subject string, within time.Duration, m *subscribers.Delivery) error {
	c := g.conn.Load()
	if c == nil {
		return subscribers.NotNow(nats.ErrDisconnected, lostPause)
	}
	a, err := g.answersOf(c)
	if err != nil {
		return subscribers.NotNow(err, lostPause)
	}
	reply, got, done := a.expect(subject)
	defer done()
	err = c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: g.deliveryHeader(m), Data: m.Body})
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		g.count.tooLarge.Add(1)
		return buried(fmt.Sprintf("too large for nats: %d bytes of body, and max_payload is %d with the headers; claim it over HTTP or Redis", len(m.Body), c.nc.MaxPayload()))
	case err != nil:
		return subscribers.NotNow(err, lostPause)
	}
	d := delivery{Gate: g, conn: c, of: m, within: within, needs: []string{subject, a.inbox + "*"}}
	return d.answered(ctx, got)
}

// A delivery is a message that was sent to a client.
type delivery struct {
	*Gate
	conn   *connection
	of     *subscribers.Delivery
	within time.Duration
	needs  []string // subjects that NATS has to permit
	stored string   // the stream that answered that it stores the message; empty: none did
}

// answered waits until the message is settled by an answer.
func (d *delivery) answered(ctx context.Context, answers <-chan *nats.Msg) error {
	timer := time.NewTimer(d.within)
	defer timer.Stop()
	for {
		select {
		case answer := <-answers:
			if d.storedBy(answer) { // a client may answer yet
				continue
			}
			settled, err := d.settled(ctx, answer)
			if settled {
				return err
			}
			timer.Reset(d.within)
		case <-timer.C:
			return d.unanswered()
		case <-d.conn.closed.Done():
			return subscribers.NotNow(nats.ErrConnectionClosed, lostPause)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unanswered returns why nobody answered in time.
func (d *delivery) unanswered() error {
	switch {
	case slices.ContainsFunc(d.needs, d.conn.denies):
		return subscribers.NotNow(nats.ErrPermissionViolation, lostPause)
	case d.stored != "":
		d.count.nobody.Add(1)
		return &push.StoredError{Stream: d.stored}
	}
	d.count.noAnswer.Add(1)
	return subscribers.RetryAfter(errNoAnswer, 0)
}

// storedBy notes the stream that stores messages of the subject, if the answer is that of JetStream, which comes before any client's.
func (d *delivery) storedBy(answer *nats.Msg) bool {
	var ack struct {
		Stream string `json:"stream"`
	}
	if json.Unmarshal(answer.Data, &ack) != nil || ack.Stream == "" {
		return false
	}
	d.stored = ack.Stream
	return true
}

// settled returns what an answer makes of the message; false if it asks for more time.
func (d *delivery) settled(ctx context.Context, answer *nats.Msg) (bool, error) {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		d.count.nobody.Add(1)
		return true, push.ErrNobody
	}
	s, err := parseSettlement(answer.Data)
	if err != nil {
		d.count.badAnswers.Add(1)
		return true, fmt.Errorf("answer over nats: %w", err)
	}
	switch s.verb {
	case verbWork:
		if s.progress != nil {
			_ = d.of.Extend(store.WithProgress(ctx, *s.progress), 0) // the lease is extended anyway, and what is told is for show
		}
		return false, nil
	case verbNak:
		return true, d.again(s)
	case verbTerm:
		return true, buried(cmp.Or(s.reason, termed))
	}
	if s.result != nil && d.of.Receipt != 0 { // the test of a push has none, and nothing to keep
		if _, err := results.Ack(ctx, d.o.Logger, d.of, *s.result); err != nil {
			return true, err
		}
	}
	d.count.delivered.Add(1)
	return true, nil
}

// again returns the error of a handler for a -NAK.
func (d *delivery) again(s settlement) error {
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
