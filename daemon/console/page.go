package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/doctor"
)

// pageBytes is what messages that are read at a time take in memory, with the JSON of one: find ends a page at 8 MiB of records, other
// replies of Redis have half of that, and one more record.
const pageBytes = 16 << 20

const silence = 40 * time.Second // after which a page takes its stream for lost

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

// A choice is one of several ways in which a page can show something.
type choice struct {
	Name, Link string
	Chosen     bool
}

// A named is a name and a value, both legible.
type named struct{ Name, Value string }

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
	Outboxes  bool    // there are some
	Edition   string
	Version   string
	Fault     *pageFault // in place of what could not be read
	Done      string     // what an act did
	Made      string     // address of the page of what it published; empty: none
	Back      string     // address of the page with the form of an act; empty: none
	Data      any
}

// frame returns the frame of a page.
func (c *Console) frame(v *visit, p page) *frame {
	f := &frame{Title: p.title, Nav: p.nav, Template: p.name, Viewer: v.Viewer}
	if p.live {
		f.Live = v.with("edition", c.edition)
		f.MostPages, f.Silence = c.o.MaxPages, int(silence.Seconds())
	}
	return f
}

// render writes a page. A page is made whole before its first byte is sent.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	f.Edition, f.Version, f.Open, f.Base, f.Here = c.edition, c.o.Version, c.o.Open != nil, baseOf(r), hereOf(r)
	f.Outboxes = len(c.service.Outboxes) > 0
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

// faultFor describes an error for a viewer; nil: one who is not known. The cause and its remedy are shown to whoever
// sees the whole store, and the cause is logged for the others.
func (c *Console) faultFor(v *Viewer, err error) *pageFault {
	f := *faultOf(err)
	switch {
	case f.cause == nil:
	case v != nil && v.SeesStore():
		f.Detail += " " + f.cause.Error()
		if remedy := doctor.Remedy(f.cause); remedy != "" {
			f.Detail = strings.TrimSuffix(f.Detail, ".") + "; " + remedy
		}
	default:
		c.withheld.log(f.cause)
		f.Detail += " The daemon's log says why."
	}
	return &f
}

// fail answers with an error, what an act did before it, and the way to a new form.
func (c *Console) fail(w http.ResponseWriter, v *visit, did string, err error) {
	f := c.faultFor(v.Viewer, err)
	c.render(w, v.r, f.Status, &frame{Title: f.Title, Template: "fault", Viewer: v.Viewer, Fault: f, Done: did, Back: backOf(v.r)})
}
