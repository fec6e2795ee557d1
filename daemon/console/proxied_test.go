package console_test

import (
	"cmp"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// prefix is the path below which proxies of tests serve a daemon.
const prefix = "/tools/bellhop"

// proxied is the site behind a proxy that serves it below prefix, and says nothing of that. Whatever is asked for
// elsewhere fails the test.
func (s *site) proxied() *site {
	s.t.Helper()
	to := mustURL(s.t, s.url)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, proxy))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.t.Errorf("%s %s leads past the proxy's path", r.Method, r.URL)
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	s.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	there := *s
	there.url = server.URL + prefix
	return &there
}

var (
	baseTag = regexp.MustCompile(`<base href="([^"]*)">`)
	// addressOf finds attributes that hold an address, each with its name; that of a form that is only asked for is get.
	addressOf = regexp.MustCompile(`(?:\s(href|src|formaction|action|data-topics|hx-[a-z:-]+)|method="(get)" action|http-equiv="refresh" content)="(?:0; url=)?([^"]*)"`)
)

// A crawl asks for whatever the pages of a site lead to.
type crawl struct {
	*visitor
	seen  map[string]bool
	forms int
}

// page asks for a page, and for all to which it leads.
func (c *crawl) page(path string) {
	c.t.Helper()
	got := c.get(path)
	if got.status >= http.StatusBadRequest {
		c.t.Errorf("%s answers %d", path, got.status)
	}
	if !strings.Contains(got.header.Get("Content-Type"), "text/html") {
		return
	}
	base := got.url.ResolveReference(mustURL(c.t, got.field(baseTag)))
	for _, found := range addressOf.FindAllStringSubmatch(baseTag.ReplaceAllString(got.body, ""), -1) {
		name, to := cmp.Or(found[1], found[2]), html.UnescapeString(found[3])
		if strings.HasPrefix(to, "/") {
			c.t.Errorf("%s leads to %s, wherever a proxy serves it: %s", path, to, found[0])
			continue
		}
		c.follow(name, base.ResolveReference(mustURL(c.t, to)))
	}
}

// follow asks for what an attribute leads to, once for each path and names of parameters.
func (c *crawl) follow(name string, to *url.URL) {
	names := slices.Sorted(maps.Keys(to.Query()))
	kind := name + " " + to.Path + " " + strings.Join(names, " ")
	if c.seen[kind] || len(names) > 2 {
		return
	}
	c.seen[kind] = true
	to.Fragment = ""
	switch name {
	case "action", "formaction": // it lacks the fields, and does nothing
		c.forms++
		if got := c.send(http.MethodPost, to.String(), "", "Content-Type: application/x-www-form-urlencoded"); got.status == http.StatusNotFound {
			c.t.Errorf("a form leads to %s, which answers %d", to, got.status)
		}
	case "hx-swap", "hx-sync", "hx-sse:close": // no address
	case "hx-sse:connect":
		c.stream(to.String()).says("")
	default:
		c.page(to.String())
	}
}

// Whatever pages lead to is below the path of a proxy.
func testPagesStayBelowThePath(t *testing.T, s *site) {
	c := &crawl{visitor: s.proxied().visitor(), seen: map[string]bool{}}
	for _, path := range append(addresses(t), "/ui/login", "/ui/topics?sort=name") {
		c.page(c.url + path)
	}
	if len(c.seen) < 60 || c.forms < 8 {
		t.Errorf("only %d addresses were found, and %d forms", len(c.seen), c.forms)
	}
	for _, path := range []string{"/ui/nothing", "/ui/nothing/at/all", "/ui/topics/order.timeout/messages/none"} {
		if got := c.get(c.url + path).is(http.StatusNotFound); got.url.ResolveReference(mustURL(t, got.field(baseTag))).Path != prefix+console.Root {
			t.Errorf("%s has the base %s", path, got.field(baseTag))
		}
	}
}

