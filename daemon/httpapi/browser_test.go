package httpapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// page reports to the test what an EventSource gets from another origin. %[1]s is the address of the daemon.
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

// browse has a browser open the page, of another origin than the daemon's, and returns
// the page's reports.
func browse(t *testing.T, h *host) <-chan string {
	t.Helper()
	chromium := wantChromium(t)
	reports := make(chan string, 1000)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, page, h.url(""))
	})
	mux.HandleFunc("POST /tell", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		reports <- string(text)
	})
	server := h.pages
	server.Config.Handler = mux
	server.Start()
	said := &storetest.Log{}
	hears, in, errIn := os.Pipe()
	out, tells, errOut := os.Pipe()
	storetest.Must(t, errors.Join(errIn, errOut))
	p, err := child.Start(child.Program{Path: chromium, Name: "chromium", Output: said, Files: []*os.File{hears, tells}, Args: []string{
		"--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--user-data-dir=" + t.TempDir(), server.URL,
	}})
	hears.Close()
	tells.Close()
	storetest.Must(t, err)
	t.Cleanup(func() {
		in.Close() // it ends then, which its wrapper would not tell it
		out.Close()
		p.Stop()
		if t.Failed() {
			t.Logf("chromium said:\n%s", said)
		}
	})
	return reports
}

func wantChromium(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatal("the event stream is tested with a browser, and chromium-headless-shell is not on PATH; install it, on Debian with: apt-get install chromium-headless-shell")
	}
	return path
}

// pages returns a server for pages, and its origin, which may be permitted.
func pages(t testing.TB) (server *httptest.Server, origin string) {
	server = httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	return server, "http://" + server.Listener.Addr().String()
}

// awaitReport waits until a page reports a text, and returns its reports before that.
func awaitReport(t testing.TB, reports <-chan string, text string) (before []string) {
	t.Helper()
	for {
		got := storetest.Receive(t, "the page reports "+text, reports)
		if got == text {
			return before
		}
		before = append(before, got)
	}
}

// A browser's EventSource resumes by itself over a restart, and misses nothing.
func TestBrowserListens(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	from, origin := pages(t)
	o := httpapi.Options{CORSOrigins: []string{origin}}
	h := serve(t, store, o, httpapi.Timing{})
	h.pages = from
	reports := browse(t, h)
	opened := awaitReport(t, reports, "open")
	if len(opened) == 0 {
		opened = []string{storetest.Receive(t, "the publish", reports)}
	}
	if opened[0] != "published 201" {
		t.Errorf("the page reported %q", opened)
	}
	send(t, store, "news", "1")
	awaitReport(t, reports, "broadcast 1")
	stop(t, h)
	awaitReport(t, reports, "reconnecting")
	send(t, store, "news", "2")
	serveAt(t, store, o, httpapi.Timing{}, h.port)
	if before := awaitReport(t, reports, "broadcast 2"); !slices.Contains(before, "open") {
		t.Errorf("before the second broadcast the page reported %q", before)
	}
	send(t, store, "news", "3")
	if before := awaitReport(t, reports, "broadcast 3"); len(before) > 0 {
		t.Errorf("it reported %q between the second and the third", before)
	}
}

// Without permission a page of another origin receives nothing and changes nothing.
func TestBrowserIsForeign(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	h.pages, _ = pages(t)
	reports := browse(t, h)
	before := awaitReport(t, reports, "closed")
	if len(before) == 0 {
		before = []string{storetest.Receive(t, "the publish", reports)}
	}
	if len(before) != 1 || before[0] != "publish failed" {
		t.Errorf("the page reported %q", before)
	}
	if counts, err := storetest.Collect(storetest.Inspector(t, store).Topics(t.Context())); err != nil || len(counts) > 0 {
		t.Errorf("there are %+v, %v", counts, err)
	}
}
