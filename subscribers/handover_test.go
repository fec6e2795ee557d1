package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// byHand returns what carries once each time that it is called, and nobody else carries.
func byHand(t *testing.T, db *notify.Store) (carries func() store.Carried) {
	t.Helper()
	shard := db.Of(topic)
	elected, err := shard.Elect(t.Context(), "it", store.MaxCarrierLease, 0)
	storetest.Must(t, err)
	return func() store.Carried {
		t.Helper()
		got, err := shard.Carry(t.Context(), store.Carry{Token: elected.Token, Batch: 100, Ready: "0"})
		storetest.Must(t, err)
		return got
	}
}

// passed waits until a time is over since a moment, by Redis's clock.
func passed(t *testing.T, db *notify.Store, since time.Time, d time.Duration) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprint(d, " passed"), func() bool { return redisNow(t, db).After(since.Add(d)) })
}

func handedOver(t *testing.T, db *notify.Store, handler subscribers.Handler, o ...subscribers.HandleOptions) *subscribers.Subscriber {
	t.Helper()
	sub := subscriberstest.Subscriber(t, db)
	storetest.Must(t, sub.Handle(topic, handler, o...))
	storetest.Run(t, sub.Run)
	waits(t, db, 1)
	return sub
}

func TestHandover(t *testing.T) {
	for name, delay := range map[string]time.Duration{"by the publish": 0, "by the carrier": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			carry(t, db)
			began, end := make(chan subscribers.Delivery, 1), make(chan bool)
			sub := handedOver(t, db, func(_ context.Context, d *subscribers.Delivery) error {
				began <- *d
				<-end
				return nil
			})
			m := body("a")
			m.Delay, m.Headers = delay, map[string]string{"Trace": "7"}
			storetest.Publish(t, db, m)
			d := storetest.Receive(t, "the handler begins", began)
			if d.ID != "a" || d.Attempt != 1 || string(d.Body) != "a" || d.Headers["Trace"] != "7" || d.Lease != store.DefaultLease || d.FirstDue.After(d.Due) {
				t.Errorf("got %+v", d)
			}
			if got := sub.Stats(); got != (subscribers.SubscriberStats{HandedOver: 1}) {
				t.Errorf("it counts %+v", got)
			}
			storetest.Eventually(t, "it is confirmed", func() bool { return !strings.HasSuffix(leased(t, db, "a"), ".5") })
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
			if err != nil || info.State != notify.Leased || time.Until(info.Due) > store.DefaultLease {
				t.Errorf("inspect says %+v, %v", info, err)
			}
			close(end)
			settled(t, db)
			storetest.Empty(t, db)
		})
	}
}

// What a handler does before its message is confirmed holds.
func TestHandoverIsSettled(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(context.Context, *subscribers.Delivery) error
		want   notify.Counts
	}{
		"acknowledged": {func(ctx context.Context, d *subscribers.Delivery) error { return d.Ack(ctx) }, notify.Counts{}},
		"rejected": {func(ctx context.Context, d *subscribers.Delivery) error {
			_, err := d.Nack(ctx, time.Hour, "no")
			return err
		}, notify.Counts{Scheduled: 1}},
		"buried": {func(ctx context.Context, d *subscribers.Delivery) error {
			_, err := d.Bury(ctx, "no")
			return err
		}, notify.Counts{Dead: 1}},
		"extended": {func(ctx context.Context, d *subscribers.Delivery) error { return d.Extend(ctx, time.Hour) }, notify.Counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Unhurried(storetest.Open(t))
			done := make(chan error, 1)
			sub := handedOver(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
				done <- test.settle(ctx, d)
				return nil
			})
			storetest.Publish(t, db, body("a"))
			storetest.Should(t, storetest.Receive(t, "it is settled", done))
			storetest.Eventually(t, "it is "+name, func() bool {
				c := counts(t, db)
				return c.Scheduled == test.want.Scheduled && c.Dead == test.want.Dead && c.Leased == 0
			})
			if got := sub.Stats().HandedOver; got != 1 {
				t.Errorf("%d were handed over", got)
			}
		})
	}
}

