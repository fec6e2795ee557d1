package natsgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// claimWaiting sends a claim, and returns what is answered.
func claimWaiting(t testing.TB, conn *nats.Conn, data string) <-chan *nats.Msg {
	t.Helper()
	inbox := conn.NewInbox()
	got := subscribe(t, conn, inbox)
	storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, inbox, []byte(data)))
	return got
}

// claimed receives a claimed message and the end of the answer.
func claimed(t testing.TB, got <-chan *nats.Msg, id, attempt string) *nats.Msg {
	t.Helper()
	m := storetest.Receive(t, id+" is claimed", got)
	if m.Header.Get("ce-id") != id || m.Header.Get("Bellhop-Attempt") != attempt {
		t.Fatalf("got %v, want the attempt %s of %s", m.Header, attempt, id)
	}
	ended(t, got)
	return m
}

// ended receives the end of an answer.
func ended(t testing.TB, got <-chan *nats.Msg) {
	t.Helper()
	if m := storetest.Receive(t, "the end of the answer", got); m.Header.Get("Status") != "204" || len(m.Data) > 0 {
		t.Fatalf("got %v %q, want the end of the answer", m.Header, m.Data)
	}
}

// returned waits until so many messages were released whose clients were gone.
func returned(t testing.TB, gate *natsgate.Gate, n int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d messages are returned", n), func() bool { return gate.Stats().Returned == n })
}

// untouched waits until a message is ready as if nobody had claimed it: the last who left may have been rung with it.
func untouched(t testing.TB, store *notify.Store, id string, due time.Time) {
	t.Helper()
	storetest.Eventually(t, id+" is ready", func() bool { return info(t, store, id).State == notify.Ready })
	if i := info(t, store, id); i.Attempts != 0 || !i.Due.Equal(due) {
		t.Errorf("%s is due %v, and used up %d attempts; want it ready since %v", id, i.Due, i.Attempts, due)
	}
}

// Claims wait until a message is due, each for one, and are answered in their order.
func TestClaimWaits(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	carry(t, store)
	first := claimWaiting(t, conn, `{"wait":"5m"}`)
	storetest.Eventually(t, "it is first in line", func() bool { // callers count as waiting before that, too
		n, err := store.Client().ZCard(t.Context(), store.KeysOf(topic).Waiting(topic)).Result()
		return err == nil && n == 1
	})
	second := claimWaiting(t, conn, `{"wait":"5m","max":10,"lease":"1h","worker":"shop-1"}`)
	waiting(t, gate, 2)
	later := body("later")
	later.Delay = 300 * time.Millisecond
	sent, err := storetest.Publisher(t, store).Publish(t.Context(), later)
	storetest.Must(t, err)
	m := claimed(t, first, "later", "1")
	if now, err := store.Client().Time(t.Context()).Result(); err != nil || now.Before(sent.Due) {
		t.Errorf("it came at %v, %v, and is due %v", now, err, sent.Due)
	}
	storetest.Publish(t, store, body("next"))
	settle(t, conn, claimed(t, second, "next", "1"), "+ACK")
	settle(t, conn, m, "+WPI")
	settle(t, conn, m, "+ACK")
	waiting(t, gate, 0)
	if s := gate.Stats(); s.Claimed != 2 || s.Returned != 0 || s.LostReplies != 0 {
		t.Errorf("counted %+v", s)
	}
	if !gone(t, store, "later") || !gone(t, store, "next") {
		t.Error("they are acknowledged, and there")
	}
}

// A claim whose wait is over has no message; one that acknowledges at once waits, too; a wrong topic is refused at once.
func TestClaimWaitsInVain(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	ended(t, claimWaiting(t, conn, `{"wait":"30ms"}`))
	ended(t, claimWaiting(t, conn, `{"wait":"30ms","min_age":"1h"}`))
	got := claimWaiting(t, conn, `{"wait":"5m","ack":"now"}`)
	waiting(t, gate, 1)
	storetest.Publish(t, store, body("a"))
	if m := claimed(t, got, "a", "1"); m.Reply != "" || !gone(t, store, "a") {
		t.Errorf("it is there, or has the reply subject %q", m.Reply)
	}
	wantRefused(t, request(t, conn, "bellhop.claim.a:b", `{"wait":"5m"}`), 422, "topic")
	waiting(t, gate, 0)
}

