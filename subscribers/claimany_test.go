package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// At once: topic by topic in the order given, or the oldest of all. Nothing of a topic that is paused.
func TestClaimAnyAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		max    int
		oldest bool
		want   string
	}{
		{0, false, "b2"},
		{0, true, "c9"},
		{3, false, "b2 b1 c9"},
		{3, true, "c9 a8 a5"},
		{6, false, "b2 b1 c9 c4 c3 a8"},
		{500, false, "b2 b1 c9 c4 c3 a8 a5"},
		{500, true, "c9 a8 a5 c4 c3 b2 b1"},
	} {
		for _, wait := range []time.Duration{0, time.Minute} {
			db := beating(t, storetest.Open(t))
			for id, ago := range map[string]int{"c9": 9, "a8": 8, "p7": 7, "a5": 5, "c4": 4, "c3": 3, "b2": 2, "b1": 1} {
				storetest.Publish(t, db, dueBefore(storetest.Near(db, id[:1]), id, time.Duration(ago)*time.Minute))
			}
			storetest.Must(t, storetest.Inspector(t, db).Pause(t.Context(), storetest.Near(db, "p")))
			p, _ := runClaimer(t, db)
			topics := []string{storetest.Near(db, "b"), storetest.Near(db, "none"), storetest.Near(db, "p"), storetest.Near(db, "c"), storetest.Near(db, "a")}
			ds, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Max: test.max, Oldest: test.oldest, Wait: wait})
			if g := (got{ds, err}); err != nil || g.ids() != test.want {
				t.Errorf("%+v, wait %v: got %q, %v", test, wait, g.ids(), err)
			}
			for i := range ds {
				storetest.Should(t, ds[i].Ack(t.Context()))
			}
			waitsIn(t, db, topics, 0)
		}
	}
}

// Large bodies and many messages: the oldest of all in pages, until one answer has enough.
func TestClaimAnyOfMany(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	p := subscriberstest.Claimer(t, db)
	topics := []string{storetest.Near(db, "t"), storetest.Near(db, "tt"), storetest.Near(db, "ttt")}
	var all []string
	for i := range 200 {
		id := fmt.Sprintf("%03d", i)
		all = append(all, id)
		storetest.Publish(t, db, dueBefore(topics[(i*i/7)%3], id, time.Hour-time.Duration(i)*time.Second))
	}
	ds, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Max: 150, Oldest: true})
	if g := (got{ds, err}); err != nil || g.ids() != strings.Join(all[:150], " ") {
		t.Errorf("got %q, %v", g.ids(), err)
	}
	large := []string{storetest.Near(db, "large"), storetest.Near(db, "larger"), storetest.Near(db, "largest")}
	for _, topic := range large {
		for i := range 20 {
			m := of(topic, fmt.Sprint(i))
			m.Body = make([]byte, 250_000)
			storetest.Publish(t, db, m)
		}
	}
	ds, err = p.ClaimAny(t.Context(), large, subscribers.ClaimOptions{Max: 500})
	if err != nil || len(ds) < 16 || len(ds) > 34 || ds[0].Topic != large[0] {
		t.Errorf("got %d messages, %v", len(ds), err)
	}
}

func TestBadClaimAny(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	p := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, of("a", "1"))
	for _, test := range []struct {
		topics []string
		o      subscribers.ClaimOptions
		faults []string
	}{
		{nil, subscribers.ClaimOptions{}, []string{"there are none"}},
		{topicsOf(33), subscribers.ClaimOptions{}, []string{"there are 33; name at most 32"}},
		{[]string{"a", "b", "a", "a"}, subscribers.ClaimOptions{}, []string{`"a" is named twice`}},
		{[]string{"a", "", "b c", "a"}, subscribers.ClaimOptions{Max: 501, Wait: -1}, []string{"it is empty", `"b c"`, `"a" is named twice`, "max 501", "wait -1ns"}},
	} {
		_, err := p.ClaimAny(t.Context(), test.topics, test.o)
		if faults := fault.All(err); len(faults) != len(test.faults) {
			t.Errorf("%q: got %v", test.topics, err)
		}
		for _, fault := range test.faults {
			if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: got %v, want %q", test.topics, err, fault)
			}
		}
	}
	if ds, err := p.ClaimAny(t.Context(), []string{"a"}); err != nil || len(ds) != 1 {
		t.Errorf("one topic: got %v, %v", ds, err)
	}
}

