package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

//go:embed templates
var templates embed.FS

// pageBytes is what messages that are read at a time take in memory, with the JSON of one: find ends a page at 8 MiB of records, other
// replies of Redis have half of that, and one more record.
const pageBytes = 16 << 20

// A page is one of the pages. Its template has the file of its name, with a block main, and
// within that a block live if it changes by itself.
type page struct {
	path  string // pattern of net/http, without a method
	title string
	nav   string // the entry of the navigation that is marked; empty: none
	name  string // of the template
	live  bool
	holds int64 // bytes that its bodies may take in memory while it is read
	data  func(ctx context.Context, c *Console, v *visit) (any, error)
}

// read returns the data of the page, once the viewer has the memory for it.
func (p *page) read(ctx context.Context, c *Console, v *visit) (any, error) {
	free, err := v.reserve(p.holds, "The page was not read", "Load it again.")
	if err != nil {
		return nil, err
	}
	defer free()
	return p.data(ctx, c, v)
}

// noPage is shown for every other address.
var noPage = page{title: "Not found", name: "missing", data: func(context.Context, *Console, *visit) (any, error) {
	return nil, errNoPage
}}

var errNoPage = errors.New("there is no such page")

// A visit is one request of a viewer.
type visit struct {
	*Viewer
	r       *http.Request
	instead string // address of the page to which an act leads, in place of that which its form names; empty: there
}

// query returns a parameter of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// with returns the address of the page with other parameters: pairs of name and value. An
// empty value takes the parameter away.
func (v *visit) with(pairs ...string) string {
	q := v.r.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return address(v.r, q)
}

// A choice is one of several ways in which a page can show something.
type choice struct {
	Name, Link string
	Chosen     bool
}

// A frame is what the layout shows around a page.
type frame struct {
	Title     string
	Base      string // address of Root, and Here of the page, both seen from the page
	Here      string
	Nav       string
	Template  string
	Viewer    *Viewer // nil: nobody is logged in
	Open      bool    // no token is needed
	Live      string  // address of the stream; empty: the page does not change by itself
	MostPages int     // that a token may have open
	Silence   int     // seconds, after which the stream is taken for lost
	Edition   string
	Version   string
	Fault     *pageFault // in place of what could not be read
	Done      string     // what an act did
	Back      string     // address of the page with the form of an act; empty: none
	Data      any
}

// A pageFault is why something could not be shown or done.
type pageFault struct {
	Status int
	Title  string
	Detail string
	Again  bool  // it passes: a page with a stream tries again by itself
	cause  error // which may name servers, users and rights of Redis
}

// serve returns the handler of a page: it shows the page, or streams its live part.
func (c *Console) serve(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		viewer, err := c.viewer(r)
		switch {
		case err != nil && accepts(r, "text/event-stream"):
			c.withheld.log(err)
			http.Error(w, "Redis cannot be reached", http.StatusServiceUnavailable)
		case err != nil:
			f := c.frame(&visit{r: r}, p)
			f.Template, f.Fault = "fault", c.faultFor(nil, err)
			c.render(w, r, http.StatusServiceUnavailable, f)
		case viewer == nil:
			c.toLogin(w, r)
		case p.live && accepts(r, "text/event-stream"):
			c.stream(w, &visit{Viewer: viewer, r: r}, p)
		default:
			c.show(w, &visit{Viewer: viewer, r: r}, p)
		}
	}
}

