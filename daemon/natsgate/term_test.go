package natsgate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A wire is a proxy between a gateway and its server. It can be cut, which also keeps
// the gateway from connecting, and it can be held, so that nothing passes and nothing
// breaks.
type wire struct {
	net.Listener
	to string

	mu    sync.Mutex
	cond  *sync.Cond
	isCut bool
	held  bool   // nothing passes
	full  bool   // nothing passes from the gateway
	until string // what the gateway writes fills the wire, unless it is empty
	ends  map[net.Conn]bool
}

// newWire returns a wire to a server.
func newWire(t testing.TB, n *natsd) *wire {
	t.Helper()
	u, err := url.Parse(n.ClientURL())
	storetest.Must(t, err)
	w := &wire{to: u.Host, ends: make(map[net.Conn]bool)}
	w.cond = sync.NewCond(&w.mu)
	if w.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := w.Accept()
			if err != nil {
				return
			}
			w.join(conn, &all)
		}
	})
	t.Cleanup(func() {
		w.Close()
		w.cut()
		w.hold(false)
		w.fill(false)
		all.Wait()
	})
	return w
}

func (w *wire) url() string { return "nats://" + w.Addr().String() }

// join passes on the bytes of a connection, in both directions.
func (w *wire) join(near net.Conn, all *sync.WaitGroup) {
	far, err := net.Dial("tcp", w.to)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.isCut {
		near.Close()
		if far != nil {
			far.Close()
		}
		return
	}
	w.ends[near], w.ends[far] = true, true
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		all.Go(func() {
			defer from.Close()
			defer to.Close()
			buffer := make([]byte, 16<<10)
			for {
				n, err := from.Read(buffer)
				w.pass(from == near, buffer[:n])
				if _, bad := to.Write(buffer[:n]); err != nil || bad != nil {
					return
				}
			}
		})
	}
}

// pass waits while the wire is held, or full for bytes from the gateway.
func (w *wire) pass(sent bool, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sent && w.until != "" && bytes.Contains(data, []byte(w.until)) {
		w.full, w.until = true, ""
	}
	for w.held || w.full && sent {
		w.cond.Wait()
	}
}

// cut cuts the wire until mend is called.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for end := range w.ends {
		end.Close()
	}
	clear(w.ends)
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

// hold stops all bytes, or lets them pass again.
func (w *wire) hold(hold bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = hold
	w.cond.Broadcast()
}

// fill stops the bytes from the gateway, or lets them pass again.
func (w *wire) fill(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
	w.cond.Broadcast()
}

// A daemon is a carrier, and the gateway that runs in its terms.
type daemon struct {
	*natsgate.Gate
	t     testing.TB
	store *notify.Store
	name  string
	log   *logBuffer

	pusher *push.Pusher

	stopCarrier, stopPusher, stopGate func()
}

// names numbers the daemons of the tests.
var names atomic.Int64

// startDaemon starts a daemon, which stops when the test ends, and does not wait for anything. The
// lease of its carrier outlasts the test.
func startDaemon(t testing.TB, db *notify.Store, o natsgate.Options, c carrier.Options) *daemon {
	t.Helper()
	d := &daemon{t: t, store: db, log: &logBuffer{}, name: fmt.Sprint("daemon-", names.Add(1))}
	o.Logger, c.Logger, c.Name = d.log.logger(), d.log.logger(), d.name
	d.Gate, d.stopGate = newGate(t, db, o)
	c.OnTerm, c.Lease = d.Term, carrier.MaxLease
	d.stopCarrier = carriertest.Run(t, db, c)
	d.pusher, d.stopPusher = startPusher(t, db, push.Options{NATS: d.Gate, OnClaimed: o.OnClaimed, Grace: time.Hour, Logger: o.Logger})
	return d
}

