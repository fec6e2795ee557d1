package natsgate_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A paused topic's messages are not delivered over NATS, wake nobody and cannot be
// claimed there until it is resumed. Messages leased before are settled.
func TestDeliverPausedTopic(t *testing.T) {
	t.Parallel()
	conn, store, _ := delivering(t, 4)
	inspector := storetest.Inspector(t, store)
	storetest.RingAlone(t, store, topic) // what is handed over wakes nobody else
	got, woken, beats := subscribe(t, conn, deliverSubject), subscribe(t, conn, "bellhop.wake."+topic), subscribe(t, conn, "bellhop.beat")
	heartbeats(t, beats, 1) // the daemon that sends one receives wake-ups
	storetest.Publish(t, store, body("out"))
	out := wantDelivered(t, got, "out", 1)
	storetest.Receive(t, "the wake-up for it", woken)
	storetest.Must(t, inspector.Pause(t.Context(), topic))
	answer(t, out, "+ACK")
	storetest.Eventually(t, "the leased message is acknowledged", func() bool { return gone(t, store, "out") })
	heartbeats(t, beats, 2)
	for len(woken) > 0 { // wake-ups by a beat before the pause
		<-woken
	}
	storetest.Publish(t, store, body("a"), body("b"))
	heartbeats(t, beats, 2)
	serving(t, conn)
	inbox := conn.NewRespInbox()
	claimed := subscribe(t, conn, inbox)
	storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, inbox, []byte(`{"max":10}`)))
	if end := storetest.Receive(t, "the answer to a claim", claimed); end.Header.Get("Status") != "204" {
		t.Errorf("claimed %v", end.Header)
	}
	if len(got) > 0 || len(woken) > 0 {
		t.Errorf("%d deliveries, %d wake-ups of a topic that is paused", len(got), len(woken))
	}
	if c := counts(t, store); c.Ready != 2 || c.Leased != 0 || !c.Paused {
		t.Errorf("there is %+v", c)
	}
	storetest.Must(t, inspector.Resume(t.Context(), topic))
	attempts := make(map[string]string)
	for range 2 { // both are delivered at the same time
		m := storetest.Receive(t, "a delivery", got)
		attempts[m.Header.Get("ce-id")] = m.Header.Get("Bellhop-Attempt")
		answer(t, m, "+ACK")
	}
	storetest.Same(t, "attempts", map[string]string{"a": "1", "b": "1"}, attempts)
	storetest.Receive(t, "a wake-up", woken)
	for _, id := range []string{"a", "b"} {
		storetest.Eventually(t, id+" is acknowledged", func() bool { return gone(t, store, id) })
	}
}

// heartbeats waits for the next n beats.
func heartbeats(t *testing.T, beats <-chan *nats.Msg, n int) {
	t.Helper()
	for len(beats) > 0 {
		<-beats
	}
	for range n {
		storetest.Receive(t, "a beat", beats)
	}
}
