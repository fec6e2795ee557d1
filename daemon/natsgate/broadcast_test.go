package natsgate_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// broadcast sends broadcasts.
func broadcast(t testing.TB, store *notify.Store, messages ...notify.Message) {
	t.Helper()
	for i := range messages {
		messages[i].Broadcast = true
	}
	storetest.Publish(t, store, messages...)
}

// numbered returns n broadcasts, named FROM, FROM+1, ..., of three topics in turn,
// each due a millisecond after the one before, since broadcasts with the same due time
// are sent in the order of their names.
func numbered(from, n int) []notify.Message {
	due := time.Now().Add(-time.Hour).Add(time.Duration(from) * time.Millisecond)
	all := make([]notify.Message, n)
	for i := range all {
		all[i] = notify.Message{
			Topic: []string{"a", "a.b", "order.timeout"}[i%3], ID: fmt.Sprintf("%06d", from+i), Body: fmt.Append(nil, "body of ", from+i),
			Due: due.Add(time.Duration(i) * time.Millisecond),
		}
	}
	return all
}

// to returns broadcasts as those to one topic: all come in their order then, however many
// shards there are.
func to(topic string, all []notify.Message) []notify.Message {
	for i := range all {
		all[i].Topic = topic
	}
	return all
}

// receive receives broadcasts, which must be named FROM, FROM+1, ..., in the order of
// inOrder, and returns the last one.
func receive(t testing.TB, from <-chan *nats.Msg, first, n int) *nats.Msg {
	t.Helper()
	headers := make([]nats.Header, n)
	var m *nats.Msg
	for i := range n {
		m = storetest.Receive(t, fmt.Sprint("broadcast ", first+i), from)
		headers[i] = m.Header
	}
	inOrder(t, headers, first)
	return m
}

// inOrder checks that broadcasts are named FIRST, FIRST+1, ..., each once, and that those
// of a shard are in that order, at positions that grow.
func inOrder(t testing.TB, all []nats.Header, first int) {
	t.Helper()
	seen := make(map[string]bool)
	type place struct{ id, position string }
	last := make(map[string]place)
	for _, h := range all {
		now, was := place{h.Get("ce-id"), h.Get("Bellhop-Position")}, last[h.Get("Bellhop-Shard")]
		if was.id >= now.id || comparePositions(t, was.position, now.position) >= 0 {
			t.Fatalf("got %v behind %v, of shard %q", now, was, h.Get("Bellhop-Shard"))
		}
		last[h.Get("Bellhop-Shard")], seen[now.id] = now, true
	}
	for i := range all {
		if id := fmt.Sprintf("%06d", first+i); !seen[id] {
			t.Fatalf("%s is missing of %d", id, len(all))
		}
	}
}

func comparePositions(t testing.TB, a, b string) int {
	t.Helper()
	parse := func(s string) notify.Position {
		if s == "" {
			return 0
		}
		p, err := record.ParsePosition(s)
		storetest.Must(t, err)
		return p
	}
	return cmp.Compare(parse(a), parse(b))
}

// reaches waits until the position of the bridge of its shard is that of a broadcast.
func reaches(t testing.TB, store *notify.Store, m *nats.Msg) {
	t.Helper()
	storetest.Eventually(t, "the position of the bridge advances", func() bool { return isAt(t, store, m.Header) })
}

// isAt reports whether the position of the bridge of its shard is that of a broadcast.
func isAt(t testing.TB, store *notify.Store, h nats.Header) bool {
	t.Helper()
	return position(t, store, h.Get("ce-type")) == h.Get("Bellhop-Position")
}