// toLogin leads to the page for a token. A stream cannot be led there: it ends.
func (c *Console) toLogin(w http.ResponseWriter, r *http.Request) {
	if accepts(r, "text/event-stream") {
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	c.loginThen(w, r, address(r, r.URL.Query()))
}

// loginThen leads to the page for a token, and from there to another page.
func (c *Console) loginThen(w http.ResponseWriter, r *http.Request, next string) {
	lead(w, r, "login?next="+url.QueryEscape(next))
}

// show answers with the whole page.
func (c *Console) show(w http.ResponseWriter, v *visit, p page) {
	f := c.frame(v, p)
	f.Done = c.takeDone(w, v.r)
	data, err := p.read(v.r.Context(), c, v)
	status := http.StatusOK
	if f.Data = data; err != nil {
		f.Fault = c.faultFor(v.Viewer, err)
		status = f.Fault.Status
	}
	if f.Fault != nil && data == nil {
		f.Template = "fault"
	}
	if named, ok := data.(titled); ok {
		f.Title = named.title()
	}
	c.render(w, v.r, status, f)
}

// A titled is the data of a page with a title of its own.
type titled interface{ title() string }

// frame returns the frame of a page.
func (c *Console) frame(v *visit, p page) *frame {
	f := &frame{Title: p.title, Nav: p.nav, Template: p.name, Viewer: v.Viewer, Open: c.o.Open != nil}
	if p.live {
		f.Live = v.with("edition", c.edition)
		f.MostPages, f.Silence = c.o.MaxPages, int(silence.Seconds())
	}
	return f
}

// render writes a page. A page is made whole before its first byte is sent.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	f.Edition, f.Version, f.Base, f.Here = c.edition, c.o.Version, baseOf(r), hereOf(r)
	text, err := execute(f.Template, "layout", f)
	if err != nil {
		c.o.Logger.Error("cannot show a page of the console", "page", f.Title, "error", err)
		http.Error(w, "the page could not be made; the daemon's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client is gone
}

// execute returns a block of a template.
func execute(name, block string, f *frame) ([]byte, error) {
	var b bytes.Buffer
	if err := parsed()[name].ExecuteTemplate(&b, block, f); err != nil {
		return nil, err
	}
	return unmasked(b.Bytes()), nil
}

// unmasked returns a page in which each character that is not shown but changes what is shown around it, such as one that turns
// text, is written as Go would: a foreign name could pass for another by these.
func unmasked(page []byte) []byte {
	masks := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Bidi_Control, r) || r == '\uFEFF'
	}
	if !bytes.ContainsFunc(page, masks) { // as nearly every page
		return page
	}
	var b bytes.Buffer
	for _, r := range string(page) {
		if masks(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// parsed returns the templates by their names, each with the layout. They are parsed when they are first needed: every
// command of the program would wait for them otherwise.
var parsed = sync.OnceValue(func() map[string]*template.Template {
	const dir = "templates/"
	layout := template.Must(template.New("").Funcs(functions).ParseFS(templates, dir+"layout.html", dir+"parts.html"))
	all := make(map[string]*template.Template)
	files, _ := templates.ReadDir("templates")
	for _, file := range files {
		if name, ok := bytes.CutSuffix([]byte(file.Name()), []byte(".html")); ok && file.Name() != "layout.html" && file.Name() != "parts.html" {
			all[string(name)] = template.Must(template.Must(layout.Clone()).ParseFS(templates, dir+file.Name()))
		}
	}
	return all
})

// faultFor describes an error for a viewer; nil: one who is not known. The cause is shown to whoever
// sees the whole store, and logged for the others.
func (c *Console) faultFor(v *Viewer, err error) *pageFault {
	f := *faultOf(err)
	switch {
	case f.cause == nil:
	case v != nil && v.SeesStore():
		f.Detail += " " + f.cause.Error()
	default:
		c.withheld.log(f.cause)
		f.Detail += " The daemon's log says why."
	}
	return &f
}

// faultOf describes an error.
func faultOf(err error) *pageFault {
	var known *pageFault
	var missing *notify.MissingError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &missing):
		return &pageFault{Status: http.StatusOK, Title: missingTitle(missing.Shards), Detail: "What the others hold is shown.", Again: true, cause: missing.Err}
	case errors.Is(err, errNoPage), errors.Is(err, notify.ErrNotFound):
		return &pageFault{Status: http.StatusNotFound, Title: "Not found", Detail: err.Error()}
	case errors.Is(err, api.ErrForbidden):
		return &pageFault{Status: http.StatusForbidden, Title: "Not permitted", Detail: err.Error()}
	case errors.Is(err, notify.ErrInvalid):
		return &pageFault{Status: http.StatusUnprocessableEntity, Title: "That cannot be read", Detail: err.Error()}
	case notify.Retryable(err), errors.Is(err, context.DeadlineExceeded):
		return &pageFault{Status: http.StatusServiceUnavailable, Title: "Redis cannot be reached", Detail: "It does not answer, or not as it should.", Again: true, cause: err}
	}
	return &pageFault{Status: http.StatusInternalServerError, Title: "That failed", Detail: "Redis or the daemon refused it.", cause: err}
}

// missingTitle names shards that do not answer.
func missingTitle(shards []int) string {
	names := make([]string, len(shards))
	for i, n := range shards {
		names[i] = strconv.Itoa(n)
	}
	if len(names) == 1 {
		return "Shard " + names[0] + " is missing"
	}
	return "Shards " + strings.Join(names, ", ") + " are missing"
}

// Error returns the fault as one sentence.
func (f *pageFault) Error() string { return fmt.Sprintf("%s: %s", f.Title, f.Detail) }
