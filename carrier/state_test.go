package carrier_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// told collects what a carrier reports.
type told struct {
	mu        sync.Mutex
	moved     int
	late      []carrier.Lateness
	fallbacks int
}

func (c *told) add(m carrier.Carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += m.Moved
	c.late = append(c.late, m.Lateness...)
	if m.Fallback {
		c.fallbacks++
	}
}

// wait waits until the carrier has reported so many: it does so after its state counts them.
func (c *told) wait(t *testing.T, what string, moved int) {
	t.Helper()
	storetest.Eventually(t, what, func() bool {
		n, _, _ := c.read()
		return n >= moved
	})
}

func (c *told) read() (moved int, late []carrier.Lateness, fallbacks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved, c.late, c.fallbacks
}

// watch runs a carrier, waits until it carries, and returns it with what it reports.
func watch(t *testing.T, db *notify.Store, o carrier.Options) (*carrier.Carrier, *told) {
	t.Helper()
	all := new(told)
	o.OnCarried = all.add
	c, err := carrier.New(db, o)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "it carries, and hears nudges", func() bool {
		for _, s := range c.States() {
			if !s.Carrying {
				return false
			}
		}
		n, err := db.Listening(t.Context(), db.Of(topic).HeadChannel())
		return err == nil && n > 0
	})
	return c, all
}

func TestState(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var messages []notify.Message
	past := time.Now().Add(2500 * time.Millisecond).Truncate(time.Millisecond)
	for i := range 20 {
		messages = append(messages, notify.Message{Topic: storetest.Beside(db, topic, fmt.Sprint(topic, i%3)), Body: []byte("x"), Due: past.Add(time.Duration(i/10) * time.Millisecond)})
	}
	storetest.Publish(t, db, messages...)
	storetest.Publish(t, db, later("far", time.Hour), notify.Message{Topic: topic, Broadcast: true, Body: []byte("x"), Delay: time.Hour})
	storetest.Eventually(t, "they are due", func() bool { return time.Now().After(past.Add(100 * time.Millisecond)) })

	began := time.Now()
	idle, err := carrier.New(db, carrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := state(idle); s != (carrier.State{}) {
		t.Errorf("before it runs: %+v", s)
	}
	c, all := watch(t, db, carrier.Options{})
	all.wait(t, "they are moved", 20)
	storetest.Eventually(t, "the beat counts", func() bool { return state(c).Kept == 22 })
	s := state(c)
	if s.Epoch != 1 || s.Since.Before(began) || s.Since.After(time.Now()) || s.Fallbacks != 0 {
		t.Errorf("got %+v", s)
	}
	if s.Lateness < 90*time.Millisecond || s.Lateness > time.Since(past) {
		t.Errorf("late by %v", s.Lateness)
	}
	moved, late, _ := all.read()
	if moved != 20 || len(late) != 2 || late[0].N != 10 || late[1].N != 10 || late[0].Late-late[1].Late != time.Millisecond {
		t.Errorf("told of %d: %v", moved, late)
	}
	storetest.Eventually(t, "its loop goes on", func() bool { return state(c).Progress.After(s.Progress) })

	storetest.Run(t, idle.Run)
	stands := 0 // of several shards it takes over some
	storetest.Eventually(t, "the other stands by", func() bool {
		for stands, s = range idle.States() {
			if !s.Carrying && !s.Since.IsZero() && !s.Progress.IsZero() {
				return true
			}
		}
		return false
	})
	if s.Epoch != 0 || s.Kept != 0 {
		t.Errorf("standing by: %+v", s)
	}
	storetest.Eventually(t, "its loop goes on", func() bool { return idle.States()[stands].Progress.After(s.Progress) })
}

// After a stop the state says that it no longer carries. A broadcast counts as moved, without a lateness.
func TestStateOfBroadcastsAndTheEnd(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	all := new(told)
	c, err := carrier.New(db, carrier.Options{OnCarried: all.add})
	if err != nil {
		t.Fatal(err)
	}
	stop := storetest.Run(t, c.Run)
	storetest.Publish(t, db, notify.Message{Topic: topic, Broadcast: true, Body: []byte("x"), Delay: time.Millisecond})
	all.wait(t, "it is sent", 1)
	if moved, late, _ := all.read(); moved != 1 || len(late) != 0 {
		t.Errorf("told of %d: %v", moved, late)
	}
	stop()
	if s := state(c); s.Carrying || s.Epoch != 1 || s.Kept != 0 {
		t.Errorf("when it has stopped: %+v", s)
	}
}

// Foreign members of the schedule are neither ready nor late.
func TestLatenessIsOfWhatIsReady(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Schedules(), 1, "no topic", 2, "also none", "-inf", "nor here")
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Schedules(), "5.25", topic)
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Schedule(topic), "5.25", topic+":somebody else's")
	_, all := watch(t, db, carrier.Options{})
	all.wait(t, "it is moved", 1)
	moved, late, _ := all.read()
	if moved != 1 || len(late) != 1 || late[0].N != 1 || (time.Since(time.UnixMicro(5250))-late[0].Late).Abs() > time.Minute {
		t.Errorf("told of %d: %v", moved, late)
	}
}