func TestBroadcastIsACloudEvent(t *testing.T) {
	t.Parallel()
	conn, store, d := outbound(t, natsgate.Options{})
	got := subscribe(t, conn, "bellhop.broadcast.>")
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	due := time.Now().Add(200 * time.Millisecond).Truncate(time.Millisecond)
	broadcast(t, store, notify.Message{
		Topic: "order.timeout", ID: "n:1~x", Body: binary, Due: due,
		ContentType: `text/plain; charset="utf-8"; x=50%ü`, Headers: map[string]string{"trace": "t1", "X-Two": "a b"},
	})
	m := storetest.Receive(t, "a broadcast", got)
	if time.Now().Before(due) {
		t.Error("it came early")
	}
	position := m.Header.Get("Bellhop-Position")
	storetest.Should(t, storetest.ErrOf(record.ParsePosition(position)))
	prefix := store.Keys().Prefix()
	want := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"n:1~x"}, "ce-source": {"/" + prefix + "/order.timeout"}, "ce-type": {"order.timeout"},
		"ce-time":            {due.UTC().Format("2006-01-02T15:04:05.000Z")},
		"ce-datacontenttype": {"text/plain;%20charset=%22utf-8%22;%20x=50%25%C3%BC"},
		"Nats-Msg-Id":        {prefix + ":" + position}, "Bellhop-Position": {position},
		"Bellhop-Header-trace": {"t1"}, "Bellhop-Header-X-Two": {"a b"},
	}
	if shards := storetest.Shards(); shards > 1 {
		shard := fmt.Sprintf("%d/%d", store.Of("order.timeout").Number(), shards)
		want.Set("Bellhop-Shard", shard)
		want.Set("Nats-Msg-Id", prefix+":"+shard+":"+position)
	}
	if diff := gocmp.Diff(want, m.Header); diff != "" {
		t.Error(diff)
	}
	if m.Subject != "bellhop.broadcast.order.timeout" || !bytes.Equal(m.Data, binary) || m.Reply != "" {
		t.Errorf("got %s, %q", m.Subject, m.Data)
	}
	reaches(t, store, m)
	if s := d.Stats(); s.Broadcasts != 1 || s.Resent != 0 {
		t.Errorf("counted %+v", s)
	}

	// The same name again is another broadcast. One without a content type has none.
	broadcast(t, store, notify.Message{Topic: "order.timeout", ID: "n:1~x", Body: []byte("x")})
	again := storetest.Receive(t, "a broadcast", got)
	if again.Header.Get("Nats-Msg-Id") == m.Header.Get("Nats-Msg-Id") || again.Header["ce-datacontenttype"] != nil {
		t.Errorf("got %v after %v", again.Header, m.Header)
	}
}

func TestOrderOfBroadcasts(t *testing.T) {
	t.Parallel()
	conn, store, d := outbound(t, natsgate.Options{})
	got := subscribe(t, conn, "bellhop.broadcast.>")
	const n = 5000
	broadcast(t, store, numbered(0, n)...)
	reaches(t, store, receive(t, got, 0, n))
	if s := d.Stats(); s.Broadcasts != n || s.Resent != 0 || s.Gaps != 0 || len(got) != 0 {
		t.Errorf("%d came too much, counted %+v", len(got), s)
	}
}

// A broadcast that is too large for NATS is skipped, also as the last one.
func TestBroadcastTooLarge(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) { o.MaxPayload = 2000 })
	store := storetest.Open(t)
	d := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	all := to(topic, numbered(0, 5))
	all[1].Body, all[4].Body = make([]byte, 1990), make([]byte, 5000) // the headers count, too
	broadcast(t, store, all...)
	for _, id := range []string{"000000", "000002", "000003"} {
		if m := storetest.Receive(t, "a broadcast", got); m.Header.Get("ce-id") != id {
			t.Errorf("got %v, want %s", m.Header, id)
		}
	}
	storetest.Eventually(t, "both are counted", func() bool { return d.Stats().TooLargeBroadcasts == 2 })
	broadcast(t, store, to(topic, numbered(5, 1))...)
	reaches(t, store, receive(t, got, 5, 1))
	if s := d.Stats(); s.Broadcasts != 4 || s.Resent != 0 || s.TooLargeBroadcasts != 2 {
		t.Errorf("counted %+v", s)
	}
	wantLog(t, d.log, map[string]int{"too large for nats": 2, "id=000001": 1, "id=000004": 1, "do not take": 0})
}

