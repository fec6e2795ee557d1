package natsgate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	nobodyPause  = 500 * time.Millisecond // until it is tried again whether somebody listens
	answerBuffer = 16                     // answers for one message that wait
)

// deliver sends messages of the configured topics to whoever listens, until
// ctx ends. While NATS is away it claims nothing.
func (g *Gate) deliver(ctx context.Context) {
	var pause backoff.Pause
	for ctx.Err() == nil {
		l := g.await(ctx)
		if l == nil {
			return
		}
		began := time.Now()
		if err := g.deliverOn(ctx, l); err != nil {
			g.told.once("cannot deliver over nats; retrying", err, "")
		}
		if time.Since(began) > backoff.Max {
			pause.Reset()
		}
		pause.Wait(ctx)
	}
}

// deliverOn delivers on one connection, until it is lost.
func (g *Gate) deliverOn(ctx context.Context, l *line) error {
	d := &delivering{Gate: g, line: l, inbox: l.conn.NewInbox() + ".", waiting: make(map[string]chan *nats.Msg)}
	sub, err := l.conn.Subscribe(d.inbox+"*", d.answer)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // where it fails the connection is lost
	s, err := subscribers.NewSubscriber(g.store, subscribers.SubscriberOptions{Grace: g.o.Grace, Logger: g.o.Logger})
	if err != nil {
		return err
	}
	for _, topic := range g.o.Deliver {
		err := s.Handle(topic.Topic, d.handle, subscribers.HandleOptions{Concurrency: topic.InFlight})
		if err != nil {
			return err
		}
	}
	ctx, cancel := during(ctx, l)
	defer cancel()
	return s.Run(ctx)
}

// delivering is what delivers on one connection.
type delivering struct {
	*Gate
	line  *line
	inbox string // what the reply subjects begin with

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg // for answers, by the end of the reply subject
}

// answer hands an answer to who waits for it.
func (d *delivering) answer(m *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.waiting[strings.TrimPrefix(m.Subject, d.inbox)]
	select {
	case waiting <- m: // never, where nobody waits: it comes too late
	default:
		d.count.lateAnswers.Add(1)
	}
}

// expect returns a reply subject, and where its answers come until done is called.
func (d *delivering) expect() (reply string, answers <-chan *nats.Msg, done func()) {
	key := rand.Text() // who gets one delivery must not guess the reply subject of another
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

// Why a message was not delivered.
var (
	errNobody   = errors.New("nobody listens over nats")
	errNoAnswer = errors.New("no answer over nats within the lease")
	errNak      = errors.New("refused over nats with -NAK")
)

// buried is why a message is never delivered again, to the letter.
type buried string

func (b buried) Error() string { return string(b) }

func (b buried) Unwrap() error { return subscribers.ErrBury }

// handle sends a message and waits for what is answered.
func (d *delivering) handle(ctx context.Context, m *subscribers.Delivery) error {
	reply, answers, done := d.expect()
	defer done()
	out := d.deliveryMessage(m, reply)
	err := d.line.conn.PublishMsg(out)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		d.count.tooLarge.Add(1)
		return buried(fmt.Sprintf("too large for nats: %d bytes of body, and max_payload is %d with the headers; claim it over HTTP or Redis", len(m.Body), d.line.conn.MaxPayload()))
	case err != nil:
		return subscribers.NotNow(err, nobodyPause)
	}
	d.handedOut(*m)
	timer := time.NewTimer(m.Lease)
	defer timer.Stop()
	for {
		select {
		case answer := <-answers:
			settled, err := d.settled(answer)
			if settled {
				return err
			}
			timer.Reset(m.Lease)
		case <-timer.C:
			if d.line.denies(out.Subject) || d.line.denies(d.inbox+"*") {
				return subscribers.NotNow(nats.ErrPermissionViolation, nobodyPause)
			}
			d.count.noAnswer.Add(1)
			return subscribers.RetryAfter(errNoAnswer, 0)
		case <-d.line.closed:
			return subscribers.NotNow(nats.ErrConnectionClosed, nobodyPause)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled returns what becomes of a message by an answer; false for one that asks for more time.
func (d *delivering) settled(answer *nats.Msg) (bool, error) {
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
		return false, nil
	case verbNak:
		if s.delay != nil {
			return true, subscribers.RetryAfter(errNak, *s.delay)
		}
		return true, errNak
	case verbTerm:
		if s.reason != "" {
			return true, buried(s.reason)
		}
		return true, buried("refused for good over nats with +TERM")
	}
	d.count.delivered.Add(1)
	return true, nil
}

// deliveryMessage returns a message as it is sent to who listens.
func (d *delivering) deliveryMessage(m *subscribers.Delivery, reply string) *nats.Msg {
	return &nats.Msg{Subject: d.o.Prefix + ".deliver." + m.Topic, Reply: reply, Header: d.deliveryHeader(m), Data: m.Body}
}

// deny takes note of what a connection is not permitted, if deliveries need it:
// nothing else tells them that nobody got a message, or can answer. Reply
// subjects are not noted: there is no end to what requesters name.
func (g *Gate) deny(l *line, err error) {
	kind, rest, _ := strings.Cut(err.Error(), ` to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	listening := strings.HasSuffix(kind, "Subscription") && strings.HasPrefix(subject, nats.InboxPrefix)
	if !listening && !strings.HasPrefix(subject, g.o.Prefix+".deliver.") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.denied == nil {
		l.denied = make(map[string]bool)
	}
	l.denied[subject] = true
}

// denies reports whether NATS is known not to permit a subject.
func (l *line) denies(subject string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied[subject]
}