// Who stops keeps nothing that was handed over, also where that was on its way: when Run has returned, no message is leased,
// and no attempt is used up.
func TestStoppingKeepsNoHandover(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *notify.Store) (stop func()){
		"a subscriber": func(t *testing.T, db *notify.Store) func() {
			sub := subscriberstest.Subscriber(t, db)
			done := succeeds
			storetest.Must(t, sub.Handle(topic, done))
			return storetest.Run(t, sub.Run)
		},
		"a claimer": func(t *testing.T, db *notify.Store) func() {
			c, stop := runClaimer(t, db)
			var claiming sync.WaitGroup
			claiming.Go(func() {
				ds, _ := c.Claim(t.Context(), topic, long())
				for _, d := range ds {
					storetest.Should(t, d.Ack(t.Context()))
				}
			})
			return func() {
				stop()
				claiming.Wait()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			carry(t, db)
			rest := subscriberstest.Claimer(t, db)
			for i := range 200 {
				stop, id := run(t, db), fmt.Sprint(i)
				waits(t, db, 1)
				var publishing sync.WaitGroup
				publishing.Go(func() { storetest.Publish(t, db, body(id)) })
				stop()
				publishing.Wait()
				if until := leased(t, db, id); until != "" {
					t.Fatalf("message %s is leased until %s", id, until)
				}
				for _, d := range claimMany(t, rest, subscribers.ClaimOptions{AckNow: true}) {
					storetest.Is(t, "the attempt of "+d.ID, d.Attempt, 1)
				}
			}
		})
	}
}

// A hand-over that is lost, such as to a subscriber that hangs, ends with its lease.
// No attempt is used up, and the next subscriber gets the message by a ring.
func TestLostHandover(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	lost := one.taken()
	after := func(got store.Claimed) time.Duration { return time.Duration(got.Now-lost.At) * time.Microsecond }
	if got := one.claim(0); got.OnTheWay != (after(got) < record.HandoverLease) || len(got.Messages) > 0 {
		t.Errorf("before it received the hand-over, %v behind it, it claimed %+v", after(got), got)
	}
	storetest.Must(t, one.shard.Leave(t.Context(), one.inbox, []string{topic}, []int64{lost.At}))
	two := newHand(t, db, "two")
	c := carrying(t, db)
	two.rung()
	got := two.claim(0)
	if len(got.Messages) != 1 || got.Messages[0].Used != 0 || got.Messages[0].Due.After(time.UnixMicro(lost.At+1000)) {
		t.Errorf("the next one got %+v", got)
	}
	if took := after(got); took < record.HandoverLease-10*time.Microsecond {
		t.Errorf("that took %v, want the lease of a hand-over", took)
	}
	if gone, err := one.shard.Ack(t.Context(), topic, []store.Lease{lost.ClaimedMessage.Lease}); err != nil || len(gone) != 1 {
		t.Errorf("the hand-over was acknowledged afterwards: %v, %v", gone, err)
	}
	storetest.Eventually(t, "the carrier counts it", func() bool { return lapsed(c) == 1 })
}

// A message whose hand-over lapsed is due when it was before, unless it was put off since it was published: then it is due when it was
// handed over, or as many times HandoverSpare later as it was spared beyond the first.
func TestLapsedHandoverKeepsItsDueTime(t *testing.T) {
	for name, put := range map[string]*store.Nack{"published": nil, "failed": {}, "snoozed": {Keep: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			one, carries := newHand(t, db, "one"), byHand(t, db)
			taken := func() store.Handover {
				storetest.Eventually(t, "the carrier hands it over", func() bool {
					carries()
					return len(one.came) > 0
				})
				return one.taken()
			}
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: "a", Delay: time.Millisecond, Body: []byte("a")})
			due := inspect(t, db, "a").Due
			passed(t, db, due, 50*time.Millisecond)
			lost := taken()
			if put != nil {
				put.Lease = lost.Lease
				one.claim(lost.At)
				if out, err := one.shard.Nack(t.Context(), topic, *put); err != nil || out.Lost {
					t.Fatalf("%+v, %v", out, err)
				}
				lost = taken()
			}
			storetest.Must(t, one.shard.Leave(t.Context(), one.inbox, []string{topic}, []int64{lost.At}))
			passed(t, db, time.UnixMicro(lost.At), record.HandoverLease)
			if got := carries(); got.Lapsed != 0 {
				t.Fatalf("it lapsed before it was spared: %+v", got)
			}
			if put != nil {
				score, err := strconv.ParseFloat(leased(t, db, "a"), 64)
				storetest.Must(t, err)
				spared := time.Duration(int64(score)-lost.Receipt) * time.Microsecond
				due = time.UnixMicro(lost.At).Add(spared.Truncate(record.HandoverSpare) - record.HandoverSpare).Truncate(time.Millisecond)
			}
			two := newHand(t, db, "two")
			storetest.Eventually(t, "it lapses", func() bool { return carries().Lapsed == 1 })
			two.rung()
			if got := two.claim(0); len(got.Messages) != 1 || !got.Messages[0].Due.Equal(due) {
				t.Errorf("handed over at %v, it came as %+v, want it due %v", time.UnixMicro(lost.At), got.Messages, due)
			}
		})
	}
}

