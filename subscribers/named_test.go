package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	o := subscribers.ListenOptions{Name: "billing"}
	broadcast(t, db, "prices.gold", "before")
	h, stop := listen(t, l, "prices.*", o)
	broadcast(t, db, "prices.gold", "a", "b")
	wantIDs(t, h, "a", "b")
	stop()
	broadcast(t, db, "prices.gold", "c")
	broadcast(t, db, "prices.silver", "d")
	h, _ = listen(t, l, "prices.*", o)
	wantSet(t, h, "c", "d")
	nothingHeld(t, db, "billing")
	storetest.Empty(t, db)
}

// A call that hands out broadcasts and stops half way, since a right was taken
// away, has lost none of them.
func TestNamedWithoutARight(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"zadd", "hset"} {
		t.Run(command, func(t *testing.T) {
			server := storetest.Server(t)
			db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
			carry(t, db)
			guest := away(t, db, server.URL())
			storetest.Unhurried(guest.store)
			connected(t, guest.store)
			h, _ := listen(t, newListener(t, guest.store), "t", subscribers.ListenOptions{Name: "n", Lease: time.Second})
			broadcast(t, db, "t", "a")
			wantIDs(t, h, "a")
			guest.do("ACL", "SETUSER", "guest", "-"+command)
			broadcast(t, db, "t", "b", "c")
			storetest.Eventually(t, "a call is refused", func() bool {
				denied, err := db.Client().ACLLog(t.Context(), 100).Result()
				return err == nil && len(denied) > 0
			})
			guest.do("ACL", "SETUSER", "guest", "+"+command)
			storetest.Eventually(t, "all are received", func() bool {
				received := h.list()
				return slices.Contains(received, "b") && slices.Contains(received, "c")
			})
		})
	}
}

// connected opens all connections of a store that a listener may need at a time, and they stay. A new one would rehearse: without a
// right all calls were refused before one stops half way.
func connected(t *testing.T, db *notify.Store) {
	t.Helper()
	client := db.Client().(*redis.Client)
	for range 8 {
		conn := client.Conn()
		defer conn.Close()
		storetest.Must(t, conn.Ping(t.Context()).Err())
	}
}

// Processes of one name share the broadcasts: each is handled once, whoever comes and goes.
func TestNamedShare(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	var topics []string
	for i := range 120 { // more than one call takes from
		topics = append(topics, fmt.Sprintf("t.%d", i))
	}
	const n = 6000
	h := &received{} // of all of them
	first, _ := h.options(subscribers.ListenOptions{Name: "n", Concurrency: 4, Lease: time.Minute})
	first.OnStart = nil
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var crew sync.WaitGroup
	hubs := []*subscribers.Listener{newListener(t, db), newListener(t, db), newListener(t, db)}
	for i := range 6 {
		crew.Go(func() {
			for ctx.Err() == nil {
				life, end := context.WithTimeout(ctx, time.Duration(100+50*i)*time.Millisecond)
				storetest.Should(t, hubs[i%len(hubs)].Listen(life, "t.*", h.handle, first))
				end()
			}
		})
	}
	storetest.Eventually(t, "the name is registered", func() bool {
		ok, err := db.Client().HExists(t.Context(), db.KeysOf(topic).Listeners(), "n").Result()
		return err == nil && ok
	})
	ids := numbers("n", n)
	for i := 0; i < n; i += 100 {
		flood(t, db, topics, ids[i:i+100]...)
	}
	wantSet(t, h, ids...)
	stop()
	crew.Wait()
	wantSet(t, h, ids...)
	nothingHeld(t, db, "n")
	for _, b := range h.all {
		if b.Attempt != 1 {
			t.Errorf("%s came in attempt %d", b.ID, b.Attempt)
		}
	}
}

// onlyInHand waits, in a handler, until a name leases no more than what it handles.
func onlyInHand(t *testing.T, db *notify.Store, name string) {
	t.Helper()
	ctx := context.Background()
	for end := time.Now().Add(storetest.Deadline); ; runtime.Gosched() {
		now, errTime := db.Client().Time(ctx).Result()
		leased, err := db.Client().ZCount(ctx, db.KeysOf(topic).Held(name), "("+strconv.FormatInt(now.UnixMilli(), 10), "+inf").Result()
		switch {
		case errTime != nil || err != nil:
			t.Error(errTime, err)
			return
		case leased <= 1:
			return
		case time.Now().After(end):
			t.Errorf("%d are still leased: what was taken ahead is not given back", leased)
			return
		}
	}
}

