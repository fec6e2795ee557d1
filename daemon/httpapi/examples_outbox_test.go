package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A lite is a database of SQLite with the table of the example.
type lite struct {
	t            testing.TB
	python, file string
}

var tableOfExample = regexp.MustCompile(`CREATE TABLE outbox [^;]+;`)

func openLite(t testing.TB) lite {
	t.Helper()
	l := lite{t, want(t, "python3", "python3"), filepath.Join(t.TempDir(), "shop.db")}
	source, err := examples.ReadFile("examples/outbox.py")
	storetest.Must(t, err)
	l.do(tableOfExample.FindString(string(source)))
	return l
}

// do runs a statement in a transaction of another process, as a program does whose database it is, and returns the rows as JSON.
func (l lite) do(statement string, args ...any) string {
	l.t.Helper()
	const program = `import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as db:
    print(json.dumps(db.execute(sys.argv[2], json.load(sys.stdin)).fetchall()))`
	values, err := json.Marshal(append([]any{}, args...))
	storetest.Must(l.t, err)
	c := exec.CommandContext(l.t.Context(), l.python, "-c", program, l.file, statement)
	c.Stdin = bytes.NewReader(values)
	out, err := c.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v, %s", statement, err, out)
	}
	return strings.TrimSpace(string(out))
}

// put has a program write a row.
func (l lite) put(topic, id, body string) {
	l.t.Helper()
	l.do("INSERT INTO outbox (topic, id, body) VALUES (?, ?, ?)", topic, id, body)
}

// left waits until the table holds rows with these ids, and no others.
func (l lite) left(ids ...string) {
	l.t.Helper()
	want := `[["` + strings.Join(ids, `"], ["`) + `"]]`
	if ids == nil {
		want = "[]"
	}
	storetest.Eventually(l.t, "the table holds "+want, func() bool { return l.do("SELECT id FROM outbox ORDER BY seq") == want })
}

// How a front loses an answer of the daemon.
const (
	loseNone = iota
	loseWhole
	loseHalf
)

// A front stands before a daemon, and loses the next answers.
type front struct {
	*host
	lose, lost atomic.Int32
}

