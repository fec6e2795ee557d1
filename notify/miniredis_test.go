package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// trial returns a store in the embedded server that a trial uses if no redis-server is
// installed.
func trial(t testing.TB) *notify.Store {
	t.Helper()
	storetest.OneShard(t, "the trial server has no other")
	_, store := storetest.Trial(t, "")
	return store
}

// The embedded server holds one shard: a store that asks for more is refused, and nothing is changed.
func TestShardsInTheTrialServer(t *testing.T) {
	t.Parallel()
	server, _ := storetest.Trial(t, "")
	db := storetest.With(t, notify.Config{URL: server.URL(), Dial: server.Dial, Shards: shards})
	pub := clientOf(t, db)
	_, err := pub.Publish(t.Context(), message("a", time.Time{}))
	for what, err := range map[string]error{"publish": err, "check": db.Check(t.Context())} {
		if !errors.Is(err, notify.ErrUnfit) || !strings.Contains(err.Error(), "the trial server holds one shard, and shards is 8; leave that out") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if keys, err := db.Client().Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("there are %q, %v", keys, err)
	}
}

// The embedded server reports no memory, and has no functions: neither is an error, as the housekeeping and the metrics ask for both.
func TestMemoryOfTheTrialServer(t *testing.T) {
	t.Parallel()
	shard := trial(t).Home()
	if m, err := shard.Memory(t.Context()); err != nil || m != (reach.Memory{}) {
		t.Errorf("memory: %+v, %v", m, err)
	}
	if dropped, err := shard.DropLibraries(t.Context()); err != nil || dropped != nil {
		t.Errorf("dropped %v, %v", dropped, err)
	}
}

// The main path works in the embedded server as it does in Redis.
func TestMainPathInTheTrialServer(t *testing.T) {
	t.Parallel()
	store := trial(t)
	storetest.Must(t, store.Check(t.Context()))
	pub := clientOf(t, store)
	stopCarrier := carriertest.Run(t, store, carrier.Options{Lease: carrier.MinLease})
	handled, died := make(chan string, 10), make(chan string, 10)
	stopSubscriber := storetest.Run(t, trialSubscriber(t, store, handled, died).Run)

	delayed := func(id string, delay time.Duration) notify.Message {
		return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id), Delay: delay, TTL: anHour}
	}
	publish(t, pub, delayed("cancelled", anHour))
	if was, err := pub.Cancel(t.Context(), topic, "cancelled"); err != nil || was != notify.Scheduled {
		t.Errorf("cancel: it was %v, %v", was, err)
	}
	publish(t, pub, message("at-once", time.Time{}))
	publish(t, pub, delayed("delayed", 30*time.Millisecond))
	publish(t, pub, delayed("fails-once", 10*time.Millisecond))
	publish(t, pub, delayed("rescheduled", anHour))
	storetest.Should(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "rescheduled", 20*time.Millisecond)))
	got := map[string]bool{}
	want := map[string]bool{"at-once 1": true, "delayed 1": true, "fails-once 1": true, "fails-once 2": true, "rescheduled 1": true}
	for len(got) < len(want) { // a hand-over to a process that stands still for a second comes again
		got[storetest.Receive(t, "a delivery", handled)] = true
	}
	storetest.Same(t, "deliveries", want, got)

	publish(t, pub, delayed("dies", 10*time.Millisecond))
	storetest.Receive(t, "a delivery", handled)
	storetest.Is(t, "death", storetest.Receive(t, "a death", died), "dies 1: buried by the handler")
	if info, err := pub.Inspect(t.Context(), topic, "dies"); err != nil || info.State != notify.Dead || info.Attempts != 1 {
		t.Errorf("dead letter %+v, %v", info, err)
	}
	if n, err := storetest.Inspector(t, store).Requeue(t.Context(), topic, "dies"); err != nil || n != 1 {
		t.Errorf("requeued %d, %v", n, err)
	}
	storetest.Receive(t, "a delivery", handled)
	storetest.Receive(t, "a death", died)
	if n, err := storetest.Inspector(t, store).Purge(t.Context(), topic, storetest.Dead(t, store, topic)...); err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}

	stopSubscriber()
	stopCarrier()
	wantCounts(t, pub, notify.Counts{Published: 6, Acked: 4, Died: 2})
	storetest.Empty(t, store)
	if status, err := carrier.Look(t.Context(), store.Home()); err != nil || status.Name != "" {
		t.Errorf("after it stepped down the carrier is %+v, %v", status, err)
	}
}

