package store_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// limited is a topic with limits, and a subscriber to each of some inboxes.
type limited struct {
	*keyed
	rings <-chan *redis.Message
}

// openLimited sets limits of a topic, and publishes n messages to it. Rings are heard of the inboxes desk-0 to desk-4.
func openLimited(t *testing.T, c store.SettingsChange, n int) limited {
	t.Helper()
	k := openKeyed(t, storetest.Open(t), "mail", 0)
	_, err := k.shard.Set(t.Context(), k.topic, c, false)
	k.must(err)
	var all []notify.Message
	for i := range n {
		all = append(all, notify.Message{Topic: k.topic, ID: fmt.Sprint(i)})
	}
	if n > 0 {
		storetest.Publish(t, k.db, all...)
	}
	var inboxes []string
	for i := range 5 {
		inboxes = append(inboxes, k.db.KeysOf(k.topic).Inbox(fmt.Sprint("desk-", i)))
	}
	subscribe := k.db.Client().Subscribe
	if storetest.Shards() > 1 {
		subscribe = k.db.Client().SSubscribe
	}
	heard := subscribe(t.Context(), inboxes...)
	t.Cleanup(func() { _ = heard.Close() })
	for range inboxes {
		if _, err := heard.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return limited{k, heard.Channel()}
}

// claims claims up to n messages for an inbox, and checks how many it gets.
func (l limited) claims(inbox string, n, want int) []store.ClaimedMessage {
	l.t.Helper()
	c := store.Claim{Topic: l.topic, Max: n, Lease: time.Hour}
	if inbox != "" {
		c.Inbox = reach.NewInbox(inbox, false)
	}
	claimed, err := l.shard.Claim(l.t.Context(), c)
	l.must(err)
	if len(claimed.Messages) != want {
		l.t.Fatalf("%s claimed %d messages, want %d", inbox, len(claimed.Messages), want)
	}
	return claimed.Messages
}

// carry makes a call of the carrier.
func (l limited) carry(beat bool) store.Carried {
	l.t.Helper()
	carried, err := l.shard.Carry(l.t.Context(), store.Carry{Token: l.token, Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0", Beat: beat})
	l.must(err)
	return carried
}

// rung checks which inboxes were rung since the last look: what is published behind all rings ends it.
func (l limited) rung(want ...string) {
	l.t.Helper()
	publish := l.db.Client().Publish
	if storetest.Shards() > 1 {
		publish = l.db.Client().SPublish
	}
	l.must(publish(l.t.Context(), l.db.KeysOf(l.topic).Inbox("desk-0"), "end").Err())
	var got []string
	for m := range l.rings {
		if m.Payload == "end" {
			break
		}
		got = append(got, m.Channel[len(l.db.KeysOf(l.topic).Inbox("")):])
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.t.Errorf("rung were %v, want %v", got, want)
	}
}

// Each way in which a lease ends gives its slot back, and rings one that waits.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l limited, m store.ClaimedMessage) error{
		"acknowledged": func(l limited, m store.ClaimedMessage) error {
			_, err := l.shard.Ack(t.Context(), l.topic, []store.Lease{m.Lease})
			return err
		},
		"acknowledged and kept": func(l limited, m store.ClaimedMessage) error {
			_, _, err := l.shard.AckWith(t.Context(), l.topic, m.Lease, store.Result{Keep: time.Hour})
			return err
		},
		"rejected": func(l limited, m store.ClaimedMessage) error {
			_, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: m.Lease, Delay: time.Hour})
			return err
		},
		"put off": func(l limited, m store.ClaimedMessage) error {
			_, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: m.Lease, Delay: time.Hour, Keep: true})
			return err
		},
		"buried": func(l limited, m store.ClaimedMessage) error {
			_, err := l.shard.Nack(t.Context(), l.topic, store.Nack{Lease: m.Lease, Bury: true})
			return err
		},
		"released": func(l limited, m store.ClaimedMessage) error {
			_, err := l.shard.Release(t.Context(), l.topic, reach.Inbox{}, 0, []store.Return{{Lease: m.Lease}})
			return err
		},
		"expired": func(l limited, m store.ClaimedMessage) error {
			if e, err := l.shard.Extend(t.Context(), l.topic, "", []store.Lease{m.Lease}, time.Millisecond); err != nil || len(e.Lost) > 0 {
				return fmt.Errorf("lost %v: %w", e.Lost, err)
			}
			l.passes(2 * time.Millisecond)
			l.carry(false)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLimited(t, store.SettingsChange{Concurrency: new(2)}, 6)
			first := l.claims("desk-1", 5, 2)
			l.claims("desk-2", 5, 0)
			l.claims("desk-3", 5, 0)
			l.rung()
			if l.carry(true).Repeated != 0 {
				t.Error("the beat repeated rings for a topic at its limit")
			}
			l.rung()
			if err := end(l, first[0]); err != nil {
				t.Fatal(err)
			}
			l.rung("desk-1")
			l.claims("desk-1", 5, 1)
			l.claims("desk-2", 5, 0)
			for _, wrong := range slotsOf(l.read(), l.read(), 2) {
				t.Error(wrong)
			}
		})
	}
}

