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
	for _, paused := range []string{topic, "rung"} { // of one nobody stands in the list
		if err := inspector.Pause(t.Context(), paused); err != nil {
			t.Fatal(err)
		}
		storetest.Publish(t, store, notify.Message{Topic: paused, ID: "1", Body: []byte("x")})
	}
	storetest.Publish(t, store, notify.Message{Topic: "other", ID: "1", Body: []byte("x")})
	do(t, store, "ZADD", k.Waiting("rung"), 1, inbox)
	heard := subscribe(t, store, inbox, k.Wake(topic), k.Wake("rung"), k.Wake("other"), k.Beat())
	for range 2 {
		stop := run(t, store, carrier.Options{})
		for beats := 0; beats < 3; {
			m := storetest.Receive(t, "a beat", heard)
			switch fields := strings.Fields(m.Payload); {
			case m.Channel == k.Wake("other"):
			case m.Channel != k.Beat():
				t.Errorf("heard %q on %s", m.Payload, m.Channel)
			case !slices.Equal(fields[4:], []string{"other"}):
				t.Errorf("the beat names %q", fields[4:])
			default:
				beats++
			}
		}
		stop()
	}
	for _, resumed := range []string{topic, "rung"} {
		if err := inspector.Resume(t.Context(), resumed); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{k.Wake(topic): "1", k.Wake("rung"): "1", inbox: "rung"}
	for len(want) > 0 {
		m := storetest.Receive(t, "a ring", heard)
		if m.Channel == k.Beat() || m.Channel == k.Wake("other") {
			continue // of the carrier, before it stopped
		}
		if want[m.Channel] != m.Payload {
			t.Errorf("heard %q on %s", m.Payload, m.Channel)
		}
		delete(want, m.Channel)
	}
}
