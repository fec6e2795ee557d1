package natsgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const streamName = "BELLHOP"

// withJetStream gives a server JetStream in a directory of the test.
func withJetStream(t testing.TB) func(*server.Options) {
	dir := t.TempDir()
	return func(o *server.Options) { o.JetStream, o.StoreDir = true, dir }
}

// startJetStream starts a nats-server with JetStream, a store, and a client.
func startJetStream(t testing.TB) (*natsd, *notify.Store, jetstream.JetStream) {
	t.Helper()
	n := startNATS(t, withJetStream(t))
	return n, storetest.Open(t), jetStream(t, n)
}

func jetStream(t testing.TB, n *natsd) jetstream.JetStream {
	t.Helper()
	return over(t, n.connect())
}

// over returns JetStream over a connection: a call waits for a Deadline.
func over(t testing.TB, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(storetest.Deadline))
	storetest.Must(t, err)
	return js
}

// keeps returns options of a gateway that sends broadcasts to a stream.
func keeps(n *natsd) natsgate.Options {
	return natsgate.Options{URL: n.ClientURL(), JetStream: streamName}
}

// makeStream makes a stream. It retries while nats-server is still removing the
// folders of a removed stream, which it does after its answer.
func makeStream(t testing.TB, js jetstream.JetStream, c jetstream.StreamConfig) {
	t.Helper()
	var err error
	storetest.Eventually(t, "nats makes the stream "+c.Name, func() bool {
		_, err = js.CreateOrUpdateStream(t.Context(), c)
		var refused *jetstream.APIError
		return !errors.As(err, &refused) || !strings.Contains(refused.Description, "creating store")
	})
	storetest.Must(t, err)
}

// state returns the state of a stream; the zero value if there is none.
func state(t testing.TB, js jetstream.JetStream, name string) jetstream.StreamState {
	t.Helper()
	s, err := js.Stream(context.Background(), name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.StreamState{}
	}
	storetest.Must(t, err)
	return s.CachedInfo().State
}

// holds waits until a stream holds so many messages, as long as there are ever more.
func holds(t testing.TB, js jetstream.JetStream, n uint64) {
	t.Helper()
	for have := uint64(0); have < n; {
		before := have
		storetest.Eventually(t, fmt.Sprintf("the stream holds %d, and more than %d", n, before), func() bool {
			have = state(t, js, streamName).Msgs
			return have > before
		})
	}
}

// stored returns all messages of the stream.
func stored(t testing.TB, js jetstream.JetStream) []jetstream.Msg {
	t.Helper()
	want := state(t, js, streamName).Msgs
	consumer, err := js.OrderedConsumer(t.Context(), streamName, jetstream.OrderedConsumerConfig{})
	storetest.Must(t, err)
	var all []jetstream.Msg
	for len(all) < int(want) {
		batch, err := consumer.Fetch(min(1000, int(want)-len(all)), jetstream.FetchMaxWait(storetest.Deadline))
		storetest.Must(t, err)
		before := len(all)
		for m := range batch.Messages() {
			all = append(all, m)
		}
		if len(all) == before {
			t.Fatalf("%d of %d were fetched: %v", len(all), want, batch.Error())
		}
	}
	return all
}

// wantStored waits until the stream holds n broadcasts and checks that it holds
// each once, in order, and that the position of a bridge is that of the last one.
func wantStored(t testing.TB, js jetstream.JetStream, store *notify.Store, n int) {
	t.Helper()
	holds(t, js, uint64(n))
	all := stored(t, js)
	inOrder(t, headersOf(all), 0)
	storetest.Eventually(t, "the position of the bridge advances", func() bool { return isAt(t, store, all[len(all)-1].Headers()) })
	if got := state(t, js, streamName).Msgs; int(got) != n {
		t.Errorf("the stream holds %d, want %d", got, n)
	}
}

func headersOf(all []jetstream.Msg) (headers []nats.Header) {
	for _, m := range all {
		headers = append(headers, m.Headers())
	}
	return headers
}

