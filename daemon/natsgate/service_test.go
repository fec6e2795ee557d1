package natsgate_test

import (
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// services asks all services a question until so many answer, and returns the
// answers.
func services[T any](t testing.TB, conn *nats.Conn, verb string, want int) (all []T) {
	t.Helper()
	storetest.Eventually(t, "the services answer", func() bool {
		inbox := conn.NewInbox() // late answers to the last question are not counted
		sub, err := conn.SubscribeSync(inbox)
		storetest.Must(t, err)
		defer sub.Unsubscribe()
		storetest.Must(t, conn.PublishRequest("$SRV."+verb+".bellhop", inbox, nil))
		for all = nil; len(all) < want; {
			m, err := sub.NextMsg(time.Second)
			if err != nil {
				return false
			}
			var v T
			storetest.Must(t, json.Unmarshal(m.Data, &v))
			all = append(all, v)
		}
		return true
	})
	return all
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	conn, _, _ := open(t)
	wantRefused(t, request(t, conn, "bellhop.publish.no!topic", ""), 422)
	info := services[micro.Info](t, conn, "INFO", 1)[0]
	if info.Name != "bellhop" || info.Version == "" || info.Description == "" || info.Metadata["prefix"] != "bellhop" {
		t.Errorf("got %+v", info)
	}
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
		if e.QueueGroup != "bellhop" {
			t.Errorf("%s is in the queue group %s", e.Name, e.QueueGroup)
		}
	}
	want := "bellhop.publish.> bellhop.publish-broadcast.> bellhop.claim.> bellhop.settle.*.* bellhop.inspect.> bellhop.settings.> bellhop.defaults"
	rest := map[calls.Subjects][]string{calls.Plain: {""}, calls.ByTopic: {".>"}, calls.ByTopicOrAll: {".>", "-all"}}
	for _, c := range calls.Table() {
		for _, end := range rest[c.NATS] {
			want += " bellhop." + c.Subject() + end
		}
	}
	if got := strings.Join(subjects, " "); got != want {
		t.Errorf("the subjects are %s, want %s", got, want)
	}
	for _, e := range services[micro.Stats](t, conn, "STATS", 1)[0].Endpoints {
		var n natsgate.Tally
		if err := json.Unmarshal(e.Data, &n); err != nil {
			t.Errorf("%v in %q", err, e.Data)
		}
		if e.Name == "publish" && n != (natsgate.Tally{Requests: 1, Refused: 1}) {
			t.Errorf("counted %+v", n)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL(), Prefix: "shop.bells"})
	connected(t, gate)
	conn := n.connect()
	services[micro.Ping](t, conn, "PING", 1)
	read[api.Publication](t, request(t, conn, "shop.bells.publish."+topic, "x", "Bellhop-Id", "a"))
	m := request(t, conn, "shop.bells.claim."+topic, "")
	if !strings.HasPrefix(m.Reply, "shop.bells.settle.") {
		t.Errorf("the reply subject is %s", m.Reply)
	}
	settle(t, conn, m, "+ACK")
	if _, err := conn.Request("bellhop.publish."+topic, []byte("x"), storetest.Deadline); err != nats.ErrNoResponders {
		t.Errorf("under the usual prefix: %v", err)
	}
}

func TestNoReplySubject(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	var log logBuffer
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL(), Logger: log.logger()})
	conn := n.connect()
	serving(t, conn)
	m := body("a")
	m.Due = future
	storetest.Publish(t, store, m, body("ready"))
	for range 10 {
		for _, r := range [][2]string{{"publish", "x"}, {"publish-broadcast", "x"}, {"claim", ""}, {"cancel", `{"id":"a"}`}, {"reschedule", `{"id":"a"}`}, {"inspect", `{"id":"a"}`}, {"settings", `{"paused":true}`}} {
			storetest.Must(t, conn.Publish("bellhop."+r[0]+"."+topic, []byte(r[1])))
		}
	}
	storetest.Eventually(t, "all are counted", func() bool { return gate.Stats().NoReply == 70 })
	if got := log.Count("requests without a reply subject are refused"); got != 1 {
		t.Errorf("that is logged %d times:\n%s", got, &log)
	}
	counts, err := storetest.Count(store, topic)
	if err != nil || counts.Scheduled != 1 || counts.Ready != 1 || counts.Leased != 0 {
		t.Errorf("something was changed: %+v, %v", counts, err)
	}
	if got := info(t, store, "a").Due; !got.Equal(future) {
		t.Errorf("it is due %v", got)
	}
}

func TestTwoGatesShareTheWork(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	first, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	second, stop := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	connected(t, first)
	connected(t, second)
	services[micro.Ping](t, conn, "PING", 2)
	published := func(g *natsgate.Gate) int64 { return g.Stats().Endpoints["publish"].Requests }
	sent := int64(0)
	storetest.Eventually(t, "both were asked", func() bool {
		read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x"))
		sent++
		return published(first) > 0 && published(second) > 0
	})
	if got := published(first) + published(second); got != sent {
		t.Errorf("%d requests were handled, %d were sent", got, sent)
	}
	// A gateway that stops answers its requests, and the other one goes on.
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if i == 100 {
				stop()
			}
			read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x"))
		})
	}
	wg.Wait()
}

