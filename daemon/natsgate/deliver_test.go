package natsgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const deliverSubject = "jobs.order.timeout"

// deliver has daemons push topics of a store to NATS, with so many messages of each in flight.
func deliver(t testing.TB, db *notify.Store, inFlight int, topics ...string) {
	t.Helper()
	p := store.Push{Name: topics[0], Topics: topics, To: "nats:jobs.>", InFlight: inFlight}
	storetest.Must(t, db.Home().PutPush(t.Context(), p))
}

// delivering is outbound with a push of the topic.
func delivering(t testing.TB, inFlight int) (*nats.Conn, *notify.Store, *daemon) {
	t.Helper()
	conn, db, d := outbound(t, natsgate.Options{})
	deliver(t, db, inFlight, topic)
	return conn, db, d
}

// answer answers a delivery.
func answer(t testing.TB, m *nats.Msg, data string) {
	t.Helper()
	storetest.Must(t, m.Respond([]byte(data)))
}

// wantDelivered receives a delivery of a message in an attempt.
func wantDelivered(t testing.TB, from <-chan *nats.Msg, id string, attempt int) *nats.Msg {
	t.Helper()
	m := storetest.Receive(t, "a delivery of "+id, from)
	if got := m.Header.Get("ce-id"); got != id || m.Header.Get("Bellhop-Attempt") != strconv.Itoa(attempt) {
		t.Fatalf("got %v, want %s in attempt %d", m.Header, id, attempt)
	}
	return m
}

// counts returns the counts of the topic.
func counts(t testing.TB, store *notify.Store) notify.Counts {
	t.Helper()
	c, err := storetest.Count(store, topic)
	storetest.Must(t, err)
	return c
}

// dead waits until a message of the topic is dead, and returns it.
func dead(t testing.TB, store *notify.Store, id string) notify.Info {
	t.Helper()
	var got notify.Info
	storetest.Eventually(t, id+" is dead", func() bool {
		got = info(t, store, id)
		return got.State == notify.Dead
	})
	return got
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 4)
	got := subscribe(t, conn, "jobs.>")
	storetest.Eventually(t, "the gateway waits", func() bool { return counts(t, store).Waiting == 1 })
	due := time.Now().Add(200 * time.Millisecond).Truncate(time.Millisecond)
	storetest.Publish(t, store, notify.Message{
		Topic: topic, ID: "a", Body: []byte("\x00\xff\r\n"), Due: due, ContentType: "text/plain; charset=utf-8", Headers: map[string]string{"trace": "t1"},
	})
	m := wantDelivered(t, got, "a", 1)
	if time.Now().Before(due) {
		t.Error("it came early")
	}
	want := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"a"}, "ce-source": {"/" + store.Keys().Prefix() + "/order.timeout"}, "ce-type": {"order.timeout"},
		"ce-time": {due.UTC().Format("2006-01-02T15:04:05.000Z")}, "ce-datacontenttype": {"text/plain;%20charset=utf-8"},
		"Bellhop-Attempt": {"1"}, "Bellhop-Late-Ms": m.Header["Bellhop-Late-Ms"], "Bellhop-First-Due": {due.UTC().Format("2006-01-02T15:04:05.000Z")}, "Bellhop-Header-trace": {"t1"}, "Bellhop-Lease-Until": m.Header["Bellhop-Lease-Until"],
	}
	if until, err := time.Parse(time.RFC3339, m.Header.Get("Bellhop-Lease-Until")); err != nil || until.Before(due.Add(30*time.Second-time.Millisecond)) {
		t.Errorf("leased until %v, %v", until, err)
	}
	if diff := cmp.Diff(want, m.Header); diff != "" || m.Subject != deliverSubject || string(m.Data) != "\x00\xff\r\n" {
		t.Errorf("got %s %q: %s", m.Subject, m.Data, diff)
	}
	if c := counts(t, store); c.Leased != 1 {
		t.Errorf("there is %+v", c)
	}
	answer(t, m, "+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, store, "a") })
	if s := d.Stats(); s.Delivered != 1 || s.BadAnswers+s.LateAnswers+s.NoAnswer != 0 || d.pusher.Stats().Handovers != (subscribers.SubscriberStats{HandedOver: 1}) {
		t.Errorf("counted %+v", s)
	}
	// Other topics are not delivered.
	storetest.Publish(t, store, notify.Message{Topic: "other", Body: []byte("x")}, body("b"))
	answer(t, wantDelivered(t, got, "b", 1), "+ACK")
}

