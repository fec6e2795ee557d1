package crash_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const stream = "BELLHOP"

// natsd is a nats-server with JetStream that can be stopped and restarted with its data.
type natsd struct {
	*server.Server
	t    *testing.T
	opts *server.Options
}

// startNATS starts a nats-server, stopped when the test ends.
func startNATS(t *testing.T) *natsd {
	t.Helper()
	n := &natsd{t: t, opts: &server.Options{Host: "127.0.0.1", Port: storetest.Port(t), NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *natsd) start() {
	n.t.Helper()
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

// connect returns a client of the server.
func (n *natsd) connect() *nats.Conn {
	n.t.Helper()
	conn, err := nats.Connect(n.ClientURL(), nats.Timeout(storetest.Deadline))
	storetest.Must(n.t, err)
	n.t.Cleanup(conn.Close)
	return conn
}

// held returns how many messages the stream holds.
func held(js jetstream.JetStream) int {
	s, err := js.Stream(context.Background(), stream)
	if err != nil {
		return 0
	}
	return int(s.CachedInfo().State.Msgs)
}

// startDaemon starts a process of a daemon, with NATS or nil, and with settings NAME=VALUE without the prefix BELLHOP_.
func startDaemon(t *testing.T, store *notify.Store, n *natsd, settings ...string) *process {
	t.Helper()
	env := []string{"BELLHOP_REDIS_URL=" + store.Address(), "BELLHOP_PREFIX=" + store.Keys().Prefix(), "BELLHOP_LISTEN=none"}
	if n != nil {
		env = append(env, "BELLHOP_NATS_URL="+n.ClientURL())
	}
	for _, one := range settings {
		env = append(env, "BELLHOP_"+one)
	}
	return start(t, store, "daemon", func(string) {}, env...)
}

// bridges starts two daemons that send broadcasts to a stream. It returns them, the elected
// one first, when that one bridges and the other stands by.
func bridges(t *testing.T, store *notify.Store, n *natsd, settings ...string) (now, next *process) {
	t.Helper()
	settings = append(settings, "NATS_JETSTREAM="+stream)
	now = startDaemon(t, store, n, settings...)
	elected(t, store, "")
	storetest.Eventually(t, "the bridge's position is kept", func() bool {
		return store.Client().Exists(context.Background(), store.Keys().Bridge()).Val() == 1
	})
	next = startDaemon(t, store, n, settings...)
	standingBy(t, store, 1)
	return now, next
}

// broadcasts publishes n broadcasts. The first is due after begin, the others evenly over the time after it.
func broadcasts(t *testing.T, store *notify.Store, n int, begin, over time.Duration) {
	t.Helper()
	due := time.Now().Add(begin)
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{
			Topic: []string{"a", "a.b", topic}[i%3], ID: fmt.Sprintf("b%06d", i), Body: []byte("x"), Broadcast: true,
			Due: due.Add(over * time.Duration(i) / time.Duration(n)),
		}
	}
	storetest.Publish(t, store, messages...)
}

// wantOnce waits until the stream holds n broadcasts, and checks that it holds each once, in
// the order in which they were sent.
func wantOnce(t *testing.T, js jetstream.JetStream, store *notify.Store, n int) {
	t.Helper()
	for have := -1; have < n; { // as long as there are ever more
		before := have
		storetest.Eventually(t, fmt.Sprintf("the stream holds %d, and more than %d", n, before), func() bool {
			have = held(js)
			return have > before
		})
	}
	consumer, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{})
	storetest.Must(t, err)
	seen := make(map[string]bool)
	var last notify.Position
	for i := 0; i < n; {
		page, err := consumer.Fetch(min(1000, n-i), jetstream.FetchMaxWait(storetest.Deadline))
		storetest.Must(t, err)
		for m := range page.Messages() {
			at, err := record.ParsePosition(m.Headers().Get("Bellhop-Position"))
			if err != nil || at <= last {
				t.Fatalf("at %d there is %v after %v, %v", i, at, last, err)
			}
			last = at
			seen[m.Headers().Get("ce-id")] = true
			i++
		}
		if page.Error() != nil {
			t.Fatal(page.Error())
		}
	}
	if got := held(js); got != n || len(seen) != n {
		t.Errorf("the stream holds %d, of them %d different ones, want %d", got, len(seen), n)
	}
	storetest.Eventually(t, "the bridge's position is that of the last one", func() bool {
		return store.Client().Get(context.Background(), store.Keys().Bridge()).Val() == last.String()
	})
}

func newJetStream(t *testing.T, n *natsd) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(n.connect(), jetstream.WithDefaultTimeout(storetest.Deadline))
	storetest.Must(t, err)
	return js
}

