package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// StopWithin returns how long a stop may take, with all that comes behind it.
func (c Config) StopWithin() time.Duration { return c.ShutdownTimeout + stopMargin }

// statusEvery is how often the line of status may change.
const statusEvery = time.Second

// stopMargin is what a process may take to end when its time to stop is over.
const stopMargin = 5 * time.Second

// An overview is what the process knows of its parts as a whole.
type overview struct {
	log     *slog.Logger
	status  func() string  // what they do, for people, on one line
	checks  []func() error // what stands still, though it should not
	reloads []func() error // read again what can be; after an error the old is kept

	stopWithin time.Duration
}

// overview returns the overview of the parts.
func (p parts) overview(store *notify.Store, c Config, log *slog.Logger) overview {
	return overview{log: log, stopWithin: c.StopWithin(), status: func() string {
		epoch := p.epoch.Load()
		switch {
		case store.Client().PoolStats().TotalConns == 0: // what fails is closed
			return "waiting for Redis at " + store.Where()
		case epoch == 0:
			return "standby"
		}
		return fmt.Sprintf("carrier, epoch %d", epoch)
	}}
}

// alive returns what stands still.
func (v overview) alive() error {
	var all []error
	for _, check := range v.checks {
		all = append(all, check())
	}
	return errors.Join(all...)
}

// reload reads again what can be.
func (v overview) reload() error {
	var all []error
	for _, again := range v.reloads {
		all = append(all, again())
	}
	return errors.Join(all...)
}

// watch tells systemd how the parts are, and reloads them when it is asked to:
// ready at once, stopping when ctx ends, until ended does. A reload that fails
// leaves everything as it was; it is logged and stands in the status.
func (o Options) watch(ctx, ended context.Context, v overview) {
	var feeding sync.WaitGroup
	defer feeding.Wait()
	feeding.Go(func() { o.Systemd.Watchdog(ended, v.alive) })
	o.Systemd.Status(v.status())
	o.Systemd.Ready()
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	trouble := ""
	for {
		select {
		case <-ended.Done():
			return
		case <-ctx.Done():
			o.Systemd.Stopping(v.stopWithin)
			o.Systemd.Status("stopping")
			<-ended.Done()
			return
		case <-o.Reload:
			trouble = o.reload(v)
		case <-ticker.C:
		}
		o.Systemd.Status(v.status() + trouble)
	}
}

// reload reloads the parts, and returns what there is to say of it in the status.
func (o Options) reload(v overview) (trouble string) {
	o.Systemd.Reloading()
	defer o.Systemd.Ready()
	if err := v.reload(); err != nil {
		v.log.Error("cannot reload, going on as before", "error", err)
		return "; the last reload failed: see the log"
	}
	v.log.Info("reloaded")
	return ""
}