func TestDeliverNak(t *testing.T) {
	t.Parallel()
	conn, store, _ := delivering(t, 1)
	storetest.Set(t, store, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(2 * time.Millisecond)})
	got := subscribe(t, conn, deliverSubject)
	m := body("a")
	m.MaxAttempts = 3
	storetest.Publish(t, store, m)
	answer(t, wantDelivered(t, got, "a", 1), "-NAK")
	answer(t, wantDelivered(t, got, "a", 2), `-NAK {"delay":"0s"}`)
	answer(t, wantDelivered(t, got, "a", 3), "-NAK")
	if i := dead(t, store, "a"); i.Reason != "refused over nats with -NAK" || i.Attempts != 3 {
		t.Errorf("it died after %d attempts: %q", i.Attempts, i.Reason)
	}
	m = body("told")
	m.MaxAttempts = 2
	storetest.Publish(t, store, m)
	answer(t, wantDelivered(t, got, "told", 1), `-NAK {"reason":"busy","delay":"1ms"}`)
	answer(t, wantDelivered(t, got, "told", 2), `-NAK {"reason":"no such order"}`)
	if i := dead(t, store, "told"); i.Reason != "no such order" || len(i.History) != 2 || i.History[0].Reason != "busy" {
		t.Errorf("it died of %q after %+v", i.Reason, i.History)
	}
	storetest.Publish(t, store, body("b"))
	second := wantDelivered(t, got, "b", 1)
	answered := time.Now()
	answer(t, second, `-NAK {"delay":"1h"}`)
	storetest.Eventually(t, "it is scheduled again", func() bool { return info(t, store, "b").State == notify.Scheduled })
	if i := info(t, store, "b"); i.Due.Before(answered.Add(time.Hour)) || i.Attempts != 1 {
		t.Errorf("it is due %v after the answer, %d attempts are used up", i.Due.Sub(answered), i.Attempts)
	}
}

func TestDeliverTerm(t *testing.T) {
	t.Parallel()
	conn, store, _ := delivering(t, 1)
	got := subscribe(t, conn, deliverSubject)
	for say, reason := range map[string]string{"+TERM": "refused for good over nats with +TERM", "+TERM no such  order: ü ": "no such  order: ü"} {
		id := notify.NewID()
		storetest.Publish(t, store, body(id))
		answer(t, wantDelivered(t, got, id, 1), say)
		if i := dead(t, store, id); i.Reason != reason || i.Attempts != 1 {
			t.Errorf("after %s it died after %d attempts: %q", say, i.Attempts, i.Reason)
		}
	}
}

// An unknown answer uses up an attempt, and is the reason in the end.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 1)
	storetest.Set(t, store, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(2 * time.Millisecond)})
	got := subscribe(t, conn, deliverSubject)
	for _, say := range []string{"yes", "", "+ack", "-NAK soon", "+ACK now", `-NAK {"delay":-5}`, "\x00\xff", strings.Repeat("x", 100_000)} {
		m := body(notify.NewID())
		m.MaxAttempts = 2
		storetest.Publish(t, store, m)
		before := d.Stats().BadAnswers
		answer(t, wantDelivered(t, got, m.ID, 1), say)
		answer(t, wantDelivered(t, got, m.ID, 2), say)
		if i := dead(t, store, m.ID); !strings.HasPrefix(i.Reason, "answer over nats: invalid") || i.Attempts != 2 || len(i.Reason) > 1100 {
			t.Errorf("after %.100q it died after %d attempts: %.200q", say, i.Attempts, i.Reason)
		}
		if n := d.Stats().BadAnswers - before; n != 2 {
			t.Errorf("%d bad answers are counted after %.100q", n, say)
		}
	}
}

// A client that asks for more time settles the message later, however many answers come before, each with a call to Redis.
func TestDeliverWorkInProgress(t *testing.T) {
	t.Parallel()
	for name, says := range map[string][]string{
		"more time":    {"+WPI", "+WPI", "+ACK"},
		"much to show": append(slices.Repeat([]string{`+WPI {"progress":1}`}, 500), "+ACK"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, store, d := delivering(t, 1)
			storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(time.Hour)})
			got := subscribe(t, conn, deliverSubject)
			storetest.Publish(t, store, body("a"))
			m := wantDelivered(t, got, "a", 1)
			for _, say := range says {
				answer(t, m, say)
			}
			storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, store, "a") })
			if s := d.Stats(); s.Delivered != 1 || s.BadAnswers+s.LateAnswers+s.NoAnswer != 0 || len(got) > 0 {
				t.Errorf("counted %+v, and %d more came", s, len(got))
			}
		})
	}
}