// The bridging daemon is killed, stopped or paused amid 10,000 broadcasts: the other one
// continues, and the stream holds each broadcast once, in order.
func TestEndOfTheBridge(t *testing.T) {
	t.Parallel()
	const n = 10_000
	for name, end := range map[string]func(t *testing.T, p *process){
		"kill -9": func(_ *testing.T, p *process) { p.end(syscall.SIGKILL) },
		"SIGTERM": func(t *testing.T, p *process) {
			if p.end(syscall.SIGTERM); p.ProcessState.ExitCode() != 0 {
				t.Errorf("exit code %d: %s", p.ProcessState.ExitCode(), &p.log)
			}
		},
		"SIGSTOP": func(t *testing.T, p *process) {
			storetest.Must(t, p.Process.Signal(syscall.SIGSTOP))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, store := startNATS(t), storetest.Open(t)
			js := newJetStream(t, server)
			now, next := bridges(t, store, server, "CARRIER_LEASE=10s") // longer than a busy machine stands still
			before := elected(t, store, "")
			broadcasts(t, store, n, 500*time.Millisecond, 3*time.Second)
			storetest.Eventually(t, "the burst is under way", func() bool { return held(js) > n/5 })
			if got := held(js); got > n*4/5 {
				t.Errorf("the stream held %d of %d already", got, n)
			}
			end(t, now)
			after := elected(t, store, before.Name)
			if name == "SIGSTOP" {
				storetest.Eventually(t, "the other one goes on", func() bool { return held(js) > n/2 })
				storetest.Must(t, now.Process.Signal(syscall.SIGCONT))
				now.log.Await(t, "deposed")
				standingBy(t, store, 1)
			}
			wantOnce(t, js, store, n)
			if after.Epoch != before.Epoch+1 || len(faultsOfNATS(next)) > 0 {
				t.Errorf("epoch %d after %d: %s", after.Epoch, before.Epoch, &next.log)
			}
		})
	}
}

// lateOnes handles messages over Redis and records how late each was.
type lateOnes struct {
	mu   sync.Mutex
	late []time.Duration
	all  map[string]int
}

// enoughLate is how many messages have a median.
const enoughLate = 50

func (l *lateOnes) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.late)
}

// take returns the median lateness of the messages handled since its last call.
func (l *lateOnes) take(t *testing.T) time.Duration {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) < enoughLate {
		t.Fatalf("only %d were handled", len(l.late))
	}
	slices.Sort(l.late)
	median := l.late[len(l.late)/2]
	l.late = nil
	return median
}

func (l *lateOnes) handle(_ context.Context, d *subscribers.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, time.Since(d.Due))
	l.all[d.ID]++
	return nil
}

// NATS is stopped for 10 s under load: afterwards the stream holds each broadcast once, and
// messages over Redis are not delayed meanwhile.
func TestStopNATSUnderLoad(t *testing.T) {
	t.Parallel()
	const away = 10 * time.Second
	server, store := startNATS(t), storetest.Open(t)
	bridge, _ := bridges(t, store, server, "CARRIER_LEASE=10s") // longer than a busy machine stands still
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	l := &lateOnes{all: make(map[string]int)}
	storetest.Must(t, sub.Handle(topic, l.handle, subscribers.HandleOptions{}))
	storetest.Run(t, sub.Run)
	const nBroadcasts, nMessages, over = 14_000, 1400, 14 * time.Second
	spread(t, store, nMessages, time.Second, over) // which is quick, unlike the broadcasts
	broadcasts(t, store, nBroadcasts, time.Second, over)

	js := newJetStream(t, server)
	storetest.Eventually(t, "the load is under way", func() bool { return held(js) >= nBroadcasts/7 && l.size() >= enoughLate })
	before := l.take(t)
	server.stop()
	stopped := time.Now()
	bridge.log.Await(t, "nats is away")
	for range time.Tick(100 * time.Millisecond) { // this outage is the test
		if time.Since(stopped) >= away {
			break
		}
	}
	during := l.take(t)
	server.start()
	bridge.log.Await(t, "connected to nats again")
	t.Logf("messages over redis: median lateness %v before, %v while nats was away", before, during)
	if during > 5*before+time.Second/2 { // a call to a NATS that is away would wait for seconds
		t.Errorf("messages over redis were %v late while nats was away, before it was %v", during, before)
	}
	wantOnce(t, newJetStream(t, server), store, nBroadcasts)
	storetest.Eventually(t, "all messages are handled", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.all) == nMessages
	})
	for id, times := range l.all {
		if times != 1 {
			t.Errorf("%s was handled %d times", id, times)
		}
	}
	if log := bridge.log.String(); strings.Count(log, "nats is away") != strings.Count(log, "connected to nats again") || len(faultsOfNATS(bridge)) > 0 || strings.Contains(log, "deposed") {
		t.Error(log)
	}
}

