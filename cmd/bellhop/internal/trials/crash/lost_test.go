package crash_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The stated bounds: within rung a lost ring or nudge is made good, and within heard a silent cut.
const (
	rung  = time.Second
	heard = 3 * time.Second
)

// clock returns the time by Redis's clock.
func clock(t *testing.T, db *notify.Store) time.Time {
	t.Helper()
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

// claimed returns when a message was claimed, or handed over, by Redis's clock.
func claimed(d *subscribers.Delivery) time.Time { return d.Due.Add(d.Late()) }

// publishSoon publishes a message, and returns when it is due.
func publishSoon(t *testing.T, db *notify.Store) time.Time {
	t.Helper()
	p, err := storetest.Publisher(t, db).Publish(t.Context(), notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	storetest.Must(t, err)
	return p.Due
}

// as returns the store for another user.
func as(t *testing.T, url, user string, db *notify.Store) *notify.Store {
	t.Helper()
	return storetest.At(t, strings.Replace(url, "redis://", "redis://"+user+":secret@", 1), db.Keys().Prefix())
}

// setUser changes the rights of a user.
func setUser(t *testing.T, db *notify.Store, rules ...any) {
	t.Helper()
	storetest.Must(t, db.Client().Do(t.Context(), append([]any{"ACL", "SETUSER"}, rules...)...).Err())
}

// run runs a carrier on a store and waits until it is elected.
func run(t *testing.T, db *notify.Store) {
	t.Helper()
	carriertest.Run(t, db)
	elected(t, db, "")
}

// waiting waits until a subscriber waits for the topic.
func waiting(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "a subscriber waits", func() bool {
		n, err := db.Client().ZCard(context.Background(), db.Keys().Waiting(topic)).Result()
		return err == nil && n == 1
	})
}

// claims runs a worker that sends when each message was claimed.
func claims(t *testing.T, db *notify.Store) <-chan time.Time {
	t.Helper()
	at := make(chan time.Time, 10)
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		at <- claimed(d)
		return nil
	}, subscribers.HandleOptions{}))
	storetest.Run(t, sub.Run)
	return at
}

// A nudge is lost, since the publisher may not PUBLISH. With its next beat the carrier finds
// the message.
func TestLostNudge(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	run(t, db)
	at := claims(t, db)
	waiting(t, db)
	setUser(t, db, "mute", "on", ">secret", "~*", "&*", "+@all")
	mute := as(t, server.URL(), "mute", db)
	storetest.Must(t, mute.Check(t.Context()))
	setUser(t, db, "mute", "resetchannels") // after the check of its rights
	watch := standstill.Start(t)
	due := publishSoon(t, mute)
	watch.Judge(t, "a claim after a lost nudge", due, storetest.Receive(t, "the message is handled", at), rung)
}

// A ring is lost, since the carrier may not PUBLISH to inboxes for a moment. With its next
// beat it rings again.
func TestLostRing(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	setUser(t, db, "carrier", "on", ">secret", "~*", "&*", "+@all")
	run(t, as(t, server.URL(), "carrier", db))
	at := claims(t, db)
	waiting(t, db)
	channels := db.Keys()
	setUser(t, db, "carrier", "resetchannels", "&"+channels.Nudge(), "&"+channels.Beat(), "&"+channels.Vacant())
	// A change of a user's channels ends its subscriptions: the carrier subscribes again.
	storetest.Eventually(t, "the carrier subscribes again", func() bool {
		n, err := db.Client().PubSubNumSub(t.Context(), channels.Nudge()).Result()
		return err == nil && n[channels.Nudge()] == 1
	})
	publishSoon(t, db)
	storetest.Eventually(t, "it is ready, and nobody was rung", func() bool {
		n, err := db.Client().ZCard(t.Context(), db.Keys().Ready(topic)).Result()
		return err == nil && n == 1
	})
	watch := standstill.Start(t)
	setUser(t, db, "carrier", "&*")
	allowed := clock(t, db)
	watch.Judge(t, "a claim after a lost ring", allowed, storetest.Receive(t, "the message is handled", at), rung)
}

// A subscriber's connections are cut silently, and a ring is lost. It misses three beats,
// reconnects and claims.
func TestSilentCut(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	start(t, db, "carrier", func(string) {}, "CRASH_NAME=one", inTime)
	elected(t, db, "")
	p := newProxy(t, strings.TrimPrefix(storetest.URL(), "redis://"))
	l, handled := newLedger(), make(chan time.Time, 10)
	start(t, storetest.At(t, "redis://"+p.addr, db.Keys().Prefix()), "worker", func(line string) {
		l.line(line)
		handled <- time.Now() // Redis has the same clock
	}, "CRASH_PAUSE=0s", inTime)
	waiting(t, db)
	watch := standstill.Start(t)
	p.swallow()
	due := publishSoon(t, db)
	watch.Judge(t, "a claim after a silent cut", due, storetest.Receive(t, "the message is handled", handled), heard)
	l.check(t, 1)
}

// proxy passes connections on to an address, and can silently swallow all data of the open ones.
type proxy struct {
	addr string

	mu    sync.Mutex
	holes []*atomic.Bool // one for each connection; true: its data is swallowed
	conns []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	p := &proxy{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				return
			}
			hole := new(atomic.Bool)
			p.mu.Lock()
			p.holes, p.conns = append(p.holes, hole), append(p.conns, in, out)
			p.mu.Unlock()
			all.Go(func() { pass(in, out, hole) })
			all.Go(func() { pass(out, in, hole) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	return p
}

// pass copies until the connection ends. While hole is true it drops the data.
func pass(from, to net.Conn, hole *atomic.Bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			if err == io.EOF && !hole.Load() {
				to.Close()
			}
			return
		}
		if hole.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// swallow drops all further data of the connections that are open now.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, hole := range p.holes {
		hole.Store(true)
	}
}