// A client has the time of its push to answer, and once more from each +WPI on.
func TestTimeToAnswer(t *testing.T) {
	t.Parallel()
	gate, err := natsgate.New(storetest.Open(t), natsgate.Options{URL: nats.DefaultURL})
	storetest.Must(t, err)
	const lease = 30 * time.Second
	type test struct {
		says   []string // 29 s after another
		denied string
		cut    time.Duration // until the connection is lost
		took   time.Duration
		want   string // in the error; empty: none
		none   int64  // counted as not answered
	}
	for what, c := range map[string]test{
		"no answer":                     {took: lease, want: "no answer over nats in time", none: 1},
		"work in progress":              {says: []string{"+WPI", "+WPI"}, took: 58*time.Second + lease, want: "no answer over nats in time", none: 1},
		"the answer after it":           {says: []string{"+WPI", "+ACK"}, took: 58 * time.Second},
		"a bad answer":                  {says: []string{"yes"}, took: 29 * time.Second, want: "answer over nats: invalid"},
		"a subject that is not allowed": {denied: "jobs.a", took: lease, want: nats.ErrPermissionViolation.Error()},
		"answers that are not allowed":  {denied: "_INBOX.a.*", took: lease, want: nats.ErrPermissionViolation.Error()},
		"a connection that is lost":     {cut: 10 * time.Second, took: 10 * time.Second, want: nats.ErrConnectionClosed.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			answers := make(chan *nats.Msg)
			closed, lose := context.WithCancel(t.Context())
			defer lose()
			go func() {
				for _, say := range c.says {
					time.Sleep(lease - time.Second)
					answers <- &nats.Msg{Data: []byte(say)}
				}
				if c.cut > 0 {
					time.Sleep(c.cut)
					lose()
				}
			}()
			began, before := time.Now(), gate.Stats().NoAnswer
			err := gate.Answered(t.Context(), lease, c.denied, answers, closed)
			if took := time.Since(began); took != c.took || (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s: %v after %v, want %q after %v", what, err, took, c.want, c.took)
			}
			if n := gate.Stats().NoAnswer - before; n != c.none {
				t.Errorf("%s: %d are counted as not answered", what, n)
			}
		})
	}
}

// No client listens: messages stay as they are, Redis is hardly called, and
// deliveries begin when a client comes.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	var claims atomic.Int64
	store.Observe(func(script string, _ time.Duration, _ error) {
		if script == "claim" {
			claims.Add(1)
		}
	})
	deliver(t, store, 8, topic)
	d := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	const messages = 30
	for i := range messages {
		storetest.Publish(t, store, body(fmt.Sprintf("%02d", i)))
	}
	storetest.Eventually(t, "it is noticed, and nothing is in flight", func() bool {
		c := counts(t, store)
		return d.Stats().Nobody > 0 && c.Ready == messages && c.Leased == 0
	})
	before, probes := claims.Load(), d.Stats().Nobody
	storetest.Eventually(t, "it is retried", func() bool { return d.Stats().Nobody >= probes+2 })
	if n, probes := claims.Load()-before, d.Stats().Nobody-probes; n > 2*probes+2 {
		t.Errorf("%d claims were made for %d tries", n, probes)
	}
	storetest.Eventually(t, "all are ready", func() bool { c := counts(t, store); return c.Ready == messages && c.Leased == 0 })
	for i := range messages {
		if m := info(t, store, fmt.Sprintf("%02d", i)); m.Attempts != 0 || m.State == notify.Scheduled {
			t.Errorf("%s is %v, %d attempts are used up", m.ID, m.State, m.Attempts)
		}
	}
	got := subscribe(t, n.connect(), deliverSubject)
	seen := make(map[string]bool)
	for range messages {
		m := storetest.Receive(t, "a delivery", got)
		if m.Header.Get("Bellhop-Attempt") != "1" || seen[m.Header.Get("ce-id")] {
			t.Errorf("got %v", m.Header)
		}
		seen[m.Header.Get("ce-id")] = true
		answer(t, m, "+ACK")
	}
	storetest.Eventually(t, "all are acknowledged", func() bool { c := counts(t, store); return c.Ready+c.Leased == 0 })
}

// A subject counts as unheard until somebody listens there, or nothing is pushed there any more.
func TestUnheard(t *testing.T) {
	t.Parallel()
	conn, db, d := delivering(t, 8)
	p, err := db.Home().Push(t.Context(), topic)
	storetest.Must(t, err)
	await := func(what string, subjects ...string) {
		t.Helper()
		storetest.Eventually(t, what, func() bool {
			return slices.Equal(d.pusher.Unheard(&p), subjects) && d.pusher.Stats().Unheard == len(subjects)
		})
	}
	storetest.Publish(t, db, body("a"))
	await("nobody listens", deliverSubject)
	got := subscribe(t, conn, deliverSubject)
	answer(t, storetest.Receive(t, "a", got), "+ACK")
	await("somebody listens")
	conn.Close()
	storetest.Publish(t, db, body("b"))
	await("nobody listens any more", deliverSubject)
	storetest.Must(t, db.Home().RemovePush(t.Context(), topic))
	storetest.Eventually(t, "nothing is pushed there", func() bool { return d.pusher.Stats().Unheard == 0 })
}