// A message that no hand-over survives uses up its attempts: each one that ends is followed by a claim.
func TestPoisonIsHandedOverUntilItDies(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(2), Lease: new(record.MinLease)})
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	one.taken()
	storetest.Eventually(t, "it dies", func() bool {
		one.claim(0)
		return counts(t, db).Dead == 1
	})
}

// A subscriber that did not claim since its last hand-over is rung, and handed nothing.
func TestOneHandoverAtATime(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	first := one.taken()
	storetest.Publish(t, db, body("b"))
	one.rung()
	if got := one.claim(first.At); len(got.Messages) != 1 || got.Messages[0].Member != record.Member(topic, "b") {
		t.Errorf("it claimed %+v", got)
	}
	storetest.Publish(t, db, body("c"))
	if got := one.taken(); got.Member != record.Member(topic, "c") {
		t.Errorf("it was handed %+v", got)
	}
}

// What waits longest gets the message; one that nobody is subscribed to any more loses its place.
func TestHandoverGoesToTheLongestWaiting(t *testing.T) {
	db := storetest.Open(t)
	storetest.Must(t, storetest.ErrOf(db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, Inbox: reach.NewInbox("gone", true)})))
	one, two := newHand(t, db, "one"), newHand(t, db, "two")
	storetest.Publish(t, db, body("a"))
	one.rung() // the message became ready, since nobody has the first inbox
	if got := one.claim(0); len(got.Messages) != 1 {
		t.Errorf("it claimed %+v", got)
	}
	storetest.Publish(t, db, body("b"))
	if got := two.taken(); got.Member != record.Member(topic, "b") {
		t.Errorf("it was handed %+v", got)
	}
	if c := counts(t, db); c.Leased != 2 || c.Waiting != 2 {
		t.Errorf("counts %+v", c)
	}
}

func TestRungInsteadOfHanded(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, db *notify.Store) []notify.Message{
		"a long body": func(*testing.T, *notify.Store) []notify.Message {
			return []notify.Message{{Topic: topic, Body: make([]byte, 4097)}}
		},
		"several": func(*testing.T, *notify.Store) []notify.Message { return numbered(2) },
		"an older one": func(t *testing.T, db *notify.Store) []notify.Message {
			do := db.Client().ZAdd(t.Context(), db.KeysOf(topic).Ready(topic), redis.Z{Score: 1, Member: "orders:old"})
			if do.Err() != nil {
				t.Fatal(do.Err())
			}
			return numbered(1)
		},
		"a concurrency": func(t *testing.T, db *notify.Store) []notify.Message {
			storetest.Set(t, db, topic, notify.SettingsChange{Concurrency: new(2)})
			return numbered(1)
		},
		"a clock that stands still": func(t *testing.T, db *notify.Store) []notify.Message {
			storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Topics(), script.StandsStill, 1).Err())
			return numbered(1)
		},
		"a rate": func(t *testing.T, db *notify.Store) []notify.Message {
			storetest.Set(t, db, topic, notify.SettingsChange{Rate: new(record.PerSecond), Burst: new(2)})
			return numbered(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			one := newHand(t, db, "one")
			storetest.Publish(t, db, prepare(t, db)...)
			one.rung()
			if c := counts(t, db); c.Leased > 0 || c.Ready == 0 {
				t.Errorf("counts %+v", c)
			}
		})
	}
}