func TestStreamIsMade(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	o := keeps(n)
	o.KeepCount, o.KeepAge = 1234, time.Hour
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	all := numbered(0, 1500)
	all[0].Body, all[0].Headers = []byte("\x00\xff\r\n"), map[string]string{"trace": "t1"}
	broadcast(t, store, all...)
	wantStored(t, js, store, len(all))
	first := slices.MinFunc(stored(t, js), func(a, b jetstream.Msg) int {
		return strings.Compare(a.Headers().Get("ce-id"), b.Headers().Get("ce-id"))
	})
	if string(first.Data()) != "\x00\xff\r\n" || first.Headers().Get("Bellhop-Header-trace") != "t1" || first.Headers().Get("ce-type") != "a" || first.Subject() != "bellhop.broadcast.a" {
		t.Errorf("got %s %v %q", first.Subject(), first.Headers(), first.Data())
	}
	s, err := js.Stream(t.Context(), streamName)
	storetest.Must(t, err)
	c := s.CachedInfo().Config
	if !slices.Equal(c.Subjects, []string{"bellhop.broadcast.>"}) || c.MaxMsgsPerSubject != 1234 || c.MaxAge != time.Hour || c.Duplicates != 2*time.Minute || c.Storage != jetstream.FileStorage {
		t.Errorf("the stream is %+v", c)
	}
	if s := d.Stats(); s.Broadcasts != 1500 || s.Resent != 0 {
		t.Errorf("counted %+v", s)
	}
	wantLog(t, d.log, map[string]int{"created the stream": 1, "nats does not take": 0})
	wantNoFaults(t, d.log)

	// The next daemon finds the stream, and leaves it as it is.
	d.stop()
	o.KeepCount = 99
	d = startDaemon(t, store, o, carrier.Options{}).bridges()
	broadcast(t, store, numbered(1500, 1)...)
	wantStored(t, js, store, 1501)
	if s, err = js.Stream(t.Context(), streamName); err != nil || s.CachedInfo().Config.MaxMsgsPerSubject != 1234 {
		t.Errorf("the stream is %+v, %v", s.CachedInfo().Config, err)
	}
	wantLog(t, d.log, map[string]int{"created the stream": 0})
}

// A stream may keep broadcasts for less time than the usual window of duplicates.
func TestStreamOfAShortTime(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	o := keeps(n)
	o.KeepAge = carrier.MinKeepAge
	startDaemon(t, store, o, carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 1)...)
	storetest.Eventually(t, "it is stored", func() bool { return state(t, js, streamName).LastSeq == 1 })
}

func TestStreamThatIsThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		subjects []string
		fits     bool
	}{
		{[]string{"bellhop.broadcast.>"}, true},
		{[]string{"other.*", "bellhop.broadcast.>"}, true},
		{[]string{"bellhop.>"}, true},
		{[]string{"bellhop.*.>"}, true},
		{[]string{"bellhop.broadcast.*"}, false},
		{[]string{"bellhop.broadcast.*.*.>"}, false},
		{[]string{"bellhop.broadcast.a", "bellhop.broadcast.a.b"}, false},
		{[]string{"bellhop.broadcast"}, false},
		{[]string{"bell.broadcast.>", "bellhop.broad.>"}, false},
	} {
		t.Run(strings.Join(c.subjects, " "), func(t *testing.T) {
			n, store, js := startJetStream(t)
			makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: c.subjects})
			d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
			begin := positions(t, store)
			broadcast(t, store, notify.Message{Topic: "a.b.c", ID: "000000", Body: []byte("x")})
			if !c.fits {
				storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("stream BELLHOP: it takes "+strings.Join(c.subjects, ", ")) == 1 })
				storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Refusals >= 3 })
				wantLog(t, d.log, map[string]int{"and not bellhop.broadcast.>: add that": 1, "nats does not take broadcasts": 1, "over: ": 0})
				if now := positions(t, store); now != begin {
					t.Errorf("the position moved from %s to %s", begin, now)
				}
				makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: append(c.subjects[:0:0], "bellhop.broadcast.>")})
			}
			storetest.Eventually(t, "it is stored", func() bool {
				m, err := js.Stream(context.Background(), streamName)
				if err != nil {
					return false
				}
				last, err := m.GetLastMsgForSubject(context.Background(), "bellhop.broadcast.a.b.c")
				return err == nil && last.Header.Get("ce-id") == "000000" && isAt(t, store, nats.Header(last.Header))
			})
			if !c.fits {
				storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("over: nats does not take broadcasts") == 1 })
			}
		})
	}
}

