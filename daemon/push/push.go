package push

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
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
	Allow   string        // to which addresses it pushes, see ParseAllow; empty: to no URL
	NATS    NATS          // nil: it does not push to NATS
	Grace   time.Duration // for what is under way, when Run ends; zero: that of a Subscriber
	Version string        // of the program
	Logger  *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)

	// OnClaimed is called for each message that is handed on, with the time from its due time until its claim. It must not block,
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

	web, nats crew // for pushes to URLs, and to NATS
	unheard   unheard
	listening listening
	handovers handovers

	mu      sync.Mutex
	targets map[string]*target // by topic
	heard   map[string]*target // pushes of broadcasts, by the names under which they listen
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
	listener, err := subscribers.NewListener(s, subscribers.ListenerOptions{Version: o.Version, Grace: o.Grace, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	p.listening = listening{Pusher: p, listener: listener, running: make(map[string]running)}
	p.web, p.nats = crew{Pusher: p, handle: p.request}, crew{Pusher: p, handle: p.deliver}
	p.quiet, p.quiesce = context.WithCancel(context.Background())
	return p, nil
}

// Run works for the pushes until ctx ends or Quiesce is called, and ends what is under way within the grace. An unavailable Redis or
// NATS does not end it.
func (p *Pusher) Run(ctx context.Context) error {
	defer close(p.ended)
	defer p.loop.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.quiet, cancel)()
	if p.IsOff() {
		<-ctx.Done()
		return nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer p.listening.all.Wait()
	if !p.allow.IsNone() {
		all.Go(func() { p.web.serve(ctx) })
	}
	if p.o.NATS != nil {
		all.Go(func() { p.serveNATS(ctx) })
	}
	changed := make(chan struct{}, 1)
	all.Go(func() {
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
	return nil
}

// IsOff reports whether the pusher pushes nowhere.
func (p *Pusher) IsOff() bool { return p.allow.IsNone() && p.o.NATS == nil }

// serveNATS works for the pushes to NATS while there is a connection.
func (p *Pusher) serveNATS(ctx context.Context) {
	for ctx.Err() == nil {
		connected, release := p.o.NATS.Connected(ctx)
		p.unheard.forgetAll()
		p.nats.serve(connected)
		release()
	}
}

// Quiesce has Run claim no more messages, and waits until those under way are settled, or ctx ends.
func (p *Pusher) Quiesce(ctx context.Context) {
	p.quiesce()
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
}

// Alive returns an error if a loop of Run is stuck, for watchdogs.
func (p *Pusher) Alive() error { return errors.Join(p.loop.Alive(), p.listening.listener.Alive()) }

// read reads the pushes, and works for them from now on.
func (p *Pusher) read(ctx context.Context) error {
	all, err := p.store.Home().Pushes(ctx)
	if err != nil {
		return err
	}
	web, nats, targets, heard := make(map[string]int), make(map[string]int), make(map[string]*target), make(map[string]*target)
	var reserved []string
	p.mu.Lock()
	for _, push := range all {
		topics := web
		if push.IsNATS() {
			topics = nats
			reserved = append(reserved, push.Subject(">"))
		}
		switch {
		case push.Paused != "":
		case push.IsNATS() && p.refuses(&push): // it was put where no daemon was asked
		case push.Broadcasts:
			heard[push.Listener()] = newTarget(push, p.heard[push.Listener()])
		default:
			t := newTarget(push, p.targets[push.Topics[0]])
			for _, topic := range push.Topics {
				topics[topic], targets[topic] = push.InFlight, t
			}
		}
	}
	p.targets, p.heard = targets, heard
	p.mu.Unlock()
	if !p.allow.IsNone() {
		p.listening.assign(ctx, heard)
	}
	if p.o.NATS != nil {
		p.o.NATS.Reserve(reserved)
	}
	return errors.Join(p.web.assign(web), p.nats.assign(nats))
}

// refuses reports whether this daemon does not work for a push to NATS, and logs why.
func (p *Pusher) refuses(push *store.Push) bool {
	if p.o.NATS == nil {
		return true
	}
	err := p.o.NATS.CheckSubject(push.Subject(push.Topics[0]))
	if err != nil {
		p.o.Logger.Error("cannot push to nats", "push", push.Name, "error", err)
	}
	return err != nil
}

// target returns what the push of a topic is now; nil if none has it.
func (p *Pusher) target(topic string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[topic]
}

// heardBy returns what the push is now that listens under a name; nil if none does.
func (p *Pusher) heardBy(name string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[name]
}
