package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"sync"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
)

// New returns a console of the store of a service. It reads nothing yet. The error is a notify.Fault.
func New(service *calls.Service, o Options) (*Console, error) {
	store := service.Store
	if o.MaxBody == 0 || o.MaxBody > maxBody {
		o.MaxBody = maxBody
	}
	pub, err := notify.NewPublisher(store, notify.PublisherOptions{MaxBody: o.MaxBody})
	if err != nil {
		return nil, err
	}
	background := new(sync.WaitGroup)
	c := &Console{
		clock: clock{store}, service: service, o: o, store: store, inspector: service.Inspector, pub: pub,
		mux: http.NewServeMux(), edition: editionOf(o.Version), secret: signing.New(store), quiet: quiet,
		snapshots:  snapshots.New(store, service.Inspector),
		comes:      foreseen{forecasts: service.Forecasts, closing: o.Closing, background: background},
		withheld:   withheld{logger: o.Logger},
		doctor:     checkup{store: store, options: o.Doctor, closing: o.Closing, background: background},
		background: background,
	}
	parsed() // so that a fault shows when a daemon starts
	c.routes()
	return c, nil
}

// pages are all pages. None refers to another one: what two share stands in a file that both refer to.
var pages = []page{
	overviewPage,
	topicsPage, topicPage, messagePage, groupPage,
	findPage, findActPage,
	workPage,
	deadPage, lettersPage, reasonsPage,
	broadcastsPage, receiversPage, removePage,
	schedulesPage, schedulePage, putSchedulePage,
	pushesPage, pushPage, putPushPage,
	outboxPage,
	carriersPage,
}

// acts are all acts.
var acts = []act{
	pauseAct, publishAct, messageAct, groupAct,
	foundAct, allAct,
	broadcastAct, forgetAct,
	scheduleAct, backfillAct, putScheduleAct,
	pushAct, putPushAct,
	outboxAct,
	upgradeAct,
}

// routes registers all pages and acts.
func (c *Console) routes() {
	files, _ := fs.Sub(assets, "assets")
	c.mux.Handle("GET "+Root+"assets/", http.StripPrefix(Root+"assets/", c.cached(http.FileServerFS(files))))
	c.mux.HandleFunc("GET "+Root+"login", c.loginPage)
	c.mux.HandleFunc("POST "+Root+"login", c.login)
	c.mux.HandleFunc("POST "+Root+"logout", c.logout)
	c.mux.HandleFunc("GET "+Root+"find/export", c.export)
	c.mux.HandleFunc("GET "+messagePage.path+"/body", c.download)
	c.mux.HandleFunc("GET "+topicsOffered, c.offerTopics)
	for _, p := range pages {
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

//go:embed assets
var assets embed.FS

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
