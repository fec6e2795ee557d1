package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// enter logs a browser in with the token of a name, and goes to a page.
func (s *site) enter(name, path string) *consoletest.Page {
	s.t.Helper()
	p := s.browse("/ui/login?next="+url.QueryEscape(fromRoot(path)), consoletest.Look{})
	p.Type("input[name=token]", tokens[name])
	p.Loads(func() { p.Press("Enter") })
	return p
}

// tolerate takes for granted what browsers log while a daemon is away. The browser has a
// name of its own for each moment at which a connection ends, so the kind is expected.
func tolerate(p *consoletest.Page) {
	for _, kind := range []string{"network Failed to load resource", "htmx:sse:error", "htmx:error"} {
		p.Expect(kind)
	}
}

// A page whose token was taken away while its daemon restarted leads to the login, and asks no more.
func TestLoggedOutMeanwhile(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	path := writeTokens(t, tokensFile)
	s := serve(t, store, httpapi.Options{TokensFile: path})
	p := s.enter("root", "/ui/topics?sort=name")
	tolerate(p)
	p.Streams()
	s.stop()
	p.Await("#lost", "The daemon does not answer")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(tokensFile, tokens["root"], "new-token-of-root-01234")), 0o600); err != nil {
		t.Fatal(err)
	}
	serveAt(t, store, httpapi.Options{TokensFile: path}, s.port)
	p.Await("#lost", "You are logged out. This page shows what was at ")
	p.Until("it asks no more", "!document.getElementById('live')._htmx.sse")
	if text := p.Text("#lost"); strings.Contains(text, "again by itself") || p.Text("#live") == "" {
		t.Errorf("it says %q", text)
	}
	p.Axe()
	p.Loads(func() { p.Click("#lost a") })
	p.Until("the login leads back", "document.querySelector('input[name=next]').value === 'topics?sort=name'")
}

// A page that is one too many keeps what it shows, says so beside it, and goes on when another one is closed.
func TestCrowdedPage(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{MaxStreams: 1})
	storetest.Publish(t, s.store, message("order.a", "x"))
	first := s.browse("/ui/topics", consoletest.Look{})
	first.Streams()
	p := s.browse("/ui/topics", consoletest.Look{})
	tolerate(p)
	p.Await("#lost", "Too many pages are open: a token may have 1 at a time")
	if text := p.Text("#live tbody"); !strings.Contains(text, "order.a") {
		t.Errorf("it shows %q", text)
	}
	p.Axe()
	first.Go(s.url + "/ui/login")
	p.Streams()
	p.Until("it says no more", "document.getElementById('lost').hidden")
}

// A page that could not be read comes back whole when Redis does, even where nobody could be known meanwhile.
func TestPageComesBack(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "back")
	storetest.Found(t, store)
	storetest.Publish(t, store, message("order.a", "x"))
	s := guarded(t, store)
	p := s.enter("root", "/ui/broadcasts")
	tolerate(p)
	cookies := s.login("root").Client
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const path = "/ui/topics/order.a"
	p.Go(s.url + path)
	p.Await("#live .fault", "tries again by itself")
	s.stop()
	again := serveAt(t, store, httpapi.Options{TokensFile: writeTokens(t, tokensFile)}, s.port) // does not know the secret
	v := &visitor{again, cookies}
	v.get(path).is(http.StatusServiceUnavailable).says("tries again by itself").hides("<header>")
	if got := v.stream(path + "?edition=x"); got.status != http.StatusServiceUnavailable || !strings.HasPrefix(got.body.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("a stream gets %d, %v", got.status, got.body.Header)
	}
	p.Go(s.url + path)
	p.Until("a stream was asked for", "performance.getEntriesByType('resource').some((e) => e.name.includes('edition=') && e.responseEnd)")
	if n := p.Count("main, h1, .fault:not([hidden])"); n != 3 {
		t.Errorf("there is a page in the page: %s", p.Text("body"))
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.Until("the page is whole", "document.querySelector('header') && document.querySelector('form #live button[value=\"order.a\"]') && !document.querySelector('.fault:not([hidden])')")
}

