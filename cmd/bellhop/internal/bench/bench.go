// Package bench measures Bellhop on a Redis of the user's, as users run it: how fast
// it publishes, carries and hands out, how late, and what it costs at rest. A bellhop
// serve in a process of its own carries and serves HTTP; this process has the
// publishers, the subscribers and the clients of HTTP.
//
// Each measurement has a daemon and a prefix of its own, and removes both. A message
// that has a due time is late by the time from then to the start of its handler, also
// if it was handed out late because others were (coordinated omission). What needs a
// machine of its own (broadcasts, NATS, thousands of connections, backlogs of
// millions) is measured by the Go benchmarks of subscribers, carrier and daemon.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// Options say how much is measured. The zero value is the default.
type Options struct {
	Messages int          // in each measurement of a rate; zero: DefaultMessages
	Body     int          // bytes of a body; zero: DefaultBody
	Waiting  int          // others that wait, due in an hour or more, while lateness and idle are measured
	Batch    int          // messages of a call that publishes, in the measurement of shards; zero: DefaultBatch
	Turns    int          // how often everything is measured; zero: once
	Only     []string     // names of the measurements; empty: all but Shards
	Program  string       // path of bellhop, which is run as PROGRAM serve; required
	Env      []string     // of that process, which gets the settings of Redis added
	Progress func(string) // called with what is measured next; may be nil

	address string // of HTTP
}

// Defaults of Options.
const (
	DefaultMessages = 50_000
	DefaultBody     = 100
	DefaultBatch    = 8
	concurrency     = 32
	publishers      = 16
)

// quiet returns a logger that discards: log lines would stand between the figures.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A Figure is one number that was measured: the median of all turns.
type Figure struct {
	Measurement string  `json:"measurement"`
	Name        string  `json:"name"`
	Value       float64 `json:"value"`
	Unit        string  `json:"unit"`
	Samples     int     `json:"samples"` // messages, calls or seconds of a turn that it is computed from
	Least       float64 `json:"least"`   // of the turns
	Most        float64 `json:"most"`
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
	{"http", "publishing, claiming and acknowledging over HTTP, and long polls", measureHTTP},
	{Shards, "lives in all shards: what they cost each server (by name only)", measureShards},
}

// Shards is the name of the measurement that is made only if it is asked for.
const Shards = "shards"

// has reports whether a measurement is to be made.
func (o Options) has(name string) bool {
	if len(o.Only) == 0 {
		return name != Shards
	}
	return slices.Contains(o.Only, name)
}

