package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/dev"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// Unless GOGC is set, the daemon's collector has this percent. A large heap is idle
// connections, so collecting garbage more often costs next to nothing. A small one would
// be collected a hundred times a second under load, for a third of the time; the ballast,
// which is never written to and so takes no memory, leaves at least 6 MiB between two.
const (
	servePercent = 40
	serveBallast = 16 << 20
)

func (a *app) serveCommand() *cobra.Command {
	return a.command(a.redisFlag(&cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: a carrier, which moves messages when due, and HTTP",
		Long: `Run the daemon: a carrier that moves messages when they are due. It serves HTTP on
127.0.0.1:8420, and NATS if BELLHOP_NATS_URL is set.

Any number of daemons may run: one is elected, the others are standby. SIGTERM or
Ctrl-C stops it gracefully, and another takes over at once; a second one ends it at
once. On SIGHUP it reloads the files that may change while it runs.

It reports to systemd when it is ready, its status, and that it is alive.`,
		Example: `  bellhop serve
  BELLHOP_LOG_FORMAT=json bellhop serve --redis redis://redis.example.com:6379`,
		Args: takes(),
	}), func(ctx context.Context, _ *cobra.Command, _ []string) error {
		reload := make(chan os.Signal, 1) // one pending signal is enough
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		c, err := a.load()
		if err != nil {
			return err
		}
		listeners, err := sd.Listeners()
		if err != nil {
			return err
		}
		if environ.Get(a.env, "GOGC") == "" {
			debug.SetGCPercent(servePercent)
			if environ.Get(a.env, "GOMEMLIMIT") == "" { // which would count it
				ballast := make([]byte, serveBallast)
				defer runtime.KeepAlive(&ballast)
			}
		}
		log := daemon.NewLogger(c, a.err)
		daemon.TakeClientLog(log)
		return daemon.Run(ctx, c, daemon.Options{
			Version: thisBuild().Version, Logger: log, Listeners: listeners, Reload: reload, Systemd: sd.New(log, a.env),
		})
	})
}

func (a *app) devCommand() *cobra.Command {
	var o dev.Options
	var noTour bool
	var at string
	c := a.command(&cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with nothing to install",
		Long: `Run everything in one process, with nothing to install: a Redis of its own on
127.0.0.1:6379, HTTP on 127.0.0.1:8420, and a carrier, which makes messages ready
when they are due. If a port is in use, it takes another, and prints what to write
in its place. Data of an earlier version is upgraded.

If redis-server is on PATH, its data is kept in a folder. Otherwise Redis is in
memory, and messages vanish at the end. If nats-server is on PATH, or
BELLHOP_NATS_URL is set, NATS is served, too.

With --clock manual Redis is in memory, and its time stands still, until POST
/v1/clock over HTTP moves it: so tests see what is due in a month, and do not wait.`,
		Example: `  bellhop dev
  bellhop dev --no-tour --dir /tmp/bellhop
  bellhop dev --shards 8 --dir /tmp/bellhop8
  bellhop dev --clock manual --at 2030-01-01T00:00:00Z`,
		Args: takes(),
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.load()
		if err != nil {
			return err
		}
		syscall.Umask(0o077) // only the owner can read what the servers write, also in an existing folder
		if _, set := environ.Lookup(a.env, "BELLHOP_LOG_LEVEL"); !set {
			c.LogLevel = slog.LevelWarn // or the log would hide the tour
		}
		log := daemon.NewLogger(c, a.err)
		daemon.TakeClientLog(log)
		if at != "" {
			if o.At, err = fields.ParseTime("at", at); err != nil {
				return err
			}
		}
		o.Config, o.Command, o.Version, o.Out, o.Logger = c, callName(), thisBuild().Version, a.out, log
		o.Tour = !noTour && o.Clock != dev.Manual
		return dev.Run(ctx, o)
	})
	c.Flags().StringVar(&o.Dir, "dir", "", "folder for the data (default: bellhop/dev under $XDG_STATE_HOME or ~/.local/state)")
	c.Flags().IntVar(&o.Shards, "shards", 0, "shards of a store that is new: a power of two up to 256; needs redis-server (default: BELLHOP_SHARDS)")
	c.Flags().StringVar(&o.Clock, "clock", dev.Real, "real, or manual: Redis is in memory, and its time stands still until it is moved over HTTP")
	c.Flags().StringVar(&at, "at", "", "when a manual clock begins, such as 2030-01-01T00:00:00Z (default: now)")
	c.Flags().BoolVar(&noTour, "no-tour", false, "leave out the messages that are delivered at the start")
	_ = c.RegisterFlagCompletionFunc("clock", cobra.FixedCompletions([]string{dev.Manual, dev.Real}, cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	return c
}

// callName returns how to call this program again; go run leaves no program.
func callName() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/bellhop"
	}
	return os.Args[0]
}
