package push_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// listening returns a store with a carrier, a pusher, and a push of broadcasts to an endpoint, which listens.
func listening(t *testing.T) (*notify.Store, *endpoint) {
	t.Helper()
	s, e, _ := openedWith(t, store.Push{Topics: []string{"prices.*"}, Broadcasts: true})
	awaitListener(t, s, "prices.*")
	return s, e
}

// awaitListener waits until one name listens, to a pattern; none if it is empty.
func awaitListener(t *testing.T, s *notify.Store, pattern string) {
	t.Helper()
	storetest.Eventually(t, "what listens is "+pattern, func() bool {
		all, err := storetest.Inspector(t, s).Listeners(t.Context())
		storetest.Must(t, err)
		if pattern == "" {
			return len(all) == 0
		}
		return len(all) == 1 && all[0].Pattern == pattern
	})
}

// broadcast sends a broadcast.
func broadcast(t *testing.T, s *notify.Store, topic, id string) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, s).Broadcast(t.Context(), notify.Message{Topic: topic, ID: id, Body: []byte("42")})))
}

// sent sends a broadcast, and waits until it is in its log.
func sent(t *testing.T, s *notify.Store, topic, id string) {
	t.Helper()
	end := func() notify.Position {
		grown, err := s.Of(topic).Grown(t.Context(), 0, 1, topic)
		storetest.Must(t, err)
		if len(grown.Logs) == 0 {
			return 0
		}
		return grown.Logs[0].Last
	}
	before := end()
	broadcast(t, s, topic, id)
	storetest.Eventually(t, id+" of "+topic+" is sent", func() bool { return end() > before })
}

// wantBroadcasts receives broadcasts in their order.
func wantBroadcasts(t *testing.T, e *endpoint, ids ...string) {
	t.Helper()
	var got []string
	for range ids {
		got = append(got, storetest.Receive(t, "a broadcast is pushed", e.got).Header.Get("webhook-id"))
	}
	if !slices.Equal(got, ids) {
		t.Errorf("got %v, want %v", got, ids)
	}
}

// Broadcasts of a pattern are signed requests, in their order. Messages of the same topics are none. Several pushers share them.
func TestBroadcasts(t *testing.T) {
	t.Parallel()
	s, e := listening(t)
	broadcast(t, s, "news", "other")
	storetest.Publish(t, s, notify.Message{Topic: "prices.gold", ID: "message"})
	broadcast(t, s, "prices.gold", "first")
	r := storetest.Receive(t, "it is pushed", e.got)
	w, err := standardwebhooks.NewWebhook(secret)
	storetest.Must(t, err)
	if err := w.Verify(r.body, r.Header); err != nil || r.Header.Get("webhook-id") != "prices.gold:first" || r.Header.Get("Bellhop-Attempt") != "1" || string(r.body) != "42" || r.Header.Get("Bellhop-Late-Ms") != "" {
		t.Errorf("got %v %q, %v", r.Header, r.body, err)
	}
	var want []string
	for i := range 100 {
		id := fmt.Sprintf("b%02d", i)
		want = append(want, "prices.gold:"+id)
		broadcast(t, s, "prices.gold", id)
	}
	wantBroadcasts(t, e, want...)
	run(t, s)
	seen := make(map[string]bool)
	for i := range 100 {
		broadcast(t, s, "prices.silver", fmt.Sprint(i))
	}
	for range 100 {
		seen[storetest.Receive(t, "a broadcast is pushed", e.got).Header.Get("webhook-id")] = true
	}
	if len(seen) != 100 || len(e.got) > 0 {
		t.Errorf("%d of 100 were pushed, and %d again", len(seen), len(e.got))
	}
}