// A caller that waits for 32 topics is woken by each, costs nothing meanwhile, and leaves all waiting lists by one call.
func TestClaimAnyWaits(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.At(t, storetest.URL(), "test-"+notify.NewID()))
	var mu sync.Mutex
	calls := make(map[string]int)
	db.Observe(func(script string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		calls[script]++
	})
	topics := topicsOf(record.MaxTopics)
	for i, topic := range topics {
		topics[i] = storetest.Near(db, topic)
	}
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	for _, topic := range topics {
		answer := claimAnyLater(t.Context(), t, p, topics, long())
		waitsIn(t, db, topics, 1)
		beats(t, db, 2)
		storetest.Publish(t, db, of(topic, "m"))
		g := want(t, "the message", answer, "m")
		waitsIn(t, db, topics, 0)
		storetest.Should(t, g.ds[0].Ack(t.Context()))
	}
	n := len(topics)
	storetest.Eventually(t, "the last call is counted", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return calls["leave"] >= n
	})
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"arrive", "heard", "workers", "set", "adopt"} { // for each connection, of runClaimer, and of quiet
		delete(calls, name)
	}
	if diff := gocmp.Diff(map[string]int{"share_out": n, "claim": n, "leave": n, "publish": n, "ack": n}, calls); diff != "" {
		t.Errorf("calls for %d messages (-want +got):\n%s", n, diff)
	}
	if n := p.Stats(); n.Waiting+n.Fallbacks != 0 {
		t.Errorf("got %+v", n)
	}
	storetest.Empty(t, db)
}

// Two topics ring at once, or hand over: one message is taken, and the other one is ready for others at once, without a beat.
func TestOneCreditForAllTopics(t *testing.T) {
	t.Parallel()
	for _, ring := range []bool{true, false} {
		db := storetest.Open(t)
		lapsing(t, db)
		p, _ := runClaimer(t, db)
		other, _ := runClaimer(t, db)
		topics := topicsOf(2)
		if ring {
			storetest.RingAlone(t, db, topics...)
		}
		for round := range 10 {
			answer := claimAnyLater(t.Context(), t, p, topics, long())
			waitsIn(t, db, topics, 1)
			second := claimAnyLater(t.Context(), t, other, topics, long())
			waitsIn(t, db, topics, 2)
			storetest.Publish(t, db, of(topics[0], fmt.Sprint("a", round)), of(topics[1], fmt.Sprint("b", round)))
			both := slices.Concat(storetest.Receive(t, "the first", answer).ds, storetest.Receive(t, "the second", second).ds)
			if len(both) != 2 || both[0].Topic == both[1].Topic {
				t.Fatalf("the ring alone: %v: got %+v", ring, both)
			}
			var h handouts
			for i := range both {
				h.acked(t, both[i].Ack(t.Context()))
			}
			waitsIn(t, db, topics, 0)
			storetest.Eventually(t, "what lapsed before it was acknowledged is settled", func() bool {
				rest, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Max: 2})
				h.lost -= int64(len(rest))
				for i := range rest {
					h.acked(t, rest[i].Ack(t.Context()))
				}
				return err == nil && h.lost <= 0
			})
		}
	}
}

// Topics of one shard or of several ring at once for one caller, or have something at once: one message is claimed, and no other claim is
// made for it that would have to be undone.
func TestOneClaimAtATime(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		db := storetest.Sharded(t, shards)
		topics := across(db, shards)
		for len(topics) < 8 {
			topics = append(topics, fmt.Sprint("beside.", len(topics)))
		}
		quiet(t, db, topics...)
		p, _ := runClaimer(t, db)
		for round := range 20 {
			var all []notify.Message
			for _, topic := range topics {
				all = append(all, of(topic, fmt.Sprint(round)))
			}
			if round%2 == 1 {
				storetest.Publish(t, db, all...)
			}
			answer := claimAnyLater(t.Context(), t, p, topics, long())
			if round%2 == 0 {
				waitsIn(t, db, topics, 1)
				storetest.Publish(t, db, all...)
			}
			ds := want(t, "a message", answer, fmt.Sprint(round)).ds
			waitsIn(t, db, topics, 0)
			rest, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Max: 100})
			if err != nil || len(rest) != len(topics)-1 {
				t.Fatalf("then got %d messages, %v", len(rest), err)
			}
			for _, d := range append(ds, rest...) {
				if n, err := db.Client().HGet(t.Context(), db.KeysOf(d.Topic).Topics(), d.Topic+":released").Result(); err == nil {
					t.Errorf("%d: %s messages of %s were claimed and released", round, n, d.Topic)
				}
				storetest.Should(t, d.Ack(t.Context()))
			}
		}
	}
}

