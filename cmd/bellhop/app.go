package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/outlet"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/runner"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// app is one run of the program.
type app struct {
	env      []string // as os.Environ returns it; --redis is put into it
	in       io.Reader
	out, err io.Writer     // safe for concurrent use, as files are
	json     bool          // --json
	redis    string        // --redis
	began    bool          // the call was valid: a command runs
	running  runner.Groups // of commands that handle messages and broadcasts
	drew     bool          // progress of a search is on the terminal
}

// helpWidth is the width of the help in columns.
const helpWidth = 80

// group returns a command that does nothing without one of others, whose names are given.
func (a *app) group(c *cobra.Command, names string, others ...*cobra.Command) *cobra.Command {
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("COMMAND is missing: use " + names)
		}
		return nil
	}
	c = a.command(c, func(_ context.Context, _ *cobra.Command, args []string) error {
		return wrong(fmt.Errorf("unknown command %q: use %s", args[0], names))
	})
	c.AddCommand(others...)
	return c
}

// command sets what a command runs. Once it runs, the call was valid.
func (a *app) command(c *cobra.Command, run func(ctx context.Context, c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		a.began = true
		return run(c.Context(), c, args)
	}
	return c
}

// withStore is command for a command that needs Redis. The session is closed when run returns.
func (a *app) withStore(c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	return a.command(a.redisFlag(c), func(ctx context.Context, _ *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		defer s.store.Close()
		return run(ctx, s, args)
	})
}

// withOutlets is withStore for a command that goes on, and can be stopped, where nobody reads what it prints.
func (a *app) withOutlets(c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	a.withStore(c, run)
	inner := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		a.out, a.err = outlet.New(a.out), outlet.New(a.err)
		return inner(c, args)
	}
	return c
}

// jsonFlag gives a command the flag --json.
func (a *app) jsonFlag(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return c
}

// redisFlag gives a command the flag --redis.
func (a *app) redisFlag(c *cobra.Command) *cobra.Command {
	c.Flags().Func("redis", "`URL` of the Redis to use, without a password (default: BELLHOP_REDIS_URL)", func(urls string) error {
		if a.redis = urls; urls == "" {
			return errors.New("it is empty; leave it out")
		}
		return nil
	})
	return c
}

// session is a connection to Redis as the environment describes it.
type session struct {
	config    daemon.Config
	log       *slog.Logger
	manager   *sd.Notifier // for commands that run until they are stopped
	store     *notify.Store
	pub       *notify.Publisher
	inspector *notify.Inspector
	service   *calls.Service   // of the API, in this process
	troubles  []*outage.Notice // of this process, for its status
}

// errConfig is the error of a configuration that cannot be used.
var errConfig = errors.New("bad configuration")

// redisURL names the setting that --redis overrides.
const redisURL = "BELLHOP_REDIS_URL"

// load reads the configuration. It puts --redis into the environment first, also
// for the commands that handle messages.
func (a *app) load() (daemon.Config, error) {
	if a.redis != "" {
		if err := checkRedis(a.redis); err != nil {
			return daemon.Config{}, wrong(err)
		}
		a.env = append(environ.Without(a.env, redisURL), redisURL+"="+a.redis)
	}
	c, err := daemon.Load(a.env)
	if err != nil {
		return c, configError{err}
	}
	return c, nil
}

// checkRedis rejects an invalid --redis. Its error contains no password.
func checkRedis(urls string) error {
	for one := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			continue // notify.Open reports it, without a password
		}
		if _, secret := u.User.Password(); secret {
			return errors.New("--redis contains a password, which ps shows to everybody: put it into a file that BELLHOP_REDIS_PASSWORD_FILE names, or put the whole URL into BELLHOP_REDIS_URL")
		}
	}
	store, err := notify.Open(notify.Config{URL: urls})
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	return store.Close() // it was never connected
}

// configError is an errConfig with the text of its faults.
type configError struct{ error }

func (e configError) Unwrap() []error { return []error{e.error, errConfig} }

func (a *app) open() (*session, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	s := &session{config: c, log: daemon.NewLogger(c, a.err)}
	s.manager = sd.New(s.log, a.env)
	daemon.TakeClientLog(s.log)
	if s.store, err = notify.Open(c.Notify()); err != nil {
		return nil, err
	}
	if s.pub, err = notify.NewPublisher(s.store, c.Publisher()); err != nil {
		return nil, err
	}
	if s.service, err = calls.NewService(s.store, nil, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	s.inspector = s.service.Inspector
	return s, nil
}

// partly returns the error of a call on all shards as missing if it only names shards
// that are away: what the others answered counts then.
func partly(err error) (missing, fault error) {
	if errors.As(err, new(*store.MissingError)) {
		return err, nil
	}
	return nil, err
}
