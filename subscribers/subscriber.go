package subscribers

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// SubscriberOptions are the options of a Subscriber. The zero value is the default.
type SubscriberOptions struct {
	Name    string        // under which it claims; empty: HOST-PID
	Version string        // of the program
	Grace   time.Duration // how long handlers may go on when it stops; zero: 20s
	Logger  *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
}

// A Subscriber handles messages of any number of topics.
type Subscriber struct {
	store *notify.Store
	o     SubscriberOptions
	inbox reach.Inbox
	stats handovers

	mu         sync.RWMutex
	workers    map[string]*worker // by topic
	middleware []func(Handler) Handler
	shift      *shift // what Run runs; nil: it was not called
}

// NewSubscriber returns a subscriber to a store. It starts nothing. The error is a
// notify.Fault.
func NewSubscriber(s *notify.Store, options ...SubscriberOptions) (*Subscriber, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, fillRun(&o.Grace, &o.Logger), fillName(&o.Name)); err != nil {
		return nil, err
	}
	inbox := reach.NewInbox(notify.NewID(), true)
	return &Subscriber{store: s, o: o, inbox: inbox, workers: make(map[string]*worker)}, nil
}

// Handle sets the handler of a topic, once for each topic, or again when the Until of the
// handler before has ended. It may be called while Run runs, but for one with a MinAge, and
// not when Run is about to end. The error joins a notify.Fault for each thing that is wrong.
func (s *Subscriber) Handle(topic string, handler Handler, options ...HandleOptions) error {
	o, err := store.Option(options)
	if o.OnBadJSON != nil {
		err = fault.New("on_bad_json", "options of %s: OnBadJSON is for HandleJSON; use that, or leave OnBadJSON out", topic)
	}
	return s.handle(topic, handler, o, err)
}