// startPusher starts what works for the pushes to NATS.
func startPusher(t testing.TB, db *notify.Store, o push.Options) (p *push.Pusher, stop func()) {
	t.Helper()
	p, err := push.New(db, o)
	storetest.Must(t, err)
	return p, storetest.Run(t, p.Run)
}

// stop stops a daemon as daemon.Run does.
func (d *daemon) stop() {
	d.stopCarrier()
	d.stopPusher()
	d.stopGate()
}

// elected waits until a daemon carries.
func (d *daemon) elected() carrier.Status {
	d.t.Helper()
	var s carrier.Status
	storetest.Eventually(d.t, d.name+" carries", func() bool {
		var err error
		s, err = carrier.Look(context.Background(), d.store.Home())
		return err == nil && s.Name == d.name && carriesAll(d.store, d.name)
	})
	return s
}

// carriesAll reports whether a carrier carries all shards.
func carriesAll(db *notify.Store, name string) bool {
	names, err := store.Gather(context.Background(), db, func(ctx context.Context, shard store.Shard) (string, error) {
		s, err := carrier.Look(ctx, shard)
		return s.Name, err
	})
	return err == nil && !slices.ContainsFunc(names, func(one string) bool { return one != name })
}

// allTerms runs terms of a gateway for all shards, as if it were elected for them.
func allTerms(ctx context.Context, t testing.TB, db *notify.Store, gate *natsgate.Gate) {
	t.Helper()
	shards, err := db.Shards(ctx)
	storetest.Should(t, err)
	var terms sync.WaitGroup
	for _, shard := range shards {
		terms.Go(func() { gate.Term(ctx, carrier.Term{Name: "this", Shard: shard}) })
	}
	terms.Wait()
}

// bridges waits until a daemon is connected, carries, and has kept the bridge's
// position: broadcasts from now on go to NATS.
func (d *daemon) bridges() *daemon {
	d.t.Helper()
	connected(d.t, d.Gate)
	d.elected()
	storetest.Eventually(d.t, "the positions of the bridges are kept", func() bool { return positions(d.t, d.store) != "" })
	return d
}

// position returns the position of the bridge of a topic's shard; empty: it has none.
func position(t testing.TB, db *notify.Store, topic string) string {
	t.Helper()
	text, err := db.Client().Get(context.Background(), db.KeysOf(topic).Bridge()).Result()
	if err != nil {
		return ""
	}
	return text
}