// Nothing of a paused topic is handed over, and nothing before what is overdue.
func TestNothingIsHandedOver(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Must(t, storetest.Inspector(t, db).Pause(t.Context(), topic))
	storetest.Publish(t, db, body("paused"))
	if c := counts(t, db); c.Ready != 1 || c.Leased != 0 {
		t.Errorf("paused: %+v", c)
	}
	storetest.Must(t, storetest.Inspector(t, db).Resume(t.Context(), topic))
	one.rung()
	one.claim(0)
	becomeOverdue(t, db, "overdue") // nobody carries
	storetest.Publish(t, db, body("behind"))
	if c := counts(t, db); c.Ready != 0 || c.Leased != 1 || c.Scheduled != 3 {
		t.Errorf("overdue: %+v", c)
	}
}

// A claimer's caller gets the message that is handed over, under the lease that it asks for, and the receipt of that. Where
// that lease is not of whole seconds the message is released, and claimed.
func TestClaimerIsHanded(t *testing.T) {
	for _, lease := range []time.Duration{0, time.Hour + time.Microsecond, 90_001 * time.Millisecond} {
		whole := lease.Truncate(time.Millisecond)%time.Second == 0
		db := beating(t, storetest.Open(t))
		p, _ := runClaimer(t, db)
		answers := []<-chan got{
			claimLater(t.Context(), t, p, subscribers.ClaimOptions{Wait: time.Minute, Lease: lease}),
			claimLater(t.Context(), t, p, subscribers.ClaimOptions{Wait: time.Minute, Max: 5}),
		}
		for i, id := range []string{"a", "b"} {
			storetest.Eventually(t, "it waits with a free hand", func() bool { // until it claims after a hand-over it has none
				all, err := db.Client().ZRangeWithScores(t.Context(), db.KeysOf(topic).Waiting(topic), 0, -1).Result()
				return err == nil && len(all) == 1 && all[0].Score < 3e15 && p.Ping(t.Context()) == nil
			})
			storetest.Publish(t, db, body(id))
			d := want(t, "the message", answers[i], id).ds[0]
			want := store.DefaultLease
			if i == 0 && lease > 0 {
				want = lease.Truncate(time.Millisecond)
			}
			if d.HandedOver != (whole || i == 1) || d.Attempt != 1 || d.Lease.Truncate(time.Millisecond) != want {
				t.Errorf("got %+v", d)
			}
			storetest.Eventually(t, "it has the lease of its receipt", func() bool { return leased(t, db, id) == fmt.Sprint(int64(d.Receipt)) })
			if late := time.Until(d.Receipt.Until()); late > want || late < want-storetest.Deadline {
				t.Errorf("it is leased for another %v", late)
			}
			storetest.Should(t, d.Ack(t.Context()))
		}
		if s := p.Stats(); s.HandedOver != 2 || (s.Dropped == 0) != whole {
			t.Errorf("it counts %+v", s)
		}
		waits(t, db, 0)
		storetest.Empty(t, db)
	}
}

