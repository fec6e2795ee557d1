package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// page tells the test what an EventSource gets from another origin. %s is the address of the daemon.
const page = `<!doctype html><script>
let last = Promise.resolve();
const tell = (text) => { last = last.then(() => fetch("/tell", { method: "POST", body: text })); };
fetch("%[1]s/v1/topics/orders/messages", { method: "POST", body: "from a page" })
  .then((r) => tell("published " + r.status), () => tell("publish failed"));
const events = new EventSource("%[1]s/v1/topics/news/broadcasts");
events.onopen = () => tell("open");
events.onerror = () => tell(events.readyState === EventSource.CLOSED ? "closed" : "reconnecting");
events.addEventListener("broadcast", (e) => tell("broadcast " + JSON.parse(e.data).body));
</script>`

// browse has a browser open a page of another origin than the daemon's, and
// returns what it tells.
func browse(t *testing.T, h *host) <-chan string {
	t.Helper()
	chromium := wantChromium(t)
	told := make(chan string, 1000)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, page, h.url(""))
	})
	mux.HandleFunc("POST /tell", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told <- string(text)
	})
	server := h.pages
	server.Config.Handler = mux
	server.Start()
	said := &output{}
	p, err := child.Start(child.Program{Path: chromium, Name: "chromium", Output: said, Args: []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir=" + t.TempDir(), server.URL,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("chromium said:\n%s", said)
		}
	})
	return told
}

func wantChromium(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("the event stream is tested with a browser, and chromium is not on PATH; install it, on Debian with: apt-get install chromium")
	}
	return path
}

// pages returns a server for pages, and its origin, which may be permitted.
func pages(t testing.TB) (server *httptest.Server, origin string) {
	server = httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	return server, "http://" + server.Listener.Addr().String()
}

// awaitTold waits until a page tells a text, and returns what it told before.
func awaitTold(t testing.TB, told <-chan string, text string) (before []string) {
	t.Helper()
	for {
		got := storetest.Receive(t, "the page tells "+text, told)
		if got == text {
			return before
		}
		before = append(before, got)
	}
}

// A browser's EventSource resumes by itself over a restart, and misses nothing.
func TestBrowserListens(t *testing.T) {
	store := storetest.Open(t)
	carry(t, store)
	from, origin := pages(t)
	o := httpapi.Options{CORSOrigins: []string{origin}}
	h := serve(t, store, o, httpapi.Timing{})
	h.pages = from
	told := browse(t, h)
	opened := awaitTold(t, told, "open")
	if len(opened) == 0 {
		opened = []string{storetest.Receive(t, "the publish", told)}
	}
	if opened[0] != "published 201" {
		t.Errorf("the page told %q", opened)
	}
	send(t, store, "news", "1")
	awaitTold(t, told, "broadcast 1")
	stop(t, h)
	awaitTold(t, told, "reconnecting")
	send(t, store, "news", "2")
	serveAt(t, store, o, httpapi.Timing{}, h.addr)
	if before := awaitTold(t, told, "broadcast 2"); !slices.Contains(before, "open") {
		t.Errorf("before the second broadcast the page told %q", before)
	}
	send(t, store, "news", "3")
	if before := awaitTold(t, told, "broadcast 3"); len(before) > 0 {
		t.Errorf("it told %q between the second and the third", before)
	}
}

// Without permission a page of another origin hears nothing and changes nothing.
func TestBrowserIsForeign(t *testing.T) {
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	h.pages, _ = pages(t)
	told := browse(t, h)
	before := awaitTold(t, told, "closed")
	if len(before) == 0 {
		before = []string{storetest.Receive(t, "the publish", told)}
	}
	if len(before) != 1 || before[0] != "publish failed" {
		t.Errorf("the page told %q", before)
	}
	if counts, err := storetest.Collect(storetest.Inspector(t, store).Topics(t.Context())); err != nil || len(counts) > 0 {
		t.Errorf("there are %+v, %v", counts, err)
	}
}