// NATS is away, and comes back: all broadcasts of that time arrive, in order.
func TestBroadcastsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	w := newWire(t, n)
	d := startDaemon(t, store, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 10)...)
	reaches(t, store, receive(t, got, 0, 10))
	before := positions(t, store)
	w.cut()
	storetest.Eventually(t, "the gate notices", func() bool { return !d.Stats().Connected })
	const n1 = 3000 // more than fit into the backlog
	broadcast(t, store, numbered(10, n1)...)
	failures(t, d.Gate, 3)
	if now := positions(t, store); now != before || len(got) != 0 {
		t.Errorf("the positions moved from %s to %s, and %d came", before, now, len(got))
	}
	w.mend()
	reaches(t, store, receive(t, got, 10, n1))
	wantLinks(t, d.log, "up", "away", "up")
	wantLog(t, d.log, map[string]int{"nats does not take": 0})
	wantNoFaults(t, d.log)
}

// Broadcasts that expire while NATS is away, wherever they wait, are left out (those in the backlog:
// TestWhatIsLeftOut), and the position moves behind them.
func TestBroadcastsThatExpireWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	w := newWire(t, n)
	d := startDaemon(t, store, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 1)...)
	reaches(t, store, receive(t, got, 0, 1))
	w.cut()
	storetest.Eventually(t, "the gate notices", func() bool { return !d.Stats().Connected })
	const n1, ttl = 1500, time.Hour + 4*time.Second // they are due an hour ago; more than fit into the backlog
	all := to("a", numbered(1, n1))
	for i := range all {
		if i%10 > 0 {
			all[i].TTL = ttl
		}
	}
	broadcast(t, store, all...)
	end := all[n1-2].Due.Add(ttl + 2*time.Millisecond) // both are rounded to a millisecond
	storetest.Eventually(t, "they expire", func() bool { return time.Now().After(end) })
	last := all[n1-1].Due.Add(time.Hour)
	broadcast(t, store, notify.Message{Topic: "a", ID: "last", Body: []byte("x"), Due: last})
	w.mend()
	for i := 0; i < n1; i += 10 {
		if id := storetest.Receive(t, all[i].ID, got).Header.Get("ce-id"); id != all[i].ID {
			t.Fatalf("got %s, want %s", id, all[i].ID)
		}
	}
	m := storetest.Receive(t, "the last", got)
	if id := m.Header.Get("ce-id"); id != "last" {
		t.Errorf("got %s, want the last", id)
	}
	reaches(t, store, m)
	if s := d.Stats(); s.Gaps != 0 || s.Broadcasts != 2+n1/10 {
		t.Errorf("%+v", s)
	}
}

// What expires while it waits for NATS to take it is left out.
func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		expires time.Time
		want    bool
	}{"over": {time.Now(), true}, "not over": {future, false}, "never": {want: false}} {
		if got := natsgate.IsLeftOut(&subscribers.Broadcast{Expires: c.expires}); got != c.want {
			t.Errorf("%s: left out is %v", what, got)
		}
	}
}

// The very first broadcasts are sent while NATS is away, and the bridging daemon
// stops: the next one sends them, since the position where the first began is kept.
func TestTakeoverBeforeTheFirstBroadcast(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	w := newWire(t, n)
	w.cut()
	first := startDaemon(t, store, natsgate.Options{URL: w.url()}, carrier.Options{})
	storetest.Eventually(t, "the position of the bridge is kept", func() bool { return positions(t, store) != "" })
	broadcast(t, store, numbered(0, 10)...)
	storetest.Eventually(t, "they are sent", func() bool {
		sent, err := storetest.Count(store, "a")
		return err == nil && sent.Sent == 4
	})
	first.stop()
	if first.Stats().Broadcasts != 0 {
		t.Errorf("%d were sent to nobody", first.Stats().Broadcasts)
	}
	second := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	reaches(t, store, receive(t, got, 0, 10))
	if n := second.Stats().Gaps; n > 0 {
		t.Errorf("%d gaps are counted where nothing is missing", n)
	}
}