// The receipt that a confirmation will give settles the message before that, too, at any process; another one does not.
func TestPromisedReceipt(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	settle := subscriberstest.Claimer(t, db)
	for name, call := range map[string]func(*subscribers.Delivery) error{
		"acknowledge": func(d *subscribers.Delivery) error { return d.Ack(t.Context()) },
		"release": func(d *subscribers.Delivery) error {
			defer one.rung()
			return d.Release(t.Context())
		},
		"reject": func(d *subscribers.Delivery) error { _, err := d.Nack(t.Context(), time.Hour, "no"); return err },
		"bury":   func(d *subscribers.Delivery) error { _, err := d.Bury(t.Context(), "no"); return err },
		"extend": func(d *subscribers.Delivery) error {
			if err := d.Extend(t.Context(), time.Hour); err != nil {
				return err
			}
			return d.Ack(t.Context())
		},
	} {
		id := "to-" + name
		storetest.Publish(t, db, body(id))
		h := one.taken()
		for _, lease := range []time.Duration{h.Full, 2 * time.Hour} {
			for _, wrong := range []int64{1, 10, 999, 1000, 990_000} {
				d := settle.Delivery(topic, id, subscribers.Receipt(h.Promise(lease)+wrong))
				if err := d.Ack(t.Context()); !errors.Is(err, notify.ErrLeaseLost) {
					t.Errorf("%s: a receipt that is wrong by %d us: %v", name, wrong, err)
				}
			}
		}
		promised := h.Promise(2 * time.Hour)
		if err := call(settle.Delivery(topic, id, subscribers.Receipt(promised))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		lost, err := one.shard.Confirm(t.Context(), topic, "", []store.Lease{{Member: h.Member, Receipt: promised}})
		if err != nil || len(lost) != 1 || leased(t, db, id) != "" {
			t.Errorf("%s: it was confirmed afterwards: %v, %v", name, lost, err)
		}
		one.claim(h.At)
	}
}

// A confirmation may be repeated, as after an answer that was lost.
func TestConfirmation(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	h := one.taken()
	promised := h.Promise(time.Minute)
	for range 2 {
		lost, err := one.shard.Confirm(t.Context(), topic, "", []store.Lease{{Member: h.Member, Receipt: promised}})
		if err != nil || len(lost) > 0 || leased(t, db, "a") != fmt.Sprint(promised) {
			t.Errorf("got %v, %v, and the lease %s", lost, err, leased(t, db, "a"))
		}
	}
}

// A confirmation that comes behind an extension by the promised receipt leaves the lease as it is, and that receipt good.
func TestConfirmationBehindAnExtension(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	h := one.taken()
	promised := h.Promise(time.Minute)
	d := subscriberstest.Claimer(t, db).Delivery(topic, "a", subscribers.Receipt(promised))
	storetest.Must(t, d.Extend(t.Context(), time.Hour))
	extended := leased(t, db, "a")
	lost, err := one.shard.Confirm(t.Context(), topic, "w-1", []store.Lease{{Member: h.Member, Receipt: promised}})
	if is := leased(t, db, "a"); err != nil || len(lost) > 0 || is != extended {
		t.Errorf("got %v, %v, and the lease %s of %s", lost, err, is, extended)
	}
	if info := inspect(t, db, "a"); info.By != "w-1" {
		t.Errorf("had by %q", info.By)
	}
	storetest.Should(t, d.Ack(t.Context()))
}

// What is handed over when the last caller has left is released at once, and no attempt is used up.
func TestHandoverToNobody(t *testing.T) {
	db := beating(t, storetest.Open(t)) // without a carrier, no lease ends
	p, _ := runClaimer(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := claimLater(ctx, t, p, long())
	waits(t, db, 1)
	inbox := db.Client().ZRange(t.Context(), db.KeysOf(topic).Waiting(topic), 0, 0).Val()[0]
	cancel()
	storetest.Receive(t, "the caller leaves", left)
	waits(t, db, 0)
	storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Waiting(topic), redis.Z{Score: 1, Member: inbox}).Err())
	storetest.Publish(t, db, body("a"))
	storetest.Eventually(t, "it is ready", func() bool { c := counts(t, db); return c.Ready == 1 && c.Leased+c.Waiting == 0 })
	if s := p.Stats(); s.HandedOver != 1 || s.Dropped != 1 {
		t.Errorf("it counts %+v", s)
	}
	if d := want(t, "the message", claimLater(t.Context(), t, p, long()), "a").ds[0]; d.Attempt != 1 {
		t.Errorf("got %+v", d)
	}
}

// A hand-over that never arrives keeps the other messages of the topic from a claimer's caller for its lease at the most.
func TestClaimerMissesAHandover(t *testing.T) {
	t.Parallel()
	db := beating(t, storetest.Open(t)) // without a carrier, no ring is repeated
	p, _ := runClaimer(t, db)
	first := claimLater(t.Context(), t, p, long())
	waits(t, db, 1)
	inbox := db.Client().ZRange(t.Context(), db.KeysOf(topic).Waiting(topic), 0, 0).Val()[0]
	now := db.Client().Time(t.Context()).Val()
	storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Waiting(topic), redis.Z{Score: 6e15 + float64(now.UnixMicro()), Member: inbox}).Err())
	storetest.Publish(t, db, body("a"))
	want(t, "the message", first, "a")
}