// Pages, what they load, forms, streams and cookies work below the path of a proxy.
func TestBrowsesBelowThePath(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Publish(t, s.store, notify.Message{Topic: "order.later", ID: "o1", Delay: time.Hour})
	bury(t, s.store, "order.refused", "connection refused", "r1", "r2")
	there := s.proxied()
	enter := func(p *consoletest.Page) {
		p.Type("input[name=token]", tokens["root"])
		p.Loads(func() { p.Press("Enter") })
	}
	p := consoletest.Open(t, there.url+"/", consoletest.Look{})
	looks := func(heading, path string) {
		t.Helper()
		p.Await("h1", heading)
		if p.Count("#live[hx-sse\\:connect]") > 0 {
			p.Streams()
		}
		var at, skip string
		p.Eval("location.href", &at)
		p.Eval("document.querySelector('.skip').href", &skip)
		if at != there.url+path || skip != at+"#main" {
			t.Errorf("%s is at %s, and its beginning at %s", heading, at, skip)
		}
		if picture := *screenshots; picture != "" {
			p.Screenshot(picture + "/proxied" + strings.NewReplacer("/", "-", "?", "-").Replace(path) + ".png")
		}
	}
	looks("Log in to Bellhop", "/ui/login?next=.%2F")
	enter(p)
	looks("Overview", "/ui/")
	p.Loads(func() { p.Click("header nav a[href=topics]") })
	looks("Topics", "/ui/topics")
	p.Loads(func() { p.Click("th a[href='topics/order.later']") })
	looks("order.later", "/ui/topics/order.later")
	p.Type("textarea[name=body]", "hello")
	p.Loads(func() { p.Click("button[value=message]") })
	p.Await("[role=status]", "Published")
	looks("order.later", "/ui/topics/order.later")
	p.Loads(func() { p.Click("a[href='topics/order.later/messages/o1']") })
	looks("o1", "/ui/topics/order.later/messages/o1")
	p.Loads(func() { p.Click("#cancel") })
	p.Await("[role=status]", "Cancelled")
	p.Loads(func() { p.Click("header nav a[href=dead]") })
	looks("Dead letters", "/ui/dead")
	p.Loads(func() { p.Click("th a[href='dead/letters?topic=order.refused']") })
	looks("Dead letters of", "/ui/dead/letters?topic=order.refused")
	p.Click("button[data-tick]")
	p.Loads(func() { p.Click("button[value=requeue]") })
	p.Await("[role=status]", "requeue: 2 of 2 messages")
	p.Loads(func() { p.Click("header nav a[href=find]") })
	looks("Find", "/ui/find")
	p.Type(box, "topic:order.r")
	p.Await("#offers li", "order.refused")
	p.Loads(func() { p.Press("Enter") })
	looks("Find", "/ui/find?q=topic%3Aorder.r")
	p.Loads(func() { p.Click("header nav a[href=broadcasts]") })
	looks("Broadcasts", "/ui/broadcasts")
	p.Loads(func() { p.Click("header nav a[href=carriers]") })
	looks("Carriers", "/ui/carriers")

	p.Expect("network Failed to load resource") // of the stream, which its cookie no longer opens
	p.Expect("htmx:")
	p.Show(false)
	storetest.Eventually(t, "the page pauses", func() bool { return s.gate.Stats().Viewers == 0 })
	if err := s.store.Home().RotateSecret(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, "the daemon has the new secret", func() bool { // until then a stream begins, and ends with a fault of its own
		var refused bool
		p.Eval(`fetch("carriers", { redirect: "manual" }).then((answer) => answer.type === "opaqueredirect")`, &refused)
		return refused
	})
	p.Show(true)
	p.Await("#lost", "You are logged out")
	p.Loads(func() { p.Click("#lost a") })
	looks("Log in to Bellhop", "/ui/login?next=carriers")
	enter(p)
	looks("Carriers", "/ui/carriers")
	p.Loads(func() { p.Click("header form button") })
	looks("Log in to Bellhop", "/ui/login")
	p.Go(there.url + "/ui/topics?sort=name")
	looks("Log in to Bellhop", "/ui/login?next=topics%3Fsort%3Dname")
	for _, url := range p.Requests() {
		if !strings.HasPrefix(url, there.url+"/") && !strings.HasPrefix(url, "about:") {
			t.Errorf("the browser asked for %s", url)
		}
	}
}