// A failure is tried again after a backoff, until it succeeds, is out of attempts, or is refused for good.
func TestNamedFailures(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	var mu sync.Mutex
	tries := map[string][]int{}
	given := make(chan string, 10)
	h := &received{}
	o, started := h.options(subscribers.ListenOptions{
		Name: "n", Concurrency: 8, MaxAttempts: 4, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond,
		OnGivenUp: func(b *subscribers.Broadcast, reason string) {
			given <- fmt.Sprintf("%s %d: %s", b.ID, b.Attempt, reason)
		},
	})
	l := newListener(t, db)
	var put time.Duration
	storetest.Run(t, func(ctx context.Context) error {
		began := time.Time{}
		return l.Listen(ctx, topic, func(ctx context.Context, b *subscribers.Broadcast) error {
			mu.Lock()
			tries[b.ID] = append(tries[b.ID], b.Attempt)
			mu.Unlock()
			switch {
			case b.ID == "fails":
				return errors.New("never")
			case b.ID == "buried" && b.Attempt == 2:
				return fmt.Errorf("no use: %w", subscribers.ErrBury)
			case b.ID == "panics":
				panic("oh")
			case b.ID == "later" && b.Attempt == 1:
				began = time.Now()
				return subscribers.RetryAfter(nil, 300*time.Millisecond)
			case b.ID == "later":
				put = time.Since(began)
			case b.Attempt < 3:
				return errors.New("not yet")
			}
			return h.handle(ctx, b)
		}, o)
	})
	storetest.Receive(t, "it listens", started)
	broadcast(t, db, topic, "fails", "buried", "panics", "later", "succeeds")
	wantSet(t, h, "later", "succeeds")
	var gone []string
	for range 3 {
		gone = append(gone, storetest.Receive(t, "one is given up", given))
	}
	slices.Sort(gone)
	want := []string{"buried 2: no use: buried by the handler", "fails 4: never", "panics 4: panic: oh"}
	storetest.Same(t, "given up", want, gone)
	nothingHeld(t, db, "n")
	mu.Lock()
	defer mu.Unlock()
	wantTries := map[string][]int{"fails": {1, 2, 3, 4}, "buried": {1, 2}, "panics": {1, 2, 3, 4}, "later": {1, 2}, "succeeds": {1, 2, 3}}
	storetest.Same(t, "attempts", wantTries, tries)
	if put < 300*time.Millisecond {
		t.Errorf("put off for 300ms, and tried again after %v", put)
	}
	if n := l.Stats(); n.GivenUp != 3 || n.Handled != 15 {
		t.Errorf("%+v", n)
	}
}

// The lease of a handler that takes long is extended: nobody else gets its broadcast, and the carrier rings for nothing.
func TestNamedLeaseIsExtended(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *notify.Store) {
		a, b := &received{hold: make(chan struct{})}, &received{}
		o := subscribers.ListenOptions{Name: "n", Lease: 30 * time.Second}
		listenInto(t, newListener(t, db), topic, a, o)
		broadcast(t, db, topic, "slow")
		storetest.Eventually(t, "it is in hand", func() bool { return held(t, db, "n") == 1 })
		first := leaseOf(t, db, "n")
		listenInto(t, newListener(t, db), topic, b, o)
		rings := storetest.Subscribe(t, db, db.KeysOf(topic).Name("n"))
		storetest.Eventually(t, "it is extended", func() bool { return leaseOf(t, db, "n") > first })
		handed, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Alarms(), "n").Result()
		if err != nil || int64(handed) <= first {
			t.Errorf("the carrier looks for it at %.0f, when its lease ended at %d, %v", handed, first, err)
		}
		select {
		case m := <-rings.Channel():
			t.Errorf("rung while nothing was left: %v", m)
		default:
		}
		close(a.hold)
		wantIDs(t, a, "slow")
		nothingHeld(t, db, "n")
		if b.size() > 0 {
			t.Errorf("another got %v", b.list())
		}
	})
}

