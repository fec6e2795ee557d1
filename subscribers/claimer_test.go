package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// hold has Redis hold back all scripts of a store of holdable until let is called, and beats as well. They run
// alone on their server, but for beating.
func hold(t *testing.T, db *notify.Store) (held func(n int), let func()) {
	t.Helper()
	o := *db.Client().(*redis.Client).Options()
	client := redis.NewClient(&o) // of its own: what is held back may have all connections of the store
	t.Cleanup(func() { _ = client.Close() })
	do := func(args ...any) {
		t.Helper()
		storetest.Must(t, client.Do(t.Context(), args...).Err())
	}
	do("CLIENT", "PAUSE", 600000, "WRITE")
	held = func(n int) {
		t.Helper()
		storetest.Eventually(t, fmt.Sprintf("%d scripts are held back", n), func() bool {
			info, err := client.Info(t.Context(), "clients").Result()
			return err == nil && strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r", n+1)) // and a beat
		})
	}
	return held, func() { t.Helper(); do("CLIENT", "UNPAUSE") }
}

func TestWaiterThatGetsNothing(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	for _, wait := range []time.Duration{0, time.Nanosecond, 30 * time.Millisecond} {
		for _, age := range []time.Duration{0, time.Hour} {
			began := time.Now()
			ds, err := p.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 5, Lease: time.Minute, MinAge: age, Wait: wait})
			if len(ds) > 0 || err != nil || time.Since(began) < wait {
				t.Errorf("wait %v, age %v: got %v, %v after %v", wait, age, ds, err, time.Since(began))
			}
		}
	}
	waits(t, db, 0)
}

// First come, first served, whatever lease and however much each wants.
func TestWaitersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	var answers []<-chan got
	for i, max := range []int{500, 1, 2, 2} {
		o := long()
		o.Max, o.Lease = max, time.Duration(1+i%2)*time.Minute
		answers = append(answers, claimLater(t.Context(), t, p, o))
		waits(t, db, 1)
		storetest.Eventually(t, "its claim is through", func() bool { return p.Ping(t.Context()) == nil })
	}
	storetest.Publish(t, db, body("a"))
	want(t, "the first, though it wants more", answers[0], "a")
	waits(t, db, 1)
	storetest.Publish(t, db, body("b"))
	want(t, "the second, of another lease", answers[1], "b")
	waits(t, db, 1)
	storetest.Publish(t, db, body("c"), body("d"), body("e"))
	g := want(t, "the third", answers[2], "c d")
	if d := g.ds[0]; (d.Receipt.Until().Sub(d.Due) - d.Lease - d.Late()).Abs() > time.Millisecond {
		t.Errorf("it was claimed for another lease: %v", d.Receipt.Until())
	}
	want(t, "the last", answers[3], "e")
	waits(t, db, 0)
}

// A claim is under way for a caller who leaves: what it brings goes to somebody who waits elsewhere.
func TestCallerLeavesDuringTheClaim(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	other, _ := runClaimer(t, db)
	answer := claimLater(t.Context(), t, other, long())
	waits(t, db, 1)
	held, let := hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	held(1)
	published := make(chan struct{})
	go func() {
		defer close(published)
		storetest.Publish(t, db, body("a"))
	}()
	held(2)
	cancel()
	if g := storetest.Receive(t, "the caller leaves at once", left); !errors.Is(g.err, context.Canceled) || len(g.ds) > 0 {
		t.Errorf("got %v", g)
	}
	let()
	storetest.Receive(t, "the publish", published)
	want(t, "the message", answer, "a")
	waits(t, db, 0)
	if c := counts(t, db); c.Leased != 1 || c.Ready != 0 {
		t.Errorf("got %+v", c)
	}
}

// Messages are ready and claimed for a caller who leaves meanwhile: they are ready again.
func TestClaimForNoCallerIsReleased(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	storetest.Publish(t, db, body("a"), body("b"), body("c"))
	held, let := hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	o := long()
	o.Max = 2
	left := claimLater(ctx, t, p, o)
	held(1)
	cancel()
	storetest.Receive(t, "the caller leaves at once", left)
	let()
	storetest.Eventually(t, "all are ready", func() bool { c := counts(t, db); return c.Ready == 3 && c.Leased == 0 })
	waits(t, db, 0)
	for _, id := range []string{"a", "b", "c"} {
		answer := claimLater(t.Context(), t, p, long())
		if g := want(t, "one by one", answer, id); g.ds[0].Attempt != 1 {
			t.Errorf("an attempt was used up: %+v", g.ds[0])
		}
	}
}