// Who may PUBLISH can make up hand-overs. A claimer holds a bounded number of them, whose topics it need not know. One beyond that
// has the inbox claim again: it is not in the waiting list any more.
func TestMadeUpHandoversAreBounded(t *testing.T) {
	t.Parallel()
	db := quiet(t, holdable(t))
	p, _ := runClaimer(t, db)
	answer := claimLater(t.Context(), t, p, long())
	waits(t, db, 1)
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Waiting(topic)).Err())
	_, let := hold(t, db)
	const made = 2 * subscribers.MostPending
	for i := range made + 1 {
		name := fmt.Sprintf("made-up-%d", i)
		if i == made {
			name = topic
		}
		p.TakeOver(store.Handover{Topic: name, At: int64(i + 1), Full: time.Minute, ClaimedMessage: store.ClaimedMessage{Record: "1\nx", Lease: store.Lease{Member: name + ":a"}}})
	}
	if n := p.Pending(); n > subscribers.MostPending {
		t.Errorf("it holds %d, want at most %d", n, subscribers.MostPending)
	}
	let()
	storetest.Eventually(t, "all are released", func() bool { return p.Pending() == 0 })
	if s := p.Stats(); s.HandedOver != made+1 || s.Dropped != made+1 {
		t.Errorf("it counts %+v", s)
	}
	waits(t, db, 1)
	storetest.Publish(t, db, body("a"))
	want(t, "the next message", answer, "a")
}

// In a Cluster a PUBLISH goes to all servers, so a store of one shard hands nothing over there; one of several shards does.
func TestHandoverInACluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute) // longer than a busy machine keeps a server from answering
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	db := storetest.Unhurried(storetest.At(t, cluster.URL(), ""))
	got := make(chan string, 1)
	sub := handedOver(t, db, idsInto(got))
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "it is handled", got)
	want := int64(0)
	if storetest.Shards() > 1 {
		want = 1
	}
	if n := sub.Stats().HandedOver; n != want {
		t.Errorf("%d were handed over, want %d", n, want)
	}
}

