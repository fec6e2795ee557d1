package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/bench"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

func (a *app) benchCommand() *cobra.Command {
	var o bench.Options
	var own bool
	var shards, masters int
	c := a.jsonFlag(&cobra.Command{
		Use:   "bench",
		Short: "Measure Bellhop on this Redis",
		Long: `Measure Bellhop on this Redis as users run it: rates, lateness, and what it costs
at rest. A bellhop serve in a process of its own carries and serves HTTP; bench has
the publishers, subscribers and clients. All keys have a prefix of their own. At the
end, also after Ctrl-C, they are removed and the daemon has ended. Measurements:

` + bench.Describe() + `

With --shards N the measurement of shards is made, unless --only names others: whole
lives over three topics in each shard, each published by 16 callers, --batch messages a
call, and handled by 8 hands for each topic. It prints for each server what a life
costs there: processor time, scripts, SPUBLISH and messages on the bus of a Cluster; the
skew, which is the most lives of a server to the mean; and the capacity, which is not
measured but computed: servers x 1 s / (processor time of a life on the server that
spent most) / skew, as if each server had a processor of its own.`,
		Example: `  bellhop bench
  bellhop bench --own --turns 7
  bellhop bench --only burst,lateness --messages 10000
  bellhop bench --own --only lateness,idle --waiting 1000000
  bellhop bench --own --shards 8 --redis-cluster 3
  bellhop bench --own --json > figures.json`,
		Args: takes(),
	})
	flags := c.Flags()
	flags.IntVar(&o.Messages, "messages", bench.DefaultMessages, "messages published for each rate, and at most for each lateness")
	flags.IntVar(&o.Body, "body", bench.DefaultBody, "bytes of a body")
	flags.IntVar(&o.Waiting, "waiting", 0, "others that wait, due in an hour or more, while lateness and idle are measured")
	flags.IntVar(&o.Turns, "turns", 1, "measure everything so often, in turns, and print medians")
	flags.BoolVar(&own, "own", false, "measure on a redis-server that bench starts, without persistence")
	flags.StringSliceVar(&o.Only, "only", nil, "names of the measurements to run, separated by commas (default all but shards)")
	flags.IntVar(&shards, "shards", 0, "shards of the store: a power of two up to 256; runs the measurement of shards")
	flags.IntVar(&o.Batch, "batch", bench.DefaultBatch, "messages that a call publishes in the measurement of shards")
	flags.IntVar(&masters, "redis-cluster", 0, "with --own: so many masters of a Redis Cluster, with a replica each")
	return a.command(a.redisFlag(c), func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.load()
		if err != nil {
			return err
		}
		if err := errors.Join(checkBench(o, int(c.MaxBody)), checkBenchShards(shards, masters, own)); err != nil {
			return err
		}
		at := c.Notify()
		if shards > 0 {
			at.Shards = shards
		}
		if shards > 0 && len(o.Only) == 0 {
			o.Only = []string{bench.Shards}
		}
		o.Env = sd.ForChildren(a.env)
		if o.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program, to run its daemon: %w", err)
		}
		daemon.TakeClientLog(daemon.NewLogger(c, a.err))
		if own {
			return a.benchOwn(ctx, at, o, masters)
		}
		return a.bench(ctx, at, o)
	})
}

// benchOwn measures on a redis-server of its own, or on a Cluster of some masters.
func (a *app) benchOwn(ctx context.Context, c notify.Config, o bench.Options, masters int) error {
	dir, err := os.MkdirTemp("", "bellhop-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for redis-server: %w", err)
	}
	defer os.RemoveAll(dir)
	start := func() (ownRedis, error) { return redisserver.Start(ctx, redisserver.Options{Dir: dir}) }
	if masters > 0 {
		start = func() (ownRedis, error) { return redisserver.StartCluster(ctx, dir, masters, nodeTimeout) }
	}
	server, err := start()
	if err != nil {
		return err
	}
	defer server.Stop()
	return a.bench(ctx, notify.Config{URL: server.URL(), Prefix: c.Prefix, Shards: c.Shards}, o)
}

