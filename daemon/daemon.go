package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify/servers/memory"
)

// Options are the options of Run. The zero value is the default.
type Options struct {
	Version   string           // of the program
	Logger    *slog.Logger     // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
	Listeners []net.Listener   // to serve HTTP on, in place of Config.Listen; Run closes them
	Reload    <-chan os.Signal // each signal has the daemon read its files again; nil: none
	Systemd   *sd.Notifier     // gets the daemon's state; nil: none
	Clock     *memory.Clock    // of a Redis in memory, which calls move; nil: Redis's clock goes by itself
}

// Run runs the daemon until ctx ends. Then it stops in stages, within the
// configured timeout: it accepts no more requests over HTTP and NATS and finishes
// those under way, finishes the carrier's call under way and gives up its lease, and
// closes the connections to NATS and Redis. A requested stop is not an error, and a
// Redis or a NATS that is away never is. Errors: a notify.ErrUnfit, a configuration
// that cannot be used, an address that cannot be listened on, or a stop that took too
// long.
func Run(ctx context.Context, c Config, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p, err := assemble(c, o)
	if err != nil {
		return err
	}
	log := o.Logger
	log.Info("starting", "redis", p.store.Address(), "prefix", p.store.Prefix())
	for _, l := range p.listeners {
		log.Info("serving http", "address", l.Addr().String(), "tls", c.TLSCertFile != "", "tokens", c.TokensFile != "")
	}

	// Closing the connections ends every call, so that no stage can hang.
	var late *time.Timer
	armed := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		log.Info("stopping", "within", c.ShutdownTimeout.String())
		late = time.AfterFunc(c.ShutdownTimeout, func() { p.store.Close() })
		close(armed)
	})
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(ctx, ended) })
	watching.Go(func() { freeMemory(ended) })
	faults := &multierror.Error{ErrorFormat: lines}
	faults = multierror.Append(faults, p.parts.run(ctx, c.ShutdownTimeout, log))
	p.closeDatabases()
	end()
	watching.Wait()
	if !unwatch() {
		<-armed
		if !late.Stop() {
			faults = multierror.Append(faults, fmt.Errorf("stop in good order: not done within %v", c.ShutdownTimeout))
		}
	}
	if err := p.store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		faults = multierror.Append(faults, fmt.Errorf("close redis at %s: %w", p.store.Address(), err))
	}
	log.Info("stopped")
	return faults.ErrorOrNil()
}
