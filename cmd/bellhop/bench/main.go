// Bench measures Bellhop on this Redis: see its usage, which -help prints.
//
//	go run ./cmd/bellhop/bench -own -turns 7
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2 // nothing was measured
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run measures in an environment and returns the exit code. SIGINT and SIGTERM end it early.
func run(args, env []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &measuring{env: env, out: out, err: errOut}
	if err := b.parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage // the flags reported it
	}
	err := b.measure(ctx)
	if err == nil {
		return 0
	}
	told := err.Error()
	if ctx.Err() != nil {
		told = strings.NewReplacer(context.Canceled.Error(), "interrupted", context.Cause(ctx).Error(), "interrupted").Replace(told)
	}
	for line := range strings.Lines(told) {
		terminal.Printf(errOut, "bench: %s\n", terminal.Escape(strings.TrimSpace(line)))
	}
	if errors.Is(err, notify.ErrInvalid) {
		return exitUsage
	}
	return exitFailed
}

// measuring is one run of the program.
type measuring struct {
	env     []string // as os.Environ returns it
	out     io.Writer
	err     io.Writer
	o       bench.Options
	json    bool
	own     bool
	shards  int
	masters int
}

const about = `Measure Bellhop on the Redis of the environment, as bellhop reads it, or on one of
its own: rates, lateness, and what it costs at rest. A bellhop serve in a process of
its own carries and serves HTTP; bench has the publishers, subscribers and clients.
All keys have a prefix of their own. At the end, also after Ctrl-C, they are removed
and the daemon has ended. Measurements:

%s

With -shards N the measurement of shards is made, unless -only names others: whole
lives over three topics in each shard, each published by 16 callers, -batch messages a
call, and handled by 8 hands for each topic. It prints for each server what a life
costs there: processor time, scripts, SPUBLISH and messages on the bus of a Cluster; the
skew, which is the most lives of a server to the mean; and the capacity, which is not
measured but computed: servers x 1 s / (processor time of a life on the server that
spent most) / skew, as if each server had a processor of its own.

  bench
  bench -own -turns 7
  bench -only burst,lateness -messages 10000
  bench -own -only lateness,idle -waiting 1000000
  bench -own -shards 8 -redis-cluster 3
  bench -own -json > figures.json

`

// parse reads the flags, and reports those that are wrong.
func (b *measuring) parse(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(b.err)
	flags.Usage = func() {
		fmt.Fprintf(b.err, about, bench.Describe())
		flags.PrintDefaults()
	}
	flags.StringVar(&b.o.Program, "bellhop", "./bellhop", "the `program` whose daemon is measured")
	flags.IntVar(&b.o.Messages, "messages", bench.DefaultMessages, "messages published for each rate, and at most for each lateness")
	flags.IntVar(&b.o.Body, "body", bench.DefaultBody, "bytes of a body")
	flags.IntVar(&b.o.Waiting, "waiting", 0, "others that wait, due in an hour or more, while lateness and idle are measured")
	flags.IntVar(&b.o.Turns, "turns", 1, "measure everything so often, in turns, and print medians")
	flags.BoolVar(&b.own, "own", false, "measure on a redis-server that bench starts, without persistence")
	flags.BoolVar(&b.json, "json", false, "print JSON, for programs")
	flags.Func("only", "`names` of the measurements to run, separated by commas (default all but shards)", func(names string) error {
		b.o.Only = strings.Split(names, ",")
		return nil
	})
	flags.IntVar(&b.shards, "shards", 0, "shards of the store: a power of two up to 256; runs the measurement of shards")
	flags.IntVar(&b.o.Batch, "batch", bench.DefaultBatch, "messages that a call publishes in the measurement of shards")
	flags.IntVar(&b.masters, "redis-cluster", 0, "with -own: so many masters of a Redis Cluster, with a replica each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(b.err, "bench: unexpected argument %q\n", flags.Arg(0))
		return errors.New("unexpected argument")
	}
	return nil
}