// trialSubscriber returns each delivery as "ID ATTEMPT" and each death as "ID ATTEMPTS:
// REASON".
func trialSubscriber(t *testing.T, store *notify.Store, handled, died chan<- string) *subscribers.Subscriber {
	t.Helper()
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	handler := func(_ context.Context, d *subscribers.Delivery) error {
		if string(d.Body) != "body of "+d.ID {
			t.Errorf("%s has the body %q", d.ID, d.Body)
		}
		handled <- fmt.Sprintf("%s %d", d.ID, d.Attempt)
		switch {
		case d.ID == "dies":
			return subscribers.ErrBury
		case d.ID == "fails-once" && d.Attempt == 1:
			return subscribers.RetryAfter(errors.New("not yet"), 10*time.Millisecond)
		}
		return nil
	}
	o := subscribers.HandleOptions{Concurrency: 2, OnDead: func(d subscribers.Death) {
		died <- fmt.Sprintf("%s %d: %s", d.ID, d.Attempts, d.Reason)
	}}
	storetest.Must(t, sub.Handle(topic, handler, o))
	return sub
}

// A message that nobody handles in time expires, and so does the lease of a dead
// process.
func TestTimesRunOutInTheTrialServer(t *testing.T) {
	t.Parallel()
	store := trial(t)
	pub := clientOf(t, store)
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease})
	storetest.Must(t, err)
	m := message("expires", time.Time{})
	m.TTL = 10 * time.Millisecond
	publish(t, pub, message("leased", time.Time{}))
	if ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: 100 * time.Millisecond}); err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	publish(t, pub, m)
	// An elected carrier is gone: its lease in Redis has to end.
	storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf(topic).Carrier(), "1 1 500 gone", carrier.MinLease).Err())
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "the other dies", func() bool { return stateOf(t, pub, "expires") == notify.Dead })
	if info, err := pub.Inspect(t.Context(), topic, "expires"); err != nil || info.Reason != "expired" {
		t.Errorf("it is %+v, %v", info, err)
	}
	storetest.Eventually(t, "the lease ends", func() bool { return stateOf(t, pub, "leased") == notify.Ready })
}

