package carrier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// At rest Redis carries out these commands for each beat, and nothing else; one beat in ten also looks at what changes slowly. Where
// anything has a time to live, is a broadcast, or is ready, each beat looks there, too: at all of them.
func TestCommandsAtRest(t *testing.T) {
	storetest.OneShard(t, "TestCrewAtRest counts the calls of several")
	t.Parallel()
	hour := notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Hour}
	broadcast, mortal := hour, hour
	broadcast.Broadcast, mortal.TTL = true, time.Hour
	sent := broadcast
	sent.Delay = 0
	for name, test := range map[string]struct {
		messages      []notify.Message
		rare, history int64
	}{
		"nothing waits":                {},
		"a message waits":              {[]notify.Message{hour}, 0, 0},
		"one has a time to live":       {[]notify.Message{mortal}, 1, 0},
		"a broadcast waits":            {[]notify.Message{broadcast}, 1, 0},
		"a broadcast was sent":         {[]notify.Message{sent}, 1, 0},
		"all of these, and a listener": {[]notify.Message{hour, mortal, broadcast, sent}, 1, 0},
		"a history is kept":            {[]notify.Message{hour}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.At(t, storetest.Server(t).URL(), "")
			beats := subscribe(t, db, db.KeysOf(topic).Beat())
			run(t, db, carrier.Options{Lease: carrier.MinLease, Sweep: carrier.MaxSweep, NoHistory: test.history == 0})
			handled(t, db, topic, func(*subscribers.Delivery) {})
			storetest.Publish(t, db, test.messages...)
			if len(test.messages) > 3 { // broadcasts that a process of this name had and never settled
				do(t, db, "ZADD", db.KeysOf(topic).Base()+"handed", time.Now().Add(time.Hour).UnixMilli(), "name")
			}
			storetest.Eventually(t, "what is due was sent", func() bool {
				c := counts(t, db, topic)
				return c.Sent+c.Broadcasts+c.Scheduled == int64(len(test.messages))
			})
			var before, after map[string]int64
			oneTerm := func() bool {
				first := term(t, beats)
				for range 2 { // what came before is over
					storetest.Receive(t, "a beat", beats)
				}
				before = commands(t, db)
				for range 22 { // some may have come before the count
					storetest.Receive(t, "a beat", beats)
				}
				after = commands(t, db)
				return term(t, beats) == first
			}
			for try := 1; !oneTerm(); try++ { // a machine that stands still for the lease ends it
				if try == 5 {
					t.Fatal("no 20 beats of one term, five times")
				}
			}
			n, looks := wantRest(t, before, after, test.rare, test.history)
			if looks < n/10 || looks > n/10+1 {
				t.Errorf("%d of %d beats looked at what changes slowly", looks, n)
			}
		})
	}
}

// term returns the epoch of the next beat.
func term(t *testing.T, beats <-chan *redis.Message) string {
	t.Helper()
	epoch, _, _ := strings.Cut(storetest.Receive(t, "a beat", beats).Payload, " ")
	return epoch
}

// wantRest checks the commands between two counts, and returns how many beats there were, and how many of them looked.
func wantRest(t *testing.T, before, after map[string]int64, rare, history int64) (beats, looks int64) {
	t.Helper()
	got := make(map[string]int64)
	for command, n := range after {
		if n -= before[command]; n > 0 && !strings.HasPrefix(command, "client") {
			got[command] = n
		}
	}
	for _, other := range []string{"info", "hello", "subscribe", "ping"} { // of the test and of connections
		delete(got, other)
	}
	n := got["publish"]
	looks = got["hlen"]
	want := map[string]int64{
		"evalsha": n, "get": 2 * n, "pexpire": n, "time": n, "exists": n, "zrange": (2 + 4*rare) * n, "zscan": rare * n, "publish": n,
		"hlen": looks, "zcard": rare * looks, // beside INFO
	}
	samples := got["setrange"] // one a second for each ring, whatever the time between two beats
	for command, more := range map[string]int64{"hmget": n, "hgetall": n, "exists": 2 * looks, "hset": looks, "setrange": samples, "getrange": got["getrange"]} {
		if history > 0 && more > 0 {
			want[command] += more
		}
	}
	if rare == 0 {
		delete(want, "zscan")
		delete(want, "zcard")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%d beats (-want +got):\n%s", n, diff)
	}
	all := sum(got) - n // without the call itself
	if most := 8*n + 5*rare*n + (1+rare)*looks + history*(2*n+3*looks+samples+1); all > most || n < 20 {
		t.Errorf("%d beats made %d commands, want at most %d", n, all, most)
	}
	return n, looks
}

// Where the beat rings again though no ring was lost, that is not counted: the subscriber that was rung has claimed in time, or it is
// busy with a message that it was handed. A hand-over that was lost counts as lapsed.
func TestRingsThatAreNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hands  bool
		minAge time.Duration
		lapsed int64
	}{
		"what is ready is too young": {false, time.Hour, 0},
		"it is busy":                 {true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			inbox, channel := store.NewInbox("x", test.hands), db.KeysOf(topic).Inbox("x")
			if test.hands {
				channel = db.KeysOf(topic).Hands("x")
			}
			rings, beats := subscribe(t, db, channel), subscribe(t, db, db.KeysOf(topic).Beat())
			claim := func() {
				t.Helper()
				got, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, MinAge: test.minAge, Inbox: inbox})
				if err != nil || len(got.Messages) > 0 {
					t.Fatalf("claimed %d, %v", len(got.Messages), err)
				}
			}
			c, _ := watch(t, db, carrier.Options{})
			claim()
			for _, id := range []string{"a", "b"} {
				storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Body: []byte("x")})
			}
			storetest.Receive(t, "it is rung, or handed the first", rings)
			for n := 0; n < 3 || state(c).Lapsed < test.lapsed; n++ {
				if test.minAge > 0 {
					claim()
				}
				storetest.Receive(t, "a beat", beats)
				storetest.Receive(t, "it is rung again", rings)
			}
			if s := state(c); s.Repeated > 0 || s.Lapsed != test.lapsed {
				t.Errorf("got %+v", s)
			}
		})
	}
}
