package store_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// limited is a topic with limits. slots N: what is leased has slots, of at most N.
var limited = storetest.Scenario{Topic: "mail", Verbs: map[string]func(*storetest.Player, []string) string{"slots": func(p *storetest.Player, words []string) string {
	k, most := keyed{Player: p}, 0
	if _, err := fmt.Sscan(words[0], &most); err != nil {
		return err.Error()
	}
	if wrong := slotsOf(k.read(), k.read(), most); len(wrong) > 0 {
		return wrong[0]
	}
	return "ok"
}}}

// Each way in which a lease ends gives its slot back, and rings one that waits.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set concurrency=2
	publish 0..5
	claim 5 inbox=desk-1 = 0 1
	claim 5 inbox=desk-2 = nothing
	claim 5 inbox=desk-3 = nothing
	rung = nobody
	carry beat                   # repeats no ring
	rung = nobody
	pass 1ms
== acknowledged
	ack 0
== acknowledged and kept
	ack 0 keep=1h
== rejected
	nack 0 delay=1h
== put off
	defer 0 delay=1h
== buried
	bury 0
== released
	release 0
== expired
	extend 0 lease=1ms
	pass 2ms
	carry
==
	rung = desk-1
	claim 5 inbox=desk-1 = 2
	claim 5 inbox=desk-2 = nothing
	slots 2
	`, limited)
}

// A claim that a limit cuts short, and that uses up less than it lets go, is not short: there may be more.
func TestClaimThatTakesNoSlot(t *testing.T) {
	t.Parallel()
	s := storetest.Scenario{Topic: "mail", Verbs: map[string]func(*storetest.Player, []string) string{"takes": func(p *storetest.Player, words []string) string {
		c := store.Claim{Topic: p.Topic, Max: 5, Lease: time.Hour, AckNow: len(words) > 0, Inbox: reach.NewInbox("desk-1", false)}
		got, err := p.Shard.Claim(p.Context(), c)
		return fmt.Sprintf("%d and %d dropped, short %v, %v", len(got.Messages), len(got.Dropped), got.Short, err)
	}}}
	storetest.Play(t, `
	set concurrency=1
	publish late-0 late-1 late-2 late_after=1ms late=drop
	pass 2ms
	publish a b c
	takes = 0 and 1 dropped, short false, <nil>
	takes = 0 and 1 dropped, short false, <nil>
	takes = 0 and 1 dropped, short false, <nil>
	takes ack = 1 and 0 dropped, short false, <nil>
	takes = 1 and 0 dropped, short true, <nil>
	takes ack = 0 and 0 dropped, short true, <nil>
	`, s)
}

// What a call makes ready while it gives slots back is rung for with these; and nobody is rung for what was rung for before.
func TestRingsWithTheSlotsOfACall(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== released
	set concurrency=2
	publish 0
	claim 1 = 0
	claim 1 inbox=desk-0 = nothing
	claim 1 inbox=desk-1 = nothing
	claim 1 inbox=desk-2 = nothing
	publish next
	rung = desk-0
	release 0 inbox=desk-0
	rung = desk-1 desk-2
== acknowledged
	set concurrency=5
	publish 0
	claim 1 = 0
	claim 1 inbox=desk-1 = nothing
	claim 1 inbox=desk-2 = nothing
	publish next
	rung = desk-1
	ack 0
	rung = nobody
	`, limited)
}

// A slot of nobody, as a script leaves that stops half way, is given back once the time of its lease is over.
func TestSlotOfNobody(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set concurrency=1
	publish 0
	redis ZADD slots:mail 1 mail:gone
	claim 1 inbox=desk-1 = 0
	`, limited)
}

// What was leased before a topic had a limit counts, and a limit that is raised or taken away rings at once.
func TestConcurrencyChanges(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish 0..7
	claim 3 = 0 1 2
	set concurrency=2
	claim 1 inbox=desk-1 = nothing
	claim 1 inbox=desk-2 = nothing
	set concurrency=3
	rung = nobody
	set concurrency=4
	rung = desk-1
	claim 2 inbox=desk-1 = 3
	set concurrency=default
	rung = desk-1 desk-2
	claim 5 inbox=desk-1 = 4 5 6 7
	redis ZCARD slots:mail = 0
	`, limited)
}

