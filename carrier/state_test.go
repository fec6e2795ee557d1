package carrier_test

import (
	"cmp"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// told collects what a carrier reports.
type told struct {
	mu    sync.Mutex
	moved int
	late  []carrier.Lateness
}

func (c *told) add(m carrier.Carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += m.Moved
	c.late = append(c.late, m.Lateness...)
}

// wait waits until the carrier has reported so many: it does so after its state counts them.
func (c *told) wait(t *testing.T, what string, moved int) {
	t.Helper()
	storetest.Eventually(t, what, func() bool {
		n, _ := c.read()
		return n >= moved
	})
}

func (c *told) read() (moved int, late []carrier.Lateness) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved, c.late
}

// watch runs a carrier, waits until it carries, and returns it with what it reports.
func watch(t *testing.T, db *notify.Store, o carrier.Options) (*carrier.Carrier, *told) {
	t.Helper()
	all := new(told)
	o.OnCarried, o.Lease = all.add, cmp.Or(o.Lease, long)
	c, err := carrier.New(db, o)
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "it carries, and hears nudges", func() bool {
		for _, s := range c.States() {
			if !s.Carrying {
				return false
			}
		}
		n, err := db.Listening(t.Context(), db.Of(topic).NudgeChannel())
		return err == nil && n > 0
	})
	return c, all
}

func TestState(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var messages []notify.Message
	due, topics := time.Now().Add(time.Hour).Truncate(time.Millisecond), make([]string, 3)
	for i := range topics {
		topics[i] = storetest.Beside(db, topic, fmt.Sprint(topic, i))
	}
	for i := range 20 {
		messages = append(messages, notify.Message{Topic: topics[i%3], Body: []byte("x"), Due: due.Add(time.Duration(i/10) * time.Millisecond)})
	}
	storetest.Publish(t, db, messages...)
	storetest.Publish(t, db, later("far", time.Hour), notify.Message{Topic: topic, Broadcast: true, Body: []byte("x"), Delay: time.Hour})
	past := due.Add(-2 * time.Hour)
	storetest.Hasten(t, db, 2*time.Hour, topics...)

	began := time.Now()
	idle, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	storetest.Is(t, "before it runs", state(idle), (carrier.State{}))
	c, all := watch(t, db, carrier.Options{})
	all.wait(t, "they are moved", 20)
	storetest.Eventually(t, "the beat counts", func() bool { return state(c).Kept == 22 })
	s := state(c)
	if s.Epoch != 1 || s.Since.Before(began) || s.Since.After(time.Now()) || s.Fallbacks != 0 {
		t.Errorf("got %+v", s)
	}
	if s.Lateness < 59*time.Minute || s.Lateness > time.Since(past) {
		t.Errorf("late by %v", s.Lateness)
	}
	moved, late := all.read()
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
	c, err := carrier.New(db, carrier.Options{OnCarried: all.add, Lease: long})
	storetest.Must(t, err)
	stop := storetest.Run(t, c.Run)
	storetest.Publish(t, db, notify.Message{Topic: topic, Broadcast: true, Body: []byte("x"), Delay: time.Millisecond})
	all.wait(t, "it is sent", 1)
	if moved, late := all.read(); moved != 1 || len(late) != 0 {
		t.Errorf("told of %d: %v", moved, late)
	}
	stop()
	if s := state(c); s.Carrying || s.Epoch != 1 || s.Kept != 0 {
		t.Errorf("when it has stopped: %+v", s)
	}
}

// Foreign members of the scheduled set are neither ready nor late.
func TestLatenessIsOfWhatIsReady(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).ScheduledTopics(), 1, "no topic", 2, "also none", "-inf", "nor here")
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).ScheduledTopics(), "5.25", topic)
	db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Scheduled(topic), "5.25", topic+":somebody else's")
	_, all := watch(t, db, carrier.Options{})
	all.wait(t, "it is moved", 1)
	moved, late := all.read()
	if moved != 1 || len(late) != 1 || late[0].N != 1 || (time.Since(time.UnixMicro(5250))-late[0].Late).Abs() > time.Minute {
		t.Errorf("told of %d: %v", moved, late)
	}
}

// What becomes due without a nudge is found by the beat.
func TestBeatFindsWhatIsDue(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, later("a", time.Hour), all(topic, "b", time.Hour))
	_, told := watch(t, db, carrier.Options{})
	storetest.Hasten(t, db, 2*time.Hour, topic)
	do(t, db, "ZADD", db.KeysOf(topic).Broadcasts(), 1, record.Member(topic, "b"))
	told.wait(t, "both are moved", 2)
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
	storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Waiting(topic), waits).Err())
	storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x"), Delay: time.Millisecond})
	storetest.Eventually(t, "rings are repeated", func() bool { return state(c).Repeated >= 2 })
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 2, Lease: time.Hour})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	claimed := state(c).Progress
	storetest.Eventually(t, "a beat that came before the claim is counted", func() bool { return state(c).Progress.After(claimed) })
	rested := state(c)
	storetest.Eventually(t, "two more beats", func() bool { return state(c).Progress.Sub(rested.Progress) > 2*reach.Heartbeat })
	if again := state(c).Repeated; again > rested.Repeated {
		t.Errorf("%d rings were repeated though nothing is ready", again-rested.Repeated)
	}
}

// The loop of a carrier whose Redis takes connections and never answers comes around.
func TestProgressWithoutRedis(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer listener.Close()
	c, err := carrier.New(storetest.At(t, "redis://"+listener.Addr().String(), ""), carrier.Options{})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "it runs", func() bool { return !state(c).Progress.IsZero() })
	first := state(c).Progress
	storetest.Eventually(t, "its loop comes around", func() bool { return state(c).Progress.After(first) })
}
