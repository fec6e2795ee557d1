package natsgate_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

//go:embed examples/node/*.mjs examples/node/package.json examples/node/.npmrc examples/python/*.py
var examples embed.FS

// TestNode runs the examples for Node unchanged, with a NATS client that knows
// nothing of this project.
func TestNode(t *testing.T) {
	t.Parallel()
	dir := installNode(t)
	for name, test := range map[string]func(*testing.T, string){
		"broadcast":              nodeHearsBroadcast,
		"worker":                 nodeWorks,
		"worker that waits":      nodeWaits,
		"worker that takes long": nodeTakesLong,
		"worker that is to stop": nodeStops,
		"worker without nats":    nodeWithoutNATS,
		"deliver":                nodeAnswersDelivery,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dir)
		})
	}
}

// installNode copies the examples to a folder and installs their packages there with npm.
func installNode(t *testing.T) (dir string) {
	t.Helper()
	wantNode(t)
	dir = t.TempDir()
	source, err := fs.Sub(examples, "examples/node")
	if err == nil {
		err = os.CopyFS(dir, source)
	}
	storetest.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
	npm.Dir = dir
	npm.WaitDelay = time.Second
	if said, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm cannot install the dependencies of examples/node/package.json: %v\nDoes it reach its registry? It said:\n%s", err, said)
	}
	return dir
}

// wantNode fails the test where Node is missing or too old.
func wantNode(t *testing.T) {
	t.Helper()
	const install = "install them, on Debian with: apt-get install nodejs npm"
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("the examples for Node are tested with node and npm, and %s is not on PATH; %s", name, install)
		}
	}
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	var major int
	if _, bad := fmt.Sscanf(string(version), "v%d", &major); err != nil || bad != nil || major < 18 {
		t.Fatalf("the examples for Node need version 18 or newer, and node --version says %q, %v; %s", version, err, install)
	}
}

// An example is a running program and its output.
type example struct {
	*child.Process
	t testing.TB

	mu   sync.Mutex
	said strings.Builder
	when []time.Time // each byte of it came
}

// startExample starts an example, which ends when the test ends, and waits until it reports that it is ready.
func startExample(t *testing.T, dir, file, url, ready string) *example {
	t.Helper()
	e := &example{t: t}
	var err error
	if e.Process, err = child.Start(child.Program{
		Path: "node", Args: []string{filepath.Join(dir, file)}, Name: "node " + file, Env: append(os.Environ(), "NATS_URL="+url), Output: e,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", file, e.text())
		}
	})
	e.await(ready + "\n")
	return e
}

// Write keeps output of the program.
func (e *example) Write(p []byte) (int, error) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for range p {
		e.when = append(e.when, now)
	}
	return e.said.Write(p)
}

func (e *example) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said.String()
}