// faultsOfNATS returns the errors that a process logged, but for those of a Redis that did not answer in time, as on a busy machine.
func faultsOfNATS(p *process) (lines []string) {
	for line := range strings.Lines(p.log.String()) {
		late := strings.Contains(line, "redis at ") && (strings.Contains(line, "no answer within") || strings.Contains(line, "i/o timeout"))
		if strings.Contains(line, "level=ERROR") && !late {
			lines = append(lines, line)
		}
	}
	return lines
}

// deliver has daemons push the topic to NATS, with four messages in flight each.
func deliver(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Must(t, db.Home().PutPush(t.Context(), store.Push{Name: "jobs", Topics: []string{topic}, To: "nats:jobs.>", InFlight: 4}))
}

// deliveries subscribes to the deliveries of the topic.
func deliveries(t *testing.T, conn *nats.Conn) chan *nats.Msg {
	t.Helper()
	all := make(chan *nats.Msg, 10_000)
	storetest.Must(t, storetest.ErrOf(conn.ChanSubscribe("jobs."+topic, all)))
	storetest.Must(t, conn.Flush())
	return all
}

// A daemon with deliveries in flight gets SIGTERM: it settles those that are answered and
// releases the others, which another daemon delivers. No attempt is used up.
func TestTermWhileDelivering(t *testing.T) {
	t.Parallel()
	server, store := startNATS(t), storetest.Open(t)
	got := deliveries(t, server.connect())
	deliver(t, store)
	now := startDaemon(t, store, server, "SHUTDOWN_TIMEOUT=10s")
	before := elected(t, store, "")
	const n = 4
	spread(t, store, n, 0, time.Millisecond)
	var out []*nats.Msg
	for range n {
		out = append(out, storetest.Receive(t, "a delivery", got))
	}
	startDaemon(t, store, server)
	standingBy(t, store, 1)
	storetest.Must(t, now.Process.Signal(syscall.SIGTERM))
	seen := make(map[string]bool)
	ack := func(m *nats.Msg) {
		t.Helper()
		if m.Header.Get("Bellhop-Attempt") != "1" {
			t.Errorf("got %v", m.Header)
		}
		seen[m.Header.Get("ce-id")] = true
		storetest.Must(t, m.Respond([]byte("+ACK")))
	}
	ack(out[0])
	ack(out[1])
	storetest.Receive(t, "the process ends", now.ended)
	if code := now.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d: %s", code, &now.log)
	}
	elected(t, store, before.Name)
	for len(seen) < n {
		ack(storetest.Receive(t, "a delivery", got))
	}
	gone(t, store)
	if c, err := storetest.Count(store, topic); err != nil || c.Acked != n || c.Dead != 0 || len(got) != 0 {
		t.Errorf("there is %+v, %v, and %d were delivered again", c, err, len(got))
	}
}

// A daemon with deliveries in flight is killed by kill -9: another one delivers them again
// when their leases expire.
func TestKillWhileDelivering(t *testing.T) {
	t.Parallel()
	server, store := startNATS(t), storetest.Open(t)
	got := deliveries(t, server.connect())
	deliver(t, store)
	now := startDaemon(t, store, server, "LEASE=10s", "CARRIER_LEASE=10s")
	before := elected(t, store, "")
	inspector := storetest.Inspector(t, store)
	storetest.Eventually(t, "a daemon sets the lease", func() bool {
		set, err := inspector.Settings(t.Context(), notify.AllTopics)
		return err == nil && set.Lease == 10*time.Second
	})
	const n = 4
	spread(t, store, n, 0, time.Millisecond)
	again := make(map[string]bool)
	for range n {
		again[storetest.Receive(t, "a delivery", got).Header.Get("ce-id")] = true
	}
	startDaemon(t, store, server, "LEASE=10s", "CARRIER_LEASE=10s")
	standingBy(t, store, 1)
	now.end(syscall.SIGKILL)
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "new", Body: []byte("x")})
	for range n + 1 {
		m := storetest.Receive(t, "a delivery", got)
		want := "1"
		if again[m.Header.Get("ce-id")] {
			want = "2"
		}
		if m.Header.Get("Bellhop-Attempt") != want {
			t.Errorf("got %v, want attempt %s", m.Header, want)
		}
		storetest.Must(t, m.Respond([]byte("+ACK")))
	}
	gone(t, store)
	if s := elected(t, store, before.Name); s.Epoch != before.Epoch+1 {
		t.Errorf("now %+v carries, it was %+v", s, before)
	}
}
