package console

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
)

// Options are the options of a Console. All are needed but Version.
type Options struct {
	Version string // of the program
	MaxBody int    // bytes of the largest body to publish; zero, or more than notify.DefaultMaxBody: that
	Logger  *slog.Logger

	// Login returns the viewer of a token; nil: it is unknown. Named returns that of a name.
	Login func(r *http.Request, token string) *Viewer
	Named func(name string) *Viewer
	// Known is called for a request with a good cookie.
	Known func(r *http.Request)
	// Open is the viewer where no token is needed; nil: one is.
	Open *Viewer
	// Closing ends when streams are to end.
	Closing context.Context
	// Patience is how long a viewer may take to receive a page, or a piece of a stream.
	Patience time.Duration
	// MaxPages is how many pages a token may have open at a time, of those that change by themselves.
	MaxPages int
	// Doctor is what the configuration says, for the doctor.
	Doctor doctor.Options
}

// A Console serves the pages.
type Console struct {
	clock
	service   *calls.Service // of the daemon: what one asks for is kept for the other
	o         Options
	store     *notify.Store
	inspector *notify.Inspector
	pub       *notify.Publisher
	mux       *http.ServeMux
	edition   string          // of the pages: another one has other forms
	secret    *signing.Secret // that cookies are signed with
	viewers   atomic.Int64
	quiet     time.Duration // of a stream
	snapshots *snapshots.Snapshots
	comes     foreseen
	caches    caches
	sent      sent
	withheld  withheld
	doctor    checkup

	background *sync.WaitGroup // what pages began and do not wait for
}

// Wait waits until what pages began has ended, after Closing and when no request is served any more.
func (c *Console) Wait() { c.background.Wait() }

// Viewers returns how many pages are open at present, of those that change by themselves.
func (c *Console) Viewers() int64 { return c.viewers.Load() }

// forget has a topic read again at once: an act changed it.
func (c *Console) forget(topic string) {
	c.caches.work.Clear()
	c.snapshots.Forget(topic)
	c.caches.details.Forget(topic)
	c.caches.deaths.Clear()
	c.caches.reasons.Clear()
}

// forgetAll has all topics and messages read again at once: an act may have changed any of them.
func (c *Console) forgetAll() {
	c.snapshots.ForgetAll()
	c.caches.details.Clear()
	c.caches.messages.Clear()
	c.caches.work.Clear()
	c.caches.pieces.Clear()
	c.caches.deaths.Clear()
	c.caches.reasons.Clear()
}