// await waits until the program has printed a text, and returns when that began.
func (e *example) await(text string) time.Time {
	e.t.Helper()
	at := -1
	storetest.Eventually(e.t, fmt.Sprintf("the example prints %q", text), func() bool {
		if at = strings.Index(e.text(), text); at >= 0 {
			return true
		}
		select {
		case <-e.Done():
			e.t.Fatalf("the example ended by itself, and did not print %q", text)
		default:
		}
		return false
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.when[at]
}

// settled waits until a message is acknowledged: Redis no longer has it.
func settled(t testing.TB, store *notify.Store, topic, id string) {
	t.Helper()
	inspector := storetest.Inspector(t, store)
	storetest.Eventually(t, id+" is acknowledged", func() bool {
		_, err := inspector.Inspect(t.Context(), topic, id)
		if err != nil && !errors.Is(err, notify.ErrNotFound) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// snoozed waits until a message is put off, without an attempt used up, and cancels it.
func snoozed(t testing.TB, store *notify.Store, topic, id string) {
	t.Helper()
	storetest.Eventually(t, id+" is put off", func() bool {
		i, err := storetest.Inspector(t, store).Inspect(t.Context(), topic, id)
		if err != nil || i.Snoozed == 0 || i.Attempts > 0 {
			return false
		}
		_, err = storetest.Publisher(t, store).Cancel(t.Context(), topic, id)
		return err == nil
	})
}

// notEarly fails the test if a message came before it was due.
func notEarly(t testing.TB, at, due time.Time) {
	t.Helper()
	if early := due.Sub(at); early > 0 {
		t.Errorf("it came %v early", early)
	}
}

func nodeHearsBroadcast(t *testing.T, dir string) {
	conn, store, _ := outbound(t, natsgate.Options{})
	e := startExample(t, dir, "broadcasts.mjs", conn.ConnectedUrl(), "listening")
	sent, err := storetest.Publisher(t, store).Broadcast(t.Context(), notify.Message{
		Topic: "prices", ID: "tick~1", Body: []byte("42 €"), ContentType: "text/plain; charset=utf-8", Delay: time.Second,
	})
	storetest.Must(t, err)
	notEarly(t, e.await("42 €\n"), sent.Due)
	for _, line := range []string{
		"ce-specversion: 1.0", "ce-id: tick~1", "ce-type: prices", "ce-source: /" + store.Keys().Prefix() + "/prices",
		"ce-time: " + sent.Due.UTC().Format("2006-01-02T15:04:05.000Z"), "ce-datacontenttype: text/plain; charset=utf-8",
	} {
		e.await("\n  " + line + "\n")
	}
	if n := strings.Count(e.text(), "42 €"); n != 1 {
		t.Errorf("it came %d times", n)
	}
}

// Messages that are ready at the start are claimed, and several workers share the work.
func nodeWorks(t *testing.T, dir string) {
	conn, store, _ := outbound(t, natsgate.Options{})
	storetest.Publish(t, store, body("early"))
	first := startExample(t, dir, "worker.mjs", conn.ConnectedUrl(), "waiting")
	first.await("order early was not paid: body of early\n")
	second := startExample(t, dir, "worker.mjs", conn.ConnectedUrl(), "waiting")
	var many []notify.Message
	for i := range 200 {
		m := body(fmt.Sprintf("many-%d", i))
		m.Delay = time.Duration(i%10) * 50 * time.Millisecond
		many = append(many, m)
	}
	storetest.Publish(t, store, many...)
	for _, m := range many {
		settled(t, store, topic, m.ID)
		line := fmt.Sprintf("order %s was not paid: %s\n", m.ID, m.Body)
		if n := strings.Count(first.text(), line) + strings.Count(second.text(), line); n != 1 {
			t.Errorf("%s was handled %d times", m.ID, n)
		}
	}
	settled(t, store, topic, "early")
}

// An idle worker has a message when it is due, whether a carrier sends hints or not.
func nodeWaits(t *testing.T, dir string) {
	conn, store, gate := open(t)
	carry(t, store)
	e := startExample(t, dir, "worker.mjs", conn.ConnectedUrl(), "waiting")
	waiting(t, gate, 8)
	reply := request(t, conn, "bellhop.publish."+topic, `{"total":12}`, "Bellhop-Id", "order-4711", "Bellhop-Delay", "1s")
	due := read[struct{ Due time.Time }](t, reply).Due
	notEarly(t, e.await(`order order-4711 was not paid: {"total":12}`+"\n"), due)
	settled(t, store, topic, "order-4711")
	if s := gate.Stats(); s.Claimed != 1 || s.LostReplies != 0 {
		t.Errorf("counted %+v", s)
	}
}

// A worker extends the leases of what it handles, also once it is to end, and finishes that before it ends at a SIGTERM. A handler that
// fails says why.
func nodeTakesLong(t *testing.T, dir string) {
	conn, store, gate := open(t)
	carry(t, store)
	flag := filepath.Join(t.TempDir(), "flag")
	long := changed(t, dir, "worker.mjs", `wait: "10s"`, `wait: "1s"`, "10_000", "100",
		"  console.log(`order", fmt.Sprintf("  if (m.string() === \"bad\") throw new Error(\"broken\");\n  console.log(\"begun\");\n"+
			"  const { existsSync } = await import(\"node:fs\");\n  while (!existsSync(%q)) await sleep(100);\n  console.log(`order", flag))
	e := startExample(t, dir, long, conn.ConnectedUrl(), "waiting")
	bad := body("bad")
	bad.Body, bad.MaxAttempts = []byte("bad"), 1
	storetest.Publish(t, store, bad, body("a"))
	e.await("begun\n")
	extended := func() {
		t.Helper()
		until := info(t, store, "a").Until
		storetest.Eventually(t, "its lease is extended", func() bool { return info(t, store, "a").Until.After(until) })
	}
	extended()
	storetest.Must(t, e.Signal(syscall.SIGTERM))
	extended()
	storetest.Must(t, os.WriteFile(flag, nil, 0o600))
	storetest.Receive(t, "the worker ends", e.Done())
	e.await("order a was not paid: body of a\n")
	settled(t, store, topic, "a")
	if n := strings.Count(e.text(), "begun"); n != 1 || gate.Stats().Returned != 0 || gate.Stats().Waits != 0 {
		t.Errorf("it was handled %d times; counted %+v", n, gate.Stats())
	}
	hostname, err := os.Hostname()
	storetest.Must(t, err)
	if i := info(t, store, "bad"); i.State != notify.Dead || i.Reason != "Error: broken" || i.History[0].By != fmt.Sprint(hostname, "-", e.Pid()) {
		t.Errorf("got %+v", i)
	}
}

// The handler of a message that is cancelled with stop is aborted, and the message is gone; others go on.
func nodeStops(t *testing.T, dir string) {
	conn, db, gate := open(t)
	stops := changed(t, dir, "worker.mjs", "10_000", "100",
		"  console.log(`order", "  console.log(`begun ${m.headers.get(\"ce-id\")}`);\n  if (m.string() !== \"go\") await new Promise((_, no) => signal.addEventListener(\"abort\", () => no(console.log(`aborted ${m.headers.get(\"ce-id\")}`))));\n  console.log(`order")
	e := startExample(t, dir, stops, conn.ConnectedUrl(), "waiting")
	storetest.Publish(t, db, body("a"), body("urn:bellhop:stop"))
	e.await("begun a\n")
	e.await("begun urn:bellhop:stop\n")
	if state, err := storetest.Publisher(t, db).Cancel(t.Context(), topic, "a", store.CancelOptions{Stop: true}); err != nil || state != notify.Leased {
		t.Fatal(state, err)
	}
	e.await("aborted a\n")
	settled(t, db, topic, "a")
	if c := counts(t, db); c.Acked != 0 || c.Leased != 1 || c.Dead != 0 {
		t.Errorf("counted %+v", c)
	}
	next := body("next")
	next.Body = []byte("go")
	storetest.Publish(t, db, next)
	e.await("order next was not paid: go\n")
	settled(t, db, topic, "next")
	if i := info(t, db, "urn:bellhop:stop"); i.State != notify.Leased || gate.Stats().LostReplies != 0 {
		t.Errorf("got %+v; counted %+v", i, gate.Stats())
	}
}

// A worker goes on when NATS is back, and nothing is claimed for what it asked before.
func nodeWithoutNATS(t *testing.T, dir string) {
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	serving(t, n.connect())
	e := startExample(t, dir, changed(t, dir, "worker.mjs", "15_000", "1_000", `"10s"`, `"900ms"`), n.ClientURL(), "waiting")
	waiting(t, gate, 8)
	n.stop()
	waiting(t, gate, 0)
	e.await("cannot claim; retrying") // and it keeps what it asks in a buffer
	storetest.Publish(t, store, body("a"))
	untouched(t, store, "a", info(t, store, "a").Due)
	n.start(nil)
	e.await("order a was not paid: body of a\n")
	settled(t, store, topic, "a")
}

// changed copies a file of a folder with some texts replaced, and returns the name of the copy.
func changed(t *testing.T, dir, file string, texts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file))
	storetest.Must(t, err)
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(string(data), texts[i]) {
			t.Fatalf("%s does not contain %s", file, texts[i])
		}
	}
	name := "changed-" + notify.NewID() + filepath.Ext(file)
	storetest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(texts...).Replace(string(data))), 0o600))
	return name
}