// A broadcast that fails is pushed again before those behind it. What is sent while the push is paused comes once that is over.
func TestBroadcastsWait(t *testing.T) {
	t.Parallel()
	s, e := listening(t)
	e.says(status(http.StatusInternalServerError))
	broadcast(t, s, "prices.gold", "a")
	broadcast(t, s, "prices.gold", "b")
	wantBroadcasts(t, e, "prices.gold:a", "prices.gold:a")
	e.says(status(http.StatusOK))
	for storetest.Receive(t, "b is pushed", e.got).Header.Get("webhook-id") != "prices.gold:b" {
	}
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		e.says(status(http.StatusGone))
	})
	broadcast(t, s, "prices.gold", "c")
	wantBroadcasts(t, e, "prices.gold:c", "prices.gold:c")
	storetest.Eventually(t, "the push is paused", func() bool { return get(t, s, "crm").Paused != "" })
	e.says(status(http.StatusOK))
	broadcast(t, s, "prices.gold", "d")
	storetest.Must(t, s.Home().PausePush(t.Context(), "crm", ""))
	wantBroadcasts(t, e, "prices.gold:c", "prices.gold:d")
}

// A broadcast is tried as often as the options say.
func TestBroadcastsAreGivenUp(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{"prices.*"}, URL: e.URL, Broadcasts: true})
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute, Broadcasts: subscribers.ListenOptions{
		MaxAttempts: 2, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
	}})
	storetest.Must(t, err)
	storetest.Run(t, p.Run)
	awaitListener(t, s, "prices.*")
	e.says(status(http.StatusInternalServerError))
	broadcast(t, s, "prices.gold", "a")
	wantBroadcasts(t, e, "prices.gold:a", "prices.gold:a")
	e.says(status(http.StatusOK))
	broadcast(t, s, "prices.gold", "b")
	wantBroadcasts(t, e, "prices.gold:b")
}

// A push that changes listens to its new pattern alone; with the push its name goes.
func TestBroadcastsOfAnotherPattern(t *testing.T) {
	t.Parallel()
	s, e := listening(t)
	put(t, s, store.Push{Name: "crm", Topics: []string{"news.>"}, URL: e.URL, Broadcasts: true, Timeout: time.Minute})
	awaitListener(t, s, "news.>")
	broadcast(t, s, "prices.gold", "a")
	broadcast(t, s, "news.eu.de", "b")
	wantBroadcasts(t, e, "news.eu.de:b")
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL})
	awaitListener(t, s, "")
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "c"})
	wantBroadcasts(t, e, topic+":c")
	put(t, s, store.Push{Name: "crm", Topics: []string{"prices.*"}, URL: e.URL, Broadcasts: true})
	awaitListener(t, s, "prices.*")
	storetest.Must(t, s.Home().RemovePush(t.Context(), "crm"))
	awaitListener(t, s, "")
}

// What is sent between the put of a push and the first daemon is pushed.
func TestBroadcastsBeforeDaemon(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	sent(t, s, "prices.gold", "before")
	put(t, s, store.Push{Name: "crm", Topics: []string{"prices.*"}, URL: e.URL, Broadcasts: true})
	sent(t, s, "prices.gold", "a")
	sent(t, s, "prices.tin", "b")
	run(t, s)
	got := []string{receive(t, e), receive(t, e)}
	if slices.Sort(got); !slices.Equal(got, []string{"prices.gold:a", "prices.tin:b"}) {
		t.Errorf("got %v", got)
	}
}

// receive returns the id of a broadcast that is pushed.
func receive(t *testing.T, e *endpoint) string {
	t.Helper()
	return storetest.Receive(t, "a broadcast is pushed", e.got).Header.Get("webhook-id")
}