// measure checks what is asked for, and measures it.
func (b *measuring) measure(ctx context.Context) error {
	c, err := daemon.Load(b.env)
	if err != nil {
		return err
	}
	if err := errors.Join(checkOptions(b.o, int(c.MaxBody)), checkShards(b.shards, b.masters, b.own)); err != nil {
		return err
	}
	if b.o.Program, err = exec.LookPath(b.o.Program); err != nil {
		return fault.New("bellhop", "bellhop: %w; build it with make build, or name another one with -bellhop", err)
	}
	at := c.Notify()
	if b.shards > 0 {
		at.Shards = b.shards
	}
	if b.shards > 0 && len(b.o.Only) == 0 {
		b.o.Only = []string{bench.Shards}
	}
	b.o.Env = sd.ForChildren(b.env)
	daemon.TakeClientLog(daemon.NewLogger(c, b.err))
	if b.own {
		return b.onOwn(ctx, at)
	}
	return b.on(ctx, at)
}

// onOwn measures on a redis-server of its own, or on a Cluster of some masters.
func (b *measuring) onOwn(ctx context.Context, c notify.Config) error {
	dir, err := os.MkdirTemp("", "bellhop-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for redis-server: %w", err)
	}
	defer os.RemoveAll(dir)
	start := func() (ownRedis, error) { return redisserver.Start(ctx, redisserver.Options{Dir: dir}) }
	if b.masters > 0 {
		start = func() (ownRedis, error) { return redisserver.StartCluster(ctx, dir, b.masters, nodeTimeout) }
	}
	server, err := start()
	if err != nil {
		return err
	}
	defer server.Stop()
	return b.on(ctx, notify.Config{URL: server.URL(), Prefix: c.Prefix, Shards: c.Shards})
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

func checkOptions(o bench.Options, maxBody int) error {
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

// checkShards rejects a wrong number of shards, or of masters.
func checkShards(shards, masters int, own bool) error {
	var faults []error
	if masters != 0 {
		faults = append(faults, fault.Within("redis_cluster", "masters of a Cluster", masters, minMasters, maxMasters))
		if !own {
			faults = append(faults, fault.New("redis_cluster", "redis-cluster: it is for -own, which is missing"))
		}
	}
	if shards != 0 {
		faults = append(faults, reach.CheckShards(shards))
	}
	return errors.Join(faults...)
}

// on prints how it measures, then each figure as soon as it is measured, and on a terminal the current measurement.
func (b *measuring) on(ctx context.Context, c notify.Config) error {
	erase := ""
	if text.IsTerminal(b.err) {
		erase = "\r\x1b[K"
		b.o.Progress = func(what string) { fmt.Fprintf(b.err, "%smeasuring %s …", erase, what) }
		defer func() { fmt.Fprint(b.err, erase) }()
	}
	conditions, err := bench.Examine(ctx, c)
	if err != nil {
		return err
	}
	line := "%-10s  %-52s %10s %-10s %8s\n"
	heads := []any{"MEASURED", "FIGURE", "VALUE", "UNIT", "SAMPLES"}
	if b.o.Turns > 1 {
		line = "%-10s  %-52s %10s %-10s %8s %10s %10s\n"
		heads = append(heads, "LEAST", "MOST")
	}
	if !b.json {
		for _, row := range conditions.Rows() {
			terminal.Printf(b.out, "%-8s %s\n", row[0], row[1])
		}
		fmt.Fprintf(b.out, "\n"+line, heads...)
	}
	figures := []bench.Figure{}
	err = bench.Run(ctx, c, b.o, func(f bench.Figure) {
		figures = append(figures, f)
		if !b.json {
			fmt.Fprint(b.err, erase)
			cells := []any{f.Measurement, f.Name, number(f.Value), f.Unit, text.Thousands(strconv.Itoa(f.Samples)), number(f.Least), number(f.Most)}
			terminal.Printf(b.out, line, cells[:len(heads)]...)
		}
	})
	if err != nil {
		return err
	}
	conditions.End()
	if b.json {
		e := json.NewEncoder(terminal.JSON(b.out))
		e.SetEscapeHTML(false)
		return e.Encode(figuresJSON{conditions, figures})
	}
	fmt.Fprint(b.err, erase)
	terminal.Printf(b.out, "\n%s\n", bench.Busyness(conditions.Meanwhile, "meanwhile"))
	return nil
}

// figuresJSON is what bench prints as JSON.
type figuresJSON struct {
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