// positions returns the positions of the bridges of all shards; empty: one has none.
func positions(t testing.TB, db *notify.Store) string {
	t.Helper()
	var all []string
	for _, keys := range db.KeysOfAll() {
		text, err := db.Client().Get(context.Background(), keys.Bridge()).Result()
		if err != nil {
			return ""
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// outbound starts a nats-server, a store, a client, and a daemon that bridges.
func outbound(t testing.TB, o natsgate.Options) (*nats.Conn, *notify.Store, *daemon) {
	t.Helper()
	n, db := startNATS(t, nil), storetest.Unhurried(storetest.Open(t)) // Redis tells of an event once
	conn := n.connect()
	o.URL = n.ClientURL()
	return conn, db, startDaemon(t, db, o, carrier.Options{}).bridges()
}

// subscribe subscribes to a subject. Messages come in order.
func subscribe(t testing.TB, conn *nats.Conn, subject string) chan *nats.Msg {
	t.Helper()
	all := make(chan *nats.Msg, 100_000)
	storetest.Must(t, storetest.ErrOf(conn.ChanSubscribe(subject, all)))
	storetest.Must(t, conn.Flush())
	return all
}

// awaitBeat waits for a beat: the daemon that sends it receives the hints of Redis.
func awaitBeat(t testing.TB, conn *nats.Conn) {
	t.Helper()
	sub, err := conn.SubscribeSync("bellhop.beat")
	storetest.Must(t, err)
	if _, err := sub.NextMsg(storetest.Deadline); err != nil {
		t.Fatalf("no beat is received: %v", err)
	}
	storetest.Must(t, sub.Unsubscribe())
}

// heard waits until hints about topics are sent.
func heard(t testing.TB, conn *nats.Conn, db *notify.Store, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		wakes := subscribe(t, conn, "bellhop.wake."+topic)
		storetest.Eventually(t, "a wake-up of "+topic+" is sent", func() bool {
			wake(t, db, topic)
			return len(wakes) > 0
		})
	}
}

// Wake-ups come at once or when messages are due, on topics whose names map token by token. A beat repeats wake-ups for
// messages that are still ready, so that they may report more than there are (TestHints).
func TestWakeUps(t *testing.T) {
	t.Parallel()
	conn, db, _ := outbound(t, natsgate.Options{})
	wakes := subscribe(t, conn, "bellhop.wake.>")
	awaitBeat(t, conn)
	left := map[string]int{"bellhop.wake.order.timeout": 1, "bellhop.wake.a": 1, "bellhop.wake.a.b.c": 2, "bellhop.wake.A_1.-": 3}
	due := time.Now().Add(300 * time.Millisecond).Truncate(time.Millisecond)
	for subject, n := range left {
		m := notify.Message{Topic: strings.TrimPrefix(subject, "bellhop.wake."), Body: []byte("x")}
		if m.Topic != topic {
			m.Due = due
		}
		for range n {
			storetest.Publish(t, db, m)
		}
	}
	for len(left) > 0 {
		m := storetest.Receive(t, "a wake-up", wakes)
		n, err := strconv.Atoi(string(m.Data))
		if err != nil || n < 1 || len(m.Header) != 0 || m.Subject != "bellhop.wake."+topic && time.Now().Before(due) {
			t.Fatalf("got %s %v %q, due %v", m.Subject, m.Header, m.Data, due)
		}
		if left[m.Subject] -= n; left[m.Subject] <= 0 {
			delete(left, m.Subject)
		}
	}
}

func TestWakeUpWakesOneOfAQueueGroup(t *testing.T) {
	t.Parallel()
	conn, db, _ := outbound(t, natsgate.Options{})
	awaitBeat(t, conn)
	var inGroup, alone atomic.Int64
	for range 3 {
		storetest.Must(t, storetest.ErrOf(conn.QueueSubscribe("bellhop.wake.order.*", "workers", func(*nats.Msg) { inGroup.Add(1) })))
	}
	storetest.Must(t, storetest.ErrOf(conn.Subscribe("bellhop.wake.order.timeout", func(*nats.Msg) { alone.Add(1) })))
	storetest.Must(t, conn.Flush())
	const n = 20
	for i := range n {
		storetest.Publish(t, db, body(fmt.Sprint(i)))
		storetest.Eventually(t, "one of the group and the one alone are woken", func() bool {
			return inGroup.Load() >= int64(i+1) && alone.Load() >= int64(i+1)
		})
	}
	storetest.Eventually(t, "the group got as many as the one alone, with those that a beat repeats", func() bool { return inGroup.Load() == alone.Load() })
}

// A beat is the data of beats and elections.
type beat struct {
	Carrier string
	Epoch   int64
	Time    time.Time
	Shard   *int
	Shards  int
}

func decode[T any](t testing.TB, m *nats.Msg) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(m.Data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || m.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v in %v %q", err, m.Header, m.Data)
	}
	return v
}

func TestBeats(t *testing.T) {
	t.Parallel()
	conn, _, d := outbound(t, natsgate.Options{})
	s := d.elected()
	beats := subscribe(t, conn, "bellhop.beat")
	before := decode[beat](t, storetest.Receive(t, "a beat", beats)).Time
	for range 3 {
		got := decode[beat](t, storetest.Receive(t, "a beat", beats))
		if got.Carrier != s.Name || got.Epoch != s.Epoch || got.Time.Before(before) {
			t.Errorf("got %+v, and %+v carries", got, s)
		}
		before = got.Time
	}
}

// tell publishes a payload to a channel.
func tell(t testing.TB, db *notify.Store, channel, payload string) {
	t.Helper()
	publish := db.Client().Publish
	if storetest.Shards() > 1 {
		publish = db.Client().SPublish
	}
	storetest.Must(t, publish(t.Context(), channel, payload).Err())
}

// wake publishes a wake-up for a topic.
func wake(t testing.TB, db *notify.Store, topic string) {
	t.Helper()
	channel, payload := wakeOf(db.KeysOf(topic), topic, "1")
	tell(t, db, channel, payload)
}

func TestElectionIsSent(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	events := subscribe(t, n.connect(), "bellhop.event.carrier")
	w := newWire(t, n)
	w.cut()
	d := startDaemon(t, db, natsgate.Options{URL: w.url()}, carrier.Options{})
	s := d.elected()
	failures(t, d.Gate, 2)
	mended := time.Now()
	w.mend() // NATS comes after the election
	for _, got := range elections(t, events) {
		if got.Carrier != d.name || got.Epoch != s.Epoch || !got.Time.Before(mended) {
			t.Errorf("got %+v, and %+v carries", got, s)
		}
	}
	second := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{})
	d.stop()
	again := second.elected()
	for _, got := range elections(t, events) {
		if got.Carrier != second.name || got.Epoch != again.Epoch {
			t.Errorf("got %+v, and %+v carries", got, again)
		}
	}
	if len(events) != 0 {
		t.Errorf("%d elections too many are sent", len(events))
	}
}

