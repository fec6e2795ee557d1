package notify_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// hear runs Hear. It returns its events, but no beats of storetest.Beat, and a function that ends it and waits for that.
func hear(t *testing.T, db *notify.Store, channels ...reach.Channel) (events <-chan store.Event, stop func()) {
	t.Helper()
	heard := make(chan store.Event, 1000)
	channels = append(channels, db.Home().BeatChannel())
	stop = storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			if e.Kind != reach.Beat || e.Payload != storetest.BeatOfNothing {
				heard <- e
			}
		}, channels...)
		return nil
	})
	return heard, stop
}

// inbox returns the channel of an inbox in the first shard.
func inbox(db *notify.Store, id string) reach.Channel {
	return db.Home().InboxChannel(reach.NewInbox(id, false))
}

// wantEvent waits for the next event, which must be of a kind, and returns it.
func wantEvent(t *testing.T, events <-chan store.Event, kind reach.EventKind) store.Event {
	t.Helper()
	e := storetest.Receive(t, "an event", events)
	if e.Kind != kind {
		t.Fatalf("event %+v, want one of the kind %d", e, kind)
	}
	return e
}

// skipTo waits for the first event of a kind.
func skipTo(t *testing.T, events <-chan store.Event, kind reach.EventKind) store.Event {
	t.Helper()
	for {
		if e := storetest.Receive(t, "an event", events); e.Kind == kind {
			return e
		}
	}
}

// say publishes a payload on a channel, which must have one receiver.
func say(t *testing.T, db *notify.Store, channel, payload string) {
	t.Helper()
	if n, err := storetest.Tell(t.Context(), db, channel, payload); err != nil || n != 1 {
		t.Fatalf("%d heard %q on %s, %v; want one", n, payload, channel, err)
	}
}

func TestHear(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	one, two := db.Keys().Inbox("one"), db.Keys().Inbox("two")
	events, stop := hear(t, db, inbox(db, "one"), inbox(db, "two"))
	wantEvent(t, events, reach.Subscribed)
	say(t, db, two, "2")
	say(t, db, db.Keys().Beat(), "7 1700000000000")
	say(t, db, one, "1")
	say(t, db, one, "")
	want := []store.Event{
		{Kind: reach.Received, Channel: two, Payload: "2"},
		{Kind: reach.Beat, Payload: "7 1700000000000"},
		{Kind: reach.Received, Channel: one, Payload: "1"},
		{Kind: reach.Received, Channel: one, Payload: ""},
	}
	for _, want := range want {
		storetest.Same(t, "event", want, storetest.Receive(t, "an event", events), cmpopts.IgnoreUnexported(store.Event{}))
	}
	stop()
	storetest.Eventually(t, "nobody hears any more", func() bool {
		n, err := storetest.Tell(t.Context(), db, one, "late")
		return err == nil && n == 0
	})
	if len(events) != 0 {
		t.Errorf("%d events came after the end", len(events))
	}
}

func TestHearOnlyTheBeat(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	events, _ := hear(t, db)
	wantEvent(t, events, reach.Subscribed)
	say(t, db, db.Keys().Beat(), "1 2")
	wantEvent(t, events, reach.Beat)
}

func TestHearWithAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	db.Subscribe(ctx, func(e store.Event) { t.Errorf("event %+v", e) })
}

// Beats keep a connection alive that carries nothing else. When they stop, it is made
// anew.
func TestBeatAndSilence(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	const silence = 10 * time.Second // longer than a busy machine stands still
	db.BearSilence(silence)
	events, _ := hear(t, db)
	wantEvent(t, events, reach.Subscribed)
	every := time.NewTicker(reach.Heartbeat / 2)
	defer every.Stop()
	for end := time.Now().Add(silence + reach.Heartbeat); time.Now().Before(end); {
		<-every.C
		say(t, db, db.Keys().Beat(), "")
		wantEvent(t, events, reach.Beat)
	}
	wantEvent(t, events, reach.Silent)
	wantEvent(t, events, reach.Subscribed)
}

