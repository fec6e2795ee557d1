package crash_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const (
	mostMemory = 300 << 20 // bytes of a daemon, whatever is asked

	readers  = 25  // connections that ask for a page or a call, and read nothing
	requests = 100 // over NATS to an endpoint, whose answers nobody reads

	greedyToken, modestToken = "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb"
)

// Whatever a client asks for and does not read, by each call of HTTP and each page of the console, and whatever it announces and
// does not send, the daemon needs no more memory than it may, and serves another one meanwhile.
func TestReadersThatReadNothing(t *testing.T) {
	t.Parallel()
	s := serveLargeBodies(t)
	longest := s.publishBeside(t)
	session := s.login(t)
	pages := s.pages(t, session)
	var all []*reader
	for _, request := range s.calls(t) {
		all = append(all, s.stuck(t, request)...)
	}
	for _, page := range pages {
		all = append(all, s.stuck(t, "GET "+page+" HTTP/1.1\r\nHost: x\r\nCookie: "+session+"\r\n\r\n")...)
	}
	for _, r := range all {
		r.wantBegun()
	}
	s.wantSmall(t, longest())
}

// The same holds for each endpoint of NATS, whose answers nobody hears.
func TestRequestersThatHearNothing(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	s := serveLargeBodies(t, "BELLHOP_NATS_URL="+n.ClientURL())
	longest := s.publishBeside(t)
	askAll(t, n.connect())
	s.wantSmall(t, longest())
}

// serveLargeBodies starts a daemon for two tokens on a store with large bodies everywhere.
func serveLargeBodies(t *testing.T, env ...string) *served {
	t.Helper()
	store := storetest.Open(t)
	fillWithLargeBodies(t, store)
	tokens := filepath.Join(t.TempDir(), "tokens")
	lines := fmt.Sprintf("greedy %s admin >\nmodest %s publish >\n", greedyToken, modestToken)
	storetest.Must(t, os.WriteFile(tokens, []byte(lines), 0o600))
	return serveHTTP(t, store, storetest.Port(t), append(env, "BELLHOP_TOKENS_FILE="+tokens)...)
}

// wantSmall checks how much memory the daemon had at the most.
func (s *served) wantSmall(t *testing.T, longest time.Duration) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))
	storetest.Must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:") // proc(5)
	var kib int64
	storetest.Must(t, storetest.ErrOf(fmt.Sscanf(rest, "%d kB", &kib)))
	t.Logf("the daemon had %d MiB, and another client's publish took %v, at the most", kib>>10, longest)
	if longest == 0 {
		t.Error("nobody else could publish")
	}
	if kib<<10 > mostMemory && !isRaced() {
		t.Errorf("the daemon had %d MiB, want at most %d", kib>>10, mostMemory>>20)
	}
}

// isRaced reports whether the race detector runs, which needs memory of its own.
func isRaced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// fillWithLargeBodies publishes messages of the largest body in each place.
func fillWithLargeBodies(t *testing.T, store *notify.Store) {
	t.Helper()
	body := bytes.Repeat([]byte{1}, notify.DefaultMaxBody)
	const each = 60
	for _, topic := range []string{"orders", "dead", "leased"} {
		storetest.Fill(t, store, each, func(i int) notify.Message { return notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: body} })
	}
	storetest.Fill(t, store, each, func(i int) notify.Message {
		return notify.Message{Topic: "orders", ID: fmt.Sprintf("later-%d", i), Body: body, Delay: time.Hour}
	})
	storetest.Fill(t, store, each, func(i int) notify.Message {
		return notify.Message{Topic: "prices", ID: fmt.Sprint(i), Body: body, Broadcast: true, Delay: time.Duration(i%2) * time.Hour}
	})
	claimer := subscriberstest.Claimer(t, store)
	for topic, settle := range map[string]func(*subscribers.Delivery) error{
		"dead":   func(d *subscribers.Delivery) error { _, err := d.Bury(t.Context(), "refused"); return err },
		"leased": func(*subscribers.Delivery) error { return nil },
	} {
		for left := each; left > 0; {
			ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: left, Lease: time.Hour})
			storetest.Must(t, err)
			for i := range ds {
				storetest.Must(t, settle(&ds[i]))
			}
			left -= len(ds)
		}
	}
}

