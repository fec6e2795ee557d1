package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
)

// StopWithin returns how long a stop may take, until the process has ended.
func (c Config) StopWithin() time.Duration { return c.ShutdownTimeout + stopMargin }

// statusEvery is the time between two updates of the status.
const statusEvery = time.Second

// stopMargin is the time for the process to end after its time to stop.
const stopMargin = 5 * time.Second

// status returns what the daemon does, for people, on one line.
func (p *process) status() string {
	if waiting := Waiting(p.store); waiting != "" {
		return waiting
	}
	return statusOf(p.carrier.States())
}

// statusOf returns what a carrier does for all shards, on one line. Of several shards it says
// how late the one was that was later than the last of each other.
func statusOf(states []carrier.State) string {
	carries, last, kept, moved := 0, carrier.State{}, int64(0), int64(0)
	for _, s := range states {
		if !s.Carrying {
			continue
		}
		carries++
		kept, moved = kept+s.Kept, moved+s.Moved
		if s.Lateness > last.Lateness || carries == 1 {
			last = s
		}
	}
	if carries == 0 {
		return "standby"
	}
	text := fmt.Sprintf("carrier, epoch %d", last.Epoch)
	if len(states) > 1 {
		text = fmt.Sprintf("carrying %d of %d shards", carries, len(states))
	}
	text += fmt.Sprintf("; %d kept", kept)
	if moved > 0 {
		text += fmt.Sprintf("; the last was %.1f ms late", float64(last.Lateness.Microseconds())/1000)
	}
	return text
}

// Waiting returns a text that says why a process waits for Redis, and what to do; "" if it does not wait.
func Waiting(store *notify.Store) string {
	text := "waiting for Redis at " + store.Address()
	fault := store.Trouble()
	switch {
	case fault == nil && store.PoolStats().TotalConns > 0: // failed connections are closed
		return ""
	case fault == nil:
		return text
	}
	text += ": " + terminal.Escape(fault.Error())
	if remedy := doctor.Remedy(fault); remedy != "" {
		text += "; " + remedy
	}
	return text
}

// watch reports the daemon's state to systemd until ended is done: ready at once,
// stopping when ctx ends. It reloads the parts when asked to. A failed reload leaves
// things as they were; it is logged and shown in the status.
func (p *process) watch(ctx, ended context.Context) {
	var feeding sync.WaitGroup
	defer feeding.Wait()
	feeding.Go(func() { p.options.Systemd.Watchdog(ended, p.parts.alive) })
	p.options.Systemd.Status("connecting to Redis at " + p.store.Address())
	p.options.Systemd.Ready()
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	trouble := ""
	for {
		select {
		case <-ended.Done():
			return
		case <-ctx.Done():
			p.options.Systemd.Stopping(p.config.StopWithin())
			p.options.Systemd.Status("stopping")
			<-ended.Done()
			return
		case <-p.options.Reload:
			trouble = p.reload()
		case <-ticker.C:
		}
		p.options.Systemd.Status(p.status() + trouble)
	}
}

// reload has the parts read their files again, and returns the text for the status if that fails.
func (p *process) reload() (trouble string) {
	p.options.Systemd.Reloading()
	defer p.options.Systemd.Ready()
	if err := p.parts.reload(); err != nil {
		p.options.Logger.Error("cannot reload; going on as before", "error", err)
		return "; the last reload failed: see the log"
	}
	p.options.Logger.Info("reloaded")
	return ""
}