// A claim is under way for a caller who leaves, and one who wants another lease comes: it gets the message under its own.
func TestCallerOfAnotherLease(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	storetest.Publish(t, db, body("a"))
	held, let := hold(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	held(1)
	o := long()
	o.Lease = time.Hour
	answer := claimLater(t.Context(), t, p, o)
	cancel()
	storetest.Receive(t, "the caller leaves at once", left)
	let()
	g := want(t, "the message", answer, "a")
	if d := g.ds[0]; d.Receipt.Until().Before(d.Due.Add(o.Lease)) {
		t.Errorf("it is leased until %v", d.Receipt.Until())
	}
	waits(t, db, 0)
	if c := counts(t, db); c.Leased != 1 || c.Ready != 0 {
		t.Errorf("got %+v", c)
	}
}

// The last one leaves while its ring is on its way: somebody else is rung.
func TestRingForOneWhoLeaves(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	other, _ := runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	waits(t, db, 1)
	answer := claimLater(t.Context(), t, other, long())
	waits(t, db, 2)
	held, let := hold(t, db)
	published := make(chan struct{})
	go func() {
		defer close(published)
		storetest.Publish(t, db, body("a")) // rings who waits for the longest time
	}()
	held(1)
	cancel()
	storetest.Receive(t, "the caller leaves at once", left)
	held(2)
	let()
	storetest.Receive(t, "the publish", published)
	want(t, "the message", answer, "a")
	waits(t, db, 0)
}

// One comes while the inbox leaves the list for the last one.
func TestCallerComesWhileTheInboxLeaves(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	waits(t, db, 1)
	held, let := hold(t, db)
	cancel()
	storetest.Receive(t, "the caller leaves at once", left)
	held(1)
	answer := claimLater(t.Context(), t, p, long())
	let()
	storetest.Publish(t, db, body("a"))
	want(t, "the message", answer, "a")
	waits(t, db, 0)
}

// An inbox that could not leave a list, with Redis away, leaves it when it is rung, and somebody else is rung.
func TestInboxThatCouldNotLeave(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	waits(t, db, 1)
	inboxes, err := db.Client().ZRange(t.Context(), db.KeysOf(topic).Waiting(topic), 0, 0).Result()
	storetest.Must(t, err)
	cancel()
	storetest.Receive(t, "the caller leaves", left)
	waits(t, db, 0)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Waiting(topic), 1, inboxes[0]).Err())
	other, _ := runClaimer(t, db)
	answer := claimLater(t.Context(), t, other, long())
	waits(t, db, 2)
	storetest.Publish(t, db, body("a"))
	want(t, "the message", answer, "a")
	waits(t, db, 0)
}