// A stream that does not acknowledge is refused: the bridge would wait for ever.
func TestStreamWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	c := jetstream.StreamConfig{Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, NoAck: true}
	makeStream(t, js, c)
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 3)...)
	storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("stream BELLHOP: it does not acknowledge (no_ack)") == 1 })
	c.NoAck = false
	makeStream(t, js, c)
	wantStored(t, js, store, 3)
}

func TestOverlappingStream(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: "prices", Subjects: []string{"bellhop.broadcast.a.>"}})
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 10)...)
	storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Refusals >= 4 })
	wantLog(t, d.log, map[string]int{
		"stream BELLHOP: its subjects bellhop.broadcast.> overlap those of the stream prices: set BELLHOP_NATS_JETSTREAM=prices, or take them from it": 1,
		"nats does not take broadcasts": 1,
	})
	if got := state(t, js, "prices").Msgs; got != 0 {
		t.Errorf("%d are in the other stream", got)
	}
	storetest.Must(t, js.DeleteStream(t.Context(), "prices"))
	wantStored(t, js, store, 10)
	wantLog(t, d.log, map[string]int{"nats does not take broadcasts": 2, "over: ": 1})
}

func TestJetStreamNotEnabled(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	broadcast(t, store, numbered(0, 10)...)
	storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Refusals >= 4 })
	wantLog(t, d.log, map[string]int{"nats does not take broadcasts": 1, "JetStream is off": 1})
	awaitBeat(t, n.connect()) // everything else goes on
	n.restart(withJetStream(t))
	wantStored(t, jetStream(t, n), store, 10)
}

// A stream that is removed while in use is made again: only the setting decides
// whether there is one.
func TestStreamRemoved(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	broadcast(t, store, numbered(7, 5)...)
	holds(t, js, 5)
	storetest.Eventually(t, "all are acknowledged", func() bool { return d.Stats().Broadcasts == 5 })
	storetest.Must(t, js.DeleteStream(t.Context(), streamName))
	broadcast(t, store, numbered(0, 700)...)
	wantStored(t, js, store, 700)
	wantLog(t, d.log, map[string]int{"created the stream": 2, "was the stream removed": 1, "over: nats does not take broadcasts": 1})

	// Another stream takes its subjects, and NATS reports nothing.
	storetest.Must(t, js.DeleteStream(t.Context(), streamName))
	makeStream(t, js, jetstream.StreamConfig{Name: "other", Subjects: []string{"bellhop.>"}})
	broadcast(t, store, numbered(0, 3)...)
	storetest.Eventually(t, "it waits", func() bool { return d.log.Count("nats does not take broadcasts") >= 3 })
	storetest.Must(t, js.DeleteStream(t.Context(), "other"))
	wantStored(t, js, store, 3)
}

func TestStreamLimitsTheSizeOfMessages(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, MaxMsgSize: 2000})
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	all := numbered(0, 3)
	large := notify.Message{Topic: "large", ID: "large", Body: make([]byte, 3000), Due: all[0].Due.Add(time.Microsecond)}
	broadcast(t, store, all[0], large, all[1], all[2])
	wantStored(t, js, store, 3)
	if s := d.Stats(); s.TooLargeBroadcasts != 1 || s.Broadcasts != 3 || s.Resent != 0 {
		t.Errorf("counted %+v", s)
	}
	wantLog(t, d.log, map[string]int{"too large for nats": 1, "id=large": 1})
}

// A full stream refuses new broadcasts: the bridge waits, keeps its position behind the
// stored ones, and goes on when there is room.
func TestFullStream(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew})
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	const total = 35
	broadcast(t, store, to(topic, numbered(0, total))...)
	s, err := js.Stream(t.Context(), streamName)
	storetest.Must(t, err)
	for from := 0; from < total; from += 10 {
		n := min(10, total-from)
		holds(t, js, uint64(n))
		all := stored(t, js)
		inOrder(t, headersOf(all), from)
		storetest.Eventually(t, "the position is behind the stored broadcasts", func() bool { return isAt(t, store, all[n-1].Headers()) })
		if n == 10 {
			resent := d.Stats().Resent
			storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Resent > resent+1 })
			if !isAt(t, store, all[n-1].Headers()) || state(t, js, streamName).Msgs != 10 {
				t.Errorf("the position moved to %s without room", position(t, store, topic))
			}
		}
		storetest.Must(t, s.Purge(t.Context()))
	}
	if got := d.Stats().Broadcasts; got != total {
		t.Errorf("%d are counted as confirmed", got)
	}
}

