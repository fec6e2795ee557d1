package carrier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// At rest Redis carries out these commands for each beat, and nothing else; one beat in ten also looks at what changes slowly. Where
// anything has a time to live, is a broadcast, is ready, or is paused until a time, or there is a schedule, each beat looks there, too: at all of them.
func TestCommandsAtRest(t *testing.T) {
	storetest.OneShard(t, "TestCrewAtRest counts the calls of several")
	t.Parallel()
	server := storetest.Lend(t)
	hour := notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Hour}
	broadcast, mortal := hour, hour
	broadcast.Broadcast, mortal.TTL = true, time.Hour
	sent := broadcast
	sent.Delay = 0
	for name, test := range map[string]struct {
		messages      []notify.Message
		rare, history int64
		paused        time.Duration
		schedules     int
	}{
		"nothing waits":                {},
		"a message waits":              {[]notify.Message{hour}, 0, 0, 0, 0},
		"one has a time to live":       {[]notify.Message{mortal}, 1, 0, 0, 0},
		"a broadcast waits":            {[]notify.Message{broadcast}, 1, 0, 0, 0},
		"a broadcast was sent":         {[]notify.Message{sent}, 1, 0, 0, 0},
		"all of these, and a listener": {[]notify.Message{hour, mortal, broadcast, sent}, 1, 0, time.Hour, 3},
		"a pause has an end":           {[]notify.Message{hour}, 1, 0, time.Hour, 0},
		"a history is kept":            {[]notify.Message{hour}, 0, 1, 0, 0},
		"schedules wait":               {[]notify.Message{hour}, 1, 0, 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.At(t, server, notify.NewID())
			storetest.Found(t, db)
			storetest.Publish(t, db, test.messages...)
			if len(test.messages) > 3 {
				inbox := db.KeysOf(topic).Inbox("x")
				subscribe(t, db, inbox)
				do(t, db, "ZADD", db.KeysOf(topic).Waiting(topic), 1, inbox)
				// Broadcasts that a process of this name had and never settled.
				do(t, db, "ZADD", db.KeysOf(topic).Base()+"alarms", time.Now().Add(time.Hour).UnixMilli(), "name")
			}
			if test.paused > 0 {
				storetest.Must(t, storetest.ErrOf(store.PauseUntil(t.Context(), db, "held", store.In(test.paused))))
			}
			c := carrier.Elect(t, db.Of(topic), carrier.Options{NoHistory: test.history == 0})
			for i := range test.schedules {
				put(t, db, store.Schedule{Name: fmt.Sprint("daily-", i), Spec: calendar.Spec{Every: 24 * time.Hour, From: time.Now().Add(12 * time.Hour).Truncate(time.Second)}})
			}
			for range 2 { // it sends what is due
				c.Beat(t)
				c.Fill(t)
			}
			before := commands(t, db)
			for range 20 {
				c.Beat(t)
			}
			n, looks := wantRest(t, before, commands(t, db), test.rare, test.history)
			if n != 20 || looks != 2 {
				t.Errorf("%d of %d beats looked at what changes slowly", looks, n)
			}
		})
	}
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
		"fcall": n, "get": 2 * n, "pexpire": n, "time": n, "exists": n, "zrange": (2 + 4*rare) * n, "zscan": rare * n, "xlen": rare * n, "publish": n,
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
		delete(want, "xlen")
		delete(want, "zcard")
	}
	storetest.Same(t, fmt.Sprintf("%d beats", n), want, got)
	all := sum(got) - n // without the call itself
	if most := 8*n + 6*rare*n + (1+rare)*looks + history*(2*n+3*looks+samples+1); all > most {
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
			inbox, channel := reach.NewInbox("x", test.hands), db.KeysOf(topic).Inbox("x")
			if test.hands {
				channel = db.KeysOf(topic).Hands("x")
			}
			rings := subscribe(t, db, channel)
			claim := func() {
				t.Helper()
				got, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, MinAge: test.minAge, Inbox: inbox})
				if err != nil || len(got.Messages) > 0 {
					t.Fatalf("claimed %d, %v", len(got.Messages), err)
				}
			}
			c := carrier.Elect(t, db.Of(topic), carrier.Options{})
			claim()
			for _, id := range []string{"a", "b"} {
				storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Body: []byte("x")})
			}
			storetest.Receive(t, "it is rung, or handed the first", rings)
			for n := range 4 {
				if test.minAge > 0 {
					claim()
				} else if n >= 2 { // the hand-over ends, and is spared once: one is leased to nobody
					do(t, db, "ZINCRBY", db.KeysOf(topic).Leased(), -time.Minute.Microseconds(), record.Member(topic, "a"))
				}
				c.Beat(t)
				storetest.Receive(t, "it is rung again", rings)
			}
			if s := c.State(); s.Repeated > 0 || s.Lapsed != test.lapsed {
				t.Errorf("got %+v", s)
			}
		})
	}
}