// leaseOf returns when the first lease of a name ends, in ms.
func leaseOf(t *testing.T, db *notify.Store, name string) int64 {
	t.Helper()
	all, err := db.Client().ZRangeWithScores(t.Context(), db.KeysOf(topic).Held(name), 0, 0).Result()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return int64(all[0].Score)
}

// The context of a handler ends when its lease is lost, and the broadcast is another's: it is handed out again in another attempt.
func TestNamedLeaseIsLost(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	began, lost := make(chan struct{}, 1), make(chan error, 1)
	o, started := (&received{}).options(subscribers.ListenOptions{Name: "n", Lease: record.MinLease})
	done := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return newListener(t, db).Listen(ctx, topic, func(ctx context.Context, b *subscribers.Broadcast) error {
			select {
			case <-done: // again
				return nil
			default:
			}
			began <- struct{}{}
			<-ctx.Done()
			lost <- context.Cause(ctx)
			<-done
			return ctx.Err()
		}, o)
	})
	storetest.Receive(t, "it listens", started)
	broadcast(t, db, topic, "a")
	storetest.Receive(t, "it is handled", began)
	// Another has it, as if this one had been paused.
	member := db.Client().ZRange(t.Context(), db.KeysOf(topic).Held("n"), 0, 0).Val()[0]
	far := time.Now().Add(time.Hour).UnixMilli()
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Held("n"), far, member).Err())
	storetest.Fails(t, "the cause", storetest.Receive(t, "the context ends", lost), notify.ErrLeaseLost)
	close(done)
	if got := leaseOf(t, db, "n"); got != far {
		t.Errorf("the lease of the other ends at %d, want %d", got, far)
	}
}

// What another has by now is not given back by who lost it.
func TestNamedReleasesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	began := make(chan struct{}, 10)
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Grace: time.Nanosecond})
	stop := listenBy(t, l, func(ctx context.Context, _ *subscribers.Broadcast) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, subscribers.ListenOptions{Name: "n", Lease: time.Minute})
	broadcast(t, db, topic, "a")
	storetest.Receive(t, "it is handled", began)
	member := db.Client().ZRange(t.Context(), db.KeysOf(topic).Held("n"), 0, 0).Val()[0]
	far := time.Now().Add(time.Hour).UnixMilli()
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Held("n"), far, member).Err())
	stop()
	if got := leaseOf(t, db, "n"); got != far {
		t.Errorf("the lease of the other ends at %d, want %d", got, far)
	}
	if n := db.Client().HGet(t.Context(), db.KeysOf(topic).Tries("n"), member).Val(); n != "" {
		t.Errorf("tries %s", n)
	}
}

// A hand that turns slow gives back what was taken ahead: another process has it, and rings for what the first gives back when it
// stops. Without another the first goes on itself as soon as it can. No carrier rings, and no connection is renewed.
func TestNamedStalledHandlerReleases(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			db := storetest.Open(t)
			stopCarrier := carry(t, db)
			ids := numbers("n", 400)
			flood(t, db, []string{topic}, ids...)
			sentAll(t, db)
			echo(t, db, stopCarrier)
			h, slow := &received{}, make(chan error)
			o := subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning(), Lease: time.Hour}
			oa, started := h.options(o)
			life, stop := context.WithCancel(t.Context())
			defer stop()
			storetest.Run(t, func(context.Context) error {
				return newListener(t, db).Listen(life, topic, func(ctx context.Context, b *subscribers.Broadcast) error {
					if b.ID == "n00300" {
						select {
						case err := <-slow:
							if err != nil {
								return err
							}
						case <-ctx.Done():
						}
					}
					return h.handle(ctx, b)
				}, oa)
			})
			storetest.Receive(t, "it listens", started)
			if alone {
				storetest.Eventually(t, "it gives back", func() bool { return h.size() == 300 && endedLeases(t, db, "n") > 0 })
				slow <- nil
				wantIDs(t, h, ids...)
				return
			}
			storetest.Eventually(t, "it stalls", func() bool { return h.size() == 300 && held(t, db, "n") > 1 })
			other, _ := listen(t, newListener(t, db), topic, o)
			storetest.Eventually(t, "another has the others", func() bool { return other.size() == 99 && held(t, db, "n") == 1 })
			stop()
			slow <- subscribers.ErrStopping
			wantSet(t, other, ids[300:]...) // what the first, on a slow machine, had not taken yet comes before what it gives back
			if last := other.list()[99]; last != ids[300] {
				t.Errorf("the last is %s, want the one that was in hand", last)
			}
			wantIDs(t, h, ids[:300]...)
		})
	}
}

