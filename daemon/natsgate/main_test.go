package natsgate_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.MainWaiting(m) }

const topic = "order.timeout"

// future is a due time that does not come while a test runs.
var future = time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC)

// natsd is a nats-server in this process that can be stopped and started again.
type natsd struct {
	*server.Server
	t    testing.TB
	opts *server.Options
}

// startNATS starts a nats-server at a free port, which stops when the test ends.
func startNATS(t testing.TB, change func(*server.Options)) *natsd {
	t.Helper()
	n := &natsd{t: t, opts: &server.Options{Host: "127.0.0.1", Port: storetest.Port(t), NoSigs: true, NoLog: true}}
	n.start(change)
	t.Cleanup(n.stop)
	return n
}

func (n *natsd) start(change func(*server.Options)) {
	n.t.Helper()
	if change != nil {
		change(n.opts)
	}
	var err error
	if n.Server, err = server.NewServer(n.opts.Clone()); err != nil {
		n.t.Fatal(err)
	}
	storetest.Vacated(n.t, n.opts.Port) // if it starts again
	go n.Start()
	if !n.ReadyForConnections(storetest.Deadline) {
		n.t.Fatal("nats-server does not start")
	}
}

func (n *natsd) stop() {
	n.Shutdown()
	n.WaitForShutdown()
}

// restart starts the server again at its port, with other options.
func (n *natsd) restart(change func(*server.Options)) {
	n.t.Helper()
	n.stop()
	n.start(change)
}

// connect returns a client of the server.
func (n *natsd) connect(options ...nats.Option) *nats.Conn {
	n.t.Helper()
	conn, err := nats.Connect(n.ClientURL(), append(options, nats.Timeout(storetest.Deadline))...)
	storetest.Must(n.t, err)
	n.t.Cleanup(conn.Close)
	return conn
}

// A logBuffer is the log of a gateway.
type logBuffer struct{ storetest.Log }

// faults returns the lines with errors, but not those about a Redis that a busy machine keeps from answering.
func (b *logBuffer) faults() (all []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, "redis at") && !strings.Contains(line, "calls to redis") {
			all = append(all, line)
		}
	}
	return all
}

// logger returns a logger that writes to b.
func (b *logBuffer) logger() *slog.Logger { return b.Logger(slog.LevelInfo) }

// newGate returns a gateway that runs until the test ends, or stop is called.
func newGate(t testing.TB, store *notify.Store, o natsgate.Options) (gate *natsgate.Gate, stop func()) {
	t.Helper()
	gate, err := natsgate.New(store, o)
	storetest.Must(t, err)
	return gate, storetest.Run(t, gate.Run)
}

// connected waits until a gateway is connected.
func connected(t testing.TB, gate *natsgate.Gate) {
	t.Helper()
	storetest.Eventually(t, "the gate is connected", func() bool { return gate.Stats().Connected })
}

// open starts a nats-server, a store, a gateway between them, and a client.
func open(t testing.TB) (*nats.Conn, *notify.Store, *natsgate.Gate) {
	t.Helper()
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	return conn, store, gate
}

// serving waits until a gateway answers.
func serving(t testing.TB, conn *nats.Conn) {
	t.Helper()
	storetest.Eventually(t, "a gate answers", func() bool { return answers(conn) })
}

// answers reports whether a gateway answers.
func answers(conn *nats.Conn) bool {
	reply, err := conn.Request("bellhop.inspect."+topic, []byte(`{"id":"nobody"}`), time.Second)
	return err == nil && reply.Header.Get("Nats-Service-Error-Code") == "404"
}

// request sends a request, with headers NAME, VALUE, and so on, and returns the reply.
func request(t testing.TB, conn *nats.Conn, subject, data string, headers ...string) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i < len(headers); i += 2 {
		m.Header.Add(headers[i], headers[i+1])
	}
	reply, err := conn.RequestMsg(m, storetest.Deadline)
	if err != nil {
		t.Fatalf("request to %s: %v", subject, err)
	}
	return reply
}

// read decodes a reply of JSON, which must not be an error.
func read[T any](t testing.TB, reply *nats.Msg) T {
	t.Helper()
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
		t.Fatalf("refused with %s: %s", code, reply.Data)
	}
	var v T
	if err := json.Unmarshal(reply.Data, &v); err != nil {
		t.Fatalf("%v in the reply %q", err, reply.Data)
	}
	return v
}

// wantRefused checks that a reply is an error with a status, and that each text is in its detail.
func wantRefused(t testing.TB, reply *nats.Msg, status int, texts ...string) {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(reply.Data, &p); err != nil {
		t.Errorf("%v in the reply %q", err, reply.Data)
		return
	}
	if p.Status != status || reply.Header.Get("Nats-Service-Error") != p.Detail || p.Type == "" || p.Title == "" {
		t.Errorf("got %+v with the headers %v, want the status %d", p, reply.Header, status)
	}
	if status == 422 && (len(p.Errors) == 0 || p.Errors[0].Name == "") {
		t.Errorf("%+v names no field", p)
	}
	for _, text := range texts {
		if !strings.Contains(p.Detail, text) {
			t.Errorf("the detail is %q, want %q in it", p.Detail, text)
		}
	}
}

// info returns a message of the topic, which must exist.
func info(t testing.TB, store *notify.Store, id string) notify.Info {
	t.Helper()
	i, err := storetest.Inspector(t, store).Inspect(t.Context(), topic, id)
	storetest.Must(t, err)
	return i
}

// body returns a message of the topic that is due now.
func body(id string) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id)}
}

// carry runs a carrier.
func carry(t testing.TB, store *notify.Store) {
	t.Helper()
	carriertest.Run(t, store, carrier.Options{Lease: carrier.MaxLease})
}