// If a nudge is lost, since the publisher has no right to PUBLISH, the beat finds the message, and reports a fallback.
func TestFallback(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	c, all := watch(t, db, carrier.Options{})
	do(t, db, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all")
	mute := storetest.At(t, strings.Replace(server.URL(), "redis://", "redis://mute:secret@", 1), "")
	if err := mute.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, db, "ACL", "SETUSER", "mute", "resetchannels") // behind the rehearsal
	moved, want := 0, 0
	for _, m := range []notify.Message{
		{Topic: topic, Body: []byte("x"), Delay: time.Millisecond},
		{Topic: topic, Body: []byte("x"), Delay: time.Millisecond, Broadcast: true},
	} {
		beats := subscribe(t, db, db.KeysOf(topic).Beat())
		want++
		storetest.Eventually(t, "one is told as found by the beat", func() bool { // a machine that stands still may publish just before a beat
			storetest.Receive(t, "a beat, after which the next is a second away", beats)
			storetest.Publish(t, mute, m)
			moved++
			all.wait(t, "it is moved", moved)
			_, _, fallbacks := all.read()
			return fallbacks == want
		})
	}
	if n, _, fallbacks := all.read(); n != moved || state(c).Fallbacks != int64(fallbacks) {
		t.Errorf("told of %d, %d by the fallback", n, fallbacks)
	}
}

// While nudges come no beat counts as a fallback, whatever they coincide with.
func TestNoFallback(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c, _ := watch(t, db, carrier.Options{Lease: carrier.MinLease}) // 6 beats a second
	n := int64(0)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		var some []notify.Message
		for i := range 20 {
			some = append(some, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Duration(1+(int(n)+7*i)%200) * time.Millisecond})
		}
		storetest.Publish(t, db, some...)
		n += int64(len(some))
	}
	storetest.Eventually(t, "all are moved", func() bool { return state(c).Moved == n })
	if s := state(c); s.Fallbacks != 0 {
		t.Errorf("got %+v", s)
	}
}

// A subscriber that was rung and does not claim is rung again with each beat, which is
// counted; one that claims at once is not.
func TestRepeatedRing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c, _ := watch(t, db, carrier.Options{})
	inbox := db.KeysOf(topic).Inbox("deaf")
	subscribe(t, db, inbox)
	waits := redis.Z{Score: float64(time.Now().UnixMicro()), Member: inbox}
	if err := db.Client().ZAdd(t.Context(), db.KeysOf(topic).Waiting(topic), waits).Err(); err != nil {
		t.Fatal(err)
	}
	storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	storetest.Eventually(t, "rings are repeated", func() bool { return state(c).Repeated >= 2 })
	if n := state(c).Fallbacks; n != 0 {
		t.Errorf("%d nudges are told as lost", n)
	}
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 2, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	rested := state(c)
	storetest.Eventually(t, "two more beats", func() bool { return state(c).Progress.Sub(rested.Progress) > 2*store.Heartbeat })
	if again := state(c).Repeated; again > rested.Repeated {
		t.Errorf("%d rings were repeated though nothing is ready", again-rested.Repeated)
	}
}

// The loop of a carrier whose Redis takes connections and never answers comes
// around within the bound, elected or not.
func TestProgressWithoutRedis(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := carrier.New(storetest.At(t, "redis://"+listener.Addr().String(), ""), carrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "it runs", func() bool { return !state(c).Progress.IsZero() })
	first := state(c).Progress
	storetest.Eventually(t, "its loop comes around", func() bool { return state(c).Progress.After(first) })
	if took := state(c).Progress.Sub(first); took > carrier.Bound {
		t.Errorf("it took %v, the bound is %v", took, carrier.Bound)
	}
}
