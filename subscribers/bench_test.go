package subscribers_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// size is how many subscribers a herd has.
const size = 200

// assemble has a herd wait for messages. It returns what it handled.
func assemble(t testing.TB, db *notify.Store) <-chan string {
	t.Helper()
	handled := make(chan string, 10)
	for range size {
		handle(t, db, idsInto(handled))
	}
	waits(t, db, size)
	return handled
}

// One message wakes one subscriber, however many wait: it claims the message, and then waits again.
func TestOneMessageWakesOneSubscriber(t *testing.T) {
	t.Parallel()
	var claimed atomic.Int64 // but for the claims of new connections
	db := storetest.At(t, storetest.URL(), "test-"+notify.NewID())
	db.Observe(func(script string, _ time.Duration, _ error) {
		switch script {
		case "claim":
			claimed.Add(1)
		case "arrive": // one whose connection is new claims by itself
			claimed.Add(-1)
		}
	})
	carry(t, db)
	handled := assemble(t, db)
	beats(t, db, 2) // whose claims are answered by then
	before := claimed.Load()
	storetest.Publish(t, db, notify.Message{Topic: topic, Body: storetest.Payload, Delay: 50 * time.Millisecond})
	storetest.Receive(t, "the message is handled", handled)
	waits(t, db, size)
	beats(t, db, 2)
	if claims := claimed.Load() - before; claims > 3 {
		t.Errorf("one message caused %d claims, want 2, or 3 where a beat came between", claims)
	}
}

// Of 200 subscribers that wait one hears of a message, be it handed over or rung for, and only once.
func TestOneSubscriberHearsOfAMessage(t *testing.T) {
	storetest.OneShard(t, "channels of shards have no patterns by which to hear all inboxes")
	t.Parallel()
	for name, test := range map[string]struct {
		carries bool // else no beat repeats a ring that is under way
		delay   time.Duration
		body    int
	}{
		"handed over by the publish": {false, 0, 100},
		"handed over by the carrier": {true, 50 * time.Millisecond, 100},
		"rung for":                   {false, 0, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			if test.carries {
				carry(t, db)
			} else {
				beating(t, db)
			}
			handled := assemble(t, db)
			heard := db.Client().PSubscribe(t.Context(), db.Keys().Inbox("*"), db.Keys().Hands("*"))
			defer heard.Close()
			for range 2 {
				storetest.Must(t, storetest.ErrOf(heard.Receive(t.Context())))
			}
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: "a", Body: make([]byte, test.body), Delay: test.delay})
			storetest.Receive(t, "the message is handled", handled)
			settled(t, db)
			storetest.Must(t, db.Client().Publish(t.Context(), db.Keys().Inbox("nobody"), "end").Err())
			n := 0
			for m := range heard.Channel() {
				if m.Payload == "end" {
					break
				}
				if n++; strings.Contains(m.Payload, "\n") == (name == "rung for") {
					t.Errorf("%s heard %.100q", m.Channel, m.Payload)
				}
			}
			if n != 1 || len(handled) > 0 {
				t.Errorf("%d heard of the message, and handled it %d times", n, 1+len(handled))
			}
		})
	}
}

// listenAll starts listeners, each some on a connection of theirs, and returns when all listen.
// on is called by each, with its number, for each broadcast.
func listenAll(t testing.TB, db *notify.Store, connections, each int, topic func(i int) string, on func(i int, b *subscribers.Broadcast)) {
	t.Helper()
	var started sync.WaitGroup
	for c := range connections {
		l := newListener(t, db)
		for i := range each {
			number := c*each + i
			started.Add(1)
			storetest.Run(t, func(ctx context.Context) error {
				return l.Listen(ctx, topic(number), func(_ context.Context, b *subscribers.Broadcast) error {
					on(number, b)
					return nil
				}, subscribers.ListenOptions{OnStart: func(subscribers.Bookmark) { started.Done() }})
			})
		}
	}
	listening := make(chan struct{})
	go func() {
		started.Wait()
		close(listening)
	}()
	storetest.Receive(t, "all listen", listening)
}

func onTopic(int) string { return topic }