// A worker is short: 25 lines beside its imports.
func TestWorkersAreShort(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"node/worker.mjs", "python/worker.py"} {
		data, err := examples.ReadFile("examples/" + file)
		storetest.Must(t, err)
		n := 0
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "import ") {
				n++
			}
		}
		if n > 25 {
			t.Errorf("%s has %d lines, want at most 25", file, n)
		}
	}
}

// While no client listens a delivery waits, and uses up no attempt.
func nodeAnswersDelivery(t *testing.T, dir string) {
	conn, store, d := outbound(t, natsgate.Options{})
	deliver(t, store, 8, "mail")
	storetest.Publish(t, store, notify.Message{Topic: "mail", ID: "early", Body: []byte("hello")})
	storetest.Eventually(t, "it is noticed that no client listens", func() bool { return d.Stats().Nobody > 0 })
	e := startExample(t, dir, "deliver.mjs", conn.ConnectedUrl(), "waiting")
	e.await("mail early, attempt 1: hello\n")
	settled(t, store, "mail", "early")
	storetest.Publish(t, store, notify.Message{Topic: "mail", ID: "pending", Body: []byte("pending")})
	snoozed(t, store, "mail", "pending")

	sent, err := storetest.Publisher(t, store).Publish(t.Context(), notify.Message{
		Topic: "mail", ID: "later", Body: []byte("hello again"), Delay: time.Second,
	})
	storetest.Must(t, err)
	notEarly(t, e.await("mail later, attempt 1: hello again\n"), sent.Due)
	settled(t, store, "mail", "later")
}