// A Redis that stands still for a while delays requests and loses none: more of them than
// there are slots wait in the connection. A gateway that stops answers them all. A flood
// starves the calls of tests beside it, so such tests run alone.
func TestSlowRedisLosesNoRequests(t *testing.T) {
	n := startNATS(t, nil)
	redis := storetest.Server(t)
	store := storetest.At(t, redis.URL(), script.DefaultPrefix)
	gate, stop := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	const many = 3 * natsgate.MaxConcurrent
	signal(t, redis, syscall.SIGSTOP)
	replies := subscribe(t, conn, "replies")
	for range many {
		storetest.Must(t, conn.PublishRequest("bellhop.publish."+topic, "replies", []byte("x")))
	}
	storetest.Must(t, conn.Flush())
	storetest.Eventually(t, "all slots are taken", func() bool { return gate.Stats().Endpoints["publish"].Requests >= natsgate.MaxConcurrent })
	signal(t, redis, syscall.SIGCONT)
	gate.Quiesce(t.Context()) // answers the requests received before
	stop()
	published := 0
	for range many {
		reply := storetest.Receive(t, "a reply", replies)
		if reply.Header.Get("Nats-Service-Error-Code") != "503" { // Redis was stopped for too long
			read[api.Publication](t, reply)
			published++
		}
	}
	if c, err := storetest.Count(store, topic); err != nil || c.Ready < int64(published) {
		t.Errorf("got %+v, %v; want %d ready", c, err, published)
	}
}

// signal sends a signal to a redis-server.
func signal(t testing.TB, redis *redisserver.Server, s syscall.Signal) {
	t.Helper()
	storetest.Must(t, redis.Signal(s))
}

// Fewer large requests are handled at the same time, so that they fit into memory; the others wait.
func TestLargeRequestsAtOnce(t *testing.T) {
	n := startNATS(t, nil)
	redis := storetest.Server(t)
	gate, _ := newGate(t, storetest.At(t, redis.URL(), script.DefaultPrefix), natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	signal(t, redis, syscall.SIGSTOP)
	replies := subscribe(t, conn, "replies")
	large := make([]byte, notify.DefaultMaxBody)
	const many, most = 100, natsgate.MaxConcurrent / 4
	for range many {
		storetest.Must(t, conn.PublishRequest("bellhop.publish."+topic, "replies", large))
	}
	underWay := func() int64 { // none succeeds while Redis stands still, but those that it leaves for too long end
		n := gate.Stats().Endpoints["publish"]
		return n.Requests - n.Refused - n.Failed
	}
	storetest.Eventually(t, "the slots are taken", func() bool { return underWay() >= most/2 })
	services[micro.Ping](t, conn, "PING", 1) // received behind the requests
	// One more waits for its slots.
	if got := underWay(); got > most+1 {
		t.Errorf("%d are under way", got)
	}
	signal(t, redis, syscall.SIGCONT)
	for range many {
		reply := storetest.Receive(t, "a reply", replies)
		if reply.Header.Get("Nats-Service-Error-Code") != "503" { // Redis was stopped for too long
			read[api.Publication](t, reply)
		}
	}
	serving(t, conn)
}

// A flood that lasts too long loses requests, which is counted, and logged once; the
// gateway goes on.
func TestFlood(t *testing.T) {
	n := startNATS(t, nil)
	redis := storetest.Server(t)
	var log logBuffer
	gate, _ := newGate(t, storetest.At(t, redis.URL(), script.DefaultPrefix), natsgate.Options{URL: n.ClientURL(), Logger: log.logger()})
	conn := n.connect()
	serving(t, conn)
	signal(t, redis, syscall.SIGSTOP)
	large := []byte(`{"id":"a"` + strings.Repeat(" ", 32<<10) + "}")
	storetest.Eventually(t, "some are lost", func() bool {
		for range 3 * natsgate.MaxConcurrent { // few wait for Redis, and the rest is more than may wait for a turn
			storetest.Must(t, conn.PublishRequest("bellhop.inspect."+topic, "nobody", large))
		}
		return gate.Stats().Floods > 0
	})
	signal(t, redis, syscall.SIGCONT)
	for answered := false; !answered; {
		before := gate.Stats().Endpoints["inspect"].Requests
		storetest.Eventually(t, "it answers, or works on the flood", func() bool {
			answered = answers(conn)
			return answered || gate.Stats().Endpoints["inspect"].Requests > before
		})
	}
	wantOncePerConnection(t, gate, &log, "requests come faster than they are handled")
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	redis := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, redis.URL(), script.DefaultPrefix))
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	m := claimOne(t, conn, store, "", body("a"))
	redis.Kill()
	for subject, data := range map[string]string{
		"bellhop.publish." + topic: "x", "bellhop.claim." + topic: "", m.Reply: "+ACK", "bellhop.inspect." + topic: `{"id":"a"}`,
	} {
		wantRefused(t, request(t, conn, subject, data), 503, "redis at")
	}
	if n := gate.Stats().Endpoints["settle"]; n.Failed != 1 || n.Refused != 0 {
		t.Errorf("counted %+v", n)
	}
	storetest.Restart(t, redis)
	storetest.Eventually(t, "it publishes again", func() bool {
		reply := request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "b")
		code := reply.Header.Get("Nats-Service-Error-Code")
		return code == "" || code == "409" // by a call that Redis did not answer in time
	})
}

func TestRedisOutOfMemory(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	redis := storetest.Server(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	newGate(t, storetest.Unhurried(storetest.At(t, redis.URL(), script.DefaultPrefix)), natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	wantRefused(t, request(t, conn, "bellhop.publish."+topic, "x"), 503, "redis is full", "OOM")
}

func TestRedisFull(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	redis := storetest.Server(t, "--maxmemory", "50mb", "--maxmemory-policy", "noeviction")
	store := storetest.Unhurried(storetest.With(t, notify.Config{URL: redis.URL(), MemoryShare: 1}))
	newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	for _, subject := range []string{"bellhop.publish.", "bellhop.publish-broadcast."} {
		wantRefused(t, request(t, conn, subject+topic, "x"), 503, "redis is full", "1% are for messages")
	}
}
