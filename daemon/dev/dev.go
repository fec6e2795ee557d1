// Package dev runs all of Bellhop in one process with nothing installed: a
// Redis of its own, a carrier, and a short tour that shows messages arrive.
//
// Where a redis-server is on PATH it runs as a child, with its data in a
// folder. Else a Redis in memory takes its place; it serves for a trial, and its
// messages vanish when the process ends.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
)

// Options are the options of Run.
type Options struct {
	Config  daemon.Config // its settings of Redis, but for the prefix, are not used
	Dir     string        // where the data is kept; empty: DefaultDir
	Tour    bool          // show messages arrive
	Command string        // how this program is called, for what is printed
	Out     io.Writer     // where to print
	Logger  *slog.Logger
}

// errEnded is why Run ends when its Redis did.
var errEnded = errors.New("redis-server ended by itself")

// Run runs until ctx ends, and then stops everything in good order. Errors: a
// folder that cannot be used or is in use, a Redis that does not start or ends
// by itself, or that of the daemon.
func Run(ctx context.Context, o Options) error {
	server, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Fprintf(o.Out, "Redis for this trial: %s\n", server.About())
	if server.URL() != notify.DefaultURL {
		fmt.Fprintf(o.Out, "127.0.0.1:6379 is in use, so paste this line into the terminals that you go on in:\n\n  export BELLHOP_REDIS_URL=%s\n", server.URL())
	}
	fmt.Fprintln(o.Out)

	c := o.Config
	c.RedisURL = daemon.URLs(server.URL())
	c.RedisMaster, c.RedisUsername, c.RedisPasswordFile, c.RedisCAFile = "", "", "", ""

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stopped := make(chan error, 1)
	go func() {
		err := daemon.Run(ctx, c, o.Logger)
		fail(err)
		stopped <- err
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-server.Done():
			fail(fmt.Errorf("%w: %s", errEnded, server.About()))
		case <-ctx.Done():
		}
	}()
	if o.Tour {
		if err := tour(ctx, c, o); err != nil {
			fail(err)
		}
	}
	if ctx.Err() == nil {
		goOn(o)
	}
	<-ctx.Done()
	err = <-stopped
	<-watched
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// goOn prints what to try next.
func goOn(o Options) {
	fmt.Fprintf(o.Out, `Everything runs. Go on in a second terminal, which handles messages:

  %[1]s work greetings

and in a third, which sends one:

  %[1]s publish greetings --delay 5s --body hello

Ctrl-C ends this.
`, o.Command)
}
