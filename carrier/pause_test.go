package carrier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
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
		if err := inspector.Pause(t.Context(), paused); err != nil {
			t.Fatal(err)
		}
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
		if err := inspector.Resume(t.Context(), resumed); err != nil {
			t.Fatal(err)
		}
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
