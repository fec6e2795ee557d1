package push

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// Options are the options of a Pusher. The zero value pushes nowhere.
type Options struct {
	Allow   string        // to which addresses it pushes, see ParseAllow; empty: to no URL
	NATS    NATS          // nil: it does not push to NATS
	Grace   time.Duration // for what is under way, when Run ends; zero: that of a Subscriber
	Version string        // of the program
	Files   int           // that pushes to URLs may have open, for requests and kept connections; zero: 256
	Logger  *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)

	// Broadcasts has the lease, the backoff and the attempts of broadcasts; the other fields are left out.
	Broadcasts subscribers.ListenOptions

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

	noting sync.Mutex // held while a push is changed in Redis

	done, failures, putOff, underWay atomic.Int64

	web, nats workers // for pushes to URLs, and to NATS
	unheard   unheard
	budgets   budgets // of Run's goroutine
	listening listening
	handovers handovers

	made    time.Time
	news    news
	known   []store.Push  // by name, as they were read; of Run's goroutine
	bound   int           // topics that patterns found, of each kind of pushes, at the most
	idle    time.Duration // after which those are let go
	leftOut atomic.Int64  // times that there was no room for one
	full    *outage.Notice

	mu       sync.Mutex
	assigned // guarded by mu
}

// What is assigned are the targets of the pushes that the daemon works for.
type assigned struct {
	pushes   map[string]*target        // of messages, by name
	targets  map[string]*target        // the same by topic
	patterns tree                      // of the other topics
	matched  map[bool][]record.Pattern // what is in it, for pushes to URLs, and for those to NATS
	heard    map[string]*target        // pushes of broadcasts, by the names under which they listen
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
	o.Version, o.Files = cmp.Or(o.Version, "dev"), cmp.Or(o.Files, defaultFiles)
	p := &Pusher{
		o: o, allow: allow, store: s, secure: client(allow, false, o.Files/8), plain: client(allow, true, o.Files/8), budgets: newBudgets(o.Files - o.Files/4),
		loop: progress.New("push", boundOfLoop), ended: make(chan struct{}),
		made: time.Now(), bound: mostFound, idle: idleFound, full: newFull(o.Logger),
		news: news{rung: make(chan struct{}, 1), todo: newTodo()},
	}
	listener, err := subscribers.NewListener(s, subscribers.ListenerOptions{Version: o.Version, Grace: o.Grace, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	p.listening = listening{Pusher: p, listener: listener, running: make(map[string]running)}
	p.web, p.nats = workers{Pusher: p, handle: p.request}, workers{Pusher: p, handle: p.deliver}
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
	if !p.allow.isNone() {
		all.Go(func() { p.web.serve(ctx) })
	}
	if p.o.NATS != nil {
		all.Go(func() { p.serveNATS(ctx) })
	}
	channels := []reach.Channel{p.store.Home().PushesChannel(), p.store.Every().BeatChannel()}
	for nats, may := range map[bool]bool{false: !p.allow.isNone(), true: p.o.NATS != nil} {
		if may {
			channels = append(channels, p.store.Home().PushersChannel(nats))
		}
	}
	all.Go(func() {
		p.store.Subscribe(ctx, func(e store.Event) {
			p.loop.Note()
			p.news.note(e, p)
		}, channels...)
	})
	retry := outage.NewRetry(p.o.Logger, "cannot read the pushes; retrying", "pushes are read again")
	for ctx.Err() == nil {
		select {
		case <-p.news.rung:
			retry.Wait(ctx, p.work(ctx))
		case <-ctx.Done():
		}
	}
	return nil
}

// IsOff reports whether the pusher pushes nowhere.
func (p *Pusher) IsOff() bool { return p.allow.isNone() && p.o.NATS == nil }

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

// An assignment is what the daemon works for.
type assignment struct {
	assigned
	web, nats map[string]share // topics
	reserved  []string         // subjects
}

// read reads all pushes, or those of some names, and works for them from now on. It reports whether there are other patterns than before.
func (p *Pusher) read(ctx context.Context, all bool, named map[string]bool) (changed bool, err error) {
	if all || len(named) > store.MaxPushes {
		id, no := p.store.Home().StoreID(ctx)
		if no != nil {
			return false, no
		}
		p.news.readIn(id)
		p.known, err = p.store.Home().Pushes(ctx)
	} else {
		err = p.readNamed(ctx, named)
	}
	if err != nil {
		return false, err
	}
	r := assignment{web: make(map[string]share), nats: make(map[string]share), assigned: assigned{
		pushes: make(map[string]*target), targets: make(map[string]*target), matched: make(map[bool][]record.Pattern), heard: make(map[string]*target),
	}}
	p.mu.Lock()
	p.budgets.keep(p.known)
	for _, push := range p.known {
		if push.IsNATS() {
			r.reserved = append(r.reserved, push.Subject(">"))
		}
		switch {
		case push.Paused != "":
		case !push.IsNATS() && p.allow.isNone():
		case push.IsNATS() && p.refuses(&push): // it was put where no daemon was asked
		case push.Broadcasts:
			r.heard[push.Listener()] = newTarget(push, p.heard[push.Listener()], p.budgets.of(&push))
		default:
			r.add(newTarget(push, p.pushes[push.Name], p.budgets.of(&push)))
		}
	}
	changed = !reflect.DeepEqual(p.matched, r.matched)
	p.assigned = r.assigned
	p.mu.Unlock()
	if !p.allow.isNone() {
		p.listening.assign(ctx, r.heard)
	}
	if p.o.NATS != nil {
		p.o.NATS.Reserve(r.reserved)
	}
	return changed, errors.Join(p.web.assign(r.web, p.shareOf(false)), p.nats.assign(r.nats, p.shareOf(true)))
}

// readNamed reads pushes of some names: to read all each time that one is put takes ever longer while many are.
func (p *Pusher) readNamed(ctx context.Context, names map[string]bool) error {
	read, err := p.store.Home().PushesNamed(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return err
	}
	p.known = slices.DeleteFunc(p.known, func(one store.Push) bool { return names[one.Name] })
	p.known = append(p.known, read...)
	slices.SortFunc(p.known, func(a, b store.Push) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// add adds the target of a push of messages.
func (r *assignment) add(t *target) {
	topics := r.web
	if t.IsNATS() {
		topics = r.nats
	}
	r.pushes[t.Name] = t
	for _, topic := range t.Topics {
		pattern, _ := record.ParsePattern(topic) // the push was checked
		if _, one := pattern.Topic(); one {
			topics[topic], r.targets[topic] = t.share(), t
			continue
		}
		r.patterns.add(pattern, t)
		r.matched[t.IsNATS()] = append(r.matched[t.IsNATS()], pattern)
	}
}

// shareOf returns what returns what a topic that a pattern names for NATS, or for a URL, may have in flight; none where none does.
func (p *Pusher) shareOf(nats bool) func(topic string) share {
	return func(topic string) share {
		if t := p.matching(topic); t != nil && t.IsNATS() == nats {
			return t.share()
		}
		return share{}
	}
}

// refuses reports whether this daemon does not work for a push to NATS, and logs why.
func (p *Pusher) refuses(push *store.Push) bool {
	if p.o.NATS == nil {
		return true
	}
	err := p.o.NATS.CheckSubject(push.Subject(">"))
	if err != nil {
		p.o.Logger.Error("cannot push to nats", "push", push.Name, "error", err)
	}
	return err != nil
}

// target returns what the push of a topic is now; nil if none has it.
func (p *Pusher) target(topic string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[topic]; t != nil {
		return t
	}
	return p.patterns.of(topic)
}

// heardBy returns what the push is now that listens under a name; nil if none does.
func (p *Pusher) heardBy(name string) *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[name]
}