// overdue ends the lease of a message of the topic, as if its time were over.
func overdue(t testing.TB, db *notify.Store, id string) {
	t.Helper()
	lease := redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: 10, Member: record.Member(topic, id)}}}
	if n, err := db.Client().ZAddArgs(t.Context(), db.KeysOf(topic).Leased(), lease).Result(); err != nil || n != 1 {
		t.Fatalf("%d leases ended, %v", n, err)
	}
}

// A client is killed with a message: another one gets it after the lease. An answer of the first one,
// which comes late, settles nothing.
func TestListenerIsKilled(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(time.Hour)})
	storetest.RingAlone(t, store, topic)
	deliver(t, store, 2, topic)
	startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	victim, other := n.connect(), n.connect()
	first := subscribe(t, victim, deliverSubject)
	storetest.Publish(t, store, body("a"))
	late := wantDelivered(t, first, "a", 1)
	second := subscribe(t, other, deliverSubject)
	victim.Close()
	overdue(t, store, "a")
	m := wantDelivered(t, second, "a", 2)
	storetest.Must(t, other.Publish(late.Reply, []byte("+ACK")))
	storetest.Publish(t, store, body("b"))
	answer(t, wantDelivered(t, second, "b", 1), "+ACK") // there is room again: the late answer was taken
	storetest.Eventually(t, "the other one is acknowledged", func() bool { return gone(t, store, "b") })
	if gone(t, store, "a") {
		t.Fatal("the late answer settled it")
	}
	answer(t, m, "+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, store, "a") })
}

// A second answer settles nothing, and is counted.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 1)
	got := subscribe(t, conn, deliverSubject)
	storetest.Publish(t, store, body("a"))
	m := wantDelivered(t, got, "a", 1)
	answer(t, m, `-NAK {"delay":"1h"}`)
	storetest.Eventually(t, "it is scheduled again", func() bool { return info(t, store, "a").State == notify.Scheduled })
	answer(t, m, "+ACK")
	storetest.Eventually(t, "it is counted", func() bool { return d.Stats().LateAnswers == 1 })
	if gone(t, store, "a") {
		t.Error("the late answer settled it")
	}
}

// The reply subject of one delivery does not reveal that of another.
func TestReplySubjectsOfDeliveriesAreNotGuessed(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 3)
	got := subscribe(t, conn, deliverSubject)
	all := make(map[string]*nats.Msg)
	for i := range 3 {
		storetest.Publish(t, store, body(fmt.Sprint(i)))
		all[fmt.Sprint(i)] = wantDelivered(t, got, fmt.Sprint(i), 1)
	}
	end := strings.LastIndex(all["1"].Reply, ".") + 1
	if n, err := strconv.ParseInt(all["1"].Reply[end:], 36, 64); err == nil {
		for _, other := range []int64{n - 1, n + 1} {
			storetest.Must(t, conn.Publish(all["1"].Reply[:end]+strconv.FormatInt(other, 36), []byte("+ACK")))
		}
	}
	answer(t, all["1"], "+ACK")
	storetest.Eventually(t, "its own is acknowledged", func() bool { return gone(t, store, "1") })
	if s := d.Stats(); s.Delivered != 1 {
		t.Errorf("%d are acknowledged", s.Delivered)
	}
	answer(t, all["0"], "+ACK")
	answer(t, all["2"], "+ACK")
}

func TestDeliverTooLargeForNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) { o.MaxPayload = 2000 })
	store := storetest.Open(t)
	deliver(t, store, 1, topic)
	d := startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	got := subscribe(t, n.connect(), deliverSubject)
	large := body("large")
	large.Body = make([]byte, 1990)
	storetest.Publish(t, store, large)
	storetest.Publish(t, store, body("b"))
	answer(t, wantDelivered(t, got, "b", 1), "+ACK")
	if i := dead(t, store, "large"); !strings.Contains(i.Reason, "too large for nats: 1990 bytes of body, and max_payload is 2000") {
		t.Errorf("it died: %q", i.Reason)
	}
	if s := d.Stats(); s.TooLarge != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestQueueGroupSharesDeliveries(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 16)
	storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(time.Hour)})
	storetest.RingAlone(t, store, topic) // a hand-over that is confirmed after a second comes again
	var mu sync.Mutex
	by := make([]map[string]int, 3)
	for i := range by {
		by[i] = make(map[string]int)
		storetest.Must(t, storetest.ErrOf(conn.QueueSubscribe(deliverSubject, "workers", func(m *nats.Msg) {
			mu.Lock()
			by[i][m.Header.Get("ce-id")]++
			mu.Unlock()
			_ = m.Respond([]byte("+ACK"))
		})))
	}
	storetest.Must(t, conn.Flush())
	const n = 300
	for i := range n {
		storetest.Publish(t, store, body(fmt.Sprint(i)))
	}
	storetest.Eventually(t, "all are acknowledged", func() bool { return counts(t, store).Acked == n })
	mu.Lock()
	defer mu.Unlock()
	all := make(map[string]int)
	for i := range by {
		if len(by[i]) == 0 {
			t.Errorf("listener %d got nothing", i)
		}
		for id, times := range by[i] {
			all[id] += times
		}
	}
	for id, times := range all {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
	if s := d.Stats(); len(all) != n || s.Delivered != n || s.LateAnswers != 0 {
		t.Errorf("%d were delivered, counted %+v", len(all), s)
	}
}

// Of each topic no more messages are in flight than configured.
func TestInFlight(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	deliver(t, store, 3, topic)
	deliver(t, store, 1, "other")
	startDaemon(t, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	conn := n.connect()
	got, others := subscribe(t, conn, deliverSubject), subscribe(t, conn, "jobs.other")
	for i := range 10 {
		storetest.Publish(t, store, body(fmt.Sprint(i)), notify.Message{Topic: "other", ID: fmt.Sprint(i), Body: []byte("x")})
	}
	var out []*nats.Msg
	for range 3 {
		out = append(out, storetest.Receive(t, "a delivery", got))
	}
	for i := range 10 {
		m := storetest.Receive(t, "a delivery", others)
		if len(others) != 0 {
			t.Errorf("%d of the other topic are in flight", len(others)+1)
		}
		if i == 9 {
			awaitBeat(t, conn) // time for further deliveries, if there were any
			if len(got) != 0 {
				t.Errorf("%d are in flight", 3+len(got))
			}
		}
		answer(t, m, "+ACK")
	}
	for i := range 7 {
		answer(t, out[i], "+ACK")
		out = append(out, storetest.Receive(t, "a delivery", got))
		if len(got) != 0 {
			t.Errorf("%d are in flight", 3+len(got))
		}
	}
	for _, m := range out[7:] {
		answer(t, m, "+ACK")
	}
	storetest.Eventually(t, "all are acknowledged", func() bool { return counts(t, store).Acked == 10 })
}

// If no client listens over NATS, a subscriber over Redis gets all messages of a
// delivered topic, and the gateway's tries use up no attempt.
func TestSubscriberBesideWhenNobodyListens(t *testing.T) {
	t.Parallel()
	_, store, d := delivering(t, 8)
	storetest.Publish(t, store, body("before"))
	storetest.Eventually(t, "nobody is found", func() bool { return d.Stats().Nobody > 0 })
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	handled := make(chan subscribers.Delivery, 1000)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		handled <- *d
		return nil
	}, subscribers.HandleOptions{}))
	storetest.Run(t, sub.Run)
	storetest.Receive(t, "the first one", handled)
	for i := 0; d.Stats().Nobody < 3; i++ {
		storetest.Publish(t, store, body(fmt.Sprint(i)))
		if m := storetest.Receive(t, "a message", handled); m.Attempt != 1 || m.ID != fmt.Sprint(i) {
			t.Errorf("got %s in attempt %d", m.ID, m.Attempt)
		}
	}
}

// The connection is lost during deliveries: the messages are released, none uses up
// an attempt, nothing is claimed meanwhile, and they are delivered when NATS is back.
func TestNATSIsLostWhileMessagesAreOut(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	w := newWire(t, n)
	deliver(t, store, 4, topic)
	d := startDaemon(t, store, natsgate.Options{URL: w.url()}, carrier.Options{}).bridges()
	conn := n.connect()
	got := subscribe(t, conn, deliverSubject)
	for i := range 6 {
		storetest.Publish(t, store, body(fmt.Sprint(i)))
	}
	var out []*nats.Msg
	for range 4 {
		out = append(out, storetest.Receive(t, "a delivery", got))
	}
	w.cut()
	storetest.Eventually(t, "they are released", func() bool { c := counts(t, store); return c.Ready == 6 && c.Leased == 0 })
	failures(t, d.Gate, 2)
	if c := counts(t, store); c.Ready != 6 || c.Waiting != 0 {
		t.Errorf("without NATS there is %+v", c)
	}
	w.mend()
	for _, m := range out {
		answer(t, m, "+ACK") // reaches nobody
	}
	seen := make(map[string]bool)
	for range 6 {
		m := storetest.Receive(t, "a delivery", got)
		if m.Header.Get("Bellhop-Attempt") != "1" || seen[m.Header.Get("ce-id")] {
			t.Errorf("got %v", m.Header)
		}
		seen[m.Header.Get("ce-id")] = true
		answer(t, m, "+ACK")
	}
	storetest.Eventually(t, "all are acknowledged", func() bool { return counts(t, store).Acked == 6 })
	wantLinks(t, d.log, "up", "away", "up")
	wantLog(t, d.log, map[string]int{"message failed": 0})
	wantNoFaults(t, d.log)
}