// A caller of several topics leaves while they are read, or while it is claimed for: what there is stays for others.
func TestCallerOfSeveralLeaves(t *testing.T) {
	t.Parallel()
	db := holdable(t)
	topics := []string{storetest.Near(db, "a"), storetest.Near(db, "b"), storetest.Near(db, "c")} // that one script asks for
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	for i, some := range [][]notify.Message{nil, {of(topics[1], "a"), of(topics[2], "b")}} {
		storetest.Publish(t, db, some...)
		held, let := hold(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		left := claimAnyLater(ctx, t, p, topics, long())
		held(1)
		cancel()
		if g := storetest.Receive(t, "the caller leaves at once", left); !errors.Is(g.err, context.Canceled) || len(g.ds) > 0 {
			t.Errorf("got %v", g)
		}
		let()
		waitsIn(t, db, topics, 0)
		for _, m := range some {
			if g := want(t, fmt.Sprint("another caller ", i), claimAnyLater(t.Context(), t, p, topics, long()), m.ID); g.ds[0].Attempt != 1 {
				t.Errorf("an attempt was used up: %+v", g.ds[0])
			}
		}
	}
	waitsIn(t, db, topics, 0)
}

// Many callers that wait for several topics, and one message: one gets it, and all have left when they are gone.
func TestOneMessageForManyCallers(t *testing.T) {
	t.Parallel()
	topics := topicsOf(record.MaxTopics)
	db := quiet(t, storetest.Open(t), topics...)
	p, _ := runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan got, 200)
	for range cap(answers) {
		go func() {
			ds, err := p.ClaimAny(ctx, topics, long())
			answers <- got{ds, err}
		}()
	}
	storetest.Eventually(t, "all wait", func() bool { return p.Stats().Waiting == int64(cap(answers)) })
	waitsIn(t, db, topics, 1)
	storetest.Publish(t, db, of(topics[7], "m"))
	want(t, "one gets it", answers, "m")
	storetest.Eventually(t, "the others wait on", func() bool { return p.Stats().Waiting == int64(cap(answers))-1 })
	waitsIn(t, db, topics, 1)
	cancel()
	for range cap(answers) - 1 {
		if g := storetest.Receive(t, "the end of the wait", answers); !errors.Is(g.err, context.Canceled) || len(g.ds) > 0 {
			t.Errorf("got %v", g)
		}
	}
	waitsIn(t, db, topics, 0)
}

// First come, first served, whether callers wait for one topic or for several.
func TestOrderOfCallersOfSeveral(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	topics := []string{storetest.Near(db, "a"), storetest.Near(db, "b"), storetest.Near(db, "c"), storetest.Near(db, "d")}
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	var answers []<-chan got
	for _, some := range [][]string{topics, topics[2:3], topics[1:], topics[2:3]} {
		answers = append(answers, claimAnyLater(t.Context(), t, p, some, long()))
		waitsIn(t, db, some, 1)
		storetest.Eventually(t, "its claim is through", func() bool { return p.Ping(t.Context()) == nil })
	}
	for i, answer := range answers {
		storetest.Publish(t, db, of(topics[2], fmt.Sprint(i)))
		want(t, "the next caller", answer, fmt.Sprint(i))
	}
	waitsIn(t, db, topics, 0)
}

// Whatever becomes of connections, waiting lists and data, a caller of several topics is served.
func TestClaimAnyThroughFaults(t *testing.T) {
	t.Parallel()
	db := alone(t)
	carry(t, db)
	p, _ := runClaimer(t, db)
	topics := topicsOf(5)
	do := func(args ...any) {
		t.Helper()
		storetest.Must(t, db.Client().Do(t.Context(), args...).Err())
	}
	for i := range 18 {
		topic, id := topics[i%len(topics)], fmt.Sprint(i)
		answer := claimAnyLater(t.Context(), t, p, topics, long())
		waitsIn(t, db, topics, 1)
		switch i % 3 {
		case 0:
			do("CLIENT", "KILL", "TYPE", "pubsub")
		case 1: // a beat names the topic
			do("DEL", db.KeysOf(topic).Waiting(topic))
		default:
			storetest.Must(t, storetest.Inspector(t, db).Pause(t.Context(), topic))
		}
		storetest.Publish(t, db, of(topic, id))
		if i%3 == 2 {
			storetest.Must(t, storetest.Inspector(t, db).Resume(t.Context(), topic))
		}
		g := want(t, fmt.Sprint("the message of round ", i), answer, id)
		storetest.Should(t, g.ds[0].Ack(t.Context()))
		waitsIn(t, db, topics, 0)
	}
	storetest.Empty(t, db)
}