// Broadcasts that expire before a full stream has room are left out.
func TestBroadcastsThatExpireBeforeAFullStream(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew})
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	all := to(topic, numbered(0, 16))
	for i := 10; i < 15; i++ {
		all[i].TTL = time.Hour + 2*time.Second // they are due an hour ago
	}
	broadcast(t, store, all...)
	holds(t, js, 10)
	storetest.Eventually(t, "it is refused", func() bool { return d.Stats().Resent > 1 })
	end := all[14].Due.Add(all[14].TTL + 2*time.Millisecond) // both are rounded to a millisecond
	storetest.Eventually(t, "they expire", func() bool { return time.Now().After(end) })
	resent := d.Stats().Resent
	storetest.Eventually(t, "none of them is under way", func() bool { return d.Stats().Resent > resent+1 })
	s, err := js.Stream(t.Context(), streamName)
	if err == nil {
		err = s.Purge(t.Context())
	}
	storetest.Must(t, err)
	holds(t, js, 1)
	if m := stored(t, js)[0]; m.Headers().Get("ce-id") != all[15].ID {
		t.Errorf("%s is stored", m.Headers().Get("ce-id"))
	}
}

// A consumer that empties a full stream bit by bit gets everything in order, and once.
func TestFullStreamThatIsEmptiedBitByBit(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, MaxMsgs: 3, Discard: jetstream.DiscardNew, Retention: jetstream.WorkQueuePolicy})
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	const total = 1500
	broadcast(t, store, to(topic, numbered(0, total))...)
	holds(t, js, 3)
	storetest.Eventually(t, "it is refused", func() bool { return d.Stats().Resent > 0 })
	consumer, err := js.CreateConsumer(t.Context(), streamName, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1})
	storetest.Must(t, err)
	for i := range total {
		m, err := consumer.Next(jetstream.FetchMaxWait(storetest.Deadline))
		storetest.Must(t, err)
		if id := m.Headers().Get("ce-id"); id != fmt.Sprintf("%06d", i) {
			t.Fatalf("got %s, want %06d", id, i)
		}
		storetest.Must(t, m.DoubleAck(t.Context()))
	}
}

// withLarge returns ten broadcasts of a topic, of which the second is larger than the stream of limited.
func withLarge() []notify.Message {
	all := to(topic, numbered(0, 10))
	all[1].Body = make([]byte, 20_000)
	return all
}

// limited returns a stream that refuses what makes it larger.
func limited(bytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"bellhop.broadcast.>"}, MaxBytes: bytes, Discard: jetstream.DiscardNew,
	}
}

// wantStoredOnceRoomIsMade waits until the stream of limited refuses a broadcast of withLarge, and makes room: then all are
// stored in their order.
func wantStoredOnceRoomIsMade(t *testing.T, d *daemon, store *notify.Store, js jetstream.JetStream) {
	t.Helper()
	storetest.Eventually(t, "it is refused", func() bool { return d.Stats().Resent > 1 })
	makeStream(t, js, limited(100_000))
	wantStored(t, js, store, 10)
}

// None overtakes one that a full stream refuses, also if it is smaller, nor where the next daemon begins with that.
func TestNoneOvertakesARefusedBroadcast(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, limited(10_000))
	startDaemon(t, store, keeps(n), carrier.Options{}).bridges().stop()
	broadcast(t, store, withLarge()...) // so that the next daemon finds them all at once
	d := startDaemon(t, store, keeps(n), carrier.Options{})
	storetest.Eventually(t, "it is refused", func() bool { return d.Stats().Resent > 1 })
	d.stop()
	wantStoredOnceRoomIsMade(t, startDaemon(t, store, keeps(n), carrier.Options{}), store, js)
}

// None overtakes another, either, where a stream was changed to refuse while the gateway was not connected.
func TestStreamThatRefusesFromNowOn(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	w := newWire(t, n)
	o := keeps(n)
	o.URL = w.url()
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	storetest.Eventually(t, "the stream is there", func() bool {
		_, err := js.Stream(t.Context(), streamName)
		return err == nil
	})
	w.cut()
	makeStream(t, js, limited(10_000))
	broadcast(t, store, withLarge()...)
	w.mend()
	wantStoredOnceRoomIsMade(t, d, store, js)
}