// Broadcasts, listeners with and without a name, gaps and takeovers work in the embedded
// server, too.
func TestBroadcastsInTheTrialServer(t *testing.T) {
	t.Parallel()
	store := trial(t)
	pub := clientOf(t, store)
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease, KeepCount: 50})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	l := subscriberstest.Listener(t, store, subscribers.ListenerOptions{Grace: time.Nanosecond})
	listen := func(pattern string, o subscribers.ListenOptions, handler func(context.Context, *subscribers.Broadcast) error) (heard chan string, stop func()) {
		heard = make(chan string, 10_000)
		started := make(chan struct{})
		o.OnStart = func(subscribers.Bookmark) { close(started) }
		o.OnGap = func(g subscribers.Gap) { heard <- "gap of " + g.Topic }
		stop = storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, func(ctx context.Context, b *subscribers.Broadcast) error {
				if string(b.Body) != "body of "+b.ID {
					t.Errorf("%s has the body %q", b.ID, b.Body)
				}
				heard <- fmt.Sprintf("%s %d", b.ID, b.Attempt)
				return handler(ctx, b)
			}, o)
		})
		storetest.Receive(t, "it listens", started)
		return heard, stop
	}
	fine := func(context.Context, *subscribers.Broadcast) error { return nil }
	hangs := func(ctx context.Context, _ *subscribers.Broadcast) error { <-ctx.Done(); return ctx.Err() }
	plain, _ := listen("order.*", subscribers.ListenOptions{}, fine)
	named := subscribers.ListenOptions{Name: "n", Lease: time.Minute} // a shorter one may end, and use up an attempt, where the machine stands still
	hanging, stopHanging := listen(topic, named, hangs)
	want := func(heard chan string, want ...string) {
		t.Helper()
		for _, want := range want {
			storetest.Is(t, "heard", storetest.Receive(t, want, heard), want)
		}
	}

	publish(t, pub, announcement("cancelled", future))
	if was, err := pub.Cancel(t.Context(), topic, "cancelled"); err != nil || was != notify.Scheduled {
		t.Errorf("it was %v, %v", was, err)
	}
	m := announcement("moved", future)
	publish(t, pub, m)
	if page, err := pub.Broadcasts(t.Context(), topic, 10, ""); err != nil || len(page.Messages) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	storetest.Should(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "moved", 20*time.Millisecond)))
	want(plain, "moved 1")
	want(hanging, "moved 1")
	stopHanging()
	takes, stopTaking := listen(topic, named, fine)
	want(takes, "moved 1") // it was given back, not used up
	stopTaking()

	// A process that died had leased it: the lease ends, and another process takes over.
	all, err := store.Client().XRange(t.Context(), store.KeysOf(topic).Log(topic), "-", "+").Result()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	at, err := record.ParsePosition(all[0].ID)
	storetest.Must(t, err)
	soon := time.Now().Add(200 * time.Millisecond).UnixMilli()
	for _, command := range [][]any{
		{"ZADD", store.KeysOf(topic).Held("n"), soon, fmt.Sprintf("%d %s", at, topic)}, {"ZADD", store.KeysOf(topic).Alarms(), soon, "n"},
	} {
		storetest.Must(t, store.Client().Do(t.Context(), command...).Err())
	}
	takes, stopTaking = listen(topic, named, fine)
	want(takes, "moved 2")
	stopTaking()

	// More broadcasts than the log keeps are sent while nobody listens under the name; the
	// other listener, which is never behind by as many, gets them all.
	const n, part = 400, 25
	for from := 0; from < n; from += part {
		for i := range part {
			publish(t, pub, announcement(fmt.Sprintf("%03d", from+i), time.Time{}))
		}
		for i := range part {
			want(plain, fmt.Sprintf("%03d 1", from+i))
		}
	}
	// A process that died had leased gaps, too: one of its own, and what was trimmed meanwhile.
	held := store.KeysOf(topic).Held("n")
	storetest.Must(t, store.Client().Do(t.Context(), "ZADD", held, 1, "1-4 "+topic, 1, "5 "+topic).Err())
	takes, _ = listen(topic, named, fine)
	for range 3 {
		want(takes, "gap of "+topic)
	}
	for last := fmt.Sprintf("%03d 1", n-1); storetest.Receive(t, "the last", takes) != last; {
	}
	begins, _ := listen(">", subscribers.ListenOptions{From: subscribers.FromBeginning()}, fine)
	for last := fmt.Sprintf("%03d 1", n-1); ; {
		got := storetest.Receive(t, "the last, from the beginning", begins)
		if got == "gap of "+topic {
			t.Error("who begins at the beginning is told of a gap")
		}
		if got == last {
			break
		}
	}
	if names, err := pub.Listeners(t.Context()); err != nil || len(names) != 1 || names[0].Name != "n" || names[0].Behind != 0 || !names[0].Active {
		t.Errorf("names %+v, %v", names, err)
	}
	storetest.Fails(t, "it", l.Listen(t.Context(), "other", fine, subscribers.ListenOptions{Name: "n"}), notify.ErrInvalid)
	// The key of positions is lost: the next broadcast gets a position behind the last one.
	storetest.Must(t, store.Client().Del(t.Context(), store.KeysOf(topic).Logs()).Err())
	publish(t, pub, announcement("after", time.Time{}))
	want(plain, "after 1")
	want(takes, "after 1")
	if c := counts(t, pub); c.Sent != n+2 || c.Broadcasts != 0 || c.Log == 0 {
		t.Errorf("%+v", c)
	}
}