// The connection breaks in the middle of a claim: who came after it was sent, or wants another lease, does not get its error.
func TestErrorReachesThoseOfTheClaim(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	held, let := hold(t, db)
	broken := claimLater(t.Context(), t, p, long())
	held(1)
	second, third := long(), long()
	third.Lease = time.Hour
	answers := []<-chan got{claimLater(t.Context(), t, p, second), claimLater(t.Context(), t, p, third)}
	storetest.Must(t, db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
	if g := storetest.Receive(t, "the claim fails", broken); g.err == nil {
		t.Errorf("got %v", g)
	}
	let()
	waits(t, db, 1)
	storetest.Publish(t, db, body("a"))
	want(t, "the second", answers[0], "a")
	storetest.Publish(t, db, body("b"))
	want(t, "the third", answers[1], "b")
	waits(t, db, 0)
}

func TestClaimerStops(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p, stop := runClaimer(t, db)
	aged := long()
	aged.MinAge = time.Hour
	topics := append(topicsOf(9), topic)
	callers := func() (all []<-chan got) {
		for _, o := range []subscribers.ClaimOptions{long(), aged} {
			all = append(all, claimLater(t.Context(), t, p, o), claimAnyLater(t.Context(), t, p, topics, o))
		}
		return all
	}
	answers := callers()
	waitsIn(t, db, topics, 1)
	stop()
	waitsIn(t, db, topics, 0)
	answers = append(answers, callers()...)
	for i, answer := range answers {
		if g := storetest.Receive(t, "the end of the wait", answer); !errors.Is(g.err, subscribers.ErrStopping) {
			t.Errorf("%d: got %v", i, g)
		}
	}
	storetest.Fails(t, "ping", p.Ping(t.Context()), subscribers.ErrUnsubscribed)
	waits(t, db, 0)
}

// It stops while a claim is under way: what that brings is given back.
func TestClaimerStopsDuringAClaim(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, stop := runClaimer(t, db)
	storetest.Publish(t, db, body("a"))
	held, let := hold(t, db)
	answer := claimLater(t.Context(), t, p, long())
	held(1)
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	if g := storetest.Receive(t, "the end of the wait", answer); !errors.Is(g.err, subscribers.ErrStopping) {
		t.Errorf("got %v", g)
	}
	let()
	storetest.Receive(t, "it stops", stopped)
	if c := counts(t, db); c.Ready != 1 || c.Leased+c.Waiting != 0 {
		t.Errorf("got %+v", c)
	}
}

func TestWaiterBeforeRun(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p := subscriberstest.Claimer(t, db)
	answer := claimLater(t.Context(), t, p, long())
	storetest.Publish(t, db, body("a")) // nobody receives that ring
	storetest.Run(t, func(ctx context.Context) error { p.Run(ctx); return nil })
	want(t, "the message", answer, "a")
	waits(t, db, 0)
}

// A claim that shall wait reports a claimer that does not run, within seconds; one that does not wait needs no Run.
func TestWaitWithoutRun(t *testing.T) {
	t.Parallel()
	p := subscriberstest.Claimer(t, storetest.Open(t))
	for _, o := range []subscribers.ClaimOptions{long(), {Wait: time.Minute, MinAge: time.Second}} {
		began := time.Now()
		_, err := p.Claim(t.Context(), topic, o)
		wantFault(t, err, "wait", "call Run")
		if took := time.Since(began); took < reach.Patience {
			t.Errorf("it took %v", took)
		}
	}
	if ds, err := p.Claim(t.Context(), topic); len(ds) > 0 || err != nil {
		t.Errorf("without a wait: claimed %v, %v", ds, err)
	}
	storetest.Should(t, p.Run(ended(t)))
	if _, err := p.Claim(t.Context(), topic, long()); !errors.Is(err, subscribers.ErrStopping) {
		t.Errorf("behind Run: %v", err)
	}
	wantFault(t, p.Run(t.Context()), "call", "ran already")
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestPing(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p := subscriberstest.Claimer(t, db)
	storetest.Fails(t, "before Run", p.Ping(t.Context()), subscribers.ErrUnsubscribed)
	p, _ = runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Fails(t, "cancelled", p.Ping(ctx), context.Canceled)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			storetest.Should(t, p.Ping(t.Context()))
		})
	}
	all.Wait()
}

// A Redis that takes no writes cannot be used, though its pub/sub works.
func TestPingOfReadOnly(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := quiet(t, storetest.Following(storetest.At(t, server.URL(), "readonly")))
	p, _ := runClaimer(t, db)
	only := func(what, master, port string, ready bool) {
		t.Helper()
		storetest.Must(t, server.Follow(t.Context(), master, port))
		storetest.Eventually(t, what, func() bool { return (p.Ping(t.Context()) == nil) == ready })
	}
	only("a replica is not ready", "127.0.0.1", "1", false)
	storetest.Eventually(t, "the error says why", func() bool { // a call may meet a connection that is given up because of it
		err := p.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "READONLY")
	})
	only("a master is", "NO", "ONE", true)
}