// echo stops a carrier, and has its last beats repeated until the test ends: they say nothing new, and keep connections from being
// renewed, with which listeners would look for themselves.
func echo(t *testing.T, db *notify.Store, stopCarrier func()) {
	t.Helper()
	last := make(map[string]string)
	for _, keys := range db.KeysOfAll() {
		beat, err := storetest.Subscribe(t, db, keys.Beat()).ReceiveMessage(t.Context())
		storetest.Must(t, err)
		last[keys.Beat()] = beat.Payload
	}
	stopCarrier()
	storetest.BeatWith(t, db, func(keys script.Keys) string { return last[keys.Beat()] }, nil)
}

// endedLeases returns how many broadcasts of a name anybody may take.
func endedLeases(t *testing.T, db *notify.Store, name string) int64 {
	t.Helper()
	now := redisNow(t, db)
	n, err := db.Client().ZCount(t.Context(), db.KeysOf(topic).Held(name), "-inf", fmt.Sprint(now.UnixMilli())).Result()
	storetest.Must(t, err)
	return n
}

// A name that comes back to a hub that went on without it takes what was sent meanwhile.
func TestNamedComesBackToItsHub(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	listen(t, l, topic) // keeps the hub
	o := subscribers.ListenOptions{Name: "n"}
	for round := range 3 {
		h, stop := listen(t, l, topic, o)
		id := fmt.Sprint(round)
		broadcast(t, db, topic, id)
		if round == 0 {
			wantIDs(t, h, id)
		} else {
			wantIDs(t, h, "away-"+id, id)
		}
		stop()
		broadcast(t, db, topic, fmt.Sprint("away-", round+1))
	}
	h, _ := listen(t, l, topic, o)
	wantIDs(t, h, "away-3")
}

// What a process held that is gone is taken by another when its lease has ended, in the next attempt, and only that.
func TestNamedTakesOver(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	o := subscribers.ListenOptions{Name: "n", Concurrency: 2, Lease: time.Minute}
	h, stop := listen(t, newListener(t, db), topic, o)
	broadcast(t, db, topic, "a", "b", "c")
	wantSet(t, h, "a", "b", "c")
	stop()
	// As if a process had taken a and b, and died.
	var members []any
	for _, s := range sentTo(t, db)[:2] {
		members = append(members, time.Now().Add(300*time.Millisecond).UnixMilli(), fmt.Sprintf("%d %s", s.at, s.topic))
	}
	keys := db.KeysOf(topic)
	storetest.Must(t, db.Client().Do(t.Context(), append([]any{"ZADD", keys.Held("n")}, members...)...).Err())
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", keys.Alarms(), members[0], "n").Err())
	other, _ := listen(t, newListener(t, db), topic, o)
	wantSet(t, other, "a", "b")
	for _, b := range other.all {
		if b.Attempt != 2 {
			t.Errorf("%s came in attempt %d", b.ID, b.Attempt)
		}
	}
	nothingHeld(t, db, "n")
}

// A broadcast whose processes die again and again is given up at last.
func TestNamedGivesUpWhatKills(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	given := make(chan string, 1)
	o := subscribers.ListenOptions{Name: "n", MaxAttempts: 3, OnGivenUp: func(b *subscribers.Broadcast, reason string) {
		given <- fmt.Sprintf("%s %d: %s", b.ID, b.Attempt, reason)
	}}
	h, stop := listen(t, newListener(t, db), topic, o)
	broadcast(t, db, topic, "a")
	wantIDs(t, h, "a")
	stop()
	member := fmt.Sprintf("%d %s", sentTo(t, db)[0].at, topic)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Held("n"), 1, member).Err())
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Tries("n"), member, 2).Err())
	again, _ := listen(t, newListener(t, db), topic, o)
	if got := storetest.Receive(t, "it is given up", given); got != "a 3: lease expired, out of attempts" {
		t.Errorf("got %s", got)
	}
	nothingHeld(t, db, "n")
	if again.size() > 0 {
		t.Errorf("it was handled: %v", again.list())
	}
}