// A message that no client receives is released at once: it is claimed again as if nothing had happened.
func TestClientIsGone(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Unhurried(storetest.Open(t))
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	for i, claim := range []string{`{"wait":"5m","lease":"24h"}`, `{"wait":"5m","lease":"24h","max":10}`} {
		leaver := n.connect()
		claimWaiting(t, leaver, claim)
		waiting(t, gate, 1)
		leaver.Close()
		storetest.Eventually(t, "the client is gone", func() bool { return n.NumClients() == 2 })
		id := fmt.Sprintf("a%d", i)
		sent, err := storetest.Publisher(t, store).Publish(t.Context(), body(id))
		storetest.Must(t, err)
		returned(t, gate, int64(i)+1)
		untouched(t, store, id, sent.Due)
		settle(t, conn, claimed(t, claimWaiting(t, conn, `{"wait":"5m"}`), id, "1"), "+ACK")
	}
	storetest.Publish(t, store, body("b"), body("c"))
	storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, conn.NewInbox(), []byte(`{"wait":"5m","max":10,"lease":"24h"}`)))
	returned(t, gate, 4)
	for _, id := range []string{"b", "c"} {
		settle(t, conn, claimed(t, claimWaiting(t, conn, ""), id, "1"), "+ACK")
	}
}

// Who does not hold a message cannot return it by what looks like an answer of NATS.
func TestForgedReturn(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	m := claimOne(t, conn, store, `{"wait":"5m"}`, body("a"))
	for _, subject := range []string{m.Reply + "x", m.Reply[:len(m.Reply)-1], m.Reply[:strings.LastIndexByte(m.Reply, '.')] + ".x"} {
		forged := nats.NewMsg(subject)
		forged.Header.Set("Status", "503")
		reply, err := conn.RequestMsg(forged, storetest.Deadline)
		storetest.Must(t, err)
		wantRefused(t, reply, 422, "settle")
	}
	settle(t, conn, m, "+ACK")
	if n := gate.Stats().Returned; n != 0 {
		t.Errorf("%d are returned", n)
	}
}

// A gateway that stops ends the answers to claims that wait: another daemon may have a message.
func TestClaimsEndWithTheGateway(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, stop := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	got, aged := claimWaiting(t, conn, `{"wait":"5m"}`), claimWaiting(t, conn, `{"wait":"5m","min_age":"1h"}`)
	waiting(t, gate, 2)
	stop()
	ended(t, got)
	ended(t, aged)
	if left := gate.Stats(); left.Waits != 0 || left.LostReplies != 0 {
		t.Errorf("counted %+v", left)
	}
	sent, err := storetest.Publisher(t, store).Publish(t.Context(), body("a"))
	storetest.Must(t, err)
	untouched(t, store, "a", sent.Due)
}

// While NATS is away nothing is claimed for those who waited; they claim again once it is back.
func TestClaimsEndWithNATS(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect(nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	serving(t, conn)
	const clients = 50
	for range clients {
		claimWaiting(t, conn, `{"wait":"5m","lease":"24h"}`)
	}
	waiting(t, gate, clients)
	n.stop()
	waiting(t, gate, 0)
	sent, err := storetest.Publisher(t, store).Publish(t.Context(), body("a"))
	storetest.Must(t, err)
	untouched(t, store, "a", sent.Due)
	n.start(nil)
	serving(t, conn)
	untouched(t, store, "a", sent.Due)
	settle(t, conn, claimed(t, claimWaiting(t, conn, `{"wait":"5m"}`), "a", "1"), "+ACK")
}

// Some 10,000 claims wait at a time, beside which others are answered; a further one is refused at once.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	inbox := conn.NewInbox()
	all := subscribe(t, conn, inbox)
	for range natsgate.MaxWaits {
		storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, inbox, []byte(`{"wait":"5m"}`)))
	}
	waiting(t, gate, natsgate.MaxWaits)
	wantRefused(t, request(t, conn, "bellhop.claim."+topic, `{"wait":"5m"}`), 503, "10000 requests wait")
	if m := request(t, conn, "bellhop.claim.other", ""); m.Header.Get("Status") != "204" {
		t.Errorf("got %v", m.Header)
	}
	storetest.Publish(t, store, body("a"))
	settle(t, conn, claimed(t, all, "a", "1"), "+ACK")
	waiting(t, gate, natsgate.MaxWaits-1)
}

// Claims that waited hold no more bodies than fit into memory: others are given back, or wait if they are acknowledged.
func TestClaimsThatWaitedAreBounded(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	const left = 1000
	free := gate.Hold(left)
	got := claimWaiting(t, conn, `{"wait":"5m","lease":"24h"}`)
	waiting(t, gate, 1)
	large := body("large")
	large.Body = make([]byte, left+1)
	sent, err := storetest.Publisher(t, store).Publish(t.Context(), large)
	storetest.Must(t, err)
	wantRefused(t, storetest.Receive(t, "the claim is refused", got), 503, "nats does not take")
	untouched(t, store, "large", sent.Due)
	acked := claimWaiting(t, conn, `{"wait":"5m","ack":"now"}`)
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, store, "large") })
	free()
	if m := claimed(t, acked, "large", "1"); len(m.Data) != left+1 {
		t.Errorf("it has %d bytes", len(m.Data))
	}
}