// Check returns a notify.Fault if o names a measurement that does not exist.
func (o Options) Check() error {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fault.New("measurement", "measurement %q: use %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// withDefaults returns the options with the defaults of what is zero.
func (o Options) withDefaults() Options {
	o.Messages, o.Body, o.Turns = cmp.Or(o.Messages, DefaultMessages), cmp.Or(o.Body, DefaultBody), cmp.Or(o.Turns, 1)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	return o
}

// Run measures on the Redis that c names, and calls on with each figure as soon as its
// last turn is over. When Run returns, also because ctx ended, its daemons have ended
// and its keys are removed. Errors: that of Options.Check, of the connection, of a
// daemon that does not start or ends by itself, or of ctx.
func Run(ctx context.Context, c notify.Config, o Options, on func(Figure)) error {
	if err := o.Check(); err != nil {
		return err
	}
	o = o.withDefaults()
	prefix := cmp.Or(c.Prefix, script.DefaultPrefix) + ":bench-" + notify.NewID()[6:]
	c.Prefix = prefix
	if err := mayRemove(ctx, c); err != nil {
		return err
	}
	port, err := child.HoldPort() // for each daemon, one after the other
	if err != nil {
		return err
	}
	o.address = "127.0.0.1:" + strconv.Itoa(port)
	turns := make(map[string][][]Figure) // of each measurement
	for turn := range o.Turns {
		for _, m := range measurements {
			if !o.has(m.name) {
				continue
			}
			if o.Progress != nil {
				o.Progress(fmt.Sprintf("%s, turn %d of %d", m.what, turn+1, o.Turns))
			}
			c.Prefix = prefix + "-" + m.name
			figures, err := measure(ctx, c, o, m)
			for range 2 {
				if errors.Is(err, errLate) { // the machine stood still
					figures, err = measure(ctx, c, o, m)
				}
			}
			if err != nil {
				return fmt.Errorf("measure %s: %w", m.name, err)
			}
			if turns[m.name] = append(turns[m.name], figures); turn == o.Turns-1 {
				for _, f := range medians(turns[m.name]) {
					on(f)
				}
			}
		}
	}
	return nil
}

// medians returns the median of each figure. Each turn has the same figures.
func medians(turns [][]Figure) []Figure {
	all := slices.Clone(turns[0])
	for i := range all {
		var values []float64
		for _, turn := range turns {
			values = append(values, turn[i].Value)
		}
		slices.Sort(values)
		n := len(values)
		all[i].Value = (values[(n-1)/2] + values[n/2]) / 2
		all[i].Least, all[i].Most = values[0], values[n-1]
	}
	return all
}

// stage is what a measurement works with.
type stage struct {
	Options
	store     *notify.Store
	pub       *notify.Publisher
	inspector *notify.Inspector
	served    *served
	clock     time.Duration // by which the clock of Redis is ahead of this host's
	others    int64         // messages of the measured topic that wait, due in an hour or more
	figures   []Figure
	name      string
}

// report adds a figure.
func (s *stage) report(name string, value float64, unit string, samples int) {
	s.figures = append(s.figures, Figure{Measurement: s.name, Name: name, Value: value, Unit: unit, Samples: samples})
}

// rate adds how many of n messages there were in a second.
func (s *stage) rate(name string, n int, took time.Duration) {
	s.report(name, float64(n)/took.Seconds(), "messages/s", n)
}

// measure runs one measurement, with a daemon of its own.
func measure(ctx context.Context, c notify.Config, o Options, m measurement) (_ []Figure, err error) {
	db, err := notify.Open(c)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := db.Check(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx), db)) }()
	s := &stage{Options: o, store: db, name: m.name}
	if s.pub, err = notify.NewPublisher(db); err != nil {
		return nil, err
	}
	if s.inspector, err = notify.NewInspector(db); err != nil {
		return nil, err
	}
	if s.clock, err = db.Home().ClockOffset(ctx, 0); err != nil {
		return nil, err
	}
	if err := s.calm(ctx); err != nil {
		return nil, err
	}
	if s.served, err = serve(ctx, o, c, db); err != nil {
		return nil, err
	}
	defer s.served.Stop()
	err = s.served.during(ctx, func(ctx context.Context) error { return m.run(ctx, s) })
	return s.figures, err
}

// remove removes all that a store holds.
func remove(ctx context.Context, db *notify.Store) error {
	if err := db.Wipe(ctx); err != nil {
		return fmt.Errorf("remove the keys %s:{*: %w", db.Prefix(), err)
	}
	return nil
}

// mayRemove removes nothing yet: it returns the error of a user who may not, before
// there is anything to remove.
func mayRemove(ctx context.Context, c notify.Config) error {
	db, err := notify.Open(c)
	if err != nil {
		return err
	}
	defer db.Close()
	return remove(ctx, db)
}

// calmWithin is how long a measurement waits until what was removed is freed.
const calmWithin = 5 * time.Second

// calm waits until nothing of the measurement before is left to be freed: neither in
// Redis, which frees removed keys in the background, nor in this process.
func (s *stage) calm(ctx context.Context) error {
	runtime.GC()
	for end := time.Now().Add(calmWithin); time.Now().Before(end); {
		fields, err := s.store.Home().Info(ctx, "memory")
		if err != nil || fields["lazyfree_pending_objects"] == "0" {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil // other programs remove keys, too
}