func TestConnectionIsKilled(t *testing.T) {
	t.Parallel()
	url := storetest.Lend(t)
	db, address := storetest.Unhurried(storetest.At(t, url, "")), strings.TrimPrefix(url, "redis://")
	one := db.Keys().Inbox("one")
	events, _ := hear(t, db, inbox(db, "one"))
	for range 5 {
		skipTo(t, events, reach.Subscribed)
		storetest.Must(t, db.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		if e := wantEvent(t, events, reach.Broken); e.Err == nil || !strings.Contains(e.Err.Error(), address) {
			t.Errorf("broken by %v; want an error that names %s", e.Err, address)
		}
	}
	skipTo(t, events, reach.Subscribed)
	say(t, db, one, "again")
	wantEvent(t, events, reach.Received)
}

func TestHearBeforeRedisIsThere(t *testing.T) {
	t.Parallel()
	port := storetest.Port(t)
	db := storetest.Unhurried(storetest.At(t, "redis://127.0.0.1:"+strconv.Itoa(port), ""))
	events, _ := hear(t, db)
	for range 3 {
		wantEvent(t, events, reach.Broken)
	}
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir(), Port: port})
	storetest.Must(t, err)
	t.Cleanup(server.Stop)
	skipTo(t, events, reach.Subscribed)
	server.Kill()
	wantEvent(t, events, reach.Broken)
	storetest.Restart(t, server)
	skipTo(t, events, reach.Subscribed)
}

// A connection to a server that became a replica is closed: the name may lead to another
// server by now.
func TestReadOnlyIsLeft(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Following(storetest.At(t, server.URL(), ""))
	pub := clientOf(t, db)
	events, _ := hear(t, db)
	wantEvent(t, events, reach.Subscribed)
	publish(t, pub, message("before", future))
	storetest.Must(t, server.Follow(t.Context(), "127.0.0.1", "1"))
	if _, err := pub.Publish(t.Context(), message("m", future)); !reach.NotExecuted(err) {
		t.Errorf("a replica took a publish: %v", err)
	}
	wantEvent(t, events, reach.Broken)
	if storetest.Shards() == 1 { // of several, a subscription counts at the master alone
		skipTo(t, events, reach.Subscribed)
	}
	storetest.Must(t, server.Follow(t.Context(), "NO", "ONE"))
	if storetest.Shards() > 1 {
		skipTo(t, events, reach.Subscribed)
	}
	publish(t, pub, message("m", future))
}

// A connection that is silently cut is noticed by the missing beats.
func TestConnectionIsSilentlyCut(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t, address())
	db := storetest.At(t, "redis://"+proxy.addr, notify.NewID())
	storetest.Beat(t, storetest.At(t, storetest.URL(), db.Prefix())) // so what is not swallowed is not silent
	one := db.Keys().Inbox("one")
	events, stop := hear(t, db, inbox(db, "one"))
	wantEvent(t, events, reach.Subscribed)

	proxy.swallow()
	skipTo(t, events, reach.Silent)
	skipTo(t, events, reach.Subscribed)
	// The connections for calls were cut, too, and are made anew.
	storetest.Eventually(t, "it hears again", func() bool {
		storetest.Must(t, storetest.ErrOf(storetest.Tell(t.Context(), db, one, "after")))
		for {
			select {
			case e := <-events:
				if e.Kind == reach.Received && e.Payload == "after" {
					return true
				}
			default:
				return false
			}
		}
	})

	proxy.swallow()
	stop() // ends at once, though nobody answers
}

// A proxy forwards connections, can be slow, and can swallow all bytes of those it has.
type proxy struct {
	addr string
	age  atomic.Int64 // connections of an earlier age are swallowed
	lag  atomic.Int64 // by which what the server sends is late, in ns
	ctx  context.Context
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{addr: listener.Addr().String(), ctx: ctx}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(cancel)
	t.Cleanup(func() { listener.Close() })
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			context.AfterFunc(ctx, func() { client.Close(); server.Close() })
			age := p.age.Load()
			all.Go(func() { p.forward(server, client, age, new(atomic.Int64)) })
			all.Go(func() { p.forward(client, server, age, &p.lag) })
		}
	})
	return p
}

// swallow lets no more bytes through the present connections; new ones work.
func (p *proxy) swallow() { p.age.Add(1) }

func (p *proxy) forward(to, from net.Conn, age int64, lag *atomic.Int64) {
	const most = 1 << 20 // in one piece, of which each is late
	io.CopyBuffer(writerFunc(func(b []byte) (int, error) {
		select {
		case <-p.ctx.Done():
		case <-time.After(time.Duration(lag.Load())):
		}
		if p.age.Load() > age {
			return len(b), nil
		}
		return to.Write(b)
	}), struct{ io.Reader }{from}, make([]byte, most))
	if p.age.Load() == age {
		to.Close()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