// Hand-overs that make no sense are dropped without harm, and counted.
func TestHandoverIsDropped(t *testing.T) {
	db := storetest.Unhurried(storetest.Open(t)) // each payload is sent once
	got := make(chan string, 10)
	sub := handedOver(t, db, idsInto(got))
	inbox := func() string {
		all, err := db.Client().ZRange(t.Context(), db.KeysOf(topic).Waiting(topic), 0, 0).Result()
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		return all[0]
	}()
	now := redisNow(t, db)
	line := func(topic string, at time.Time, record string) string {
		return fmt.Sprintf("%s %d %d.5 %d 0 30000 a\n%s", topic, at.UnixMicro(), at.Add(time.Second).UnixMicro(), at.UnixMilli(), record)
	}
	publish := func(payload string) {
		if n, err := storetest.Tell(t.Context(), db, inbox, payload); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, payload := range []string{
		"orders\n", "\n", "orders 1\n", "orders x y z 0 1 a\n1\n", "orders 1 2 3 4 5 a\n1\n", // no hand-overs, so rings for no topic
	} {
		publish(payload)
	}
	for _, payload := range []string{
		line("others", now, "1\nx"),              // of a topic that it left
		line(topic, now, "foreign"),              // a foreign record
		line(topic, now.Add(-time.Hour), "1\nx"), // after its lease
	} {
		publish(payload)
	}
	storetest.Eventually(t, "all are dropped", func() bool { return sub.Stats() == subscribers.SubscriberStats{HandedOver: 3, Dropped: 3} })
	storetest.Publish(t, db, body("b"))
	if id := storetest.Receive(t, "the next one is handled", got); id != "b" {
		t.Errorf("handled %s", id)
	}
}

// However rings, claims and hand-overs meet, one hand gets messages in their order: but for those whose hand-over ended
// before it was confirmed, which come again.
func TestOrderOfHandovers(t *testing.T) {
	db := storetest.Open(t)
	c := carrying(t, db)
	const n = 2000
	got := make(chan string, 2*n)
	sub := handedOver(t, db, idsInto(got))
	var want, order, again []string
	receive := func() {
		id := storetest.Receive(t, "one is handled", got)
		if len(order) > 0 && id <= order[len(order)-1] {
			again = append(again, id)
		} else {
			order = append(order, id)
		}
	}
	for i, m := range numbered(n) {
		want = append(want, m.ID)
		storetest.Publish(t, db, m)
		if i%7 == 6 { // so that it rests now and then
			receive()
		}
	}
	settled(t, db)
	for len(got) > 0 {
		receive()
	}
	all := append(slices.Clone(order), again...)
	slices.Sort(all)
	storetest.Same(t, "handled", want, slices.Compact(all))
	storetest.Eventually(t, fmt.Sprintf("%v came out of order, and as many hand-overs lapsed as these", again), func() bool { return int64(len(again)) <= lapsed(c) })
	if taken := sub.Stats(); taken.HandedOver == 0 || taken.Dropped > lapsed(c) {
		t.Errorf("it counts %+v", taken)
	}
}

// A message whose time to live ends while it is handed over may be acknowledged until the lease
// ends. If it is not, it dies.
func TestHandoverExpires(t *testing.T) {
	for name, answers := range map[string]bool{"acknowledged": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			one := newHand(t, db, "one")
			m := body("a")
			m.Delay, m.TTL = time.Millisecond, time.Hour // only a carrier hands over what expires
			stop := carry(t, db)
			storetest.Publish(t, db, m)
			got := one.taken()
			stop() // so that its lease does not end
			expire(t, db, "a")
			if answers {
				if lost, err := one.shard.Ack(t.Context(), topic, []store.Lease{got.Lease}); err != nil || len(lost) > 0 {
					t.Errorf("the acknowledgement was refused: %v, %v", lost, err)
				}
				storetest.Empty(t, db)
				return
			}
			carry(t, db)
			storetest.Eventually(t, "it dies", func() bool { return counts(t, db).Dead == 1 })
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
			if err != nil || info.Reason != "expired" || info.Attempts != 0 {
				t.Errorf("inspect says %+v, %v", info, err)
			}
		})
	}
}

// An expired message is not handed over.
func TestExpiredIsNotHandedOver(t *testing.T) {
	db := storetest.Open(t)
	m := body("a")
	m.Delay, m.TTL = time.Millisecond, time.Millisecond
	storetest.Publish(t, db, m)
	one := newHand(t, db, "one")
	storetest.Eventually(t, "it expires", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		due, missing := db.Client().ZScore(t.Context(), db.KeysOf(topic).Expiries(), record.Member(topic, "a")).Result()
		return err == nil && missing == nil && float64(now.UnixMilli()) > due
	})
	carry(t, db)
	storetest.Eventually(t, "it dies", func() bool { return counts(t, db).Dead == 1 })
	if len(one.came) > 0 {
		t.Errorf("it was sent %+v", <-one.came)
	}
}

// What is on its way to an inbox that leaves is ready at once, before what is younger. What the inbox received stays leased.
func TestHandoverIsTakenBack(t *testing.T) {
	for name, leave := range map[string]func(h *hand, received int64) error{
		"leave": func(h *hand, received int64) error {
			return h.shard.Leave(h.t.Context(), h.inbox, []string{topic}, []int64{received})
		},
		"release": func(h *hand, received int64) error {
			_, err := h.shard.Release(h.t.Context(), topic, h.inbox, received, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			one, two := newHand(t, db, "one"), newHand(t, db, "two")
			storetest.Publish(t, db, body("a"))
			lost := one.taken()
			storetest.Publish(t, db, body("b"))
			held := two.taken()
			storetest.Publish(t, db, body("c"))
			for _, err := range []error{leave(one, 0), leave(two, held.At)} {
				storetest.Must(t, err)
			}
			got := two.claim(held.At)
			if len(got.Messages) != 2 || got.Messages[0].Member != topic+":a" || got.Messages[0].Used != 0 || !got.Messages[0].Due.Equal(lost.Due) || got.Messages[1].Member != topic+":c" {
				t.Errorf("claimed %+v, want a, due %v, and c", got.Messages, lost.Due)
			}
			for _, test := range []struct {
				h    *hand
				over store.Handover
				lost int
			}{{one, lost, 1}, {two, held, 0}} {
				lease := test.over.Lease
				lease.Receipt, lease.Handed = test.over.Promise(time.Minute), false
				if gone, err := test.h.shard.Ack(t.Context(), topic, []store.Lease{lease}); err != nil || len(gone) != test.lost {
					t.Errorf("%s was acknowledged: %v, %v", test.over.Member, gone, err)
				}
			}
		})
	}
}