// handle is Handle with what is wrong with the options, if anything is.
func (s *Subscriber) handle(topic string, handler Handler, o HandleOptions, wrong error) error {
	faults := []error{record.CheckTopic(topic), wrong, o.fill()}
	if handler == nil {
		faults = append(faults, fault.New("handler", "handler of %s: it is nil; use a function", topic))
	}
	if s == nil {
		return errors.Join(append(faults, fault.New("subscriber", "subscriber of %s: it is nil; use one of NewSubscriber", topic))...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.workers[topic]; {
	case s.shift.isOver():
		faults = append(faults, fault.New("call", "call of Handle %s: the subscriber has ended; make a new one", topic))
	case s.shift != nil && o.MinAge > 0:
		faults = append(faults, fault.New("call", "call of Handle %s: with a MinAge, call it before Run", topic))
	case before != nil && !before.isEnding():
		faults = append(faults, fault.New("topic", "topic %s: it has a handler already; use one for each topic", topic))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return s.add(s.newWorker(topic, handler, o))
}

func (s *Subscriber) newWorker(topic string, handler Handler, o HandleOptions) *worker {
	w := &worker{leases: newLeases(s.store, s.o.Logger, s.o.Name), inbox: s.inbox, topic: topic, handler: handler, o: o, stats: &s.stats}
	w.engine = newEngine(source[Delivery]{
		claim: w.claimMessages, handle: w.handleMessage, release: w.releaseMessages, extend: w.extendMessages, lease: leaseOf,
		ack: func(ctx context.Context, done []Delivery) ([]Delivery, error) {
			return w.leases.ackMany(ctx, w.topic, done)
		},
		rests: func() { s.rest(w) }, dropped: func() { s.stats.dropped.Add(1) },
		ends:  func(err error) bool { return errors.Is(err, notify.ErrUnfit) },
		size:  func(d *Delivery) int { return len(d.Body) },
		about: func(d *Delivery) []any { return []any{"id", d.ID, "attempt", d.Attempt} },
		noun:  "message",
	}, terms{
		concurrency: o.Concurrency, ahead: record.MaxClaim, grace: s.o.Grace, budget: o.Budget,
	}, make(chan struct{}, 1), s.o.Logger.With("topic", topic))
	w.wakeup.rung = w.rung
	return w
}

// Use has each handler of the subscriber, also those that are set later, called
// through middleware: functions that return a handler around another one, such as one
// that measures or traces it. The returned handler decides what becomes of the message.
// The middleware that was used first is the outermost: it is called first and returns
// last. Use is called before Run. The error is a notify.Fault.
func (s *Subscriber) Use(middleware ...func(Handler) Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shift != nil {
		return fault.New("call", "call of Use: call it before Run")
	}
	for i, m := range middleware {
		if m == nil {
			return fault.New("middleware", "middleware %d: it is nil; use a function", i+1)
		}
	}
	s.middleware = append(s.middleware, middleware...)
	return nil
}

// wrap puts the middleware around the handler of a worker.
func (s *Subscriber) wrap(w *worker) error {
	for i, m := range slices.Backward(s.middleware) {
		if w.handler = m(w.handler); w.handler == nil {
			return fault.New("middleware", "middleware %d: it returned no handler for %s; return the one that it was given", i+1, w.topic)
		}
	}
	return nil
}

// Run handles messages until ctx ends. Then it claims no more, releases what
// was claimed but not begun, waits for the handlers for the grace, ends their
// contexts, and returns nil when they have returned and what they did is
// settled. An unavailable Redis does not end it. The error is a
// notify.ErrUnfit: a Redis that must not hold messages; or a notify.ErrInvalid for a
// subscriber that has no handler, ran already, or has middleware that returns none.
func (s *Subscriber) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	subscribed, unsubscribe := context.WithCancel(context.WithoutCancel(ctx))
	defer unsubscribe()
	at, err := s.begin(&shift{ctx: ctx, fail: fail, subscribed: subscribed})
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.end(at)
	at.all.Wait() // the last hand-overs have come
	unsubscribe()
	at.receiving.Wait()
	if err := context.Cause(ctx); errors.Is(err, notify.ErrUnfit) {
		return err
	}
	return nil
}

// Stats returns what the subscriber counted so far.
func (s *Subscriber) Stats() SubscriberStats { return s.stats.stats() }

// receive rings the workers whose topics have ready messages, and all of a shard when its
// connection is new. Those of messages of an age are rung by what programs of any
// language are told, which beats repeat. It fails where Redis must not hold messages: the
// workers would wait for a connection.
func (s *Subscriber) receive(ctx context.Context, channels []reach.Channel) {
	here := newPresence(s.store, store.Worker{Name: s.o.Name, Version: s.o.Version, Kind: kindWorker}, func() duty {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return duty{topics: slices.Sorted(maps.Keys(s.workers))}
	})
	defer here.end(ctx)
	s.subscribe(ctx, s.store.Home(), func(e store.Event) {
		here.note(ctx, e)
		if e.Kind == reach.Received && here.isFor(e) {
			s.stop(e.Payload)
		} else {
			s.hear(e)
		}
	}, append(channels, here.channel())...)
}

// subscribe calls on with the events of channels, until ctx ends. It logs when no carrier is
// heard, and that a shard is awaited first of all.
func (s *Subscriber) subscribe(ctx context.Context, first store.Shard, on func(store.Event), channels ...reach.Channel) {
	sums := newSummary(s.o.Logger)
	defer sums.Flush()
	watch := newWatch(first, sums.Logger())
	watch.begin()
	defer watch.end()
	s.store.Subscribe(ctx, func(e store.Event) {
		watch.note(e)
		on(e)
	}, channels...)
}

// hear takes an event of a subscription. It does not block.
func (s *Subscriber) hear(e store.Event) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch e.Kind {
	case reach.Subscribed:
		for topic, w := range s.workers {
			if s.store.Of(topic) == e.Shard() {
				w.ring()
			}
		}
	case reach.Received:
		s.rung(e)
	case reach.Beat:
		for _, topic := range e.Topics() {
			s.ring(topic)
		}
	case reach.Broken:
		if errors.Is(e.Err, notify.ErrUnfit) {
			s.shift.fail(e.Err)
		}
	}
}

// stop has the worker of a message stop the work on it, if it has it.
func (s *Subscriber) stop(member string) {
	topic, _, _ := strings.Cut(member, ":")
	s.mu.RLock()
	defer s.mu.RUnlock()
	for w := s.workers[topic]; w != nil; w = w.before {
		w.stop(member)
	}
}

// rung rings the worker of a topic, or passes a hand-over to it. The mutex is held.
func (s *Subscriber) rung(e store.Event) {
	if topic, _, is := e.Woken(); is {
		if w := s.workers[topic]; w != nil { // of others, too, where there are several shards
			w.wakeup.ring()
		}
		return
	}
	h, is := e.Handover()
	switch w := s.workers[h.Topic]; {
	case !is:
		if s.workers[e.Payload] == nil {
			s.vacate(e.Shard(), e.Payload)
		}
		s.ring(e.Payload)
	case w == nil:
		s.stats.drop(1)
		s.vacate(e.Shard(), h.Topic)
	default:
		w.takeOver(h)
	}
}

// ring rings the worker of a topic. The mutex is held.
func (s *Subscriber) ring(topic string) {
	if w := s.workers[topic]; w != nil && !w.hasMinAge() {
		w.ring()
	}
}