// A claim that a limit cuts short, and that uses up less than it lets go, is not short: there may be more.
func TestClaimThatTakesNoSlot(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Concurrency: new(1)}, 0)
	for i := range 3 {
		storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: fmt.Sprint("late-", i), LateAfter: time.Millisecond, Late: notify.LateDrop})
	}
	l.passes(2 * time.Millisecond)
	storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "a"}, notify.Message{Topic: l.topic, ID: "b"}, notify.Message{Topic: l.topic, ID: "c"})
	claim := func(ackNow, short bool, messages, dropped int) {
		t.Helper()
		c, err := l.shard.Claim(t.Context(), store.Claim{Topic: l.topic, Max: 5, Lease: time.Hour, AckNow: ackNow, Inbox: reach.NewInbox("desk-1", false)})
		if l.must(err); c.Short != short || len(c.Messages) != messages || len(c.Dropped) != dropped {
			t.Errorf("claimed %+v; want %d, %d dropped, short %v", c, messages, dropped, short)
		}
	}
	for range 3 {
		claim(false, false, 0, 1)
	}
	claim(true, false, 1, 0)
	claim(false, true, 1, 0)
	claim(true, true, 0, 0)
}

// What a call makes ready while it gives slots back is rung for with these; and nobody is rung for what was rung for before.
func TestRingsWithTheSlotsOfACall(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Concurrency: new(2)}, 1)
	held := l.claims("", 1, 1)
	for i := range 3 {
		l.claims(fmt.Sprint("desk-", i), 1, 0)
	}
	storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "next"})
	l.rung("desk-0")
	_, err := l.shard.Release(t.Context(), l.topic, reach.NewInbox("desk-0", false), 0, []store.Return{{Lease: held[0].Lease}})
	l.must(err)
	l.rung("desk-1", "desk-2")

	more := openLimited(t, store.SettingsChange{Concurrency: new(5)}, 1)
	held = more.claims("", 1, 1)
	more.claims("desk-1", 1, 0)
	more.claims("desk-2", 1, 0)
	storetest.Publish(t, more.db, notify.Message{Topic: more.topic, ID: "next"})
	more.rung("desk-1")
	_, err = more.shard.Ack(t.Context(), more.topic, []store.Lease{held[0].Lease})
	more.must(err)
	more.rung()
}

// A slot of nobody, as a script leaves that stops half way, is given back once the time of its lease is over.
func TestSlotOfNobody(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Concurrency: new(1)}, 1)
	over := float64(time.Now().Add(-time.Second).UnixMicro())
	l.must(l.db.Client().ZAdd(t.Context(), l.db.KeysOf(l.topic).Slots(l.topic), redis.Z{Member: "mail:gone", Score: over}).Err())
	l.claims("desk-1", 1, 1)
}

// What was leased before a topic had a limit counts, and a limit that is raised or taken away rings at once.
func TestConcurrencyChanges(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 8)
	set := func(c store.SettingsChange) {
		_, err := l.shard.Set(t.Context(), l.topic, c, false)
		l.must(err)
	}
	l.claims("", 3, 3)
	set(store.SettingsChange{Concurrency: new(2)})
	l.claims("desk-1", 1, 0)
	l.claims("desk-2", 1, 0)
	set(store.SettingsChange{Concurrency: new(3)})
	l.rung()
	set(store.SettingsChange{Concurrency: new(4)})
	l.rung("desk-1")
	l.claims("desk-1", 2, 1)
	set(store.SettingsChange{Default: []string{"concurrency"}})
	l.rung("desk-1", "desk-2")
	l.claims("desk-1", 5, 4)
	if n := len(l.read().slots); n > 0 {
		t.Errorf("%d slots are left", n)
	}
}

// Redis's clock in us.
func (l limited) us() int64 {
	at, err := l.db.Client().Time(l.t.Context()).Result()
	l.must(err)
	return at.UnixMicro()
}

// spent sets until when the rate is used up.
func (l limited) spent(us int64) {
	l.must(l.db.Client().HSet(l.t.Context(), l.db.KeysOf(l.topic).Topics(), l.topic+":spent", us).Err())
}