// Those who wait for messages of an age get them exactly then, and at once what is older from the beginning.
func TestWaiterForOldMessages(t *testing.T) {
	t.Parallel()
	db := quiet(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	o := long()
	o.MinAge = time.Hour
	answer := claimLater(t.Context(), t, p, o)
	storetest.Publish(t, db, body("young"))
	o.MinAge = 200 * time.Millisecond
	g := want(t, "the young one, later", claimLater(t.Context(), t, p, o), "young")
	d := g.ds[0]
	age := d.Receipt.Until().Sub(d.Due) - d.Lease
	if late := d.Late(); age < o.MinAge || late != age-o.MinAge {
		t.Errorf("it was %v old, and %v late", age, late)
	}
	c, err := storetest.Count(db, topic)
	if off := c.Lateness - (age - o.MinAge); err != nil || off.Abs() > time.Millisecond {
		t.Errorf("the last claim was %v late, %v; want its %v without the age that it asked for", c.Lateness, err, age)
	}
	storetest.Publish(t, db, body("younger"))
	old := body("old")
	old.Due, old.Restore = time.Now().Add(-2*time.Hour), &notify.Restore{}
	storetest.Publish(t, db, old)
	want(t, "the old one", answer, "old")
	waits(t, db, 0)
}

// They come and go by hundreds, and share one connection while there are any.
func TestMinAgeWaitersComeAndGo(t *testing.T) {
	db := quiet(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	listening := func() int64 {
		n, err := db.Client().PubSubNumPat(t.Context()).Result()
		if storetest.Shards() > 1 {
			n, err = db.Listening(t.Context(), db.Of(topic).WakeChannel(topic))
		}
		storetest.Must(t, err)
		return n
	}
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(100*time.Millisecond))
			defer cancel()
			o := long()
			o.MinAge, o.Wait = time.Hour, time.Nanosecond+rand.N(100*time.Millisecond)
			if _, err := p.Claim(ctx, fmt.Sprint("t", i%7), o); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	storetest.Eventually(t, "nobody listens", func() bool { return listening() == 0 })
	o := long()
	o.MinAge = time.Millisecond
	answers := []<-chan got{claimLater(t.Context(), t, p, o), claimLater(t.Context(), t, p, o)}
	storetest.Eventually(t, "one connection listens", func() bool { return listening() == 1 })
	storetest.Publish(t, db, body("a"))
	storetest.Publish(t, db, body("b"))
	for _, answer := range answers {
		if g := storetest.Receive(t, "a message", answer); len(g.ds) != 1 {
			t.Errorf("got %v", g)
		}
	}
}

// A thousand calls on a hundred topics cost one connection that listens, and all are served.
func TestThousandWaiters(t *testing.T) {
	t.Parallel()
	db := alone(t)
	lapsed := lapsing(t, db)
	listening := func() int {
		list, err := db.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		storetest.Must(t, err)
		return strings.Count(list, "\n")
	}
	p, stop := runClaimer(t, db)
	const waiters, topics = 1000, 100
	ids := make(chan string, waiters)
	var lost atomic.Int64
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			for {
				ds, err := p.Claim(t.Context(), fmt.Sprint("t", i%topics), long())
				if err != nil || len(ds) != 1 {
					t.Errorf("got %v, %v", ds, err)
					return
				}
				if err := ds[0].Ack(t.Context()); errors.Is(err, notify.ErrLeaseLost) {
					lost.Add(1)
					continue // it comes again, to this one or another
				} else if err != nil {
					t.Error(err)
				}
				ids <- ds[0].ID
				return
			}
		})
	}
	storetest.Eventually(t, "an inbox in every list", func() bool {
		lists := 0
		for _, keys := range db.KeysOfAll() {
			lists += len(db.Client().Keys(t.Context(), keys.Waiting("*")).Val())
		}
		return lists == topics && p.Stats().Waiting == waiters
	})
	if n := listening(); n != 1 && storetest.Shards() == 1 {
		t.Errorf("%d connections listen", n)
	}
	var messages []notify.Message
	for i := range waiters {
		m := notify.Message{Topic: fmt.Sprint("t", i%topics), ID: fmt.Sprint(i), Body: []byte("x")}
		if i >= waiters/2 {
			m.Delay = rand.N(200 * time.Millisecond)
		}
		messages = append(messages, m)
	}
	storetest.Publish(t, db, messages...)
	all.Wait()
	seen := map[string]bool{}
	for range waiters {
		seen[<-ids] = true
	}
	if len(seen) != waiters {
		t.Errorf("%d different messages", len(seen))
	}
	storetest.Eventually(t, "no lease was lost but that of a hand-over that lapsed", func() bool { return lost.Load() <= lapsed.Load() })
	stop()
	storetest.Empty(t, db)
}

