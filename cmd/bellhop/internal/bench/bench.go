// Package bench measures Bellhop on a Redis of the user's: how fast it
// publishes, carries and concurrency out, how late, and what it costs at rest. It
// works under a prefix of its own and removes it. What needs a machine of its own
// (broadcasts, NATS, thousands of connections, backlogs of millions) is measured by
// the Go benchmarks of subscribers, carrier and daemon.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// Options say how much is measured. The zero value is the default.
type Options struct {
	Messages int          // in each measurement of a rate; zero: DefaultMessages
	Body     int          // bytes of a body; zero: DefaultBody
	Only     []string     // names of the measurements; empty: all
	Progress func(string) // called with what is measured next; may be nil
}

// Defaults of Options.
const (
	DefaultMessages = 50_000
	DefaultBody     = 100
	concurrency     = 32
	publishers      = 16
)

// quiet returns a logger that discards: log lines would stand between the figures.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A Figure is one number that was measured.
type Figure struct {
	Measurement string  `json:"measurement"`
	Name        string  `json:"name"`
	Value       float64 `json:"value"`
	Unit        string  `json:"unit"`
}

// measurement is one thing that is measured, under a prefix of its own.
type measurement struct {
	name, what string
	run        func(context.Context, *stage) error
}

// Names returns the names of the measurements, in their order.
func Names() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Describe returns a line for each measurement: its name, and what it measures.
func Describe() string {
	var lines strings.Builder
	for _, m := range measurements {
		fmt.Fprintf(&lines, "  %-9s  %s\n", m.name, m.what)
	}
	return strings.TrimSuffix(lines.String(), "\n")
}

var measurements = []measurement{
	{"publish", "publishing, in single calls and in batches", measurePublish},
	{"burst", "messages that are all due at one instant", measureBurst},
	{"backlog", "handling messages that are ready already", measureBacklog},
	{"lateness", "lateness of messages that are due over 5 s", measureLateness},
	{"idle", "lateness of single messages, delayed and immediate", measureIdle},
	{"rest", "calls of Redis while nothing happens", measureRest},
	{"memory", "memory of scheduled messages", measureMemory},
	{"http", "publishing, claiming and acknowledging over HTTP", measureHTTP},
}

// Run measures on the Redis that c names, and calls on with each figure. Errors: a
// notify.Fault for an unknown name, that of the connection, or that of ctx.
func Run(ctx context.Context, c notify.Config, o Options, on func(Figure)) error {
	if o.Messages == 0 {
		o.Messages = DefaultMessages
	}
	if o.Body == 0 {
		o.Body = DefaultBody
	}
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return store.Faultf("measurement", "measurement %q: use %s", name, strings.Join(Names(), ", "))
		}
	}
	if c.Prefix == "" {
		c.Prefix = notify.DefaultPrefix
	}
	prefix := c.Prefix + ":bench-" + strings.ToLower(notify.NewID()[16:])
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(m.what)
		}
		c.Prefix = prefix + "-" + m.name
		if err := measure(ctx, c, o, m, on); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return nil
}

// stage is what a measurement works with.
type stage struct {
	Options
	store     *notify.Store
	pub       *notify.Publisher
	inspector *notify.Inspector
	clock     time.Duration // by which the clock of Redis is ahead of this host's
	report    func(name string, value float64, unit string)
}

func measure(ctx context.Context, c notify.Config, o Options, m measurement, on func(Figure)) error {
	db, err := notify.Open(c)
	if err != nil {
		return err
	}
	defer db.Close()
	defer remove(context.WithoutCancel(ctx), db)
	pub, err := notify.NewPublisher(db)
	if err != nil {
		return err
	}
	inspector, err := notify.NewInspector(db)
	if err != nil {
		return err
	}
	s := &stage{Options: o, store: db, pub: pub, inspector: inspector}
	s.report = func(name string, value float64, unit string) { on(Figure{m.name, name, value, unit}) }
	if s.clock, err = Clock(ctx, db); err != nil {
		return err
	}
	return m.run(ctx, s)
}

// remove removes all that a store holds, as far as Redis answers.
func remove(ctx context.Context, db *notify.Store) {
	for _, shard := range db.Shards() {
		_ = shard.Wipe(ctx) // the figures are there already
	}
}

// Clock returns by how much Redis's clock is ahead of this host's: of several
// answers the one that came fastest, less half of the time that it took.
func Clock(ctx context.Context, db *notify.Store) (time.Duration, error) {
	best, offset := time.Hour, time.Duration(0)
	for range 20 {
		sent := time.Now()
		there, err := db.Time(ctx)
		if err != nil {
			return 0, fmt.Errorf("ask redis at %s for its time: %w", db.Address(), err)
		}
		if took := time.Since(sent); took < best {
			best, offset = took, there.Sub(sent.Add(took/2))
		}
	}
	return offset, nil
}

// now is Redis's time.
func (s *stage) now() time.Time { return time.Now().Add(s.clock) }

// body returns a body of the size that is asked for.
func (s *stage) body() []byte { return []byte(strings.Repeat("x", s.Body)) }

// whileRunning calls f while a carrier and subscribers run, and waits for their end.
func (s *stage) whileRunning(ctx context.Context, f func() error, subs ...*subscribers.Subscriber) error {
	c, err := carrier.New(s.store, carrier.Options{Logger: quiet()})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ends := make(chan error, 1+len(subs))
	go func() { ends <- c.Run(running) }()
	for _, sub := range subs {
		go func() { ends <- sub.Run(running) }()
	}
	errs := []error{f()}
	stop()
	for range cap(ends) {
		errs = append(errs, <-ends)
	}
	return errors.Join(errs...)
}

// subscriber returns a subscriber whose handler does nothing but call on.
func (s *stage) subscriber(concurrency int, on func(*subscribers.Delivery), topics ...string) (*subscribers.Subscriber, error) {
	sub, err := subscribers.NewSubscriber(s.store, subscribers.SubscriberOptions{Logger: quiet()})
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		err := sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
			on(d)
			return nil
		}, subscribers.HandleOptions{Concurrency: concurrency})
		if err != nil {
			return nil, err
		}
	}
	return sub, nil
}

// await waits until the counts of a topic meet a condition.
func (s *stage) await(ctx context.Context, topic string, condition func(notify.Counts) bool) error {
	for {
		counts, err := s.inspector.Count(ctx, topic)
		if err != nil || condition(counts[0]) {
			return err
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// isDone reports whether no message of a topic is left to be handled.
func isDone(c notify.Counts) bool { return c.Scheduled+c.Ready+c.Leased == 0 }

// isAwaited reports whether a subscriber waits for messages of a topic.
func isAwaited(c notify.Counts) bool { return c.Waiting > 0 }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// calls returns how many commands Redis has carried out: those that clients
// sent, and all of them, those inside scripts included.
func (s *stage) calls(ctx context.Context) (sent, all float64, err error) {
	fields, err := s.store.Info(ctx, "commandstats")
	if err != nil {
		return 0, 0, err
	}
	for name, value := range fields {
		n := callsOf(value)
		all += n
		switch command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|"); command {
		case "evalsha", "eval", "subscribe", "unsubscribe", "ping", "client", "hello", "auth", "select":
			sent += n
		}
	}
	return sent, all, nil
}

// callsOf reads a line of INFO commandstats, such as calls=7,usec=40.
func callsOf(line string) float64 {
	_, rest, _ := strings.Cut(line, "calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return n
}
