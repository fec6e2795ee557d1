package httpapi_test

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

//go:embed examples
var examples embed.FS

// written writes an example with a text replaced to a folder of the test's own, and returns its path.
func written(t testing.TB, name, from, to string) (path string) {
	t.Helper()
	source, err := examples.ReadFile("examples/" + name)
	if err != nil || !strings.Contains(string(source), from) {
		t.Fatalf("%s has no %q, %v", name, from, err)
	}
	path = filepath.Join(t.TempDir(), name)
	storetest.Must(t, os.WriteFile(path, []byte(strings.Replace(string(source), from, to, 1)), 0o600))
	return path
}

// want returns the path of a program, and fails the test if it is missing.
func want(t testing.TB, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not on PATH; install it, on Debian with: apt-get install %s", program, debian)
	}
	return path
}

// launch starts an example or another program, and ends it and all that it started with the test.
func launch(t testing.TB, h *host, args ...string) *storetest.Log {
	t.Helper()
	said, _ := launched(t, h, args...)
	return said
}

// launched is launch, and returns the process, too.
func launched(t testing.TB, h *host, args ...string) (*storetest.Log, *child.Process) {
	t.Helper()
	said := &storetest.Log{}
	p, err := child.Start(child.Program{Path: args[0], Args: args[1:], Name: args[0], Env: append(os.Environ(), "BELLHOP_URL="+h.url("")), Output: said})
	storetest.Must(t, err)
	t.Cleanup(func() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // with what it runs: a poll of curl holds its output open for a minute
		p.Kill()
		if t.Failed() {
			t.Logf("%v said:\n%s", args, said)
		}
	})
	return said, p
}

func TestExampleWorker(t *testing.T) {
	t.Parallel()
	want(t, "curl", "curl")
	store := storetest.Open(t)
	carry(t, store)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	said := launch(t, h, "/bin/sh", written(t, "worker.sh", "", ""))
	for _, id := range []string{"4711", "4712"} {
		h.waiting(1)
		h.want(client(t), http.StatusCreated, "POST", "/v1/topics/order.timeout/messages?id="+id, "EUR 10")
		said.Await(t, "order "+id+" was not paid: EUR 10\n")
	}
	acked(t, store, 2)
	storetest.Publish(t, store,
		notify.Message{Topic: "order.timeout", ID: "4713", Body: []byte("pending")}, notify.Message{Topic: "order.timeout", ID: "4714", Body: []byte("EUR 11")})
	said.Await(t, "order 4714 was not paid: EUR 11\n")
	storetest.Publish(t, store, notify.Message{Topic: "order.timeout", ID: "4715", Body: []byte("EUR \xff")})
	said.Await(t, "order 4715 was not paid: EUR ")
	acked(t, store, 4)
	storetest.Eventually(t, "it is put off again and again", func() bool {
		i, err := storetest.Inspector(t, store).Inspect(t.Context(), "order.timeout", "4713")
		return err == nil && i.Snoozed > 1 && i.Attempts == 0
	})
	stop(t, h)
}

// A worker keeps a message for longer than its lease, and acknowledges it with the receipt of its claim, also once it is to stop.
func TestExampleWorkerExtends(t *testing.T) {
	want(t, "curl", "curl")
	t.Setenv("LEASE", "9")
	flag := filepath.Join(t.TempDir(), "flag")
	t.Setenv("FLAG", flag)
	store := storetest.Open(t)
	carry(t, store)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	const waits = "handle() {\n  while printf slow | cmp -s - \"$body\" && test ! -e \"$FLAG\"; do sleep 0.1; done\n"
	_, p := launched(t, h, "/bin/sh", written(t, "worker.sh", "handle() {\n", waits))
	storetest.Publish(t, store, notify.Message{Topic: "order.timeout", ID: "4711", Body: []byte("slow")})
	until := func() time.Time {
		i, err := storetest.Inspector(t, store).Inspect(t.Context(), "order.timeout", "4711")
		storetest.Must(t, err)
		return i.Until
	}
	var first time.Time
	storetest.Eventually(t, "it is claimed", func() bool { first = until(); return !first.IsZero() })
	storetest.Eventually(t, "its lease is extended twice", func() bool { return until().After(first.Add(5 * time.Second)) })
	storetest.Must(t, errors.Join(p.Signal(syscall.SIGTERM), os.WriteFile(flag, nil, 0o600)))
	acked(t, store, 1)
	storetest.Receive(t, "its end", p.Done())
}

// A worker tells its name, and why it failed.
func TestExampleWorkerTellsWhy(t *testing.T) {
	t.Parallel()
	want(t, "curl", "curl")
	store := storetest.Open(t)
	carry(t, store)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	launch(t, h, "/bin/sh", written(t, "worker.sh", "handle() {\n", "handle() {\n  return 3\n"))
	storetest.Publish(t, store, notify.Message{Topic: "order.timeout", ID: "4711", MaxAttempts: 1})
	var died notify.Info
	storetest.Eventually(t, "it is dead", func() bool {
		died, _ = storetest.Inspector(t, store).Inspect(t.Context(), "order.timeout", "4711")
		return died.State == notify.Dead
	})
	if !strings.Contains(died.Reason, "exit 3") {
		t.Errorf("it died since %q", died.Reason)
	}
	storetest.Eventually(t, died.History[0].By+" is listed", func() bool {
		return strings.Contains(string(h.want(client(t), http.StatusOK, "GET", "/v1/workers", "").body), `"name":"`+died.History[0].By+`"`)
	})
	stop(t, h)
}

// acked waits until so many messages of order.timeout are acknowledged.
func acked(t testing.TB, store *notify.Store, n int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d messages are acknowledged", n), func() bool {
		counts, err := storetest.Count(store, "order.timeout")
		return err == nil && int64(counts.Acked) == n
	})
}

// A worker in sh gets each body as it is, whatever bytes are in it and in the headers.
func TestExampleWorkerInShell(t *testing.T) {
	t.Parallel()
	want(t, "curl", "curl")
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	said := launch(t, h, "/bin/sh", written(t, "worker.sh", "", ""))
	for i, body := range awkward {
		storetest.Publish(t, store, notify.Message{
			Topic: "order.timeout", ID: fmt.Sprintf("%d~", i), Body: []byte(body),
			Headers: map[string]string{"id": "4711", "receipt": "1", "Bellhop-Id": "4712"},
		})
		said.Await(t, fmt.Sprintf("order %d~ was not paid: %s\n", i, body))
		acked(t, store, int64(i+1))
	}
	if n := strings.Count(said.String(), " was not paid: "); n != len(awkward) {
		t.Errorf("%d messages were handled, want %d", n, len(awkward))
	}
}
