package natsgate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A store of eight shards: elections and beats name them, wake-ups, deliveries and
// broadcasts of each come from its carrier, and a token settles in the shard of its topic.
func TestEightShards(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Sharded(t, 8)
	conn := n.connect()
	events := subscribe(t, conn, "bellhop.event.carrier")
	const topics, each = 24, 10
	delivered := []string{"mail.0", "mail.1", "mail.2"}
	deliver(t, db, 4, delivered...)
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	serving(t, conn)
	var elected []int
	for range 8 {
		e := decode[beat](t, storetest.Receive(t, "an election", events))
		if e.Shard == nil || e.Shards != 8 || e.Carrier != d.name {
			t.Fatalf("got %+v", e)
		}
		elected = append(elected, *e.Shard)
	}
	if slices.Sort(elected); !slices.Equal(elected, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("elected for %v", elected)
	}
	beats := subscribe(t, conn, "bellhop.beat")
	for range 2 {
		if b := decode[beat](t, storetest.Receive(t, "a beat", beats)); b.Shard == nil || *b.Shard != 0 || b.Shards != 8 {
			t.Errorf("got %+v", b)
		}
	}

	wakes, deliveries := subscribe(t, conn, "bellhop.wake.>"), subscribe(t, conn, "jobs.>")
	for i := range topics {
		topic := fmt.Sprintf("t%d", i)
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: "x", Body: []byte("x")})
	}
	woken := make(map[string]bool)
	for len(woken) < topics {
		if m := storetest.Receive(t, "a wake-up", wakes); strings.HasPrefix(m.Subject, "bellhop.wake.t") {
			woken[m.Subject] = true
		}
	}
	replies := subscribe(t, conn, "test.inbox")
	for i := range topics {
		storetest.Must(t, conn.PublishRequest(fmt.Sprintf("bellhop.claim.t%d", i), "test.inbox", nil))
		m := storetest.Receive(t, "a message", replies)
		storetest.Receive(t, "the end of the claim", replies)
		settle(t, conn, m, "+ACK")
		settled(t, db, fmt.Sprintf("t%d", i), "x")
	}
	for _, one := range delivered {
		storetest.Publish(t, db, notify.Message{Topic: one, ID: "x", Body: []byte("x")})
	}
	for range delivered {
		answer(t, storetest.Receive(t, "a delivery", deliveries), "+ACK")
	}
	for _, one := range delivered {
		settled(t, db, one, "x")
	}
	wantBridged(t, db, n, topics, each)
	storetest.Eventually(t, "all are counted", func() bool {
		s := d.Stats()
		return s.Delivered == int64(len(delivered)) && s.Broadcasts == topics*each
	})
	if s := d.Stats(); s.Resent != 0 || s.Gaps != 0 {
		t.Errorf("counted %+v", s)
	}
}

// wantBridged sends broadcasts to topics of all shards, and checks that those of each topic
// come in order, once, and with the shard in their id.
func wantBridged(t testing.TB, db *notify.Store, n *natsd, topics, each int) {
	t.Helper()
	got := subscribe(t, n.connect(), "bellhop.broadcast.>")
	for i := range each {
		var all []notify.Message
		for topic := range topics {
			all = append(all, notify.Message{Topic: fmt.Sprintf("t%d", topic), ID: strconv.Itoa(i), Body: []byte("x")})
		}
		broadcast(t, db, all...)
	}
	next, ids := make(map[string]int), make(map[string]bool)
	for range topics * each {
		m := storetest.Receive(t, "a broadcast", got)
		topic, id := m.Header.Get("ce-type"), m.Header.Get("Nats-Msg-Id")
		shard := fmt.Sprintf("%d/8", db.Of(topic).Number())
		if m.Header.Get("ce-id") != strconv.Itoa(next[topic]) || m.Header.Get("Bellhop-Shard") != shard ||
			id != db.Prefix()+":"+shard+":"+m.Header.Get("Bellhop-Position") || ids[id] {
			t.Fatalf("got %v, want %d", m.Header, next[topic])
		}
		next[topic]++
		ids[id] = true
	}
}