// A Redis that takes no writes for a moment ends no wait; one that is away, or a set that is foreign, does, and nothing is tried again
// and again.
func TestClaimAnyFails(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Following(storetest.At(t, server.URL(), ""))
	var refused atomic.Int64
	db.Observe(func(script string, _ time.Duration, err error) {
		if script == "share_out" && err != nil && reach.NotExecuted(err) {
			refused.Add(1)
		}
	})
	topics := topicsOf(3)
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	only := func(master, port string) {
		t.Helper()
		storetest.Must(t, server.Follow(t.Context(), master, port))
	}
	only("127.0.0.1", "1")
	answer := claimAnyLater(t.Context(), t, p, topics, long())
	storetest.Eventually(t, "a replica refuses its call", func() bool { return refused.Load() > 0 })
	only("NO", "ONE")
	waitsIn(t, db, topics, 1)
	storetest.Eventually(t, "it is published", func() bool {
		_, err := storetest.Publisher(t, db).Publish(t.Context(), of(topics[1], "a"))
		return err == nil || errors.Is(err, notify.ErrExists)
	})
	want(t, "the message", answer, "a")
	storetest.Eventually(t, "the set is foreign", func() bool {
		return db.Client().Set(t.Context(), db.KeysOf(topics[2]).Ready(topics[2]), "foreign", 0).Err() == nil
	})
	before := scriptCalls(t, db)
	if g := storetest.Receive(t, "the error", claimAnyLater(t.Context(), t, p, topics, long())); g.err == nil {
		t.Errorf("got %v", g)
	}
	waitsIn(t, db, topics, 0)
	if n := scriptCalls(t, db) - before; n > 10 {
		t.Errorf("%d scripts", n)
	}
	server.Kill()
	storetest.Eventually(t, "it is deaf", func() bool { return errors.Is(p.Ping(t.Context()), subscribers.ErrUnsubscribed) })
	if g := storetest.Receive(t, "the error", claimAnyLater(t.Context(), t, p, topics, long())); g.err == nil {
		t.Errorf("got %v", g)
	}
}

