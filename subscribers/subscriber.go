package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// defaultGrace is how long handlers may go on by default.
const defaultGrace = 20 * time.Second

// SubscriberOptions are the options of a Subscriber. The zero value is the default.
type SubscriberOptions struct {
	Grace  time.Duration // how long handlers may go on when it stops; zero: 20s
	Logger *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
}

// HandleOptions are the options of a topic's handler. The zero value is the
// default. How many attempts a message has, what waits are between them and how
// long a lease is are settings of the topic: see notify.Settings.
type HandleOptions struct {
	Concurrency int // messages handled at the same time, up to 10000; zero: one

	// OnDead is called after this subscriber buried a message: out of attempts,
	// refused for good, expired when it was claimed, or with a record that is
	// unreadable or missing. Those that the carrier
	// buries are told to carrier.Options.OnDead.
	OnDead func(Death)

	// OnBadJSON is called by [HandleJSON] for a message whose body cannot be
	// decoded, with the error of [encoding/json]. What it returns decides as the
	// error of a Handler does: nil acknowledges the message. If it is nil the
	// message is buried.
	OnBadJSON func(ctx context.Context, d *Delivery, err error) error
}

// A Death is a message that was buried.
type Death struct {
	Delivery
	Reason   string
	Attempts int // used up
}

// A Handler handles one message. If it returns nil the message is
// acknowledged. An error gives it back, to be due again after a backoff, or
// after the delay of RetryAfter, or never with ErrBury; so does a panic. With
// NotNow it is released instead, and the topic left alone for a while. Its
// context ends when the lease is lost (cause notify.ErrLeaseLost: somebody else
// may have the message) and when the subscriber's grace has run out (cause
// ErrStopping: the message is released without using up an attempt).
type Handler func(ctx context.Context, d *Delivery) error

// A Middleware returns a handler around another one, such as one that measures
// or traces it. The returned handler decides what becomes of the message.
type Middleware func(Handler) Handler

// ErrStopping is why the context of a handler ends that did not return within
// the grace. A handler that is about to stop the subscriber may return it
// itself: the message is released without using up an attempt.
var ErrStopping = errors.New("subscriber is stopping")

// A Subscriber handles messages of any number of topics.
type Subscriber struct {
	store   *notify.Store
	o       SubscriberOptions
	inbox   string
	running atomic.Bool
	workers map[string]*worker
	around  []Middleware
}

// NewSubscriber returns a subscriber to a store. It starts nothing. The error is a
// notify.Fault.
func NewSubscriber(s *notify.Store, options ...SubscriberOptions) (*Subscriber, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, fillRun(&o.Grace, &o.Logger)); err != nil {
		return nil, err
	}
	inbox := s.Only().InboxChannel(notify.NewID())
	return &Subscriber{store: s, o: o, inbox: inbox, workers: make(map[string]*worker)}, nil
}

// fillRun puts in the defaults of what runs handlers, and checks the grace.
func fillRun(grace *time.Duration, log **slog.Logger) error {
	if *grace < 0 {
		return store.Faultf("grace", "grace %v: it is negative; use zero or more", *grace)
	}
	if *grace == 0 {
		*grace = defaultGrace
	}
	if *log == nil {
		*log = slog.Default()
	}
	return nil
}

// Handle sets the handler of a topic. It is called before Run, once for each
// topic. The error joins a notify.Fault for each thing that is wrong.
func (s *Subscriber) Handle(topic string, handler Handler, options ...HandleOptions) error {
	o, err := store.Option(options)
	if err != nil {
		return fmt.Errorf("handle %s: %w", topic, err)
	}
	if err := store.CheckTopic(topic); err != nil {
		return err
	}
	switch {
	case s.running.Load():
		return store.Faultf("call", "call of Handle %s: call it before Run", topic)
	case s.workers[topic] != nil:
		return store.Faultf("topic", "topic %s: it has a handler already; use one for each topic", topic)
	case handler == nil:
		return store.Faultf("handler", "handler of %s: it is nil; use a function", topic)
	case o.OnBadJSON != nil:
		return store.Faultf("on_bad_json", "options of %s: OnBadJSON is for HandleJSON; use that, or leave OnBadJSON out", topic)
	}
	if err := o.fill(); err != nil {
		return fmt.Errorf("handle %s: %w", topic, err)
	}
	s.workers[topic] = newWorker(s, topic, handler, o)
	return nil
}

// Use has each handler of the subscriber, also those that are set later, called
// through middleware. The one that was used first is the outermost: it is called
// first and returns last. Use is called before Run. The error is a notify.Fault.
func (s *Subscriber) Use(middleware ...Middleware) error {
	if s.running.Load() {
		return store.Faultf("call", "call of Use: call it before Run")
	}
	for i, m := range middleware {
		if m == nil {
			return store.Faultf("middleware", "middleware %d: it is nil; use a function", i+1)
		}
	}
	s.around = append(s.around, middleware...)
	return nil
}

// wrap puts the middleware around the handlers.
func (s *Subscriber) wrap() error {
	for _, w := range s.workers {
		for i, m := range slices.Backward(s.around) {
			if w.handler = m(w.handler); w.handler == nil {
				return store.Faultf("middleware", "middleware %d: it returned no handler for %s; return the one that it was given", i+1, w.topic)
			}
		}
	}
	return nil
}

// fill puts in the defaults and checks the rest.
func (o *HandleOptions) fill() error {
	o.Concurrency = cmp.Or(o.Concurrency, 1)
	return store.Within("concurrency", "concurrency", o.Concurrency, 1, store.MaxConcurrency)
}

// Run handles messages until ctx ends. Then it claims no more, releases what
// was claimed but not begun, waits for the handlers for the grace, ends their
// contexts, and returns nil when they have returned and what they did is
// settled. A Redis that is away does not end it. The error is a
// notify.ErrUnfit: a Redis that must not hold messages; or a notify.ErrInvalid
// for a subscriber that has no handler or runs already.
func (s *Subscriber) Run(ctx context.Context) error {
	if len(s.workers) == 0 {
		return store.Faultf("handler", "subscriber: it has no handler; call Handle before Run")
	}
	if !s.running.CompareAndSwap(false, true) {
		return store.Faultf("call", "call of Run: the subscriber ran already; make a new one")
	}
	if err := s.wrap(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() {
			if err := w.run(ctx); err != nil {
				fail(err)
			}
		})
	}
	all.Go(func() { s.hear(ctx) })
	all.Wait()
	if err := context.Cause(ctx); errors.Is(err, notify.ErrUnfit) {
		return err
	}
	return nil
}

// hear rings the workers whose topics have something ready, and all of them
// when a connection stands anew. It tells when no carrier is heard.
func (s *Subscriber) hear(ctx context.Context) {
	watch := newWatch(s.store, s.o.Logger)
	watch.begin()
	defer watch.end()
	s.store.Hear(ctx, func(e store.Event) {
		watch.note(e)
		switch e.Kind {
		case store.Subscribed:
			for _, w := range s.workers {
				w.ring()
			}
		case store.Heard:
			s.ring(e.Payload)
		case store.Beat:
			for _, topic := range e.Topics() {
				s.ring(topic)
			}
		}
	}, s.inbox)
}

func (s *Subscriber) ring(topic string) {
	if w := s.workers[topic]; w != nil {
		w.ring()
	}
}
