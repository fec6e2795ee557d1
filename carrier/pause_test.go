package carrier_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A beat neither rings nor names a paused topic, nor wakes programs of
// other languages; nor does that of the next carrier. Other topics are rung as ever.
func TestBeatLeavesPausedTopicsAlone(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	inspector := storetest.Inspector(t, store)
	k := store.KeysOf(topic)
	inbox := k.Inbox("me")
	rung, other := storetest.Beside(store, topic, "rung"), storetest.Beside(store, topic, "other")
	for _, paused := range []string{topic, rung} { // of one nobody stands in the list
		storetest.Must(t, inspector.Pause(t.Context(), paused))
		storetest.Publish(t, store, notify.Message{Topic: paused, ID: "1", Body: []byte("x")})
	}
	storetest.Publish(t, store, notify.Message{Topic: other, ID: "1", Body: []byte("x")})
	do(t, store, "ZADD", k.Waiting(rung), 1, inbox)
	channel := func(topic string) string { name, _ := wake(store, topic, 1); return name }
	woken := func(topic string) string { name, payload := wake(store, topic, 1); return name + " " + payload }
	heard := subscribe(t, store, inbox, channel(topic), channel(rung), channel(other), k.Beat())
	for range 2 {
		stop := run(t, store, carrier.Options{})
		for beats := 0; beats < 3; {
			m := storetest.Receive(t, "a beat", heard)
			switch fields := strings.Fields(m.Payload); {
			case m.Channel+" "+m.Payload == woken(other):
			case m.Channel != k.Beat():
				t.Errorf("heard %q on %s", m.Payload, m.Channel)
			case !slices.Equal(fields[4:], []string{other}):
				t.Errorf("the beat names %q", fields[4:])
			default:
				beats++
			}
		}
		stop()
	}
	for _, resumed := range []string{topic, rung} {
		storetest.Must(t, inspector.Resume(t.Context(), resumed))
	}
	want := map[string]bool{woken(topic): true, woken(rung): true, inbox + " " + rung: true}
	for len(want) > 0 {
		m := storetest.Receive(t, "a ring", heard)
		got := m.Channel + " " + m.Payload
		if m.Channel == k.Beat() || got == woken(other) {
			continue // of the carrier, before it stopped
		}
		if !want[got] {
			t.Errorf("heard %q on %s", m.Payload, m.Channel)
		}
		delete(want, got)
	}
}

// A pause ends at its time though the carrier is killed that waits for it: the next one resumes the topic, and rings.
func TestPauseEndsOverAKill(t *testing.T) {
	t.Parallel()
	c := crew{t, eight(t, storetest.URL())}
	process, err := child.Start(child.Program{
		Path: os.Args[0], Name: "carrier", Output: os.Stderr,
		Env: append(os.Environ(), asCarrier+"="+c.db.Prefix(), atRedis+"="+storetest.URL()),
	})
	storetest.Must(t, err)
	t.Cleanup(process.Stop)
	c.shares("killed")
	storetest.Publish(t, c.db, notify.Message{Topic: topic, ID: "1", Body: []byte("x")})
	inbox := c.db.KeysOf(topic).Inbox("me")
	do(t, c.db, "ZADD", c.db.KeysOf(topic).Waiting(topic), 1, inbox)
	rings := c.db.Client().SSubscribe(t.Context(), inbox)
	t.Cleanup(func() { rings.Close() })
	storetest.Must(t, storetest.ErrOf(rings.ReceiveTimeout(t.Context(), storetest.Deadline)))
	end, err := store.PauseUntil(t.Context(), c.db, topic, store.In(500*time.Millisecond))
	storetest.Must(t, err)
	process.Kill()
	run(t, c.db, carrier.Options{Name: "next"})
	if m := storetest.Receive(t, "a ring", rings.Channel()); m.Payload != topic {
		t.Errorf("heard %q", m.Payload)
	}
	now, err := c.db.Client().Time(t.Context()).Result()
	if err != nil || now.Before(end) {
		t.Errorf("it is resumed at %v, before %v: %v", now, end, err)
	}
	if counts, err := storetest.Count(c.db, topic); err != nil || counts.Paused {
		t.Errorf("it is paused until %v, %v", counts.PausedUntil, err)
	}
}