// A daemon stops during deliveries: messages answered within the grace are settled, the others are released, and nothing more is
// delivered.
func TestStopWhileMessagesAreOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace time.Duration
		say   []string // to messages 0 to 3
		want  notify.Counts
	}{
		"within the grace": {time.Hour, []string{"+ACK", "+ACK", "+TERM enough", `-NAK {"delay":"1h"}`}, notify.Counts{Acked: 2, Dead: 1, Scheduled: 1, Ready: 2}},
		"after it":         {time.Millisecond, make([]string, 4), notify.Counts{Ready: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, store := startNATS(t, nil), storetest.Unhurried(storetest.Open(t))
			waits := func(want int64) {
				t.Helper()
				storetest.Eventually(t, fmt.Sprintf("%d wait at the other topic", want), func() bool {
					c, err := storetest.Count(store, "other")
					return err == nil && c.Waiting == want
				})
			}
			deliver(t, store, 4, topic, "other")
			gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
			pusher, stop := startPusher(t, store, push.Options{NATS: gate, Grace: c.grace})
			got := subscribe(t, n.connect(), deliverSubject)
			for i := range 6 {
				storetest.Publish(t, store, body(fmt.Sprint(i)))
			}
			out := make(map[string]*nats.Msg)
			for range 4 {
				m := storetest.Receive(t, "a delivery", got)
				out[m.Header.Get("ce-id")] = m
			}
			waits(1)
			quiet := make(chan struct{})
			go func() {
				pusher.Quiesce(context.Background())
				close(quiet)
			}()
			waits(0) // no more is claimed
			storetest.Eventually(t, "what was claimed and not sent is released", func() bool { return counts(t, store).Leased <= 4 })
			for i, say := range c.say {
				if m := out[fmt.Sprint(i)]; m == nil {
					t.Errorf("%d is not among the first four", i)
				} else if say != "" {
					answer(t, m, say)
				}
			}
			storetest.Receive(t, "it is quiet", quiet)
			stop()
			all := counts(t, store)
			if got := (notify.Counts{Acked: all.Acked, Dead: all.Dead, Scheduled: all.Scheduled, Ready: all.Ready, Leased: all.Leased}); got != c.want {
				t.Errorf("there is %+v, want %+v", got, c.want)
			}
			for _, id := range []string{"4", "5"} {
				if m := info(t, store, id); m.Attempts != 0 {
					t.Errorf("%s is %v, %d attempts are used up", id, m.State, m.Attempts)
				}
			}
			if len(got) != 0 {
				t.Errorf("%d were delivered after the end", len(got))
			}
		})
	}
}

// If NATS does not permit deliveries or their answers, that is known by the end of the lease (TestTimeToAnswer), and no
// attempt is used up.
func TestDeliverWithoutPermission(t *testing.T) {
	t.Parallel()
	for _, denied := range []struct{ publish, subscribe []string }{{publish: []string{"jobs.>"}}, {subscribe: []string{"_INBOX.>"}}} {
		n := startNATS(t, func(o *server.Options) {
			o.Users = []*server.User{
				{Username: "bell", Password: "x", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Deny: denied.publish}, Subscribe: &server.SubjectPermission{Deny: denied.subscribe},
				}},
				{Username: "all", Password: "x"},
			}
		})
		store := storetest.Open(t)
		storetest.Set(t, store, topic, notify.SettingsChange{Lease: new(time.Hour)})
		url := strings.Replace(n.ClientURL(), "//", "//bell:x@", 1)
		deliver(t, store, 4, topic)
		d := startDaemon(t, store, natsgate.Options{URL: url}, carrier.Options{}).bridges()
		conn := n.connect(nats.UserInfo("all", "x"), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
		got := subscribe(t, conn, deliverSubject)
		storetest.Publish(t, store, body("a"))
		storetest.Eventually(t, "the subject is known as not permitted", func() bool { return d.Denied() > 0 })
		wantOncePerConnection(t, d.Gate, d.log, "nats does not permit a subject")
		if denied.publish == nil {
			wantDelivered(t, got, "a", 1)
		}
		n.restart(func(o *server.Options) { o.Users = nil })
		answer(t, wantDelivered(t, got, "a", 1), "+ACK")
		storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, store, "a") })
		if s := d.Stats(); s.Permissions == 0 || s.NoAnswer != 0 {
			t.Errorf("counted %+v", s)
		}
	}
}