// What was held and is removed from the log meanwhile is a gap.
func TestNamedLeasedIsRemoved(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	o := subscribers.ListenOptions{Name: "n"}
	h, stop := listen(t, newListener(t, db), topic, o)
	broadcast(t, db, topic, "a")
	wantIDs(t, h, "a")
	stop()
	at := sentTo(t, db)[0].at
	held := fmt.Sprintf("%d %s", at, topic)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Held("n"), 1, held, 1, "foreign").Err())
	if err := db.Client().HSet(t.Context(), db.KeysOf(topic).Tries("n"), held, 50).Err(); err != nil { // it is out of attempts
		t.Fatal(err)
	}
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Log(topic)).Err())
	h, _ = listen(t, newListener(t, db), topic, o)
	storetest.Eventually(t, "the gap is reported", func() bool { return len(h.missed()) == 1 })
	if g := h.missed()[0]; g != (subscribers.Gap{Topic: topic, After: at - 1, UpTo: at}) {
		t.Errorf("got %+v", g)
	}
	nothingHeld(t, db, "n")
}

func TestNameInUse(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	o := subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning()}
	broadcast(t, db, "prices.gold", "a")
	h, stop := listen(t, l, "prices.*", o)
	wantIDs(t, h, "a")
	try := func(pattern string, from subscribers.From, want ...string) {
		t.Helper()
		err := l.Listen(t.Context(), pattern, new(received).handle, subscribers.ListenOptions{Name: "n", From: from})
		if !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("got %v, want an ErrInvalid", err)
			return
		}
		for _, want := range want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
	for range 2 { // while it listens, and while it does not
		try("prices.>", subscribers.From{}, "name n", "prices.*")
		try("prices.gold", subscribers.FromBeginning(), "name n", "prices.*")
		try("prices.*", subscribers.FromNow(), "from now", "began at beginning")
		if storetest.Shards() == 1 { // else a position is no bookmark of a pattern
			try("prices.*", subscribers.After("0-1"), "from 0-1", "began at beginning")
		}
		stop()
	}
	// The same start is no other, and neither is none: it goes on where it stands.
	broadcast(t, db, "prices.gold", "b", "c")
	h, stop = listen(t, l, "prices.*", o)
	wantIDs(t, h, "b", "c")
	stop()
	broadcast(t, db, "prices.gold", "d")
	h, _ = listen(t, l, "prices.*", subscribers.ListenOptions{Name: "n"})
	wantIDs(t, h, "d")
}

func TestNames(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	if names, err := storetest.Inspector(t, db).Listeners(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("got %v, %v", names, err)
	}
	broadcast(t, db, "a", "1")
	sentAt := sentTo(t, db)[0].at
	_, stop := listen(t, l, ">", subscribers.ListenOptions{Name: "z", From: subscribers.FromBeginning()})
	storetest.Eventually(t, "it has taken all", func() bool { return behind(t, db, "z") == 0 })
	nothingHeld(t, db, "z")
	stop()
	broadcast(t, db, "b", "2")
	broadcast(t, db, "a", "3")
	blocked := &received{hold: make(chan struct{})}
	listenInto(t, l, "a", blocked, subscribers.ListenOptions{Name: "m.n", From: subscribers.After(subscribers.At(sentAt))})
	storetest.Eventually(t, "it has one in hand", func() bool { return held(t, db, "m.n") == 1 })
	names, err := storetest.Inspector(t, db).Listeners(t.Context())
	storetest.Must(t, err)
	want := []notify.ListenerInfo{
		{Name: "m.n", Pattern: "a", From: sentAt.String(), Since: sentAt.Time(), Held: 1, Active: true},
		{Name: "z", Pattern: ">", From: "beginning", Behind: 2, Oldest: sentTo(t, db)[1].at.Time()},
	}
	for n := range names {
		names[n].By, names[n].HeldBy = nil, nil // see TestWhoListens and TestWhoHolds
	}
	storetest.Same(t, "names", want, names)
	close(blocked.hold)
	nothingHeld(t, db, "m.n")
	for _, name := range []string{"z", "m.n"} {
		if name == "m.n" {
			continue // it listens: see below
		}
		storetest.Should(t, storetest.Inspector(t, db).RemoveListener(t.Context(), name))
	}
	storetest.Fails(t, "removed again", storetest.Inspector(t, db).RemoveListener(t.Context(), "z"), notify.ErrNoListener)
	storetest.Fails(t, "no name", storetest.Inspector(t, db).RemoveListener(t.Context(), "two words"), notify.ErrInvalid)
	for _, keys := range db.KeysOfAll() {
		if n, err := db.Client().Exists(t.Context(), keys.Places("z"), keys.Held("z"), keys.Tries("z"), keys.Owners("z")).Result(); err != nil || n != 0 {
			t.Errorf("something is left of a name that was removed, %v", err)
		}
	}
}