// elections receives one for each shard, and checks that it says which where there are several.
func elections(t testing.TB, events <-chan *nats.Msg) (all []beat) {
	t.Helper()
	seen := make(map[int]bool)
	for range storetest.Shards() {
		got := decode[beat](t, storetest.Receive(t, "the election is sent", events))
		all = append(all, got)
		switch {
		case storetest.Shards() == 1 && (got.Shard != nil || got.Shards != 0):
			t.Errorf("got %+v, of the only shard", got)
		case storetest.Shards() > 1 && (got.Shard == nil || got.Shards != storetest.Shards() || seen[*got.Shard]):
			t.Fatalf("got %+v, of one of %d", got, storetest.Shards())
		case storetest.Shards() > 1:
			seen[*got.Shard] = true
		}
	}
	return all
}

func TestDeathsAreSent(t *testing.T) {
	t.Parallel()
	conn, db, _ := outbound(t, natsgate.Options{})
	heard(t, conn, db, topic, "a.b")
	deaths := subscribe(t, conn, "bellhop.event.dead.>")
	type death struct {
		Topic, ID, Reason string
		Attempts          int
	}
	want := func(want death) {
		t.Helper()
		m := storetest.Receive(t, "a death is sent", deaths)
		if diff := cmp.Diff(want, decode[death](t, m)); diff != "" || m.Subject != "bellhop.event.dead."+want.Topic {
			t.Errorf("%s: %s", m.Subject, diff)
		}
	}
	claimer := subscriberstest.Claimer(t, db)
	claim := func(lease time.Duration) *subscribers.Delivery {
		t.Helper()
		var ds []subscribers.Delivery
		storetest.Eventually(t, "a message is ready", func() (ok bool) {
			var err error
			ds, err = claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: lease})
			return err == nil && len(ds) == 1
		})
		return &ds[0]
	}

	// By the carrier: its lease expires in its last attempt; its time to live ends.
	last := body("last")
	last.MaxAttempts = 1
	storetest.Publish(t, db, last)
	claim(100 * time.Millisecond)
	want(death{topic, "last", "lease expired, out of attempts", 1})
	storetest.Publish(t, db, notify.Message{Topic: "a.b", ID: "old", Body: []byte("x"), TTL: time.Millisecond})
	want(death{"a.b", "old", "expired", 0})

	// By a bury.
	storetest.Publish(t, db, body("refused"))
	storetest.Must(t, storetest.ErrOf(claim(time.Minute).Bury(t.Context(), "never <again>, \"ü\"\n")))
	want(death{topic, "refused", "never <again>, \"ü\"\n", 1})

	// By a claim that finds no record.
	storetest.Publish(t, db, body("torn"))
	storetest.Must(t, db.Client().HDel(t.Context(), db.KeysOf(topic).Messages(), record.Member(topic, "torn")).Err())
	if ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) > 0 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	want(death{topic, "torn", "record is missing", 0})
}