// BenchmarkFanout measures how late the last of 1,000 listeners on 10 connections has a broadcast, in 20 rounds.
func BenchmarkFanout(b *testing.B) {
	const connections, each, rounds = 10, 100, 20
	db := storetest.Open(b)
	carry(b, db)
	var all, last storetest.Lateness
	got := make(chan time.Duration, connections*each)
	listenAll(b, db, connections, each, onTopic, func(_ int, one *subscribers.Broadcast) { got <- time.Since(one.Due) })
	for b.Loop() {
		for range rounds {
			storetest.Publish(b, db, notify.Message{Topic: topic, Body: storetest.Payload, Broadcast: true, Delay: 300 * time.Millisecond})
			var latest time.Duration
			for range cap(got) {
				late := storetest.Receive(b, "a broadcast", got)
				all.Add(late)
				latest = max(latest, late)
			}
			last.Add(latest)
		}
	}
	all.Report(b, "each")
	last.Report(b, "last")
}

// BenchmarkStream measures how late broadcasts are that come at 10,000 a second, for 10 s, to 10 listeners with a connection each.
func BenchmarkStream(b *testing.B) {
	const total, listeners = 100_000, 10
	const batch, every = 100, 10 * time.Millisecond
	db := storetest.Open(b)
	carry(b, db)
	var late storetest.Lateness
	listenAll(b, db, listeners, 1, onTopic, func(_ int, one *subscribers.Broadcast) { late.Add(time.Since(one.Due)) })
	message := func(int) notify.Message {
		return notify.Message{Topic: topic, Body: storetest.Payload, Broadcast: true}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var sending time.Duration
	for b.Loop() {
		began := time.Now()
		for range total / batch {
			<-ticker.C
			storetest.Fill(b, db, batch, message)
		}
		sending += time.Since(began)
	}
	late.Await(b, b.N*total*listeners)
	late.Report(b, "due-to-handler")
	b.ReportMetric(float64(b.N*total)/sending.Seconds(), "broadcasts/s")
}

// BenchmarkListening counts the calls of Redis in 10 s without a broadcast, with 100 listeners of 100 topics on 10 connections.
func BenchmarkListening(b *testing.B) {
	const connections, each, seconds = 10, 10, 10
	db := storetest.At(b, storetest.Server(b).URL(), "")
	carry(b, db)
	listenAll(b, db, connections, each, func(i int) string { return fmt.Sprint(topic, i) }, func(int, *subscribers.Broadcast) {})
	beats(b, db, 1)
	scripts, all := scriptCalls(b, db), commandCalls(b, db, "")
	for b.Loop() {
		beats(b, db, seconds)
	}
	took := seconds * float64(b.N)
	b.ReportMetric(float64(scriptCalls(b, db)-scripts)/took, "calls/s")
	b.ReportMetric(float64(commandCalls(b, db, "")-all)/took, "commands/s")
}

// BenchmarkWake measures how long after the call that publishes a message a claim returns with it that waits for so many topics.
func BenchmarkWake(b *testing.B) {
	for _, n := range []int{1, record.MaxTopics} {
		for name, ring := range map[string]bool{"handed over": false, "rung for": true} {
			b.Run(fmt.Sprint(n, " topics, ", name), func(b *testing.B) {
				db := storetest.Open(b)
				carry(b, db)
				p := subscriberstest.Claimer(b, db)
				storetest.Run(b, p.Run)
				storetest.Eventually(b, "the claimer receives itself", func() bool { return p.Ping(b.Context()) == nil })
				pub, topics := storetest.Publisher(b, db), topicsOf(n)
				if ring {
					storetest.RingAlone(b, db, topics...)
				}
				var late storetest.Lateness
				for i := range b.N {
					came, began := make(chan error, 1), make(chan time.Time, 1)
					go func() {
						ds, err := p.ClaimAny(b.Context(), topics, subscribers.ClaimOptions{Lease: time.Minute, Wait: time.Minute})
						woken := time.Now()
						late.Add(woken.Sub(<-began))
						if err == nil {
							err = ds[0].Ack(b.Context())
						}
						came <- err
					}()
					waitsIn(b, db, topics, 1)
					began <- time.Now()
					storetest.Must(b, storetest.ErrOf(pub.Publish(b.Context(), notify.Message{Topic: topics[i%n], Body: storetest.Payload})))
					storetest.Must(b, storetest.Receive(b, "the message", came))
					waitsIn(b, db, topics, 0)
				}
				late.Report(b, "woken")
			})
		}
	}
}