// frontOf serves before a host. While that is stopped the front cuts connections, too.
func frontOf(t testing.TB, h *host) *front {
	t.Helper()
	f, behind := &front{}, client(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		got, err := h.send(behind, r.Method, r.URL.RequestURI(), string(body))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		answer := got.body
		if how := f.lose.Load(); how != loseNone {
			f.lost.Add(1)
			if how == loseWhole {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			answer = answer[:len(answer)/2]
		}
		w.WriteHeader(got.status)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	f.host = &host{t: t, addr: server.Listener.Addr().String()}
	return f
}

// What transactions wrote to a table of SQLite is published in its order and deleted, though daemon, answers and connections are lost; what cannot
// be published stays with the reason, and holds nothing back.
func TestExampleOutbox(t *testing.T) {
	t.Parallel()
	l := openLite(t)
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	f := frontOf(t, h)
	for i, body := range awkward {
		l.put("order.timeout", fmt.Sprint("awkward-", i), strings.ToValidUTF8(body, "?"))
	}
	l.do("INSERT INTO outbox (topic, id, body) VALUES ('order.timeout', 'foreign', CAST(X'61ff62' AS TEXT))")
	stop(t, h)
	said := launch(t, f.host, l.python, written(t, "outbox.py", "", ""), l.file)
	said.Await(t, "cannot publish; retrying: ")
	serveAt(t, store, httpapi.Options{}, httpapi.Timing{}, h.port)
	l.left()
	for i, body := range awkward {
		if got := published(t, store, fmt.Sprint("awkward-", i)); got != strings.ToValidUTF8(body, "?") {
			t.Errorf("the body %q is %q", body, got)
		}
	}
	if got := published(t, store, "foreign"); got != "a\uFFFDb" {
		t.Errorf("a body that is not UTF-8 is %q", got)
	}

	n := len(awkward) + 1
	for _, how := range []int32{loseWhole, loseHalf} {
		f.lose.Store(how)
		l.put("order.timeout", fmt.Sprint("lost-", how), "EUR 10")
		l.put("order.timeout", fmt.Sprint("lost-", how, "-next"), "EUR 11")
		before := f.lost.Load()
		storetest.Eventually(t, "answers are lost", func() bool { return f.lost.Load() > before+1 })
		l.left(fmt.Sprint("lost-", how), fmt.Sprint("lost-", how, "-next"))
		f.lose.Store(loseNone)
		l.left()
		n += 2
	}
	if c, err := storetest.Count(store, "order.timeout"); err != nil || int(c.Published) != n || int(c.Ready) != n {
		t.Errorf("%d were published, and %d are ready, want %d, %v", c.Published, c.Ready, n, err)
	}
}

// What can never be published stays with the reason, and all that is behind it is published.
func TestExampleOutboxRefuses(t *testing.T) {
	t.Parallel()
	l := openLite(t)
	l.do("ALTER TABLE outbox ADD COLUMN key TEXT")
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	launch(t, h, l.python, written(t, "outbox.py", "", ""), l.file)
	l.put("a topic", "no-topic", "x")
	l.do("INSERT INTO outbox (topic, id, due) VALUES ('order.timeout', 'no-time', 'tomorrow')")
	l.put("order.timeout", "too-large", strings.Repeat("ü", 200_000))
	l.do(`INSERT INTO outbox (topic, id, body, due, key) VALUES ('order.timeout', 'later', 'EUR 12', '2190-01-02T15:04:05Z', 'acct-7')`)
	l.left("no-topic", "no-time", "too-large")
	i, err := storetest.Inspector(t, store).Inspect(t.Context(), "order.timeout", "later")
	if err != nil || i.State != notify.Scheduled || i.Key != "acct-7" || !i.Due.Equal(time.Date(2190, 1, 2, 15, 4, 5, 0, time.UTC)) {
		t.Errorf("the message is %+v, %v", i, err)
	}
	for id, why := range map[string]string{"no-topic": "topic", "no-time": "due", "too-large": "400000 bytes"} {
		if got := l.do("SELECT refused FROM outbox WHERE id = ?", id); !strings.Contains(got, why) {
			t.Errorf("%s is refused since %s", id, got)
		}
	}
	l.do("UPDATE outbox SET topic = 'order.timeout', refused = NULL WHERE id = 'no-topic'")
	l.left("no-time", "too-large")
	if out, err := exec.CommandContext(t.Context(), l.python, "-c", "import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute(\"INSERT INTO outbox (topic, id, body) VALUES ('t', 'i', ?)\", ('x' * 262145,))", l.file).CombinedOutput(); err == nil || !strings.Contains(string(out), "CHECK constraint failed") {
		t.Errorf("a body that is too large is no fault of the statement: %v, %s", err, out)
	}
}

// Rows that are more than one call takes go by several, in their order.
func TestExampleOutboxInParts(t *testing.T) {
	t.Parallel()
	l := openLite(t)
	const n, size = 110, 200_000
	l.do("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO outbox (topic, id, body) SELECT 'order.timeout', printf('%03d', i), hex(zeroblob(?)) FROM n", n, size/2)
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	launch(t, h, l.python, written(t, "outbox.py", "", ""), l.file)
	l.left()
	for next, c := 1, client(t); next <= n; {
		for _, id := range ids(t, storetest.Receive(t, "what is ready", h.claim(c, "order.timeout", "max=100"))) {
			if id != fmt.Sprintf("%03d", next) { // what a call publishes is ready in the order of its ids
				t.Fatalf("message %d has the id %s", next, id)
			}
			next++
		}
	}
}

// published returns the body of a message of order.timeout.
func published(t testing.TB, store *notify.Store, id string) string {
	t.Helper()
	i, err := storetest.Inspector(t, store).Inspect(t.Context(), "order.timeout", id)
	storetest.Must(t, err)
	return string(i.Body)
}