// handles has a subscriber over Redis handle messages while NATS takes nothing.
func handles(t testing.TB, db *notify.Store) {
	t.Helper()
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(t, err)
	handled := make(chan string, 1000)
	storetest.Must(t, sub.Handle("redis", func(_ context.Context, d *subscribers.Delivery) error {
		handled <- d.ID
		return nil
	}, subscribers.HandleOptions{}))
	defer storetest.Run(t, sub.Run)()
	for range 40 {
		m := notify.Message{Topic: "redis", ID: notify.NewID(), Body: []byte("x"), Delay: 20 * time.Millisecond}
		storetest.Publish(t, db, m)
		for storetest.Receive(t, m.ID+" is handled", handled) != m.ID {
			continue // one of before, a second time
		}
	}
}

// While NATS is away, hints are lost and counted, and nothing waits. Hints are sent
// again when NATS is back.
func TestHintsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	conn := n.connect()
	w := newWire(t, n)
	d := startDaemon(t, db, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	awaitBeat(t, conn)
	if s := d.Stats(); s.Hints == 0 {
		t.Errorf("counted %+v", s)
	}
	w.cut()
	storetest.Eventually(t, "the gate notices", func() bool { return !d.Stats().Connected })
	sent := d.Stats().Hints
	handles(t, db)
	storetest.Eventually(t, "the loss is counted", func() bool { return d.Stats().LostHints > 0 })
	if s := d.Stats(); s.Hints > sent+1 { // the last one may be counted late
		t.Errorf("%d hints were sent while NATS was away", s.Hints-sent)
	}
	wakes := subscribe(t, conn, "bellhop.wake.>")
	w.mend()
	awaitBeat(t, conn)
	if len(wakes) != 0 {
		t.Errorf("%d wake-ups came afterwards", len(wakes))
	}
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "a wake-up", wakes)
	wantLinks(t, d.log, "up", "away", "up")
	wantNoFaults(t, d.log)
}

// A NATS that takes nothing, and does not break, makes nobody wait. The gateway notices
// and disconnects.
func TestNATSThatStalls(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	conn := n.connect()
	w := newWire(t, n)
	deliver(t, db, 4, topic)
	d := startDaemon(t, db, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	awaitBeat(t, conn)
	broadcasts := subscribe(t, conn, "bellhop.broadcast.>")
	deliveries := subscribe(t, conn, "jobs.>")
	acknowledge(t, conn, "")
	w.hold(true)
	big := make([]byte, 200<<10) // fills every buffer in between
	pub := storetest.Publisher(t, db)
	var ids []string
	for i := range 100 {
		ids = append(ids, fmt.Sprint(i))
		storetest.Must(t, storetest.ErrOf(pub.Broadcast(t.Context(), notify.Message{Topic: topic, ID: ids[i], Body: big})))
	}
	storetest.Publish(t, db, body("a"))
	handles(t, db)
	storetest.Eventually(t, "the gate notices", func() bool { return d.Stats().ConnectFailures > 0 })
	w.hold(false)
	seen := make(map[string]bool)
	for len(seen) < len(ids) {
		m := storetest.Receive(t, "a broadcast", broadcasts)
		if id := m.Header.Get("ce-id"); !seen[id] {
			if want := ids[len(seen)]; id != want {
				t.Fatalf("%s came where %s is next", id, want)
			}
			seen[id] = true
		}
	}
	// A message sent before may come, too; its answer reaches nobody.
	storetest.Eventually(t, "the message is acknowledged", func() bool { return d.Stats().Delivered == 1 && gone(t, db, "a") })
	for len(deliveries) > 0 {
		if got := (<-deliveries).Header.Get("Bellhop-Attempt"); got != "1" {
			t.Errorf("attempt %s is made", got)
		}
	}
}

// acknowledge acknowledges all deliveries, in a queue group if one is named.
func acknowledge(t testing.TB, conn *nats.Conn, group string) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(conn.QueueSubscribe("jobs.>", group, func(m *nats.Msg) { _ = m.Respond([]byte("+ACK")) })))
	storetest.Must(t, conn.Flush())
}