// A rate lets a burst go, and then one at a time; the carrier rings for those that wait.
func TestRate(t *testing.T) {
	t.Parallel()
	s := storetest.Scenario{Topic: "mail", Verbs: map[string]func(*storetest.Player, []string) string{
		"next": func(p *storetest.Player, _ []string) string { // at which the carrier rings, in hours
			next := time.UnixMicro(p.Carry(false).Next).Sub(p.Now())
			return next.Round(time.Minute).String()
		},
		"spend": func(p *storetest.Player, words []string) string { // until the rate is used up
			d, err := time.ParseDuration(words[0])
			if err == nil {
				err = p.Store.Client().HSet(p.Context(), p.Shard.Keys().Topics(), "mail:spent", p.Now().Add(d).UnixMicro()).Err()
			}
			return fmt.Sprint(err)
		},
	}}
	storetest.Play(t, `
	set rate=1/h burst=3
	publish 0..9
	claim 2 = 0 1
	claim 5 inbox=desk-1 = 2
	claim 5 inbox=desk-2 = nothing
	redis ZCARD slots:mail = 0
	carry beat                    # repeats no ring
	rung = nobody
	next = 1h0m0s
	spend 2h = <nil>              # as if an hour was over
	redis ZADD alarms 1 /mail
	carry
	rung = desk-1
	claim 5 inbox=desk-1 = 3
	claim 5 inbox=desk-2 = nothing
	`, s)
}

// A clock that is set back bars nothing for longer than a burst takes.
func TestRateWithTheClockSetBack(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, limited)
	p.Play(`
	set rate=1000/s burst=10
	publish 0..99
	`)
	storetest.Must(t, p.Store.Client().HSet(t.Context(), p.Shard.Keys().Topics(), "mail:spent", int64(math.MaxInt64/2)).Err())
	storetest.Eventually(t, "the rate lets some go", func() bool {
		claimed, err := p.Shard.Claim(t.Context(), store.Claim{Topic: p.Topic, Max: 1, Lease: time.Hour})
		return err == nil && len(claimed.Messages) == 1
	})
}

// Whatever claims, no more go than the rate and its burst allow, by Redis's clock; and all of them go, since those that wait are rung.
func TestRateHolds(t *testing.T) {
	t.Parallel()
	const perSecond, burst, n = 1000, 50, 600
	p := storetest.NewPlayer(t, limited)
	p.Play(`
	set rate=1000/s
	publish 1..600
	`)
	from, got := p.Now().UnixMicro(), 0
	for i := 0; got < n; i++ {
		claimed, err := p.Shard.Claim(t.Context(), store.Claim{Topic: p.Topic, Max: 1 + i%20, AckNow: i%2 == 0, Lease: time.Hour})
		storetest.Must(t, err)
		got += len(claimed.Messages)
		if most := burst + float64(claimed.Now-from)*perSecond/1e6; float64(got) > most+1e-6 {
			t.Fatalf("%d were claimed in %d us, more than %f", got, claimed.Now-from, most)
		}
	}
}

// What waits for a rate costs nothing where nobody waits.
func TestRateAtRest(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, limited)
	p.Play(`
	set rate=1/h
	publish 0..2
	`)
	storetest.Is(t, "the carrier waits for", p.Carry(true).Next, record.Never)
	p.Play(`
	claim 3 ack = 0
	redis ZADD alarms 1 /mail
	`)
	storetest.Is(t, "once it rang, the carrier waits for", p.Carry(true).Next, record.Never)
}

// Wrong limits change nothing.
func TestWrongLimits(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set burst=5 = ~invalid burst: the topic has no rate; set rate, too, or burst to its default
	set concurrency=100001 = ~invalid concurrency 100001: use 1 to 100000
	redis HGET topics mail:settings = none
	set topic=* concurrency=1 = ~invalid concurrency: it is not for all topics together; set it for each one
	set topic=* rate=1/s = ~invalid rate: it is not for all topics together; set it for each one
	`, limited)
	for want, c := range map[string]store.SettingsChange{
		"invalid rate 1000001/s: use 1/h to 1000000/s": {Rate: new(record.MaxRate + record.PerSecond)},
	} {
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
