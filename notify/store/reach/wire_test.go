package reach_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// eight returns a store of eight shards on a server.
func eight(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(reach.Config{URL: url, Prefix: "test-" + record.NewID(), Shards: 8})
	storetest.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A heard records the events of one subscription.
type heard struct {
	mu     sync.Mutex
	events []store.Event
	at     []time.Time
}

// subscribe subscribes until the test ends or stop is called.
func subscribe(t *testing.T, s *store.Store, channels ...reach.Channel) (h *heard, stop func()) {
	t.Helper()
	h = &heard{}
	stop = storetest.Run(t, func(ctx context.Context) error {
		s.Subscribe(ctx, h.on, channels...)
		return nil
	})
	return h, stop
}

func (h *heard) on(e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events, h.at = append(h.events, e), append(h.at, time.Now())
}

// count returns how many events there are of a kind, by shard.
func (h *heard) count(kind reach.EventKind) map[int]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[int]int)
	for _, e := range h.events {
		if e.Kind == kind {
			n[e.Shard().Number()]++
		}
	}
	return n
}

// wait waits until each of some shards has had n events of a kind.
func (h *heard) wait(t *testing.T, kind reach.EventKind, shards, n int) {
	t.Helper()
	storetest.Eventually(t, "events of each shard", func() bool {
		counts := h.count(kind)
		for _, got := range counts {
			if got < n {
				return false
			}
		}
		return len(counts) >= shards
	})
}

// listeningTo returns how many connections of a server are subscribed to something.
func listeningTo(t *testing.T, client redis.UniversalClient) int {
	t.Helper()
	list, err := client.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	storetest.Must(t, err)
	return strings.Count(list, "\n")
}

// All subscriptions of a store to one server share a connection, and each channel of it ends with the last that needs it.
func TestOneWire(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(eight(t, storetest.Lend(t)))
	inbox := reach.NewInbox("one", true)
	all, stopAll := subscribe(t, s, s.Every().InboxChannel(inbox))
	all.wait(t, reach.Subscribed, 8, 1)
	some, stopSome := subscribe(t, s, s.Of("orders").InboxChannel(inbox), s.Of("orders").NudgeChannel())
	some.wait(t, reach.Subscribed, 1, 1)
	storetest.Is(t, "connections listen", listeningTo(t, s.Client()), 1)
	count := func(c reach.Channel) int64 {
		n, err := s.Listening(t.Context(), c)
		storetest.Must(t, err)
		return n
	}
	if n, err := s.Of("orders").Ping(t.Context(), inbox, "orders"); n != 1 || err != nil {
		t.Errorf("%d received it, %v", n, err)
	}
	all.wait(t, reach.Received, 1, 1)
	some.wait(t, reach.Received, 1, 1)

	stopSome()
	storetest.Eventually(t, "nobody needs the channel of heads", func() bool { return count(s.Of("orders").NudgeChannel()) == 0 })
	storetest.Is(t, "subscribed to the inbox that is needed", count(s.Of("orders").InboxChannel(inbox)), 1)
	again, stopAgain := subscribe(t, s, s.Of("orders").NudgeChannel())
	again.wait(t, reach.Subscribed, 1, 1)
	storetest.Is(t, "subscribed to a channel that is confirmed", count(s.Of("orders").NudgeChannel()), 1)
	stopAgain()
	stopAll()
	storetest.Eventually(t, "no connection listens", func() bool { return listeningTo(t, s.Client()) == 0 })
}

// A connection that is cut is replaced, and each shard of each subscription is told.
func TestWireCut(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(eight(t, storetest.Lend(t)))
	first, _ := subscribe(t, s, s.Every().Wakes())
	second, _ := subscribe(t, s, s.Home().EndingsChannel())
	first.wait(t, reach.Subscribed, 8, 1)
	second.wait(t, reach.Subscribed, 1, 1)
	storetest.Must(t, s.Client().Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	first.wait(t, reach.Subscribed, 8, 2)
	second.wait(t, reach.Subscribed, 1, 2)
	if n := first.count(reach.Broken); len(n) != 8 {
		t.Errorf("broken was told of shards %v", n)
	}
	storetest.Is(t, "connections listen", listeningTo(t, s.Client()), 1)
}

// A subscription that handles its events slowly holds up no other.
func TestWireWithSlowSubscription(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(eight(t, storetest.URL()))
	release := make(chan struct{})
	inbox := reach.NewInbox("slow", false)
	stop := storetest.Run(t, func(ctx context.Context) error {
		s.Subscribe(ctx, func(e store.Event) {
			if e.Kind == reach.Received {
				<-release
			}
		}, s.Home().InboxChannel(inbox))
		return nil
	})
	quick, _ := subscribe(t, s, s.Home().InboxChannel(inbox))
	quick.wait(t, reach.Subscribed, 1, 1)
	storetest.Eventually(t, "both are subscribed, and one is held up", func() bool {
		_, err := s.Home().Ping(t.Context(), inbox, "x")
		return err == nil && quick.count(reach.Received)[0] >= 100
	})
	close(release)
	stop()
}

// Where one shard of a server has no carrier, its subscription is renewed and the others stay; where none has, the connection is.
func TestWireSilent(t *testing.T) {
	t.Parallel()
	s := eight(t, storetest.URL())
	h, _ := subscribe(t, s, s.Every().Wakes())
	h.wait(t, reach.Subscribed, 8, 1)
	h.wait(t, reach.Silent, 8, 1)
	keys := s.KeysOfAll()
	stop := storetest.Run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			for k := range 7 {
				_ = s.Client().SPublish(ctx, keys[k].Beat(), "1 1 id 0,0").Err()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
	h.wait(t, reach.Beat, 7, 3)
	before := h.count(reach.Silent)[7]
	storetest.Eventually(t, "the silent shard is renewed", func() bool { return h.count(reach.Silent)[7] > before })
	stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	last := make(map[int]time.Time)
	for i, e := range h.events {
		switch k := e.Shard().Number(); e.Kind {
		case reach.Beat:
			last[k] = h.at[i]
		case reach.Silent: // of one that beats only if the beats were held up
			if since := h.at[i].Sub(last[k]); !last[k].IsZero() && since < reach.Silence/2 {
				t.Errorf("shard %d was silent %v after a beat", k, since)
			}
		}
	}
}

// first returns the first event of a kind.
func (h *heard) first(kind reach.EventKind) store.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Kind == kind {
			return e
		}
	}
	return store.Event{}
}
