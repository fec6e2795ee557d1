package push

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/subscribers"
)

// Options are the options of a Pusher. The zero value pushes nowhere.
type Options struct {
	Allow   string        // to which addresses it pushes, see ParseAllow; empty: it does not
	Grace   time.Duration // for requests under way, when Run ends; zero: that of a Subscriber
	Version string        // of the program
	Logger  *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)

	// OnClaimed is called for each message before its request, with the time from its due time until its claim. It must not block,
	// and must be safe for concurrent use.
	OnClaimed func(d subscribers.Delivery, late time.Duration)
}

// A Pusher works for the pushes of a store. It is run once.
type Pusher struct {
	o             Options
	allow         Allow
	store         *notify.Store
	secure, plain *http.Client // for https, and for http
	loop          *progress.Loop
	quiet         context.Context // ends with quiesce: no more messages are claimed
	quiesce       context.CancelFunc
	ended         chan struct{} // closed when Run ends

	done, failures, putOff, underWay atomic.Int64

	mu      sync.Mutex
	targets map[string]*target // by topic
	now     *working           // nil: there is nothing to do
	running sync.WaitGroup     // subscribers
}

// working is a subscriber for the topics of all pushes.
type working struct {
	topics map[string]int // most requests under way for each
	stop   context.CancelFunc
}

// boundOfLoop is how long a round of the loop takes at most, as that of a claimer.
const boundOfLoop = 45 * time.Second

// New returns a pusher on a store. It starts nothing. The error is a notify.Fault.
func New(s *notify.Store, o Options) (*Pusher, error) {
	if err := store.CheckStore(s); err != nil {
		return nil, err
	}
	allow, err := ParseAllow(o.Allow)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Version = cmp.Or(o.Version, "dev")
	p := &Pusher{
		o: o, allow: allow, store: s, secure: client(allow, false), plain: client(allow, true),
		loop: progress.New("push", boundOfLoop), ended: make(chan struct{}), targets: make(map[string]*target),
	}
	p.quiet, p.quiesce = context.WithCancel(context.Background())
	return p, nil
}

// Run works for the pushes until ctx ends or Quiesce is called, and ends the requests under way within the grace. An unavailable
// Redis does not end it.
func (p *Pusher) Run(ctx context.Context) error {
	defer close(p.ended)
	defer p.loop.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.quiet, cancel)()
	if p.allow.IsNone() {
		<-ctx.Done()
		return nil
	}
	changed := make(chan struct{}, 1)
	var hearing sync.WaitGroup
	hearing.Go(func() {
		p.store.Subscribe(ctx, func(e store.Event) {
			p.loop.Note()
			if e.Kind == reach.Subscribed || e.Kind == reach.Received {
				reach.Signal(changed)
			}
		}, p.store.Home().PushesChannel())
	})
	retry := outage.NewRetry(p.o.Logger, "cannot read the pushes; retrying", "pushes are read again")
	for ctx.Err() == nil {
		select {
		case <-changed:
			err := p.read(ctx)
			if err != nil {
				reach.Signal(changed)
			}
			retry.Wait(ctx, err)
		case <-ctx.Done():
		}
	}
	p.running.Wait()
	hearing.Wait()
	return nil
}

// Stats are what a Pusher does now, and counted since it was made.
type Stats struct {
	Done     int64    // messages that an endpoint acknowledged
	Failed   int64    // requests that failed
	PutOff   int64    // messages put off by an endpoint without an attempt used up
	InFlight int64    // requests under way
	Failing  []string // pushes whose endpoints failed several times in a row
}

// Stats returns the counts.
func (p *Pusher) Stats() Stats {
	s := Stats{Done: p.done.Load(), Failed: p.failures.Load(), PutOff: p.putOff.Load(), InFlight: p.underWay.Load()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.targets {
		t.mu.Lock()
		if t.failures == failuresInARow && !slices.Contains(s.Failing, t.Name) {
			s.Failing = append(s.Failing, t.Name)
		}
		t.mu.Unlock()
	}
	slices.Sort(s.Failing)
	return s
}

// Quiesce has Run claim no more messages, and waits until the requests under way are answered, or ctx ends.
func (p *Pusher) Quiesce(ctx context.Context) {
	p.quiesce()
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
}

// Alive returns an error if the loop of Run is stuck, for watchdogs.
func (p *Pusher) Alive() error { return p.loop.Alive() }

// read reads the pushes, and works for them from now on.
func (p *Pusher) read(ctx context.Context) error {
	all, err := p.store.Home().Pushes(ctx)
	if err != nil {
		return err
	}
	topics, targets := make(map[string]int), make(map[string]*target)
	p.mu.Lock()
	for _, push := range all {
		if push.Paused != "" {
			continue
		}
		t := newTarget(push, p.targets[push.Topics[0]])
		for _, topic := range push.Topics {
			topics[topic], targets[topic] = push.InFlight, t
		}
	}
	p.targets = targets
	p.mu.Unlock()
	return p.work(ctx, topics)
}

// work has a subscriber handle the messages of some topics, and the one before finish its own.
func (p *Pusher) work(ctx context.Context, topics map[string]int) error {
	if before := p.now; before != nil {
		if maps.Equal(before.topics, topics) {
			return nil
		}
		defer before.stop()
	}
	p.now = nil
	if len(topics) == 0 {
		return nil
	}
	s, err := subscribers.NewSubscriber(p.store, subscribers.SubscriberOptions{Version: p.o.Version, Grace: p.o.Grace, Logger: p.o.Logger})
	if err != nil {
		return err
	}
	for topic, most := range topics {
		if err := s.Handle(topic, p.handle, subscribers.HandleOptions{Concurrency: most}); err != nil {
			return err
		}
	}
	running, stop := context.WithCancel(ctx)
	p.now = &working{topics, stop}
	p.running.Go(func() {
		if err := s.Run(running); err != nil && running.Err() == nil {
			p.o.Logger.Error("pushing ended", "error", err)
		}
	})
	return nil
}

// target returns what the push of a topic is now; nil if none has it.
func (p *Pusher) target(topic string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[topic]
}