// A caller whose wait ends while a message is on its way to it gets that first, wherever it asks next, and once, though it arrives later.
func TestHandoverToACallerThatLeft(t *testing.T) {
	server := storetest.Server(t)
	proxy := storetest.NewProxy(t, server.Addr())
	db, far := storetest.At(t, server.URL(), "t"), storetest.At(t, "redis://"+proxy.Address(), "t")
	storetest.Found(t, db)
	beating(t, db)
	one, _ := runClaimer(t, far)
	two, _ := runClaimer(t, db)
	answer := claimLater(t.Context(), t, one, subscribers.ClaimOptions{Wait: 100 * time.Millisecond})
	storetest.Eventually(t, "it waits, or its wait has ended", func() bool { return counts(t, db).Waiting == 1 || len(answer) > 0 })
	let := proxy.HoldPushes()
	storetest.Publish(t, db, body("a"))
	want(t, "the wait ends", answer, "")
	storetest.Publish(t, db, body("b"))
	claim := func(p *subscribers.Claimer, ids string) {
		t.Helper()
		want(t, "the claim", claimLater(t.Context(), t, p, subscribers.ClaimOptions{}), ids)
	}
	claim(two, "a")
	claim(one, "b")
	answer = claimLater(t.Context(), t, one, long())
	let()
	storetest.Publish(t, db, body("c"))
	want(t, "the next", answer, "c")
}

// Redis stands still for so long that the lease of a hand-over ends before it is confirmed: it is spared once, and any receipt of it settles
// the message.
func TestHandoverIsSpared(t *testing.T) {
	for name, settle := range map[string]func(h *hand, handed store.Handover) ([]int, error){
		"confirmed": func(h *hand, handed store.Handover) ([]int, error) {
			promised := store.Lease{Member: handed.Member, Receipt: handed.Promise(time.Minute)}
			if lost, err := h.shard.Confirm(h.t.Context(), topic, "", []store.Lease{promised}); err != nil || len(lost) > 0 {
				return lost, err
			}
			return h.shard.Ack(h.t.Context(), topic, []store.Lease{promised})
		},
		"acknowledged": func(h *hand, handed store.Handover) ([]int, error) {
			return h.shard.Ack(h.t.Context(), topic, []store.Lease{handed.Lease})
		},
		"neither": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			one, carries := newHand(t, db, "one"), byHand(t, db)
			storetest.Publish(t, db, body("a"))
			handed := one.taken()
			passed(t, db, time.UnixMicro(handed.At), record.HandoverLease)
			if got := carries(); got.Moved+int(got.Lapsed) > 0 || got.Next < got.Now+record.HandoverSpare.Microseconds()/2 || got.Next > got.Now+2*record.HandoverSpare.Microseconds() {
				t.Errorf("when it ended, the carrier found %+v", got)
			}
			if settle != nil {
				if lost, err := settle(one, handed); err != nil || len(lost) > 0 {
					t.Errorf("it is lost: %v, %v", lost, err)
				}
				storetest.Empty(t, db)
				return
			}
			storetest.Eventually(t, "it is not spared again", func() bool { return carries().Lapsed == 1 })
			if got := one.claim(handed.At); len(got.Messages) != 1 || got.Messages[0].Used != 0 || !got.Messages[0].Due.Equal(handed.Due) {
				t.Errorf("then it came as %+v", got.Messages)
			}
		})
	}
}