// Of two daemons only the one whose carrier is elected sends.
func TestOnlyTheElectedSends(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	conn := n.connect()
	storetest.RingAlone(t, db, topic) // what is handed over wakes nobody else
	o := natsgate.Options{URL: n.ClientURL()}
	all := subscribe(t, conn, "bellhop.*.order.timeout")
	first := startDaemon(t, db, o, carrier.Options{}).bridges()
	second := startDaemon(t, db, o, carrier.Options{})
	connected(t, second.Gate)
	for i := range 2 {
		heard(t, conn, db, topic)
		storetest.Publish(t, db, body(notify.NewID()))
		broadcast(t, db, body(notify.NewID()))
		got := make(map[string]int)
		for len(got) < 2 {
			got[storetest.Receive(t, "a message", all).Subject]++
		}
		awaitBeat(t, conn) // the messages of a second daemon would be there by then
		for len(all) > 0 {
			got[(<-all).Subject]++
		}
		if got["bellhop.broadcast.order.timeout"] != 1 || len(got) != 2 {
			t.Errorf("got %v", got)
		}
		if s := second.Stats(); i == 0 && s.Hints+s.LostHints+s.Broadcasts > 0 {
			t.Errorf("who is not elected counted %+v", s)
		}
		first.stop()
		second.elected()
	}
}

// A server without headers cannot take events, and is not called without pauses.
func TestServerWithoutHeaders(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, func(o *server.Options) { o.NoHeaderSupport = true }), storetest.Open(t)
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Broadcast(t.Context(), body("b"))))
	storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("nats does not take broadcasts") == 1 })
	resent := d.Stats().Resent
	storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Resent > resent+2 })
	wantLog(t, d.log, map[string]int{"nats does not take broadcasts": 1, "headers": 1})
}

// Redis goes away and comes back during a term.
func TestRedisAwayWhileBridging(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	conn := n.connect()
	redis := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	db := storetest.Unhurried(storetest.At(t, redis.URL(), ""))
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	broadcasts := subscribe(t, conn, "bellhop.broadcast.>")
	pub := storetest.Publisher(t, db)
	broadcast := func(id string) {
		t.Helper()
		storetest.Eventually(t, "it is taken", func() bool {
			_, err := pub.Broadcast(context.Background(), body(id))
			return err == nil || errors.Is(err, notify.ErrExists) // by a call that Redis did not answer in time
		})
		if m := storetest.Receive(t, "a broadcast", broadcasts); m.Header.Get("ce-id") != id {
			t.Errorf("got %v, want %s", m.Header, id)
		}
	}
	broadcast("a")
	redis.Kill()
	storetest.Eventually(t, "it is noticed", func() bool { return d.log.Count("cannot receive hints for nats; retrying") > 0 })
	storetest.Restart(t, redis)
	broadcast("b")
	awaitBeat(t, conn)
	if terms := d.elected().Epoch; int64(d.log.Count("cannot receive hints for nats; retrying")) > terms { // each term logs it
		t.Errorf("it is logged again and again:\n%s", d.log)
	}
}