// A test of a push is a request, and says what the answer is.
func TestTestOfAPush(t *testing.T) {
	t.Parallel()
	conn, db, d := outbound(t, natsgate.Options{})
	deliver(t, db, 1, topic)
	p, err := db.Home().Push(t.Context(), topic)
	storetest.Must(t, err)
	test := func(ok bool, want string) {
		t.Helper()
		if got := d.pusher.Test(t.Context(), p); got.OK != ok || got.Answer != want {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
	test(false, "nobody listens over nats")
	says := make(chan string, 1)
	storetest.Must(t, storetest.ErrOf(conn.Subscribe(deliverSubject, func(m *nats.Msg) {
		if id := m.Header.Get("ce-id"); !strings.HasPrefix(id, "test~") || string(m.Data) != `{"test":true}` {
			t.Errorf("got %s %q", id, m.Data)
		}
		_ = m.Respond([]byte(<-says))
	})))
	storetest.Must(t, conn.Flush())
	for _, done := range []string{"+ACK", `+ACK {"keep":"1h","result":1}`} {
		says <- done
		test(true, "+ACK")
	}
	says <- `-NAK {"reason":"busy"}`
	test(false, "busy")
}

// A push that was put where no daemon could refuse the subject is not worked for: it would publish its own messages.
func TestSubjectsOfTheGatewayAreRefused(t *testing.T) {
	t.Parallel()
	conn, db, d := outbound(t, natsgate.Options{})
	requests := subscribe(t, conn, "bellhop.publish.>")
	loop := store.Push{Name: "loop", Topics: []string{topic}, To: "nats:bellhop.publish.>"}
	if err := d.pusher.Check(&loop); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "subjects under bellhop are Bellhop's own") {
		t.Errorf("got %v", err)
	}
	storetest.Must(t, db.Home().PutPush(t.Context(), loop))
	deliver(t, db, 1, "other")
	got := subscribe(t, conn, "jobs.>")
	storetest.Publish(t, db, body("a"), notify.Message{Topic: "other", ID: "b"})
	answer(t, wantDelivered(t, got, "b", 1), "+ACK") // it knows of both by then
	if c := counts(t, db); c.Waiting != 0 || c.Ready != 1 || len(requests) > 0 || d.log.Count("subjects under bellhop are Bellhop's own") == 0 {
		t.Errorf("there is %+v, %d requests came, and the log has:\n%s", c, len(requests), d.log)
	}
}

// Where the topic is a part of the subject, a topic could complete the prefix.
func TestSubjectsAroundThePrefixAreRefused(t *testing.T) {
	t.Parallel()
	o := natsgate.Options{Prefix: "shop.bells"}
	for subject, own := range map[string]bool{
		"shop.>": true, "shop.bells": true, "shop.bells.>": true, "shop.bells.act-all": true, "shop.bells.publish.>": true,
		"shop": false, "shop.bell.>": false, "shop.bellsize.>": false, "sho.>": false, "bellhop.>": false, "bells.>": false,
	} {
		if err := o.CheckSubject(subject); (err != nil) != own || own && (!strings.Contains(err.Error(), "subjects under shop.bells") || !strings.Contains(err.Error(), "Bellhop's own")) {
			t.Errorf("%s: got %v, want it to be refused: %t", subject, err, own)
		}
	}
	conn, db, d := outbound(t, o)
	requests := subscribe(t, conn, "shop.bells.act-all")
	loop := store.Push{Name: "loop", Topics: []string{"bells.act-all"}, To: "nats:shop.>"}
	if err := d.pusher.Check(&loop); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := db.Home().PutPush(t.Context(), loop); err != nil { // where no daemon was asked
		t.Fatal(err)
	}
	deliver(t, db, 1, "other")
	got := subscribe(t, conn, "jobs.>")
	storetest.Publish(t, db, notify.Message{Topic: "bells.act-all", ID: "a"}, notify.Message{Topic: "other", ID: "b"})
	answer(t, wantDelivered(t, got, "b", 1), "+ACK") // it knows of both by then
	if len(requests) > 0 || d.log.Count("subjects under shop.bells") == 0 {
		t.Errorf("%d requests came, and the log has:\n%s", len(requests), d.log)
	}
}

// Where a push leads is changed while it works.
func TestPushChangesItsSubject(t *testing.T) {
	t.Parallel()
	conn, db, _ := delivering(t, 4)
	first, second := subscribe(t, conn, deliverSubject), subscribe(t, conn, "elsewhere")
	storetest.Publish(t, db, body("a"))
	answer(t, wantDelivered(t, first, "a", 1), "+ACK")
	storetest.Must(t, db.Home().PutPush(t.Context(), store.Push{Name: topic, Topics: []string{topic, "other"}, To: "nats:elsewhere"}))
	storetest.Publish(t, db, notify.Message{Topic: "other", ID: "b"}) // it is known by then
	answer(t, wantDelivered(t, second, "b", 1), "+ACK")
	storetest.Publish(t, db, body("c"))
	answer(t, wantDelivered(t, second, "c", 1), "+ACK")
	if len(first) > 0 {
		t.Error("one came where it led before")
	}
}

// Topics that a pattern matches are delivered, each on its own subject: one that is new, and while NATS was away, too.
func TestDeliverTopicsOfAPattern(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	deliver(t, db, 8, "mail", "order.>")
	jobs := func() chan *nats.Msg {
		t.Helper()
		got := make(chan *nats.Msg, 100)
		conn := n.connect()
		storetest.Must(t, storetest.ErrOf(conn.ChanSubscribe("jobs.>", got)))
		storetest.Must(t, conn.Flush())
		return got
	}
	delivered := func(got chan *nats.Msg, topic, id string) {
		t.Helper()
		m := wantDelivered(t, got, id, 1)
		if m.Subject != "jobs."+topic {
			t.Errorf("%s is delivered on %s", id, m.Subject)
		}
		answer(t, m, "+ACK")
	}
	got := jobs()
	for _, topic := range []string{"order.eu.paid", "mail", "order.sent"} {
		for _, id := range []string{"first", "second"} {
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: topic + "-" + id})
			delivered(got, topic, topic+"-"+id)
		}
	}
	n.stop()
	storetest.Eventually(t, "nobody waits", func() bool {
		c, err := storetest.Count(db, "order.sent")
		return err == nil && c.Waiting == 0
	})
	storetest.Publish(t, db, notify.Message{Topic: "order.sent", ID: "away"}, notify.Message{Topic: "order.new", ID: "away"})
	n.start(nil)
	got = jobs()
	seen := make(map[string]bool)
	for len(seen) < 2 {
		m := storetest.Receive(t, "what was sent while NATS was away", got)
		seen[m.Subject] = true
		answer(t, m, "+ACK")
	}
	if !seen["jobs.order.sent"] || !seen["jobs.order.new"] {
		t.Errorf("got %v", seen)
	}
}