// Broadcasts sent before the first term with a bridge are not passed on.
func TestBridgeBeginsNow(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	stop := carriertest.Run(t, store)
	broadcast(t, store, numbered(0, 5)...)
	storetest.Eventually(t, "they are sent", func() bool {
		n := int64(0)
		for _, topic := range []string{"a", "a.b", "order.timeout"} {
			c, _ := storetest.Count(store, topic) // what fails has no count
			n += c.Sent
		}
		return n == 5
	})
	stop()
	n := startNATS(t, nil)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	broadcast(t, store, numbered(5, 1)...)
	reaches(t, store, receive(t, got, 5, 1))
}

// What was due before there was a carrier is sent at once by the first one, while its bridge may not listen yet: nothing is left out.
func TestBridgeBeginsWithItsTerm(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	broadcast(t, store, numbered(0, 50)...)
	startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	broadcast(t, store, numbered(50, 1)...)
	reaches(t, store, receive(t, got, 0, 51))
}

// Daemons take over from each other under load: no broadcast is lost, and one that
// comes twice comes with its position.
func TestTakeoversUnderLoad(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	o := natsgate.Options{URL: n.ClientURL()}
	now := startDaemon(t, store, o, carrier.Options{}).bridges()
	const total = 6000
	var sending sync.WaitGroup
	sending.Go(func() {
		for from := 0; from < total; from += 50 {
			broadcast(t, store, numbered(from, 50)...)
		}
	})
	for range 3 {
		next := startDaemon(t, store, o, carrier.Options{})
		connected(t, next.Gate)
		before := len(got)
		storetest.Eventually(t, "some are sent", func() bool { return len(got) > before+200 || len(got) >= total })
		now.stop()
		now = next
	}
	sending.Wait()
	positions := make(map[string]string)
	var first []nats.Header
	for len(first) < total {
		m := storetest.Receive(t, "a broadcast", got)
		id, position := m.Header.Get("ce-id"), m.Header.Get("Bellhop-Position")
		switch known := positions[id]; {
		case known == "":
			first = append(first, m.Header)
		case known != position:
			t.Errorf("%s came at %s, and again at %s", id, known, position)
		}
		positions[id] = position
	}
	inOrder(t, first, 0)
	t.Logf("%d came twice", len(got)+len(positions)-total)
}

// An unreadable position is logged once, and the bridge goes on when it is corrected.
func TestForeignPosition(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	storetest.Must(t, store.Client().LPush(t.Context(), store.KeysOf(topic).Bridge(), "x").Err())
	d := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{})
	storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("cannot pass on broadcasts to nats") == 1 })
	conn := n.connect()
	awaitBeat(t, conn) // everything else goes on,
	awaitBeat(t, conn) // while the bridge retries
	wantLog(t, d.log, map[string]int{"cannot pass on broadcasts to nats": 1, store.KeysOf(topic).Bridge(): 0, "WRONGTYPE": 1})
	storetest.Must(t, store.Client().Del(t.Context(), store.KeysOf(topic).Bridge()).Err())
	d.bridges()
	broadcast(t, store, to(topic, numbered(0, 1))...)
	reaches(t, store, receive(t, got, 0, 1))
	wantLog(t, d.log, map[string]int{"passing on broadcasts to nats again": 1})

	// The position becomes unreadable under load: that is logged once, too, and nothing is lost.
	storetest.Must(t, store.Client().Del(t.Context(), store.KeysOf(topic).Bridge()).Err())
	storetest.Must(t, store.Client().LPush(t.Context(), store.KeysOf(topic).Bridge(), "x").Err())
	broadcast(t, store, to(topic, numbered(1, 2000))...)
	storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("cannot keep the position of the bridge") == 1 })
	awaitBeat(t, conn)
	awaitBeat(t, conn)
	storetest.Must(t, store.Client().Del(t.Context(), store.KeysOf(topic).Bridge()).Err())
	reaches(t, store, receive(t, got, 1, 2000))
	wantLog(t, d.log, map[string]int{"cannot keep the position of the bridge": 1})
}

