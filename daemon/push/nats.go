package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// NATS is a gateway that hands messages on to NATS, such as that of package natsgate.
type NATS interface {
	// Connected waits until there is a connection or ctx ends, and returns a context that ends with either. release frees what that
	// holds.
	Connected(ctx context.Context) (connected context.Context, release context.CancelFunc)

	// Deliver sends a message to a subject, and waits for its answer for some time, and as long again from each that asks for more. It
	// returns what a Handler does; an error that is ErrNobody where nobody listens.
	Deliver(ctx context.Context, subject string, within time.Duration, d *subscribers.Delivery) error

	// Reserve has the gateway answer no request on these subjects, of which a last token > stands for one or more: whoever may send
	// requests could forge messages there.
	Reserve(subjects []string)

	// CheckSubject returns a notify.Fault for a subject that has another meaning for the gateway, or, with a last token >, may have one.
	CheckSubject(subject string) error
}

// ErrNobody is why a message was not handed on to NATS.
var ErrNobody = errors.New("nobody listens over nats")

// A StoredError is an ErrNobody: a stream of NATS answered that it stores what is sent to the subject, and nobody else answered.
type StoredError struct{ Stream string }

func (s *StoredError) Error() string {
	return fmt.Sprintf("no client answers over nats, and the stream %s stores each try; have a client listen, or take the subject from that stream", s.Stream)
}

func (*StoredError) Unwrap() error { return ErrNobody }

// A subject on which nobody listens is asked again by one message after a second; where there are many they take turns, ten a second. So
// what it costs to wait for clients is bounded, and needs no help from NATS, which does not say when one comes.
const (
	unheardPause = time.Second
	unheardTurn  = 100 * time.Millisecond
)

// unheard are the subjects on which nobody listens, as far as is known.
type unheard struct {
	mu   sync.Mutex
	next map[string]time.Time // when each is asked again
	last time.Time            // turn that was given
}

// wait returns for how long a subject is not asked.
func (u *unheard) wait(subject string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(time.Until(u.next[subject]), 0)
}

// has reports whether nobody listened on a subject when it was asked last.
func (u *unheard) has(subject string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, there := u.next[subject]
	return there
}

// again notes that nobody listens on a subject, and returns when it is asked again.
func (u *unheard) again(subject string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if next := u.next[subject]; next.After(now) { // as another message found meanwhile
		return next.Sub(now)
	}
	if u.next == nil {
		u.next = make(map[string]time.Time)
	}
	turn := now.Add(unheardPause)
	if after := u.last.Add(unheardTurn); after.After(turn) {
		turn = after
	}
	u.next[subject], u.last = turn, turn
	return turn.Sub(now)
}

// forget notes that a subject is heard.
func (u *unheard) forget(subject string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.next, subject)
}

// keep forgets all subjects but some.
func (u *unheard) keep(some map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.next, func(subject string, _ time.Time) bool { return !some[subject] })
}

// forgetAll forgets what was found on another connection.
func (u *unheard) forgetAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.next)
	u.last = time.Time{}
}

// Unheard returns the subjects of a push to NATS on which nobody listened when this daemon sent a message there last, at most as many as a push
// may name topics; none of any other push.
func (p *Pusher) Unheard(push *store.Push) []string {
	subjects := p.unheardBy(func(t *target) bool { return t.Name == push.Name })
	return subjects[:min(len(subjects), record.MaxTopics)]
}

// unheardBy returns the subjects of some pushes on which nobody listens, in order.
func (p *Pusher) unheardBy(is func(*target) bool) (subjects []string) {
	for _, topic := range p.nats.topics() {
		if t := p.target(topic); t != nil && t.IsNATS() && is(t) && p.unheard.has(t.Subject(topic)) {
			subjects = append(subjects, t.Subject(topic))
		}
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// sweep lets topics go that patterns found and that had nothing for some time, and forgets the subjects of those for which nobody works.
func (p *Pusher) sweep() {
	p.web.letGo(p.idle)
	p.nats.letGo(p.idle)
	subjects := make(map[string]bool)
	for _, topic := range p.nats.topics() {
		if t := p.target(topic); t != nil {
			subjects[t.Subject(topic)] = true
		}
	}
	p.unheard.keep(subjects)
}

// deliver hands a message on to NATS.
func (p *Pusher) deliver(ctx context.Context, d *subscribers.Delivery) error {
	t := p.target(d.Topic)
	if t == nil || !t.IsNATS() {
		return subscribers.NotNow(errReplaced, leastPause)
	}
	subject := t.Subject(d.Topic)
	if wait := p.unheard.wait(subject); wait > 0 {
		return subscribers.NotNow(ErrNobody, wait)
	}
	p.underWay.Add(1)
	err := p.o.NATS.Deliver(ctx, subject, t.Timeout, d)
	p.underWay.Add(-1)
	p.noteStream(ctx, t, subject, err)
	if errors.Is(err, ErrNobody) {
		return subscribers.NotNow(err, p.unheard.again(subject))
	}
	p.unheard.forget(subject)
	if p.o.OnClaimed != nil {
		p.o.OnClaimed(*d, d.Late())
	}
	return err
}

// A storing is a stream that stores what is sent to a subject; the zero value: none is known.
type storing struct{ subject, stream string }

// noteStream notes which stream stores what is sent to a subject, as the error of a try says, or that none does any more. Of the subjects of a
// push one is noted.
func (p *Pusher) noteStream(ctx context.Context, t *target, subject string, err error) {
	var stored *StoredError
	var now storing
	if errors.As(err, &stored) {
		now = storing{subject, stored.Stream}
	}
	t.mu.Lock()
	before := t.storing
	changes := now != before && (before == storing{} || before.subject == subject)
	if changes {
		t.storing = now
	}
	t.mu.Unlock()
	if !changes {
		return
	}
	if err := p.store.Home().PushStored(context.WithoutCancel(ctx), t.Name, subject, now.stream); err != nil {
		p.o.Logger.Warn("cannot note which stream stores what a push sends", "push", t.Name, "error", err)
	}
}
