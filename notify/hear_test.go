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

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// hear runs Hear and returns its events, and what ends it and waits for that.
func hear(t *testing.T, store *notify.Store, channels ...string) (events <-chan notify.Event, stop func()) {
	t.Helper()
	heard := make(chan notify.Event, 1000)
	stop = storetest.Run(t, func(ctx context.Context) error {
		store.Hear(ctx, func(e notify.Event) { heard <- e }, channels...)
		return nil
	})
	return heard, stop
}

// wantEvent waits for the next event, which must be of a kind, and returns it.
func wantEvent(t *testing.T, events <-chan notify.Event, kind notify.EventKind) notify.Event {
	t.Helper()
	e := storetest.Receive(t, "an event", events)
	if e.Kind != kind {
		t.Fatalf("event %+v, want one of the kind %d", e, kind)
	}
	return e
}

// skipTo waits for the first event of a kind.
func skipTo(t *testing.T, events <-chan notify.Event, kind notify.EventKind) notify.Event {
	t.Helper()
	for {
		if e := storetest.Receive(t, "an event", events); e.Kind == kind {
			return e
		}
	}
}

// say publishes a payload on a channel, which somebody must hear.
func say(t *testing.T, store *notify.Store, channel, payload string) {
	t.Helper()
	if n, err := store.Client().Publish(t.Context(), channel, payload).Result(); err != nil || n != 1 {
		t.Fatalf("%d heard %q on %s, %v; want one", n, payload, channel, err)
	}
}

func TestHear(t *testing.T) {
	_, store := open(t)
	one, two := store.Keys().Inbox("one"), store.Keys().Inbox("two")
	events, stop := hear(t, store, one, two)
	wantEvent(t, events, notify.Subscribed)
	say(t, store, two, "2")
	say(t, store, store.Keys().Beat(), "7 1700000000000")
	say(t, store, one, "1")
	say(t, store, one, "")
	want := []notify.Event{
		{Kind: notify.Heard, Channel: two, Payload: "2"},
		{Kind: notify.Beat, Payload: "7 1700000000000"},
		{Kind: notify.Heard, Channel: one, Payload: "1"},
		{Kind: notify.Heard, Channel: one, Payload: ""},
	}
	for _, want := range want {
		if diff := cmp.Diff(want, storetest.Receive(t, "an event", events)); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	stop()
	storetest.Eventually(t, "nobody hears any more", func() bool {
		n, err := store.Client().Publish(t.Context(), one, "late").Result()
		return err == nil && n == 0
	})
	if len(events) != 0 {
		t.Errorf("%d events came after the end", len(events))
	}
}

func TestHearOnlyTheBeat(t *testing.T) {
	_, store := open(t)
	events, _ := hear(t, store)
	wantEvent(t, events, notify.Subscribed)
	say(t, store, store.Keys().Beat(), "1 2")
	wantEvent(t, events, notify.Beat)
}

func TestHearWithAContextThatHasEnded(t *testing.T) {
	_, store := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store.Hear(ctx, func(e notify.Event) { t.Errorf("event %+v", e) })
}

// Beats keep a connection alive on which nothing else is heard; where they
// stop it is made anew.
func TestBeatAndSilence(t *testing.T) {
	t.Parallel()
	_, store := open(t)
	events, _ := hear(t, store)
	wantEvent(t, events, notify.Subscribed)
	every := time.NewTicker(notify.Heartbeat / 2)
	defer every.Stop()
	for end := time.Now().Add(notify.Silence + notify.Heartbeat); time.Now().Before(end); {
		<-every.C
		say(t, store, store.Keys().Beat(), "")
		wantEvent(t, events, notify.Beat)
	}
	wantEvent(t, events, notify.Silent)
	wantEvent(t, events, notify.Subscribed)
}

func TestConnectionIsKilled(t *testing.T) {
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "")
	inbox := store.Keys().Inbox("one")
	events, _ := hear(t, store, inbox)
	for range 5 {
		skipTo(t, events, notify.Subscribed)
		if err := store.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		if e := wantEvent(t, events, notify.Broken); e.Err == nil || !strings.Contains(e.Err.Error(), server.Addr()) {
			t.Errorf("broken by %v; want an error that names %s", e.Err, server.Addr())
		}
	}
	skipTo(t, events, notify.Subscribed)
	say(t, store, inbox, "again")
	wantEvent(t, events, notify.Heard)
}

func TestHearBeforeRedisIsThere(t *testing.T) {
	port := storetest.Port(t)
	store := storetest.At(t, "redis://127.0.0.1:"+strconv.Itoa(port), "")
	events, _ := hear(t, store)
	for range 3 {
		wantEvent(t, events, notify.Broken)
	}
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir(), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	skipTo(t, events, notify.Subscribed)
	server.Kill()
	wantEvent(t, events, notify.Broken)
	again, err := server.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	skipTo(t, events, notify.Subscribed)
}

// A server that became a replica is left: behind its name may be another by now.
func TestReadOnlyIsLeft(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "")
	pub := notify.NewPublisher(store, notify.PublisherOptions{})
	events, _ := hear(t, store)
	wantEvent(t, events, notify.Subscribed)
	publish(t, pub, message("before", future))
	if err := store.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := pub.Publish(t.Context(), message("m", future)); !notify.Untouched(err) {
		t.Errorf("a replica took a publish: %v", err)
	}
	wantEvent(t, events, notify.Broken)
	skipTo(t, events, notify.Subscribed)
	if err := store.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	publish(t, pub, message("m", future))
}

// A connection on which nothing comes through any more, and of which no end is
// told, is noticed by the beats that are missing.
func TestConnectionIsSilentlyCut(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	proxy := newProxy(t, server.Addr())
	store := storetest.At(t, "redis://"+proxy.addr, "")
	inbox := store.Keys().Inbox("one")
	events, stop := hear(t, store, inbox)
	wantEvent(t, events, notify.Subscribed)
	say(t, store, inbox, "before")
	wantEvent(t, events, notify.Heard)

	proxy.swallow()
	wantEvent(t, events, notify.Silent)
	wantEvent(t, events, notify.Subscribed)
	// The connections for calls were cut too, and are made anew.
	if err := store.Client().Publish(t.Context(), inbox, "after").Err(); err != nil {
		t.Fatal(err)
	}
	if e := wantEvent(t, events, notify.Heard); e.Payload != "after" {
		t.Errorf("heard %+v", e)
	}

	proxy.swallow()
	stop() // ends at once, though nobody answers
}

// A proxy forwards connections, and can swallow all that goes through those it has.
type proxy struct {
	addr string
	age  atomic.Int64 // connections of an earlier age are swallowed
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
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
			all.Go(func() { p.forward(server, client, age) })
			all.Go(func() { p.forward(client, server, age) })
		}
	})
	return p
}

// swallow lets nothing more through the connections that there are; new ones work.
func (p *proxy) swallow() { p.age.Add(1) }

func (p *proxy) forward(to, from net.Conn, age int64) {
	io.Copy(writerFunc(func(b []byte) (int, error) {
		if p.age.Load() > age {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
	if p.age.Load() == age {
		to.Close()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
