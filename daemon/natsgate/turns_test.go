package natsgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Searches that wait for their turn keep no others from being answered, however many there are. It floods, so it runs alone.
func TestSearchesHoldUpNoOthers(t *testing.T) {
	conn, store, gate := open(t)
	free, err := gate.TakeTurns(t.Context(), "find-all")
	storetest.Must(t, err)
	const many = natsgate.MaxConcurrent + 50
	found := subscribe(t, conn, "found")
	for range many {
		storetest.Must(t, conn.PublishRequest("bellhop.find-all", "found", []byte(`{"q":"id:nobody"}`)))
	}
	settle(t, conn, claimOne(t, conn, store, "", body("a")), "+ACK")
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "b"))
	answered := 0
	for ; len(found) > 0; answered++ { // on a machine that stood still the first ones have waited too long
		if m := <-found; m.Header.Get(micro.ErrorCodeHeader) != "503" {
			t.Errorf("a search without a turn is answered: %s", m.Data)
		}
	}
	free()
	for range many - answered {
		storetest.Receive(t, "a search is answered", found)
	}
}

// A gateway that stops while searches wait for their turn has time to answer all that wait for the end of a message.
func TestWaitsEndWhileSearchesWait(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, stop := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	storetest.Must(t, storetest.ErrOf(gate.TakeTurns(t.Context(), "find-all")))
	later := body("a")
	later.Delay = time.Hour
	storetest.Publish(t, store, later)
	const many = 2 * natsgate.MaxReads
	got := subscribe(t, conn, "got")
	for range many {
		storetest.Must(t, conn.PublishRequest("bellhop.inspect."+topic, "got", []byte(`{"id":"a","wait":"5m"}`)))
	}
	waiting(t, gate, many)
	storetest.Must(t, conn.PublishRequest("bellhop.find-all", conn.NewInbox(), []byte(`{"q":"id:nobody"}`)))
	storetest.Eventually(t, "the search waits", func() bool { return gate.Stats().Endpoints["find-all"].Requests == 1 })
	stop()
	for range many {
		if m := read[api.Message](t, storetest.Receive(t, "it is answered", got)); m.State != notify.Scheduled {
			t.Fatalf("got %+v", m)
		}
	}
}

// So do lists that are to be read: each becomes much more than its bytes.
func TestListsTakeTurns(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, func(o *server.Options) { o.MaxPayload = 2 * calls.MaxRequest }), storetest.Open(t)
	gate, _ := newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	free, err := gate.TakeTurns(t.Context(), "apply-schedules")
	storetest.Must(t, err)
	applied := subscribe(t, conn, "applied")
	storetest.Must(t, conn.PublishRequest("bellhop.apply-schedules."+topic, "applied", []byte(`{"schedules":[{"name":"a","every":"1h","body":"x"}]}`)))
	storetest.Eventually(t, "the list waits", func() bool { return gate.Stats().Endpoints["apply-schedules"].Requests == 1 })
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "b"))
	if len(applied) > 0 {
		t.Error("a list without a turn is read")
	}
	free()
	storetest.Receive(t, "it is answered", applied)
	wantRefused(t, request(t, conn, "bellhop.apply-schedules."+topic, strings.Repeat(" ", calls.MaxRequest+1)), 413, "at most 1048576 are allowed")
}
