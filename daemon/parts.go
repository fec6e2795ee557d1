package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// parts are what runs in the process.
type parts struct {
	store     *notify.Store
	carry     *carrier.Carrier
	nats      *natsgate.Gate // nil: no NATS
	http      *httpapi.Gate
	listeners []net.Listener // of http; none: no HTTP
}

// assemble makes the parts that a configuration asks for.
func assemble(c Config, o Options) (p *parts, err error) {
	p = &parts{}
	if p.store, err = notify.Open(c.Notify()); err != nil {
		return nil, err
	}
	if err := p.make(c, o); err != nil {
		p.store.Close()
		return nil, err
	}
	return p, nil
}

// make makes the parts on the store, and has metrics of all that they do. What
// the carrier's term of office is told to sends over NATS.
func (p *parts) make(c Config, o Options) error {
	shown, err := metrics.New(p.store, p.metrics(c, o))
	if err != nil {
		return err
	}
	p.store.Observe(shown.Observe)
	carrying := c.Carrier(o.Logger)
	carrying.OnCarried = shown.Carried
	if c.NatsURL != "" {
		to, err := c.Nats(o.Logger)
		if err != nil {
			return err
		}
		to.OnClaimed = func(d subscribers.Delivery, late time.Duration) { shown.Claimed(d.Topic, late) }
		if p.nats, err = natsgate.New(p.store, to); err != nil {
			return err
		}
	}
	carrying.OnTerm = func(ctx context.Context, t carrier.Term) { p.term(ctx, t, c, o) }
	if p.carry, err = carrier.New(p.store, carrying); err != nil {
		return err
	}
	serving := c.HTTP(o.Logger)
	serving.Version, serving.Alive, serving.Metrics = o.Version, p.alive, shown.Handler()
	serving.Heard = func() int64 { return p.carry.State().Heard }
	serving.OnRequest = shown.Request
	serving.OnClaimed = func(d subscribers.Delivery, late time.Duration) { shown.Claimed(d.Topic, late) }
	if p.http, err = httpapi.New(p.store, serving); err != nil {
		return err
	}
	if p.listeners, err = c.open(o.Listeners); err != nil {
		return err
	}
	c.warn(p.listeners, o.Logger)
	return nil
}

// term does what one daemon of all does, the one that carries: it fills the settings
// of the store, also where Redis lost them, and sends over NATS.
func (p *parts) term(ctx context.Context, t carrier.Term, c Config, o Options) {
	var all sync.WaitGroup
	all.Go(func() { c.FillSettings(ctx, p.store, o.Logger) })
	if p.nats != nil {
		all.Go(func() { p.nats.Term(ctx, t) })
	}
	all.Wait()
}

// metrics returns what the metrics ask the parts, once they are there.
func (p *parts) metrics(c Config, o Options) metrics.Options {
	m := metrics.Options{
		TopicLimit: c.MetricsTopics, Topics: c.MetricsNames.Words(), Version: o.Version,
		Carrier: func() carrier.State { return p.carry.State() },
		HTTP:    func() httpapi.Stats { return p.http.Stats() },
	}
	if c.NatsURL != "" {
		m.NATS = func() natsgate.Stats { return p.nats.Stats() }
	}
	return m
}

// alive reports the loops that stand still, though they should not.
func (p *parts) alive() error {
	loops := []error{
		getsOn("carrier", p.carry.State().Progress, carrier.Bound),
		getsOn("poller of http", p.http.Progress(), subscribers.PollerBound),
		getsOn("listener of http", p.http.Listening(), subscribers.ListenerBound),
	}
	if p.nats != nil {
		loops = append(loops, getsOn("hints to nats", p.nats.Hinting(), subscribers.ListenerBound),
			getsOn("bridge to nats", p.nats.Bridging(), subscribers.ListenerBound))
	}
	return errors.Join(loops...)
}

// getsOn reports a loop that last came around longer ago than it should; zero: it does not run yet.
func getsOn(loop string, last time.Time, within time.Duration) error {
	if last.IsZero() || time.Since(last) <= within {
		return nil
	}
	return fmt.Errorf("the loop of the %s last came around at %s, and should within %v", loop, last.UTC().Format(time.RFC3339), within)
}

// run runs the parts until ctx ends or one fails, and stops them one after the
// other. Finishing what is in hand may take half of the time for the whole, so
// that the carrier can still give up its lease.
func (p *parts) run(ctx context.Context, within time.Duration) error {
	work := context.WithoutCancel(ctx)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := func(run func(context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(work)
		var running sync.WaitGroup
		running.Go(func() {
			if err := run(ctx); err != nil {
				fail(partFailed{err})
			}
		})
		return func() {
			cancel()
			running.Wait()
		}
	}
	stops := []func(){start(p.carry.Run)}
	if len(p.listeners) > 0 {
		stops = append(stops, start(func(ctx context.Context) error { return p.http.Run(ctx, p.listeners...) }))
	}
	if p.nats != nil {
		stops = append(stops, start(p.nats.Run))
	}
	<-ctx.Done()
	p.quiesce(work, within/2)
	for _, stop := range stops {
		stop()
	}
	var failed partFailed
	errors.As(context.Cause(ctx), &failed)
	return failed.error
}

// partFailed is why the parts end if one of them failed.
type partFailed struct{ error }

// quiesce has the gates finish what they have in hand and accept nothing more.
func (p *parts) quiesce(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	if len(p.listeners) > 0 {
		all.Go(func() { p.http.Quiesce(ctx) })
	}
	if p.nats != nil {
		all.Go(func() { p.nats.Quiesce(ctx) })
	}
}