// An ownRedis is a Redis that bench starts.
type ownRedis interface {
	URL() string
	Stop()
}

const (
	nodeTimeout = 10 * time.Second // of a Cluster: a busy machine must not lead to a failover
	minMasters  = 3                // a Cluster of fewer cannot replace one
	maxMasters  = 32
	maxBatch    = 500
	maxTurns    = 1000
	maxWaiting  = 1_000_000_000
)

func checkBench(o bench.Options, maxBody int) error {
	var tooFew, body error
	if o.Messages < 100 {
		tooFew = fault.New("messages", "messages %d: use 100 or more", o.Messages)
	}
	if most := min(maxBody, notify.DefaultMaxBody); o.Body < 1 || o.Body > most {
		body = fault.New("body", "body %d: use 1 to %d", o.Body, most)
	}
	return errors.Join(tooFew, body, fault.Within("waiting", "waiting messages", o.Waiting, 0, maxWaiting), fault.Within("turns", "turns", o.Turns, 1, maxTurns),
		fault.Within("batch", "messages of a call", o.Batch, 1, maxBatch), o.Check())
}

// checkBenchShards rejects a wrong number of shards, or of masters.
func checkBenchShards(shards, masters int, own bool) error {
	var faults []error
	if masters != 0 {
		faults = append(faults, fault.Within("redis_cluster", "masters of a Cluster", masters, minMasters, maxMasters))
		if !own {
			faults = append(faults, misused("redis-cluster", "unexpected flag --redis-cluster: it is for --own"))
		}
	}
	if shards != 0 {
		faults = append(faults, reach.CheckShards(shards))
	}
	return errors.Join(faults...)
}

// bench prints how it measures, then each figure as soon as it is measured, and on a terminal the current measurement.
func (a *app) bench(ctx context.Context, c notify.Config, o bench.Options) error {
	erase := ""
	if text.IsTerminal(a.err) {
		erase = "\r\x1b[K"
		o.Progress = func(what string) { fmt.Fprintf(a.err, "%smeasuring %s …", erase, what) }
		defer func() { fmt.Fprint(a.err, erase) }()
	}
	conditions, err := bench.Examine(ctx, c)
	if err != nil {
		return err
	}
	line := "%-10s  %-52s %10s %-10s %8s\n"
	heads := []any{"MEASURED", "FIGURE", "VALUE", "UNIT", "SAMPLES"}
	if o.Turns > 1 {
		line = "%-10s  %-52s %10s %-10s %8s %10s %10s\n"
		heads = append(heads, "LEAST", "MOST")
	}
	if !a.json {
		for _, row := range conditions.Rows() {
			terminal.Printf(a.out, "%-8s %s\n", row[0], row[1])
		}
		fmt.Fprintf(a.out, "\n"+line, heads...)
	}
	figures := []bench.Figure{}
	err = bench.Run(ctx, c, o, func(f bench.Figure) {
		figures = append(figures, f)
		if !a.json {
			fmt.Fprint(a.err, erase)
			cells := []any{f.Measurement, f.Name, number(f.Value), f.Unit, text.Thousands(strconv.Itoa(f.Samples)), number(f.Least), number(f.Most)}
			terminal.Printf(a.out, line, cells[:len(heads)]...)
		}
	})
	if err != nil {
		return err
	}
	conditions.End()
	if a.json {
		return a.printJSON(benchJSON{conditions, figures})
	}
	fmt.Fprint(a.err, erase)
	terminal.Printf(a.out, "\n%s\n", bench.Busyness(conditions.Meanwhile, "meanwhile"))
	return nil
}

// benchJSON is what bench prints as JSON.
type benchJSON struct {
	Conditions bench.Conditions `json:"conditions"`
	Figures    []bench.Figure   `json:"figures"`
}

// number formats a figure: two decimals below 100, commas between thousands above.
func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return text.Thousands(fmt.Sprintf("%.0f", v))
}