// A rate lets a burst go, and then one at a time; the carrier rings for those that wait.
func TestRate(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Rate: new(store.PerHour), Burst: new(3)}, 10)
	l.claims("", 2, 2)
	l.claims("desk-1", 5, 1)
	l.claims("desk-2", 5, 0)
	if n := len(l.read().slots); n > 0 {
		t.Errorf("a topic without a concurrency has %d slots", n)
	}
	if l.carry(true).Repeated != 0 {
		t.Error("the beat repeated rings for a topic without a token")
	}
	l.rung()
	if next := time.Duration(l.carry(false).Next-l.us()) * time.Microsecond; next > time.Hour || next < time.Hour-time.Minute {
		t.Errorf("the carrier rings in %v, want an hour", next)
	}
	l.spent(l.us() + 2*time.Hour.Microseconds()) // as if an hour was over
	l.must(l.db.Client().ZAdd(t.Context(), l.db.KeysOf(l.topic).Alarms(), redis.Z{Member: "/" + l.topic, Score: 1}).Err())
	l.carry(false)
	l.rung("desk-1")
	l.claims("desk-1", 5, 1)
	l.claims("desk-2", 5, 0)
}

// A clock that is set back bars nothing for longer than a burst takes.
func TestRateWithTheClockSetBack(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Rate: new(1000 * store.PerSecond), Burst: new(10)}, 100)
	l.spent(math.MaxInt64 / 2)
	storetest.Eventually(t, "the rate lets some go", func() bool {
		claimed, err := l.shard.Claim(t.Context(), store.Claim{Topic: l.topic, Max: 1, Lease: time.Hour})
		l.must(err)
		return len(claimed.Messages) == 1
	})
}

// Whatever claims, no more go than the rate and its burst allow, by Redis's clock; and all of them go, since those that wait are rung.
func TestRateHolds(t *testing.T) {
	t.Parallel()
	const perSecond, burst, n = 1000, 50, 600
	l := openLimited(t, store.SettingsChange{Rate: new(perSecond * store.PerSecond)}, n)
	from, got := l.us(), 0
	for i := 0; got < n; i++ {
		claimed, err := l.shard.Claim(t.Context(), store.Claim{Topic: l.topic, Max: 1 + i%20, AckNow: i%2 == 0, Lease: time.Hour})
		l.must(err)
		got += len(claimed.Messages)
		if most := burst + float64(claimed.Now-from)*perSecond/1e6; float64(got) > most+1e-6 {
			t.Fatalf("%d were claimed in %d us, more than %f", got, claimed.Now-from, most)
		}
	}
}

// What waits for a rate costs nothing where nobody waits.
func TestRateAtRest(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Rate: new(store.PerHour)}, 3)
	if next := l.carry(true).Next; next != record.Never {
		t.Errorf("the carrier waits for %d", next)
	}
	claimed, err := l.shard.Claim(t.Context(), store.Claim{Topic: l.topic, Max: 3, AckNow: true})
	if l.must(err); len(claimed.Messages) != 1 {
		t.Errorf("claimed %+v", claimed)
	}
	l.must(l.db.Client().ZAdd(t.Context(), l.db.KeysOf(l.topic).Alarms(), redis.Z{Member: "/" + l.topic, Score: 1}).Err())
	if next := l.carry(true).Next; next != record.Never {
		t.Errorf("once it rang, the carrier waits for %d", next)
	}
}

// Wrong limits change nothing.
func TestWrongLimits(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 0)
	for want, c := range map[string]store.SettingsChange{
		"invalid burst: the topic has no rate; set rate, too, or burst to its default": {Burst: new(5)},
		"invalid concurrency 100001: use 1 to 100000":                                  {Concurrency: new(100_001)},
		"invalid rate 1000001/s: use 1/h to 1000000/s":                                 {Rate: new(store.MaxRate + store.PerSecond)},
	} {
		if _, err := l.shard.Set(t.Context(), l.topic, c, false); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	holds, err := l.shard.Settings(t.Context(), l.topic)
	if l.must(err); len(holds.Own) > 0 {
		t.Errorf("set are %v", holds.Own)
	}
	one, rate := 1, store.PerSecond
	_, err = l.db.SetForAll(t.Context(), store.SettingsChange{Concurrency: &one, Rate: &rate}, false)
	want := "invalid concurrency: it is not for all topics together; set it for each one\ninvalid rate: it is not for all topics together; set it for each one"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// A rate is read and written as users write it.
func TestRateAsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]store.Rate{"1000/s": 1000 * store.PerSecond, "90/m": 90 * store.PerMinute, "7/h": 7, "1000000/s": store.MaxRate, "none": 0} {
		if want.String() != text {
			t.Errorf("%d is %s, want %s", want, want, text)
		}
		if got, err := store.ParseRate("rate", text); want != 0 && (got != want || err != nil) {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	if got := (60 * store.PerMinute).String(); got != "1/s" {
		t.Errorf("60/m is %s", got)
	}
	for _, text := range []string{"", "5", "/s", "0/s", "-1/s", "1.5/s", "5/d", "1000001/s", "4294967296/h", "5/s/s", " 5/s"} {
		if got, err := store.ParseRate("rate", text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
