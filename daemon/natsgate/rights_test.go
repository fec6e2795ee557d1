package natsgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The rights in the package comment: to subscribe to, to publish to, and to publish to for a stream.
const (
	hearRights   = "bellhop.> $SRV.> _INBOX.>"
	sendRights   = "bellhop.wake.> bellhop.broadcast.> bellhop.beat bellhop.event.> jobs.> _INBOX.>"
	streamRights = "$JS.API.STREAM.INFO.BELLHOP $JS.API.STREAM.CREATE.BELLHOP $JS.API.STREAM.NAMES"
)

// rights returns the permissions of a user that may subscribe and publish only to these subjects.
func rights(hear, send string) *server.Permissions {
	return &server.Permissions{
		Subscribe: &server.SubjectPermission{Allow: strings.Fields(hear)},
		Publish:   &server.SubjectPermission{Allow: strings.Fields(send)},
	}
}

// restricted starts a nats-server with JetStream whose user bell has the rights of a gateway, and whose user worker has those of a
// client that handles deliveries. It returns the options of a gateway that uses all of its rights, and a client that may do everything.
func restricted(t testing.TB) (*natsd, natsgate.Options, *nats.Conn) {
	t.Helper()
	worker := rights("jobs.>", "")
	worker.Response = &server.ResponsePermission{MaxMsgs: server.DEFAULT_ALLOW_RESPONSE_MAX_MSGS, Expires: time.Minute}
	jetStream := withJetStream(t)
	n := startNATS(t, func(o *server.Options) {
		jetStream(o)
		o.Users = []*server.User{
			{Username: "bell", Password: secret, Permissions: rights(hearRights, sendRights+" "+streamRights)},
			{Username: "worker", Password: secret, Permissions: worker},
			{Username: "all", Password: secret},
		}
	})
	o := keeps(n)
	o.URL = strings.Replace(n.ClientURL(), "//", "//bell:"+secret+"@", 1)
	return n, o, n.connect(nats.UserInfo("all", secret))
}

func TestRightsOfAGate(t *testing.T) {
	t.Parallel()
	n, o, conn := restricted(t)
	store := storetest.Open(t)
	deliver(t, store, 1, "mail")
	events, wakes, stored := subscribe(t, conn, "bellhop.event.>"), subscribe(t, conn, "bellhop.wake.>"), subscribe(t, conn, "bellhop.broadcast.>")
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	awaitBeat(t, conn)
	storetest.Receive(t, "the election is sent", events)
	services[micro.Ping](t, conn, "PING", 1)
	acknowledge(t, n.connect(nats.UserInfo("worker", secret)), "workers")

	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a", "Bellhop-Delay", "1h"))
	read[api.Publication](t, request(t, conn, "bellhop.reschedule."+topic, `{"id":"a"}`))
	storetest.Receive(t, "a wake-up", wakes)
	read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`))
	read[api.Settings](t, request(t, conn, "bellhop.settings."+topic, `{"attempts":5}`))
	read[api.Settings](t, request(t, conn, "bellhop.defaults", ""))
	messages, _ := claim(t, conn, "")
	settle(t, conn, messages[0], "+TERM")
	storetest.Receive(t, "the death is sent", events)
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "b", "Bellhop-Delay", "1h"))
	read[map[string]any](t, request(t, conn, "bellhop.cancel."+topic, `{"id":"b"}`))
	read[api.Publication](t, request(t, conn, "bellhop.publish.mail", "x"))
	storetest.Eventually(t, "it is delivered and acknowledged", func() bool { return d.Stats().Delivered == 1 })
	read[api.Publication](t, request(t, conn, "bellhop.publish-broadcast.news", "x"))
	storetest.Receive(t, "the broadcast", stored)
	storetest.Eventually(t, "the stream has it", func() bool { return d.Stats().Broadcasts == 1 })
	if s := d.Stats(); s.Permissions != 0 || s.Refusals != 0 {
		t.Errorf("counted %+v", s)
	}
	wantLog(t, d.log, map[string]int{"level=WARN": 0, "created the stream": 1})
}

// The same rights suffice to name the stream whose subjects overlap.
func TestRightsWhereAStreamOverlaps(t *testing.T) {
	t.Parallel()
	_, o, conn := restricted(t)
	js := over(t, conn)
	makeStream(t, js, jetstream.StreamConfig{Name: "prices", Subjects: []string{"bellhop.broadcast.a.>"}})
	d := startDaemon(t, storetest.Open(t), o, carrier.Options{})
	storetest.Eventually(t, "it is logged", func() bool { return d.log.Count("overlap those of the stream prices") == 1 })
	if n := d.Stats().Permissions; n != 0 {
		t.Errorf("%d subjects were not permitted", n)
	}
}

// A gateway with only these rights cannot be made to publish to other subjects by a reply subject.
func TestRightsAgainstReplySubjects(t *testing.T) {
	t.Parallel()
	_, o, conn := restricted(t)
	store := storetest.Open(t)
	d := startDaemon(t, store, o, carrier.Options{}).bridges()
	orders := subscribe(t, conn, "orders.>")
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte("forged")})
	storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, "orders.pay", nil))
	storetest.Eventually(t, "it is not permitted", func() bool { return d.Stats().Permissions > 0 })
	serving(t, conn)
	if len(orders) > 0 {
		t.Errorf("got %q", (<-orders).Data)
	}
}

// Replies without permission are counted and their subjects are not kept, since requesters may name any number.
func TestRepliesNotPermittedAreNotKept(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bell", Password: secret, Permissions: rights(">", "_INBOX.alice.>")},
			{Username: "all", Password: secret},
		}
	})
	gate, _ := watch(t, natsgate.Options{URL: strings.Replace(n.ClientURL(), "//", "//bell:"+secret+"@", 1)})
	conn := n.connect(nats.UserInfo("all", secret), nats.CustomInboxPrefix("_INBOX.alice"))
	serving(t, conn)
	const many = 300
	for i := range many {
		storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, fmt.Sprint("_INBOX.bob.", i), nil))
	}
	storetest.Eventually(t, "all are counted", func() bool { return gate.Stats().Permissions == many })
	if got := gate.Denied(); got != 0 {
		t.Errorf("%d are kept", got)
	}
}