// The server is restarted with its stored messages, under load.
func TestServerRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	n, store, _ := startJetStream(t)
	d := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	const total = 6000
	var sending sync.WaitGroup
	sending.Go(func() {
		for from := 0; from < total; from += 100 {
			broadcast(t, store, numbered(from, 100)...)
		}
	})
	for range 3 {
		before := d.Stats().Broadcasts
		storetest.Eventually(t, "some are stored", func() bool { s := d.Stats(); return s.Broadcasts > before+500 || s.Broadcasts == total })
		n.restart(nil)
		connected(t, d.Gate)
	}
	sending.Wait()
	wantStored(t, jetStream(t, n), store, total)
	wantLog(t, d.log, map[string]int{"created the stream": 1})
	wantNoFaults(t, d.log)
	t.Logf("%d were sent again; %s", d.Stats().Resent, d.log)
}

// The wire to NATS is cut, again and again, so that acknowledgements get lost.
func TestWireCutUnderLoad(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	w := newWire(t, n)
	o := keeps(n)
	o.URL = w.url()
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	const total = 6000
	var sending sync.WaitGroup
	sending.Go(func() {
		for from := 0; from < total; from += 100 {
			broadcast(t, store, numbered(from, 100)...)
		}
	})
	for range 8 {
		before := d.Stats().Broadcasts
		storetest.Eventually(t, "some are stored", func() bool { s := d.Stats(); return s.Broadcasts > before+200 || s.Broadcasts == total })
		connects := d.Stats().Connects
		w.cut()
		w.mend()
		storetest.Eventually(t, "it connects again", func() bool { return d.Stats().Connects > connects })
	}
	sending.Wait()
	wantStored(t, js, store, total)
	wantLog(t, d.log, map[string]int{"nats does not take broadcasts": 0})
	wantNoFaults(t, d.log)
	t.Logf("%d were sent again", d.Stats().Resent)
}

// Daemons take over from each other under load: the stream holds each broadcast
// once, in order.
func TestTakeoversWithAStream(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	now := startDaemon(t, store, keeps(n), carrier.Options{}).bridges()
	const total = 6000
	var sending sync.WaitGroup
	sending.Go(func() {
		for from := 0; from < total; from += 50 {
			broadcast(t, store, numbered(from, 50)...)
		}
	})
	for range 4 {
		next := startDaemon(t, store, keeps(n), carrier.Options{})
		connected(t, next.Gate)
		before := state(t, js, streamName).Msgs
		storetest.Eventually(t, "some are stored", func() bool { s := state(t, js, streamName); return s.Msgs > before+200 || s.Msgs == total })
		now.stop()
		now = next
	}
	sending.Wait()
	wantStored(t, js, store, total)
}

// A bridge whose carrier has lost its lease unnoticed sends the same broadcasts as its
// successor: the stream stores each once.
func TestTwoBridgesAtOnce(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	carry(t, store)
	for range 2 {
		gate, _ := newGate(t, store, keeps(n))
		storetest.Run(t, func(ctx context.Context) error {
			allTerms(ctx, t, store, gate)
			return nil
		})
		connected(t, gate)
		storetest.Eventually(t, "the positions of the bridges are kept", func() bool { return positions(t, store) != "" })
	}
	broadcast(t, store, numbered(0, 3000)...)
	wantStored(t, js, store, 3000)
}

// An unfit stream does not disturb other subjects of NATS.
func TestStreamFaultHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	n, store, js := startJetStream(t)
	makeStream(t, js, jetstream.StreamConfig{Name: streamName, Subjects: []string{"other"}})
	o := keeps(n)
	deliver(t, store, 4, topic)
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	conn := n.connect()
	awaitBeat(t, conn)
	broadcast(t, store, numbered(0, 3000)...)
	storetest.Eventually(t, "it is retried", func() bool { return d.log.Count("nats does not take broadcasts") == 1 })
	handles(t, store)
	storetest.RingAlone(t, store, topic) // what is handed over wakes nobody else
	got := subscribe(t, conn, "bellhop.wake.order.timeout")
	acknowledge(t, conn, "")
	storetest.Publish(t, store, body("a"))
	storetest.Receive(t, "a wake-up", got)
	storetest.Eventually(t, "it is delivered", func() bool { return gone(t, store, "a") })
	serving(t, conn)
}
