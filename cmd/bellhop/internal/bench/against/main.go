// Against measures this tree and a commit of the past in turns, and prints how they compare:
// many losses of 3 % that nobody sees are a loss of 40 %.
//
//	make bench BASE=b6f0862
//	go run ./cmd/bellhop/internal/bench/against -base HEAD~1 -turns 9
//
// It measures what each has had from b6f0862 on: rates over HTTP, by the same client, with what a
// message costs the daemon and Redis in processor time, which varies less than rates do; and
// publishing by the library, by the bench of each. The two begin turns alternately. A ratio is
// the median of those of the turns, beside the least and the most.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/bench"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var c comparison
	base := flag.String("base", "", "commit to compare with")
	flag.IntVar(&c.turns, "turns", 5, "how often each is measured")
	flag.IntVar(&c.messages, "messages", bench.DefaultMessages, "in each measurement")
	flag.Parse()
	if err := c.against(ctx, *base); err != nil {
		fmt.Fprintln(os.Stderr, "against:", err)
		os.Exit(1)
	}
}

// A comparison measures two programs.
type comparison struct {
	turns, messages int
}

// against builds a commit and this tree, and compares them.
func (c comparison) against(ctx context.Context, base string) error {
	dir, err := os.MkdirTemp("", "against-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree, then, now := filepath.Join(dir, "tree"), filepath.Join(dir, "then"), filepath.Join(dir, "now")
	if err := run(ctx, "", "git", "worktree", "add", "--detach", tree, base); err != nil {
		return err
	}
	defer run(context.WithoutCancel(ctx), "", "git", "worktree", "remove", "--force", tree) //nolint:errcheck // its folder is removed anyway
	if err := errors.Join(build(ctx, tree, then), build(ctx, "", now)); err != nil {
		return err
	}
	all, err := c.measure(ctx, dir, then, now)
	if err != nil {
		return err
	}
	return show(base, all)
}

const (
	benchmark   = "cmd/bellhop/bench"
	benchSuffix = ".bench" // of the benchmark of a program
)

// build builds a program, and its benchmark.
func build(ctx context.Context, tree, program string) error {
	if _, err := os.Stat(filepath.Join(tree, benchmark)); err == nil { // before, bellhop was its own
		if err := run(ctx, tree, "go", "build", "-trimpath", "-o", program+benchSuffix, "./"+benchmark); err != nil {
			return err
		}
	}
	return run(ctx, tree, "go", "build", "-trimpath", "-o", program, "./cmd/bellhop")
}

// run runs a command in a folder.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// A pair has the values of one figure that two programs measured, by turn.
type pair struct {
	name, unit string
	then, now  []float64
}

// measure measures both programs in turns. Figures that only one of them has are left out.
func (c comparison) measure(ctx context.Context, dir, then, now string) ([]pair, error) {
	var all []pair
	for turn := range c.turns {
		order := []string{then, now}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		figures := make(map[string][]bench.Figure)
		for _, program := range order {
			var err error
			if figures[program], err = c.one(ctx, dir, program); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Base(program), err)
			}
		}
		for _, f := range figures[then] {
			other := slices.IndexFunc(figures[now], func(o bench.Figure) bool { return o.Name == f.Name && o.Measurement == f.Measurement })
			if other < 0 {
				continue
			}
			name := f.Measurement + ": " + f.Name
			i := slices.IndexFunc(all, func(p pair) bool { return p.name == name })
			if i < 0 {
				i, all = len(all), append(all, pair{name: name, unit: f.Unit})
			}
			all[i].then, all[i].now = append(all[i].then, f.Value), append(all[i].now, figures[now][other].Value)
		}
	}
	return all, nil
}

// one measures a program once.
func (c comparison) one(ctx context.Context, dir, program string) ([]bench.Figure, error) {
	library, err := c.library(ctx, program)
	if err != nil {
		return nil, err
	}
	http, err := c.http(ctx, dir, program)
	return append(library, http...), err
}

// library returns what a program's own bench measures.
func (c comparison) library(ctx context.Context, program string) ([]bench.Figure, error) {
	path, first := program, []string{"bench"}
	if _, err := os.Stat(program + benchSuffix); err == nil {
		path, first = program+benchSuffix, []string{"-bellhop", program}
	}
	cmd := exec.CommandContext(ctx, path, append(first, "--own", "--json", "--only", "publish", "--messages", strconv.Itoa(c.messages))...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var figures []bench.Figure
	if out = bytes.TrimSpace(out); bytes.HasPrefix(out, []byte("[")) { // until the conditions were told, too
		return figures, json.Unmarshal(out, &figures)
	}
	var told struct{ Figures []bench.Figure }
	err = json.Unmarshal(out, &told)
	return told.Figures, err
}

// http returns what the client of this tree measures of a program's daemon.
func (c comparison) http(ctx context.Context, dir, program string) ([]bench.Figure, error) {
	redis, err := redisserver.Start(ctx, redisserver.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer redis.Kill()
	port, err := child.HoldPort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	daemon, err := child.Start(child.Program{
		Path: program, Args: []string{"serve"}, Name: "bellhop serve", Output: os.Stderr,
		Env: append(os.Environ(), "BELLHOP_REDIS_URL="+redis.URL(), "BELLHOP_LISTEN="+address, "BELLHOP_LOG_LEVEL=error"),
	})
	if err != nil {
		return nil, err
	}
	defer daemon.Stop()
	if err := daemon.Await(ctx, time.Minute, func(ctx context.Context) error { return ready(ctx, address) }); err != nil {
		return nil, err
	}
	figures, err := bench.HTTP(ctx, address, bench.Options{Messages: c.messages})
	if err != nil {
		return nil, err
	}
	for _, process := range []struct {
		name string
		pid  int
	}{{"the daemon", daemon.Pid()}, {"Redis", redis.Pid()}} {
		spent, err := spent(process.pid)
		if err != nil {
			return nil, err
		}
		figures = append(figures, bench.Figure{Measurement: "http", Name: "processor time of " + process.name + " for all", Value: spent.Seconds(), Unit: "s"})
	}
	return figures, nil
}

// ready returns an error unless a daemon is ready.
func ready(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// spent returns the processor time of a process: utime and stime of proc(5), which are
// in hundredths of a second.
func spent(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // a name may have spaces
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(errUser, errSystem)
}

// show prints medians, and the median of the ratios of each turn.
func show(base string, all []pair) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tnow\tratio\tleast\tmost\t\n", base)
	for _, p := range all {
		ratios := p.ratios()
		fmt.Fprintf(t, "%.4g\t%.4g\t%.2f\t%.2f\t%.2f\t  %s, %s\n", median(p.then), median(p.now), median(ratios), slices.Min(ratios), slices.Max(ratios), p.name, p.unit)
	}
	return t.Flush()
}

// ratios returns now to then, by turn.
func (p pair) ratios() []float64 {
	var all []float64
	for i := range p.then {
		all = append(all, p.now[i]/p.then[i])
	}
	return all
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
