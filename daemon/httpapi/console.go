package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
)

// mostPages is how many pages of the console that change by themselves a token may have
// open at a time. Each is made again every second.
const mostPages = 500

// addConsole adds the pages for operators.
func (g *Gate) addConsole(mux *http.ServeMux) error {
	if !g.o.Console {
		return nil
	}
	o := console.Options{
		Version: g.o.Version, MaxBody: g.o.MaxBody, Logger: g.o.Logger, Login: g.viewerOf, Named: g.viewerNamed,
		Known:   func(r *http.Request) { guard.OnSlot(r.Context(), (*guard.Slot).Authenticate) },
		Closing: g.closing, Patience: g.timing.answer, MaxPages: min(g.o.MaxStreams, mostPages), Doctor: g.o.Doctor,
	}
	if g.o.TokensFile == "" {
		o.Open = g.viewer(g.keys.Anybody())
	}
	pages, err := console.New(g.o.Service, o)
	if err != nil {
		return err
	}
	g.pages = pages
	mux.Handle(console.Root, http.NewCrossOriginProtection().Handler(pages)) // a page that may call with a token of its own may not use a viewer's cookie
	mux.HandleFunc(strings.TrimSuffix(console.Root, "/"), func(w http.ResponseWriter, r *http.Request) { toConsole(w, r, http.StatusTemporaryRedirect) })
	return nil
}

// elsewhere leads a browser from / to the console, and refuses what is no call.
func (c *call) elsewhere() error {
	if c.gate.o.Console && c.r.URL.Path == "/" && c.r.Method == http.MethodGet && strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		toConsole(c.w, c.r, http.StatusFound)
		return nil
	}
	return c.otherMethod()
}

// toConsole leads from beside the console into it, below whatever path a proxy serves both.
func toConsole(w http.ResponseWriter, r *http.Request, status int) {
	to := url.URL{Path: strings.TrimPrefix(console.Root, "/"), RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", to.String())
	w.WriteHeader(status)
}

// viewerOf returns the viewer of a token; nil if the token is unknown, which is counted.
func (g *Gate) viewerOf(r *http.Request, token string) *console.Viewer {
	asked := r.Clone(context.WithoutCancel(r.Context()))
	asked.Header.Set("Authorization", "Bearer "+token)
	grant, err := g.keys.Admit(asked)
	if err != nil {
		g.logins.Refuse(g.o.Logger, r.RemoteAddr, err)
		return nil
	}
	return g.viewer(grant)
}

// viewerNamed returns the viewer whose token has a name; nil: there is none.
func (g *Gate) viewerNamed(name string) *console.Viewer {
	if grant := g.keys.Named(name); grant != nil {
		return g.viewer(grant)
	}
	return nil
}

// viewer returns what a grant permits on pages.
func (g *Gate) viewer(of *tokens.Grant) *console.Viewer {
	return &console.Viewer{
		Client: &of.Client, Fingerprint: of.Fingerprint(), Valid: of.Valid, Pages: &of.Pages,
		Reserve: func(r *http.Request, bytes int64) (free func(), err error) {
			c := &call{gate: g, grant: of, r: r}
			return c.releaseMemory, c.reserve(bytes)
		},
	}
}