// asked are the parameters with which a call answers as much as it can.
var asked = map[string]string{
	"list": "limit=500", "listDead": "limit=500", "find": "limit=500&q=body~" + url.QueryEscape("\x01"), "claim": "max=500", "claimAny": "max=500&topics=orders,refused",
}

// calls returns a request for each call of the API that reads, or has a body: that comes but for its last byte.
func (s *served) calls(t *testing.T) (all []string) {
	t.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody any    `json:"requestBody"`
		}
	}
	storetest.Must(t, json.Unmarshal(s.read(t, "/v1/openapi.json", "Authorization", "Bearer "+greedyToken), &api))
	named := strings.NewReplacer("{topic}", "orders", "{id}", "later-1", "{act}", "cancel", "{name}", "none")
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(api.Paths[path])) {
			call := api.Paths[path][method]
			head := fmt.Sprintf("%s %s?%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n", strings.ToUpper(method), named.Replace(path), asked[call.OperationID], greedyToken)
			switch {
			case call.RequestBody != nil:
				size := notify.DefaultMaxBody
				if call.OperationID == "publishMany" {
					size = 16 << 20
				}
				all = append(all, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, size, strings.Repeat("x", size-1)))
			case method == "get" || strings.HasPrefix(call.OperationID, "claim"):
				all = append(all, head+"\r\n")
			}
		}
	}
	return all
}

// read returns the beginning of what is at an address, for a request with a header.
func (s *served) read(t *testing.T, address, header, value string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.base+address, nil)
	storetest.Must(t, err)
	request.Header.Set(header, value)
	response, err := http.DefaultClient.Do(request)
	storetest.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	storetest.Must(t, err)
	return body
}

// login returns the cookie of a session.
func (s *served) login(t *testing.T) string {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.PostForm(s.base+"/ui/login", url.Values{"token": {greedyToken}})
	storetest.Must(t, err)
	response.Body.Close()
	for _, c := range response.Cookies() {
		return c.Name + "=" + c.Value
	}
	t.Fatalf("no cookie comes with %s", response.Status)
	return ""
}

var (
	named = regexp.MustCompile(`(/topics|/messages)/[^/]+`)
	base  = regexp.MustCompile(`<base href="([^"]*)">`)
	link  = regexp.MustCompile(` (?:href|src|hx-sse:connect)="([^"#]+)"`)
)

// pages returns the pages of the console to which links lead, one of each kind, and what these load.
func (s *served) pages(t *testing.T, session string) (all []string) {
	t.Helper()
	known := make(map[string]bool)
	var next []*url.URL
	for _, address := range []string{"/ui/find?q=state:dead", "/ui/find/export?q=topic:orders", "/ui/dead/letters?topic=dead", "/ui/"} {
		next = append(next, mustParse(t, address))
	}
	for len(next) > 0 {
		at := next[0]
		kind := named.ReplaceAllString(at.Path, "$1/*")
		if next = next[1:]; known[kind] || !strings.HasPrefix(at.Path, "/ui/") {
			continue
		}
		known[kind], all = true, append(all, at.RequestURI())
		if strings.HasSuffix(at.Path, "/export") {
			continue // it is long, and has no links
		}
		text := s.read(t, at.RequestURI(), "Cookie", session)
		if found := base.FindSubmatch(text); found != nil {
			at = at.ResolveReference(mustParse(t, string(found[1])))
		}
		for _, found := range link.FindAllSubmatch(text, -1) {
			next = append(next, at.ResolveReference(mustParse(t, html.UnescapeString(string(found[1])))))
		}
	}
	if len(all) < 15 {
		t.Fatalf("links lead to %d pages only: %q", len(all), all)
	}
	return all
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	storetest.Must(t, err)
	return u
}

