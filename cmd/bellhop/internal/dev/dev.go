// Package dev runs all of Bellhop in one process, for a trial: a Redis and a NATS of
// its own, a carrier, and a short tour that shows messages arrive. Nothing has to be
// installed.
//
// A redis-server on PATH runs as a child and keeps its data in a folder. Without one,
// a Redis in memory takes its place, whose messages vanish when the process ends, and
// which holds one shard.
// A nats-server on PATH runs as a child, too; without one there is no NATS.
//
// With a manual clock the Redis in memory takes its place in any case. Its time stands still but for the calls of
// /v1/clock, so that tests of programs in any language need not wait.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Options are the options of Run.
type Options struct {
	Config  daemon.Config // of the settings of Redis only the prefix is used; those of NATS only with NatsURL
	Dir     string        // folder of the data; empty: DefaultDir
	Shards  int           // of the store, if it is new; zero: as it has, or as Config says
	Tour    bool          // run the tour
	Clock   string        // of Redis: Real, or Manual, which needs a Redis in memory; empty: Real
	At      time.Time     // at which a manual clock begins; zero: now
	Command string        // name of this program in what is printed
	Out     io.Writer     // receives what is printed
	Version string        // of the program
	Logger  *slog.Logger
}

// errEnded is the error of Run when one of its servers ended.
var errEnded = errors.New("a server ended by itself")

// Run runs until ctx ends, then stops the daemon and the servers in order. Data of an
// earlier version is upgraded. Run fails if the folder cannot be used or is in use, if a
// server does not start or ends by itself, or if the daemon fails.
func Run(ctx context.Context, o Options) error {
	c := o.Config
	c.Shards = cmp.Or(o.Shards, c.Shards)
	if err := o.checkClock(c.Shards); err != nil {
		return err
	}
	store, err := start(ctx, o, c.Shards)
	if err != nil {
		return err
	}
	defer store.Stop()
	setRedis(&c, store)
	if err := upgrade(ctx, c, o.Out); err != nil {
		return inFolder(store.Dir(), err)
	}
	clock, err := o.standStill(ctx, c, store)
	if err != nil {
		return err
	}
	defer clock.Close()
	servers := []server{store}
	if c.NatsURL == "" {
		bus, err := startNATS(ctx, store.Dir())
		if err != nil {
			return err
		}
		if bus != nil {
			defer bus.Stop()
			c.NatsURL = daemon.NatsURLs(bus.URL())
			servers = append(servers, bus)
		}
	}
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	return inFolder(store.Dir(), serve(ctx, c, o, servers, l, clock))
}

// setRedis has a configuration name a private Redis, and nothing of another one.
func setRedis(c *daemon.Config, r redis) {
	c.RedisURL = daemon.URLs(r.URL())
	c.RedisMaster, c.RedisUsername, c.RedisPasswordFile, c.RedisCAFile = "", "", "", ""
	c.RedisSentinelUsername, c.RedisSentinelPasswordFile = "", ""
	c.RedisCertFile, c.RedisKeyFile, c.WaitReplicas = "", "", 0
}

// serve prints where all is, and runs the daemon until ctx ends or a server ends by itself.
func serve(ctx context.Context, c daemon.Config, o Options, servers []server, l []net.Listener, clock *memory.Clock) error {
	page := introduce(o.Out, c, servers, l)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	var stopped error
	all.Go(func() {
		stopped = daemon.Run(ctx, c, daemon.Options{Version: o.Version, Logger: o.Logger, Listeners: l, Clock: clock})
		fail(stopped)
	})
	for _, s := range servers {
		all.Go(func() {
			select {
			case <-s.Done():
				fail(fmt.Errorf("%w: %s", errEnded, s.About()))
			case <-ctx.Done():
			}
		})
	}
	all.Go(func() {
		<-ctx.Done()
		clock.Close()
	})
	if o.Tour {
		if err := tour(ctx, c, o); err != nil {
			fail(err)
		}
	}
	if ctx.Err() == nil {
		suggest(o, page)
	}
	<-ctx.Done()
	all.Wait()
	if cause := context.Cause(ctx); stopped == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return stopped
}

// upgrade gives the store, which is for this program alone, the newest format, and prints what that adds.
func upgrade(ctx context.Context, c daemon.Config, out io.Writer) error {
	store, err := notify.Open(c.Notify())
	if err != nil {
		return err
	}
	defer store.Close()
	u, err := store.Upgrade(ctx, true)
	if err != nil || u.From == u.To {
		return err
	}
	fmt.Fprintf(out, "The data had format %d. It has %d now, which adds %s; older programs cannot use it.\n", u.From, u.To, strings.Join(u.Adds, ", "))
	return nil
}

// inFolder says in the error of a store that does not fit, such as one of an earlier version, where that is.
func inFolder(dir string, err error) error {
	if dir == "" || !errors.Is(err, notify.ErrUnfit) {
		return err
	}
	return fmt.Errorf("%w; its data is in %s: to begin anew, remove that folder, or name another one with --dir", err, dir)
}

// listen opens the port of HTTP. If the default port is in use, it takes any other.
func listen(address string) ([]net.Listener, error) {
	if address != daemon.DefaultListen {
		return nil, nil // the daemon opens a configured address itself
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("serve http: %w", err)
	}
	return []net.Listener{l}, nil
}

// introduce prints which servers run, and how to reach them at unusual ports. It returns the
// address of the console; empty: there is none.
func introduce(out io.Writer, c daemon.Config, servers []server, http []net.Listener) (page string) {
	address := c.Listen
	if len(http) > 0 {
		address = http[0].Addr().String()
	}
	if c.Console {
		page = "http://" + address + console.Root
		fmt.Fprintf(out, "Console: %s\n", page)
	}
	fmt.Fprintf(out, "Redis: %s\n", servers[0].About())
	switch {
	case len(servers) > 1:
		fmt.Fprintf(out, "NATS: %s\n", servers[1].About())
	case c.NatsURL != "":
		fmt.Fprintf(out, "NATS: %s\n", c.NatsURL)
	default:
		fmt.Fprintln(out, "NATS: none, since nats-server is not on PATH")
	}
	fmt.Fprintf(out, "HTTP: http://%s\n", address)
	if len(http) > 0 && address != daemon.DefaultListen {
		fmt.Fprintf(out, "%s is in use: type %s in its place\n", daemon.DefaultListen, address)
	}
	for i, usual := range []string{reach.DefaultURL, nats.DefaultURL} {
		if i < len(servers) && servers[i].URL() != usual {
			fmt.Fprintf(out, "%s is in use: paste this line into your other terminals:\n\n  export %s=%s\n\n",
				usual, []string{"BELLHOP_REDIS_URL", "NATS_URL"}[i], servers[i].URL())
		}
	}
	fmt.Fprintln(out)
	return page
}

// suggest prints what to try next. What was printed before may be out of sight by then.
func suggest(o Options, page string) {
	fmt.Fprintf(o.Out, `Everything runs. In a second terminal, handle messages:

  %[1]s work greetings

In a third, send one:

  %[1]s publish greetings --delay 5s --body hello

To reach every listener instead of one worker:

  %[1]s listen 'prices.>'
  %[1]s broadcast prices.gold --delay 5s --body 42

`, o.Command)
	if o.Clock == Manual {
		fmt.Fprintf(o.Out, "Time stands still. To move it, POST /v1/clock?advance=30m, or ?next=true.\n")
	}
	if page != "" {
		fmt.Fprintf(o.Out, "The console shows all of it: %s\n", page)
	}
	fmt.Fprintln(o.Out, "Ctrl-C ends this.")
}
