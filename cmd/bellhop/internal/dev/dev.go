// Package dev runs all of Bellhop in one process with nothing installed: a
// Redis of its own, a NATS if it is there, a carrier, and a short tour that
// shows messages arrive.
//
// Where a redis-server is on PATH it runs as a child, with its data in a
// folder. Else a Redis in memory takes its place; it serves for a trial, and its
// messages vanish when the process ends. NATS is a nats-server on PATH, or none.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
)

// Options are the options of Run.
type Options struct {
	Config  daemon.Config // its settings of Redis, but for the prefix, are not used; without NatsURL, neither are those of NATS
	Dir     string        // where the data is kept; empty: DefaultDir
	Deliver string        // topics that are delivered over NATS, as daemon.Config.NatsDeliver has them
	Tour    bool          // show messages arrive
	Command string        // how this program is called, for what is printed
	Out     io.Writer     // where to print
	Version string        // of the program
	Logger  *slog.Logger
}

// errEnded is why Run ends when one of its servers did.
var errEnded = errors.New("a server ended by itself")

// Run runs until ctx ends, and then stops everything in good order. Errors: a
// folder that cannot be used or is in use, a server that does not start or ends
// by itself, or that of the daemon.
func Run(ctx context.Context, o Options) error {
	store, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer store.Stop()
	c := o.Config
	c.RedisURL = daemon.URLs(store.URL())
	c.RedisMaster, c.RedisUsername, c.RedisPasswordFile, c.RedisCAFile = "", "", "", ""
	c.RedisSentinelUsername, c.RedisSentinelPasswordFile = "", ""
	c.RedisCertFile, c.RedisKeyFile, c.WaitReplicas = "", "", 0
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
	if c.NatsURL != "" && o.Deliver != "" {
		c.NatsDeliver = o.Deliver
	}
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	introduce(o.Out, c, servers, l)

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	var stopped error
	all.Go(func() {
		stopped = daemon.Run(ctx, c, daemon.Options{Version: o.Version, Logger: o.Logger, Listeners: l})
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
	if o.Tour {
		if err := tour(ctx, c, o); err != nil {
			fail(err)
		}
	}
	if ctx.Err() == nil {
		goOn(o)
	}
	<-ctx.Done()
	all.Wait()
	if cause := context.Cause(ctx); stopped == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return stopped
}

// listen opens what HTTP is served on: any other port where the usual one is in use.
func listen(address string) ([]net.Listener, error) {
	if address != daemon.DefaultListen {
		return nil, nil // that was asked for is opened, or refused, by the daemon
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

// introduce prints which servers run, and how to reach those at unusual ports.
func introduce(out io.Writer, c daemon.Config, servers []server, http []net.Listener) {
	fmt.Fprintf(out, "Redis for this trial: %s\n", servers[0].About())
	switch {
	case len(servers) > 1:
		fmt.Fprintf(out, "NATS for this trial: %s\n", servers[1].About())
	case c.NatsURL != "":
		fmt.Fprintf(out, "NATS: %s\n", c.NatsURL)
	default:
		fmt.Fprintln(out, "NATS: none, since no nats-server is on PATH")
	}
	address := c.Listen
	if len(http) > 0 {
		address = http[0].Addr().String()
	}
	fmt.Fprintf(out, "HTTP: http://%s\n", address)
	if len(http) > 0 && address != daemon.DefaultListen {
		fmt.Fprintf(out, "%s is in use, so write %s in its place in what you type\n", daemon.DefaultListen, address)
	}
	for i, usual := range []string{notify.DefaultURL, nats.DefaultURL} {
		if i < len(servers) && servers[i].URL() != usual {
			fmt.Fprintf(out, "%s is in use, so paste this line into the terminals that you go on in:\n\n  export %s=%s\n\n",
				usual, []string{"BELLHOP_REDIS_URL", "NATS_URL"}[i], servers[i].URL())
		}
	}
	fmt.Fprintln(out)
}

// goOn prints what to try next.
func goOn(o Options) {
	fmt.Fprintf(o.Out, `Everything runs. Go on in a second terminal, which handles messages:

  %[1]s work greetings

and in a third, which sends one:

  %[1]s publish greetings --delay 5s --body hello

To reach everyone who listens, and not one worker:

  %[1]s listen 'prices.>'
  %[1]s broadcast prices.gold --delay 5s --body 42

Ctrl-C ends this.
`, o.Command)
}
