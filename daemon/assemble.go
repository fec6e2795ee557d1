package daemon

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// A process is a daemon: a store, and the parts that work on it.
type process struct {
	config    Config
	options   Options
	store     *notify.Store
	metrics   *metrics.Metrics
	carrier   *carrier.Carrier
	service   *calls.Service
	claimer   *subscribers.Claimer // that HTTP runs; nil: HTTP is not served
	nats      *natsgate.Gate       // nil: NATS is not served
	archive   *archive.Archive     // nil: none
	outboxes  []*outbox.Outbox
	listeners []net.Listener // of HTTP; none: no HTTP
	parts     parts
}

// assemble opens the store of a configuration and makes its parts.
func assemble(c Config, o Options) (*process, error) {
	s, err := notify.Open(c.Notify())
	if err != nil {
		return nil, err
	}
	p := &process{config: c, options: o, store: s, listeners: o.Listeners}
	if err := p.assemble(); err != nil {
		for _, l := range p.listeners {
			l.Close()
		}
		p.closeDatabases()
		s.Close()
		return nil, err
	}
	return p, nil
}

// assemble makes the metrics and each part, which adds its own. Only when the settings
// of all are right it listens.
func (p *process) assemble() (err error) {
	p.metrics, err = metrics.New(p.store, metrics.Options{
		TopicLimit: p.config.MetricsTopics, Topics: p.config.MetricsNames.Words(), Version: p.options.Version,
	})
	if err != nil {
		return err
	}
	full := newFullness(p.options.Logger)
	p.store.Observe(func(script string, took time.Duration, err error) {
		p.metrics.Observe(script, took, err)
		full.observe(script, err)
	})
	p.addSettings()
	noArchive, noOutbox := p.addArchive(), p.addOutboxes()
	if p.service, err = calls.NewService(p.store, p.archive, p.options.Logger); err == nil {
		p.service.MaxBody, p.service.Clock, p.service.Outboxes = int(p.config.MaxBody), p.options.Clock, p.outboxes
	}
	if err := errors.Join(noArchive, noOutbox, err, p.addCarrier(), p.addHTTP(), p.addNATS(), p.addPush()); err != nil {
		return err
	}
	listeners, err := p.config.open(p.options.Listeners)
	if err != nil {
		return err
	}
	p.listeners = listeners
	p.config.warn(p.listeners, p.options.Logger)
	return nil
}

// addSettings adds the part that fills in the store's settings: in each term of its home, since Redis may have lost them. Then it warns of
// servers that lose them by a restart.
func (p *process) addSettings() {
	p.parts = append(p.parts, part{
		name: "settings",
		term: func(ctx context.Context, t carrier.Term) {
			if t.Shard == p.store.Home() {
				p.config.FillSettings(ctx, p.store, p.options.Logger)
				warnOfLoss(ctx, p.store, p.options.Logger)
			}
		},
	})
}

// addArchive adds the part that moves what ended into a database, if there is one.
func (p *process) addArchive() (err error) {
	if p.config.ArchiveURL == "" {
		return nil
	}
	if p.archive, err = archive.New(p.store, p.config.Archive(p.options.Logger)); err != nil {
		return err
	}
	p.metrics.ShowArchive(p.archive)
	p.parts = append(p.parts, part{name: "archive", term: p.archive.Term})
	return nil
}

// addOutboxes adds the part that relays what the outboxes hold, if there are some.
func (p *process) addOutboxes() error {
	for _, o := range p.config.Outboxes(p.options.Logger) {
		one, err := outbox.New(p.store, o)
		if err != nil {
			return err
		}
		p.outboxes = append(p.outboxes, one)
		p.metrics.ShowOutbox(one)
		p.parts = append(p.parts, part{name: "outbox", term: one.Term})
	}
	return nil
}

func (p *process) closeDatabases() {
	if p.archive != nil {
		p.archive.Close()
	}
	for _, one := range p.outboxes {
		one.Close()
	}
}

func (p *process) addCarrier() (err error) {
	o := p.config.Carrier(p.options.Logger)
	o.OnCarried, o.Still = p.metrics.Carried, p.options.Clock != nil
	o.OnTerm = func(ctx context.Context, t carrier.Term) { p.parts.term(ctx, t) }
	if p.carrier, err = carrier.New(p.store, o); err != nil {
		return err
	}
	p.metrics.ShowCarrier(p.carrier.States)
	p.parts = append(p.parts, part{
		name:  "carrier",
		run:   p.carrier.Run,
		alive: p.carrier.Alive,
	})
	return nil
}

func (p *process) addHTTP() error {
	o := p.config.HTTP(p.options.Logger)
	o.Version, o.Metrics = p.options.Version, p.metrics.Handler()
	o.Alive = func() error { return p.parts.alive() }
	o.Heard = p.heard
	o.OnRequest, o.OnClaimed, o.Service = p.metrics.Request, p.claimed, p.service
	if p.config.PushAllow != "" {
		o.MaxConns = max(guard.DefaultMaxConns()-pushFiles(), 1)
	}
	gate, err := httpapi.New(p.store, o)
	if err != nil {
		return err
	}
	p.metrics.ShowHTTP(gate.Stats)
	http := part{name: "http", reload: gate.Reload}
	if len(p.options.Listeners) > 0 || p.config.Listen != noListen {
		http.run = func(ctx context.Context) error { return gate.Run(ctx, p.listeners...) }
		p.claimer = gate.Claimer()
		http.quiesce = gate.Quiesce
		http.alive = gate.Alive
	}
	p.parts = append(p.parts, http)
	return nil
}

// heard returns for each shard the epoch of the carrier whose beats arrive; zero: none do.
func (p *process) heard() (epochs []int64) {
	for _, state := range p.carrier.States() {
		epochs = append(epochs, state.Heard)
	}
	return epochs
}

func (p *process) addNATS() error {
	if p.config.NatsURL == "" {
		return nil
	}
	o := p.config.Nats(p.options.Logger)
	o.Version, o.OnClaimed, o.Service, o.Claimer = p.options.Version, p.claimed, p.service, p.claimer
	gate, err := natsgate.New(p.store, o)
	if err != nil {
		return err
	}
	p.nats = gate
	p.metrics.ShowNATS(gate.Stats)
	p.parts = append(p.parts, part{
		name: "nats", run: gate.Run, quiesce: gate.Quiesce, term: gate.Term,
		alive: gate.Alive,
	})
	return nil
}

// addPush adds the part that pushes messages, if there is somewhere to push.
func (p *process) addPush() error {
	o := push.Options{
		Allow: p.config.PushAllow, Version: p.options.Version, Logger: p.options.Logger, OnClaimed: p.claimed,
		Files: pushFiles(), Grace: p.config.ShutdownTimeout / 2, Broadcasts: p.config.NamedListener(),
	}
	if p.nats != nil {
		o.NATS = p.nats
	}
	pusher, err := push.New(p.store, o)
	if err != nil {
		return err
	}
	p.service.Pusher = pusher
	if pusher.IsOff() {
		return nil
	}
	p.metrics.ShowPush(pusher.Stats)
	p.parts = append(p.parts, part{name: "push", run: pusher.Run, quiesce: pusher.Quiesce, alive: pusher.Alive})
	return nil
}

// pushFiles returns how many files pushes to URLs may have open: a quarter of all.
func pushFiles() int { return max(guard.Files()/4, 1) }

// claimed counts a message that a gateway handed out.
func (p *process) claimed(d subscribers.Delivery, late time.Duration) {
	p.metrics.Claimed(d.Topic, late)
}
