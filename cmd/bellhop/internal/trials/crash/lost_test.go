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

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// slack is added to stated bounds, for a busy machine.
const slack = 10 * time.Second

// as returns the store for another user.
func as(t *testing.T, url, user string, db *notify.Store) *notify.Store {
	t.Helper()
	return storetest.At(t, strings.Replace(url, "redis://", "redis://"+user+":secret@", 1), db.Keys().Prefix())
}

// setUser changes the rights of a user.
func setUser(t *testing.T, db *notify.Store, rules ...any) {
	t.Helper()
	if err := db.Client().Do(t.Context(), append([]any{"ACL", "SETUSER"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
}

// run runs a carrier on a store and waits until it is elected.
func run(t *testing.T, db *notify.Store) {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, c.Run)
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

// handled waits until a message is handled, and returns how late it was.
func handled(t *testing.T, late <-chan time.Duration) time.Duration {
	t.Helper()
	got := storetest.Receive(t, "the message is handled", late)
	t.Logf("late by %v", got)
	return got
}

// lateWorker runs a worker that sends how late each message is.
func lateWorker(t *testing.T, db *notify.Store) <-chan time.Duration {
	t.Helper()
	late := make(chan time.Duration, 10)
	sub, err := subscribers.NewSubscriber(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		late <- time.Since(d.Due)
		return nil
	}, subscribers.HandleOptions{}); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, sub.Run)
	return late
}

// A nudge is lost, since the publisher may not PUBLISH. With its next beat the carrier finds
// the message.
func TestLostNudge(t *testing.T) {
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	run(t, db)
	late := lateWorker(t, db)
	waiting(t, db)
	setUser(t, db, "mute", "on", ">secret", "~*", "&*", "+@all")
	mute := as(t, server.URL(), "mute", db)
	if err := mute.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	setUser(t, db, "mute", "resetchannels") // after the check of its rights
	storetest.Publish(t, mute, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	if got := handled(t, late); got > store.Heartbeat+slack {
		t.Errorf("late by %v, the bound is a heartbeat, %v", got, store.Heartbeat)
	}
}

// A ring is lost, since the carrier may not PUBLISH to inboxes for a moment. With its next
// beat it rings again.
func TestLostRing(t *testing.T) {
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	setUser(t, db, "carrier", "on", ">secret", "~*", "&*", "+@all")
	run(t, as(t, server.URL(), "carrier", db))
	late := lateWorker(t, db)
	waiting(t, db)
	channels := db.Keys()
	setUser(t, db, "carrier", "resetchannels", "&"+channels.Head(), "&"+channels.Beat(), "&"+channels.Vacant())
	// A change of a user's channels ends its subscriptions: the carrier subscribes again.
	storetest.Eventually(t, "the carrier subscribes again", func() bool {
		n, err := db.Client().PubSubNumSub(t.Context(), channels.Head()).Result()
		return err == nil && n[channels.Head()] == 1
	})
	storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	storetest.Eventually(t, "it is ready, and nobody was rung", func() bool {
		n, err := db.Client().ZCard(t.Context(), db.Keys().Ready(topic)).Result()
		return err == nil && n == 1
	})
	allowed := time.Now()
	setUser(t, db, "carrier", "&*")
	handled(t, late)
	if took := time.Since(allowed); took > store.Heartbeat+slack {
		t.Errorf("rung after %v, the bound is a heartbeat, %v", took, store.Heartbeat)
	}
}

// A subscriber's connections are cut silently, and a ring is lost. It misses three beats,
// reconnects and claims.
func TestSilentCut(t *testing.T) {
	db := storetest.Open(t)
	run(t, db)
	p := newProxy(t, strings.TrimPrefix(storetest.URL(), "redis://"))
	late := lateWorker(t, storetest.At(t, "redis://"+p.addr, db.Keys().Prefix()))
	waiting(t, db)
	p.swallow()
	storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	if got := handled(t, late); got > store.Silence+slack {
		t.Errorf("late by %v, the bound is three beats, %v", got, store.Silence)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
