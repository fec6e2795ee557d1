package console

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
)

// Root is the path below which all pages are.
const Root = "/ui/"

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
	// Finder and Forecasts are those of the daemon: what one asks for is kept for the other.
	Finder    *api.Finder
	Forecasts *forecast.Cache
	// Pusher returns that of the daemon, which tests pushes; nil: it pushes nowhere.
	Pusher func() *push.Pusher
	// Patience is how long a viewer may take to receive a piece of a stream.
	Patience time.Duration
	// MaxPages is how many pages a token may have open at a time, of those that change by themselves.
	MaxPages int
	// Doctor is what the configuration says, for the doctor.
	Doctor doctor.Options
}

// A Console serves the pages.
type Console struct {
	o         Options
	store     *notify.Store
	inspector *notify.Inspector
	pub       *notify.Publisher
	mux       *http.ServeMux
	edition   string          // of the pages: another one has other forms
	secret    *signing.Secret // that cookies are signed with
	viewers   atomic.Int64
	quiet     time.Duration // of a stream
	snapshots snapshots
	caches    caches
	sent      sent
	withheld  withheld
	doctor    checkup

	background sync.WaitGroup // what pages began and do not wait for
}

//go:embed assets
var assets embed.FS

// New returns a console of a store. It reads nothing yet. The error is a notify.Fault.
func New(store *notify.Store, o Options) (*Console, error) {
	inspector, err := notify.NewInspector(store)
	if err != nil {
		return nil, err
	}
	if o.MaxBody == 0 || o.MaxBody > maxBody {
		o.MaxBody = maxBody
	}
	pub, err := notify.NewPublisher(store, notify.PublisherOptions{MaxBody: o.MaxBody})
	if err != nil {
		return nil, err
	}
	c := &Console{o: o, store: store, inspector: inspector, pub: pub, mux: http.NewServeMux(), edition: editionOf(o.Version), secret: signing.New(store), quiet: quiet}
	c.snapshots.console, c.snapshots.comes.console = c, c
	parsed() // so that a fault shows when a daemon starts
	c.routes()
	return c, nil
}

// Wait waits until what pages began has ended, after Closing and when no request is served any more.
func (c *Console) Wait() { c.background.Wait() }

// Viewers returns how many pages are open at present, of those that change by themselves.
func (c *Console) Viewers() int64 { return c.viewers.Load() }

// routes registers all pages and acts.
func (c *Console) routes() {
	files, _ := fs.Sub(assets, "assets")
	c.mux.Handle("GET "+Root+"assets/", http.StripPrefix(Root+"assets/", c.cached(http.FileServerFS(files))))
	c.mux.HandleFunc("GET "+Root+"login", c.loginPage)
	c.mux.HandleFunc("POST "+Root+"login", c.login)
	c.mux.HandleFunc("POST "+Root+"logout", c.logout)
	c.mux.HandleFunc("GET "+Root+"find/export", c.export)
	c.mux.HandleFunc("GET "+topicsOffered, c.offerTopics)
	for _, p := range allPages() {
		c.mux.HandleFunc("GET "+p.path, c.serve(p))
	}
	for _, a := range acts {
		c.mux.HandleFunc("POST "+a.path, c.act(a))
	}
	c.mux.HandleFunc(Root, c.serve(noPage))
}

// ServeHTTP answers a request below Root.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	c.mux.ServeHTTP(w, r)
}

// cached lets browsers keep files of this edition: pages name them with it.
func (c *Console) cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("e") == c.edition {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		next.ServeHTTP(w, r)
	})
}

// editionOf returns a short name for the files of this program, and its version.
func editionOf(version string) string {
	sum := sha256.New()
	fmt.Fprintln(sum, version)
	for _, all := range []embed.FS{assets, templates} {
		_ = fs.WalkDir(all, ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				data, _ := all.ReadFile(path)
				fmt.Fprintln(sum, path, len(data))
				sum.Write(data)
			}
			return err
		})
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// accepts reports whether a request accepts a type of content.
func accepts(r *http.Request, kind string) bool {
	return strings.Contains(r.Header.Get("Accept"), kind)
}