// A paused push whose pattern changes gets what it had still to get, of other topics what was sent since it stood there, and once. What
// the new pattern does not match is dropped, and that is said.
func TestBroadcastsOfChangedPattern(t *testing.T) {
	t.Parallel()
	s, e := listening(t)
	sent(t, s, "news.eu", "old")
	broadcast(t, s, "prices.gold", "done")
	wantBroadcasts(t, e, "prices.gold:done")
	storetest.Eventually(t, "it is acknowledged", func() bool {
		all, err := storetest.Inspector(t, s).Listeners(t.Context())
		return err == nil && all[0].Held == 0
	})
	storetest.Must(t, s.Home().PausePush(t.Context(), "crm", "for a test"))
	storetest.Eventually(t, "the daemon heard of the pause", func() bool {
		all, err := storetest.Inspector(t, s).Listeners(t.Context())
		return err == nil && !all[0].Active
	})
	for _, topic := range []string{"prices.gold", "prices.tin", "prices.lead", "news.eu"} {
		sent(t, s, topic, "new")
	}
	changed := func(pattern string) (dropped []string) {
		t.Helper()
		var put *store.Push
		err := s.Home().ChangePush(t.Context(), "crm", func(before *store.Push) (*store.Push, error) {
			before.Topics, put = []string{pattern}, before
			return before, nil
		})
		storetest.Must(t, err)
		return put.Dropped
	}
	if dropped := changed(">"); len(dropped) > 0 {
		t.Errorf("dropped are %v of more topics", dropped)
	}
	if dropped := changed("*.gold"); !slices.Equal(dropped, []string{"news.eu", "prices.lead", "prices.tin"}) {
		t.Errorf("dropped are %v", dropped)
	}
	changed("*.*")
	storetest.Must(t, s.Home().PausePush(t.Context(), "crm", ""))
	got := []string{receive(t, e), receive(t, e), receive(t, e), receive(t, e)}
	if slices.Sort(got); !slices.Equal(got, []string{"news.eu:new", "prices.gold:new", "prices.lead:new", "prices.tin:new"}) {
		t.Errorf("got %v", got)
	}
	broadcast(t, s, "news.eu", "last")
	wantBroadcasts(t, e, "news.eu:last")
}

// What is under way while the pattern changes is pushed once.
func TestBroadcastUnderWayAtChange(t *testing.T) {
	t.Parallel()
	s, e := listening(t)
	hold, answer := make(chan struct{}), make(chan struct{})
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		close(hold)
		<-answer
		w.WriteHeader(http.StatusOK)
	})
	broadcast(t, s, "prices.gold", "a")
	storetest.Receive(t, "a is under way", hold)
	e.says(status(http.StatusOK))
	put(t, s, store.Push{Name: "crm", Topics: []string{"prices.>"}, URL: e.URL, Broadcasts: true})
	awaitListener(t, s, "prices.>")
	broadcast(t, s, "prices.tin", "b")
	close(answer)
	wantBroadcasts(t, e, "prices.gold:a", "prices.tin:b")
	storetest.Eventually(t, "both are acknowledged", func() bool {
		all, err := storetest.Inspector(t, s).Listeners(t.Context())
		return err == nil && all[0].Held == 0
	})
	if len(e.got) > 0 {
		t.Errorf("%s is pushed again", receive(t, e))
	}
}

// A name that was left in a shard when its push went is removed by the daemons.
func TestBroadcastsLeftInShard(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 8)
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	here := store.Push{Name: "crm", Topics: []string{"prices.*"}, URL: "https://crm.example", Broadcasts: true}
	gone := here
	gone.Name = "old"
	put(t, s, here)
	for _, p := range []store.Push{here, gone} {
		at := store.Registration{Pattern: "prices.*", From: "now", Began: notify.Position(time.Now().UnixMicro())}
		if _, _, err := shards[5].Register(t.Context(), p.Listener(), at); err != nil {
			t.Fatal(err)
		}
	}
	run(t, s)
	storetest.Eventually(t, "the name of the push that is gone is removed", func() bool {
		names, err := shards[5].ListenerNames(t.Context())
		if err != nil || !slices.Contains(names, here.Listener()) {
			t.Fatal(names, err)
		}
		return !slices.Contains(names, gone.Listener())
	})
}