// The answer of JetStream, which stores what is sent to the subject of a push, is passed over: that of a client counts, also if it comes
// later. Without one the message stays ready, as where nobody listens, and the stream is named.
func TestDeliverToASubjectThatAStreamStores(t *testing.T) {
	t.Parallel()
	n, db, js := startJetStream(t)
	db = storetest.Unhurried(db)
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"jobs.>"}})
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	p := store.Push{Name: "jobs", Topics: []string{topic}, To: "nats:jobs.>", InFlight: 1, Timeout: time.Second}
	storetest.Must(t, db.Home().PutPush(t.Context(), p))
	m := body("a")
	m.MaxAttempts = 1
	storetest.Publish(t, db, m)
	storetest.Eventually(t, "the stream is named", func() bool {
		return streamsOf(t, db, "jobs")[deliverSubject] == "ORDERS"
	})
	if i := info(t, db, "a"); i.State == notify.Dead || i.Attempts > 0 {
		t.Errorf("got %+v", i)
	}
	if got := d.pusher.Test(t.Context(), p); got.OK || !strings.Contains(got.Answer, "the stream ORDERS stores") {
		t.Errorf("the test says %+v", got)
	}
	got := subscribe(t, n.connect(), deliverSubject)
	answer(t, wantDelivered(t, got, "a", 1), "+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, db, "a") })
	storetest.Eventually(t, "no stream is named", func() bool { return streamsOf(t, db, "jobs") == nil })
	if s := d.Stats(); s.BadAnswers != 0 {
		t.Errorf("counted %+v", s)
	}
}

// streamsOf returns the streams that are noted of a push, by subject.
func streamsOf(t testing.TB, db *notify.Store, name string) map[string]string {
	t.Helper()
	p, err := db.Home().Push(t.Context(), name)
	storetest.Must(t, err)
	return p.Stored
}