// A reader is a connection with a request, whose answer it does not read.
type reader struct {
	net.Conn
	t       *testing.T
	request string
}

// stuck opens connections that send a request, and read nothing.
func (s *served) stuck(t *testing.T, request string) (all []*reader) {
	t.Helper()
	for range readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		storetest.Must(t, err)
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		r := &reader{conn, t, request}
		go func() { _, _ = io.WriteString(conn, request) }() // what the daemon does not take stays here until the end
		t.Cleanup(func() { conn.Close() })
		all = append(all, r)
	}
	return all
}

// wantBegun waits until the answer begins, unless the request has not wholly been sent.
func (r *reader) wantBegun() {
	r.t.Helper()
	if strings.Contains(r.request, "Content-Length") {
		return
	}
	first, _, _ := strings.Cut(r.request, "\r\n")
	_ = r.SetReadDeadline(time.Now().Add(storetest.Deadline))
	line, err := bufio.NewReaderSize(r.Conn, 16).Peek(12)
	if err != nil || !slices.Contains([]string{"HTTP/1.1 200", "HTTP/1.1 303", "HTTP/1.1 404", "HTTP/1.1 429", "HTTP/1.1 503"}, string(line)) {
		r.t.Errorf("%s: it is answered with %q, %v", first, line, err)
	}
}

// askAll sends many requests to each endpoint that reads, and waits until all are handled. Nobody hears the answers.
func askAll(t *testing.T, conn *nats.Conn) {
	t.Helper()
	var stats micro.Stats
	serves := func() bool {
		answer, err := conn.Request("$SRV.STATS.bellhop", nil, storetest.Deadline)
		return err == nil && json.Unmarshal(answer.Data, &stats) == nil
	}
	storetest.Eventually(t, "the daemon is connected to NATS", serves)
	sent := 0
	for subject, data := range map[string]string{
		"inspect.orders": `{"id":"later-1"}`, "find.orders": `{"q":"topic:orders","limit":500}`, "find-all": `{"q":"state:dead","limit":500}`, "claim.orders": `{"max":500}`,
		"settings.orders": "", "defaults": "", "listeners": "", "workers": "", "publish.filled": strings.Repeat("x", notify.DefaultMaxBody), "inspect.dead": `{"id":"1","wait":"1m"}`,
	} {
		for range requests {
			storetest.Must(t, conn.PublishRequest("bellhop."+subject, "nobody.hears", []byte(data)))
			sent++
		}
	}
	for handled := 0; handled < sent; {
		storetest.Eventually(t, fmt.Sprintf("more than %d of %d requests are handled", handled, sent), func() bool {
			before := handled
			if handled = 0; serves() {
				for _, e := range stats.Endpoints {
					handled += e.NumRequests
				}
			}
			return handled > before
		})
	}
}

// publishBeside publishes with the token of another client until the test ends. The function that it
// returns reports how long a publish took at the most.
func (s *served) publishBeside(t *testing.T) (longest func() time.Duration) {
	t.Helper()
	var most atomic.Int64
	client := http.Client{Timeout: storetest.Deadline}
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		for range time.Tick(5 * time.Millisecond) {
			began := time.Now()
			request, _ := http.NewRequestWithContext(t.Context(), "POST", s.base+"/v1/topics/modest/messages?delay=1h", strings.NewReader("x"))
			request.Header.Set("Authorization", "Bearer "+modestToken)
			response, err := client.Do(request)
			if t.Context().Err() != nil {
				return
			}
			if err != nil || response.StatusCode != http.StatusCreated {
				t.Errorf("another client's publish failed: %v, %v", response, err)
				return
			}
			response.Body.Close()
			most.Store(max(most.Load(), int64(time.Since(began))))
		}
	}()
	t.Cleanup(func() { <-stopped })
	return func() time.Duration { return time.Duration(most.Load()) }
}
