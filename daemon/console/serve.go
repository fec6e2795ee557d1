package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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

// mostRead is longer than reading the data of any page takes.
const mostRead = 2 * time.Minute

// show answers with the whole page.
func (c *Console) show(w http.ResponseWriter, v *visit, p page) {
	f := c.frame(v, p)
	f.Done, f.Made = c.takeDone(w, v.r)
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(mostRead)) // over HTTP/2 nothing goes behind a deadline
	data, err := p.read(v.r.Context(), c, v)
	_ = rc.SetWriteDeadline(time.Now().Add(c.o.Patience))
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

// noPage is shown for every other address.
var noPage = page{title: "Not found", name: "missing", data: func(context.Context, *Console, *visit) (any, error) {
	return nil, errNoPage
}}

// accepts reports whether a request accepts a type of content.
func accepts(r *http.Request, kind string) bool {
	return strings.Contains(r.Header.Get("Accept"), kind)
}