// The connection breaks while topics are read for a caller: it has the error, and others do not; the inbox is left in no list.
func TestErrorReachesTheCallerOfSeveral(t *testing.T) {
	t.Parallel()
	db := holdable(t)
	topics := []string{storetest.Near(db, "a"), storetest.Near(db, "b"), storetest.Near(db, "c")} // of one shard, which one call reads
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	held, let := hold(t, db)
	broken := claimAnyLater(t.Context(), t, p, topics, long())
	held(1)
	second := claimAnyLater(t.Context(), t, p, topics[1:], long())
	held(2)
	third := claimAnyLater(t.Context(), t, p, topics[2:], long()) // of one topic
	held(3)
	storetest.Must(t, db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
	for _, answer := range []<-chan got{broken, second, third} {
		if g := storetest.Receive(t, "the claim fails", answer); g.err == nil {
			t.Errorf("got %v", g)
		}
	}
	last := claimAnyLater(t.Context(), t, p, topics, long())
	let()
	waitsIn(t, db, topics, 1)
	storetest.Publish(t, db, of(topics[1], "a"))
	want(t, "the last one", last, "a")
	waitsIn(t, db, topics, 0)
}

// A caller that comes while all its topics are paused is woken by the first that is resumed.
func TestClaimAnyOfPausedTopics(t *testing.T) {
	t.Parallel()
	db := beating(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	inspector, topics := storetest.Inspector(t, db), topicsOf(3)
	for _, topic := range topics {
		storetest.Publish(t, db, of(topic, topic))
		storetest.Must(t, inspector.Pause(t.Context(), topic))
	}
	answer := claimAnyLater(t.Context(), t, p, topics, long())
	waitsIn(t, db, topics, 1)
	storetest.Must(t, inspector.Resume(t.Context(), topics[1]))
	want(t, "its message", answer, topics[1])
	waitsIn(t, db, topics, 0)
	o := long()
	o.MinAge = time.Millisecond
	aged := claimAnyLater(t.Context(), t, p, topics, o)
	storetest.Must(t, inspector.Resume(t.Context(), topics[2]))
	want(t, "its message, for one who wants old ones", aged, topics[2])
	waitsIn(t, db, topics, 0)
}

// Messages of an age, of several topics: exactly then, the one that has it first.
func TestClaimAnyOfAnAge(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	topics := []string{storetest.Near(db, "a"), storetest.Near(db, "b"), storetest.Near(db, "c")}
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	o := long()
	o.MinAge, o.Max, o.Oldest = time.Hour, 10, true
	answer := claimAnyLater(t.Context(), t, p, topics, o)
	storetest.Publish(t, db, of(topics[0], "young"), dueBefore(topics[1], "ripe-soon", time.Hour-300*time.Millisecond))
	g := want(t, "the older one", answer, "ripe-soon")
	if d := g.ds[0]; d.Receipt.Until().Sub(d.Due)-d.Lease < o.MinAge {
		t.Errorf("it was too young: due %v, leased until %v", d.Due, d.Receipt.Until())
	}
	storetest.Publish(t, db, dueBefore(topics[2], "2h", 2*time.Hour), dueBefore(topics[0], "3h", 3*time.Hour))
	want(t, "both that are old, oldest first", claimAnyLater(t.Context(), t, p, topics, o), "3h 2h")
	waitsIn(t, db, topics, 0)
}

// Callers of random topics of three claimers, some that leave, while connections are cut: each message comes once, and no ring is lost.
func TestNoRingOfSeveralIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			lapsed := lapsing(t, db)
			topics := topicsOf(6)
			steady, _ := runClaimer(t, db)
			claimers := []*subscribers.Claimer{steady}
			var stops []func()
			for range 2 {
				p, stop := runClaimer(t, db)
				claimers, stops = append(claimers, p), append(stops, stop)
			}
			var h handouts
			take := func(ctx context.Context, p *subscribers.Claimer, some []string, o subscribers.ClaimOptions) {
				ds, err := p.ClaimAny(ctx, some, o)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for i := range ds {
					h.note(ds[i].ID)
					h.acked(t, ds[i].Ack(context.WithoutCancel(ctx)))
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var stays sync.WaitGroup
			for i := range 3 {
				o := long()
				o.Max = 1 + 2*i
				stays.Go(func() {
					for ctx.Err() == nil {
						take(ctx, steady, topics[i:], o)
					}
				})
			}
			published := 0
			for round := range 30 {
				var callers sync.WaitGroup
				for i := range 9 {
					r := rand.New(rand.NewPCG(seed, uint64(round*100+i)))
					callers.Go(func() {
						for range 3 {
							within, cancel := context.WithTimeout(t.Context(), rand.N(8*time.Millisecond))
							some := slices.Clone(topics)
							r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
							take(within, claimers[i%3], some[:1+r.IntN(len(some))], subscribers.ClaimOptions{
								Max: 1 + r.IntN(4), Oldest: r.IntN(2) == 0 && storetest.Shards() == 1, Wait: time.Duration(r.Int64N(int64(8 * time.Millisecond))), Lease: time.Duration(1+r.IntN(2)) * time.Minute,
							})
							cancel()
						}
					})
				}
				r := rand.New(rand.NewPCG(seed, uint64(round*100+99)))
				for range 6 {
					var batch []notify.Message
					for range 1 + r.IntN(4) {
						batch = append(batch, of(topics[r.IntN(len(topics))], fmt.Sprint(published)))
						published++
					}
					storetest.Publish(t, db, batch...)
				}
				callers.Wait()
				storetest.Eventually(t, "the rest reaches those who stay", func() bool { return h.size() == published })
			}
			waitsIn(t, db, topics, 1)
			storetest.Eventually(t, "all who stay wait", func() bool { return steady.Stats().Waiting == 3 })
			cancel()
			stays.Wait()
			waitsIn(t, db, topics, 0)
			for _, stop := range stops {
				stop()
			}
			h.once(t, lapsed)
			storetest.Empty(t, db)
		})
	}
}