// A connection that is cut without a word is noticed, and made anew.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	s := open(t)
	proxy := storetest.NewProxy(t, strings.TrimPrefix(s.url, "http://"))
	p := consoletest.Open(t, "http://"+proxy.Address()+"/ui/topics", consoletest.Look{})
	tolerate(p)
	p.Streams()
	const lost = "document.getElementById('lost').hidden"
	p.Eval("document.getElementById('live').dataset.silence = 1", nil)
	proxy.Silence(true)
	p.Await("#lost", "The daemon does not answer. This page shows what was at ")
	storetest.Publish(t, s.store, message("order.new", "x"))
	p.Eval("document.getElementById('live').dataset.silence = 40", nil)
	proxy.Silence(false)
	p.Await("#live tbody", "order.new")
	p.Until("it says no more", lost)
}

// A stream that has nothing to say says that it is alive, in a way that a page hears.
func TestStreamIsAlive(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	pages, err := console.New(serviceOf(t, store), console.Options{
		Logger: discard, Closing: t.Context(), Patience: storetest.Deadline, MaxPages: 10,
		Open: anybody(),
	})
	if err != nil {
		t.Fatal(err)
	}
	pages.SetQuiet(time.Nanosecond)
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	p := consoletest.Open(t, server.URL+"/ui/topics", consoletest.Look{})
	p.Eval("document.getElementById('live').addEventListener('alive', () => { window.alive = (window.alive ?? 0) + 1 })", nil)
	p.Until("it is heard some times", "window.alive > 2")
	p.Streams()
}

// Of many windows of one browser, which opens few connections to a host, the last ones have streams. The others say so, and
// get theirs back when one returns to them.
func TestManyWindows(t *testing.T) {
	t.Parallel()
	s := open(t)
	all := []*consoletest.Page{s.browse("/ui/topics", consoletest.Look{})}
	all[0].Streams()
	for range 7 {
		another := all[0].Another(s.url + "/ui/topics")
		another.Streams()
		all = append(all, another)
	}
	const gaveWay = "Other windows have the few connections"
	live := func(n int64) {
		t.Helper()
		storetest.Eventually(t, "as many have streams as may", func() bool { return s.gate.Stats().Viewers == n })
	}
	live(4)
	for i, p := range all {
		if i < 4 {
			p.Await("#lost", gaveWay)
			continue
		}
		p.Until("it says nothing", "document.getElementById('lost').hidden")
	}
	all[0].Axe()
	storetest.Publish(t, s.store, message("order.new", "x"))
	all[7].Await("#live tbody", "order.new")
	all[0].Eval("dispatchEvent(new Event('focus'))", nil)
	all[0].Await("#live tbody", "order.new")
	all[0].Until("it says no more", "document.getElementById('lost').hidden")
	all[4].Await("#lost", gaveWay)
	live(4)
	all[7].Show(false)
	live(3)
	const asks = "htmx.ajax('GET', document.getElementById('live').getAttribute('hx-sse:connect'), { source: '#live' })" // every five seconds, without a stream
	all[1].Eval("void (dispatchEvent(new Event('focus')), "+asks+")", nil)                                               // while the first connection is on its way
	all[1].Await("#live tbody", "order.new")
	live(4)
	all[5].Until("it says nothing", "document.getElementById('lost').hidden")
}

// While Redis is away a page keeps what it shows, in grey, and says why, what to do, and when that was so.
func TestPageKeepsWhatItShows(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes")
	store := storetest.Unhurried(storetest.At(t, server.URL(), "kept"))
	storetest.Publish(t, store, message("order.a", "x"))
	s := serve(t, store, httpapi.Options{})
	var all []*consoletest.Page
	for _, path := range []string{"/ui/", "/ui/topics", "/ui/topics/order.a"} {
		p := s.browse(path, consoletest.Look{})
		p.Streams()
		p.Await("main", "order.a")
		all = append(all, p)
	}
	server.Stop()
	for _, p := range all {
		p.Await("#lost", "Redis cannot be reached: It does not answer, or not as it should.")
		p.Await("#lost", "; start Redis there")
		p.Await("#lost", ". This page shows what was at ")
		p.Await("main", "order.a")
		p.Until("it is grey", "getComputedStyle(document.querySelector('#lost ~ *')).filter === 'grayscale(1)'")
		p.Axe()
	}
	if _, err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		p.Until("it is as it was", "document.getElementById('lost').hidden && !document.querySelector('#live .fault')")
		p.Await("main", "order.a")
	}
}