// takeSome makes one random claim, acknowledges what it brings and takes note of it.
func takeSome(t *testing.T, r *rand.Rand, p *subscribers.Claimer, topic string, h *handouts) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(8*time.Millisecond))))
	defer cancel()
	o := subscribers.ClaimOptions{
		Max: 1 + r.IntN(4), Lease: time.Duration(1+r.IntN(3)) * time.Minute,
		Wait: time.Duration(r.Int64N(int64(8 * time.Millisecond))),
	}
	if r.IntN(6) == 0 {
		o.MinAge = time.Millisecond
	}
	if r.IntN(10) == 0 {
		o.Max = record.MaxClaim
	}
	ds, err := p.Claim(ctx, topic, o)
	if err != nil && ctx.Err() == nil {
		t.Errorf("claim: %v", err)
	}
	if err != nil && len(ds) > 0 {
		t.Errorf("%d messages come with %v", len(ds), err)
	}
	for _, d := range ds {
		h.note(d.ID)
	}
	if len(ds) > 0 {
		lost, err := p.AckMany(t.Context(), topic, ds)
		h.acked(t, err)
		for range lost {
			h.acked(t, notify.ErrLeaseLost)
		}
	}
}

// Callers of two claimers come, leave and are cancelled while messages are
// published. When they are gone, what is left has to reach the one who waits
// all the time without anybody's help: no ring is lost, and nothing stays
// leased. There is no beat that would name anything.
func TestNoRingIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			lapsed := lapsing(t, db)
			steady, _ := runClaimer(t, db)
			var claimers []*subscribers.Claimer
			var stops []func()
			for range 2 {
				p, stop := runClaimer(t, db)
				claimers, stops = append(claimers, p), append(stops, stop)
			}
			var h handouts
			ctx, cancel := context.WithCancel(t.Context())
			var stays sync.WaitGroup
			stays.Go(func() {
				for ctx.Err() == nil {
					ds, _ := steady.Claim(ctx, topic, long())
					for _, d := range ds {
						h.note(d.ID)
						h.acked(t, d.Ack(context.WithoutCancel(ctx)))
					}
				}
			})
			published := 0
			for round := range 40 {
				var callers sync.WaitGroup
				for i := range 8 {
					r := rand.New(rand.NewPCG(seed, uint64(round*100+i)))
					callers.Go(func() {
						for range 3 {
							takeSome(t, r, claimers[i%2], topic, &h)
						}
					})
				}
				r := rand.New(rand.NewPCG(seed, uint64(round*100+99)))
				for range 5 {
					var batch []notify.Message
					for range 1 + r.IntN(3) {
						batch = append(batch, body(fmt.Sprint(published)))
						published++
					}
					storetest.Publish(t, db, batch...)
				}
				callers.Wait()
				storetest.Eventually(t, "the rest reaches the one who stays", func() bool { return h.size() == published })
			}
			waits(t, db, 1)
			cancel()
			stays.Wait()
			waits(t, db, 0)
			for _, stop := range stops {
				stop()
			}
			h.once(t, lapsed)
			storetest.Empty(t, db)
		})
	}
}

// Without Run a short wait ends with what is ready then, and is no fault.
func TestShortWaitWithoutRun(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	short := subscribers.ClaimOptions{Wait: time.Millisecond}
	if ds, err := c.Claim(t.Context(), topic, short); err != nil || len(ds) > 0 {
		t.Errorf("claimed %v, %v", ds, err)
	}
	storetest.Publish(t, db, body("a"))
	if ds, err := c.Claim(t.Context(), topic, short); err != nil || len(ds) != 1 {
		t.Errorf("claimed %v, %v", ds, err)
	}
}