// Broadcasts that the log no longer keeps when a daemon comes back are a gap, which is
// counted; the others are sent.
func TestGap(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	o := natsgate.Options{URL: n.ClientURL()}
	first := startDaemon(t, store, o, carrier.Options{}).bridges()
	broadcast(t, store, to(topic, numbered(0, 3))...)
	reaches(t, store, receive(t, got, 0, 3))
	first.stop()
	stop := carriertest.Run(t, store, carrier.Options{KeepCount: 1})
	const sent = 1500
	broadcast(t, store, to(topic, numbered(3, sent))...)
	storetest.Eventually(t, "they are sent", func() bool {
		c, err := storetest.Count(store, topic)
		return err == nil && c.Sent == sent+3
	})
	stop()
	log, err := store.Client().XLen(t.Context(), store.KeysOf(topic).Log(topic)).Result()
	if err != nil || log > sent/2 {
		t.Fatalf("%d are kept, %v", log, err)
	}
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	reaches(t, store, receive(t, got, 3+sent-int(log), int(log)))
	if s := d.Stats(); s.Gaps != 1 || s.Broadcasts != log {
		t.Errorf("%d are kept, counted %+v", log, s)
	}
}

// Redis loses all its data, the position of the bridge with it, at rest or under load: later broadcasts are passed on, and
// the lost ones are counted as a gap.
func TestBridgeOfLostData(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.At(t, storetest.Lend(t), "")
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	d := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	broadcast(t, store, to(topic, numbered(0, 3))...)
	reaches(t, store, receive(t, got, 0, 3))
	for i, rest := range []bool{false, true} {
		storetest.Eventually(t, "the positions of the bridges are kept", func() bool { return positions(t, store) != "" })
		storetest.Must(t, store.Client().FlushAll(t.Context()).Err())
		if rest {
			storetest.Eventually(t, "the gap is counted", func() bool { return d.Stats().Gaps == int64((i+1)*storetest.Shards()) })
		}
		broadcast(t, store, numbered(3+3*i, 3)...)
		reaches(t, store, receive(t, got, 3+3*i, 3))
		storetest.Eventually(t, "the gap is counted", func() bool { return d.Stats().Gaps == int64((i+1)*storetest.Shards()) })
	}
}

// While NATS is away more is broadcast than fits into the backlog (TestBacklogIsBounded).
func TestLargeBroadcastsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	w := newWire(t, n)
	d := startDaemon(t, store, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	w.cut()
	storetest.Eventually(t, "the gate notices", func() bool { return !d.Stats().Connected })
	all := to(topic, numbered(0, 80)) // 20 MiB
	for i := range all {
		all[i].Body = bytes.Repeat([]byte{byte(i)}, notify.DefaultMaxBody)
	}
	for page := range slices.Chunk(all, 20) {
		broadcast(t, store, page...)
	}
	failures(t, d.Gate, 3)
	w.mend()
	for i := range all {
		m := storetest.Receive(t, "a broadcast", got)
		if m.Header.Get("ce-id") != all[i].ID || !bytes.Equal(m.Data, all[i].Body) {
			t.Fatalf("got %v with %d bytes, want %s", m.Header, len(m.Data), all[i].ID)
		}
	}
	wantNoFaults(t, d.log)
}