func behind(t *testing.T, db *notify.Store, name string) int {
	t.Helper()
	names, err := storetest.Inspector(t, db).Listeners(t.Context())
	storetest.Must(t, err)
	for _, n := range names {
		if n.Name == name {
			return n.Behind
		}
	}
	t.Fatalf("there is no %s among %v", name, names)
	return 0
}

// A name that is removed ends who listens under it: one that waits, and one that is busy.
func TestNameIsRemovedWhileListening(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	for _, busy := range []bool{false, true} {
		ended, began := make(chan error, 1), make(chan struct{}, 100)
		o, started := (&received{}).options(subscribers.ListenOptions{Name: "n", Lease: record.MinLease})
		go func() {
			ended <- l.Listen(t.Context(), topic, func(ctx context.Context, _ *subscribers.Broadcast) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}, o)
		}()
		storetest.Receive(t, "it listens", started)
		if busy {
			broadcast(t, db, topic, "a")
			storetest.Receive(t, "it is busy", began)
		}
		storetest.Must(t, storetest.Inspector(t, db).RemoveListener(t.Context(), "n"))
		if err := storetest.Receive(t, "it ends", ended); !errors.Is(err, notify.ErrNoListener) || !strings.Contains(err.Error(), "listen as n: it was removed") {
			t.Errorf("it ended with %v", err)
		}
		n, err := db.Client().Exists(t.Context(), db.KeysOf(topic).Places("n"), db.KeysOf(topic).Held("n"), db.KeysOf(topic).Tries("n"), db.KeysOf(topic).Owners("n"), db.KeysOf(topic).Alarms()).Result()
		if err != nil || n != 0 {
			t.Errorf("%d keys are left, %v", n, err)
		}
	}
}

// What is foreign in a place of names: an error that says so where it is needed, and no harm elsewhere.
func TestForeignThingsOfNames(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	client, keys, registered := db.Client(), db.KeysOf(topic), db.Keys().Listeners()
	l := newListener(t, db)
	storetest.Must(t, client.HSet(t.Context(), registered, "foreign", "x").Err())
	if err := l.Listen(t.Context(), topic, new(received).handle, subscribers.ListenOptions{Name: "foreign"}); err == nil || !strings.Contains(err.Error(), `registration "x" is foreign`) {
		t.Errorf("got %v", err)
	}
	// The set by which the carrier finds those that died: without it everything else goes on.
	storetest.Must(t, client.Set(t.Context(), keys.Alarms(), "x", 0).Err())
	h, stop := listen(t, l, topic, subscribers.ListenOptions{Name: "n"})
	broadcast(t, db, topic, "a", "b")
	wantIDs(t, h, "a", "b")
	stop()
	storetest.Should(t, storetest.Inspector(t, db).RemoveListener(t.Context(), "n"))
	storetest.Should(t, storetest.Inspector(t, db).RemoveListener(t.Context(), "foreign"))
	storetest.Must(t, client.Set(t.Context(), registered, "x", 0).Err())
	for what, err := range map[string]error{
		"listen": l.Listen(t.Context(), topic, new(received).handle, subscribers.ListenOptions{Name: "n"}), "remove": storetest.Inspector(t, db).RemoveListener(t.Context(), "n"),
		"names": func() error { _, err := storetest.Inspector(t, db).Listeners(t.Context()); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
