package natsgate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// besieged starts a nats-server with a foreign stream, and a gateway that may do everything there. It returns a client
// that may do everything, and mallory, a client that may only send requests.
func besieged(t testing.TB, o natsgate.Options) (conn, mallory *nats.Conn, store *notify.Store, d *daemon) {
	t.Helper()
	dir := t.TempDir()
	n := startNATS(t, func(s *server.Options) {
		s.JetStream, s.StoreDir = true, dir
		s.Users = []*server.User{
			{Username: "all", Password: secret},
			{Username: "mallory", Password: secret, Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"bellhop.claim.>", "bellhop.publish.>", "bellhop.inspect.>", "bellhop.settle.>", "$SRV.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	o.URL = strings.Replace(n.ClientURL(), "//", "//all:"+secret+"@", 1)
	conn, mallory = n.connect(nats.UserInfo("all", secret)), n.connect(nats.UserInfo("mallory", secret))
	store = storetest.Open(t)
	d = startDaemon(t, store, o, carrier.Options{}).bridges()
	serving(t, mallory)
	js := over(t, conn)
	makeStream(t, js, jetstream.StreamConfig{Name: "LEDGER", Subjects: []string{"ledger.>"}})
	storetest.Must(t, storetest.ErrOf(js.Publish(t.Context(), "ledger.a", []byte("x"))))
	return conn, mallory, store, d
}

// A gateway answers with its own rights: a requester must not use it to do at NATS what the requester may not do.
func TestReplySubjectThatNATSListensTo(t *testing.T) {
	t.Parallel()
	conn, mallory, store, d := besieged(t, natsgate.Options{})
	js := over(t, conn)
	const most = 18
	attacks := int64(0)
	attack := func(subject, reply, data string) {
		t.Helper()
		attacks++
		storetest.Must(t, mallory.PublishRequest(subject, reply, []byte(data)))
	}
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte("{}")})
	for subject, data := range map[string]string{
		"bellhop.claim.mail": "", "bellhop.claim." + topic: "", "bellhop.publish." + topic: "x", "bellhop.inspect." + topic: `{"id":"a"}`,
		"bellhop.settle.x.y": "+ACK", "$SRV.PING": "", "$SRV.INFO.bellhop": "", "$SRV.STATS": "",
	} {
		attack(subject, "$JS.API.STREAM.DELETE.LEDGER", data)
		attack(subject, "$JS.API.STREAM.PURGE.LEDGER", data)
	}
	attack("$SRV.PING", "$JS.API.STREAM.CREATE.bellhop", "")
	attack("bellhop.claim."+topic, "$SYS.REQ.SERVER.PING", "")
	storetest.Eventually(t, "all are refused", func() bool { return d.Stats().RefusedReplies >= attacks })
	if attacks != most || d.Stats().RefusedReplies != most {
		t.Errorf("%d are counted", d.Stats().RefusedReplies)
	}
	serving(t, mallory)
	if got := state(t, js, "LEDGER").Msgs; got != 1 {
		t.Errorf("the stream of another holds %d messages", got)
	}
	if _, err := js.Stream(t.Context(), "bellhop"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream was made: %v", err)
	}
	if c := counts(t, store); c.Ready != 1 || c.Leased != 0 {
		t.Errorf("a refused request changed something: %+v", c)
	}
	wantLog(t, d.log, map[string]int{"requests with a reply subject": 1})
}

// Nor can a requester make it forge its own messages, or send requests that the requester may not send.
func TestReplySubjectOfTheGate(t *testing.T) {
	t.Parallel()
	conn, mallory, store, d := besieged(t, natsgate.Options{})
	deliver(t, store, 4, topic)
	storetest.Eventually(t, "the daemon knows of the push", func() bool { return counts(t, store).Waiting == 1 })
	forged := make(map[string]chan *nats.Msg)
	for _, subject := range []string{"bellhop.event.dead.mail", "bellhop.broadcast.mail", "jobs.mail", "*.event.mail", "jobs.>"} {
		forged[subject] = subscribe(t, conn, subject)
	}
	storetest.Publish(t, store, notify.Message{Topic: "mail", ID: "a", Body: []byte("forged")})
	replies := []string{
		"bellhop.event.dead.mail", "bellhop.broadcast.mail", "jobs.mail", "bellhop.wake.mail", "bellhop.cancel.mail", "bellhop.publish.other", "bellhop.",
		"*.event.mail", "jobs.>", "jobs.a.b", ">", "*", "a.*.b", "a.>", "a..b", ".a", "a.", "a\x00b", "a\x7f", "\x0bjobs.mail",
	}
	for _, reply := range replies {
		for subject, data := range map[string]string{"bellhop.claim.mail": "", "bellhop.publish.mail": "x", "$SRV.PING": ""} {
			storetest.Must(t, mallory.PublishRequest(subject, reply, []byte(data)))
		}
	}
	storetest.Eventually(t, "all are refused", func() bool { return d.Stats().RefusedReplies == 3*int64(len(replies)) })
	serving(t, mallory)
	storetest.Must(t, conn.Flush())
	for subject, got := range forged {
		if len(got) > 0 {
			t.Errorf("%s: got %q", subject, (<-got).Data)
		}
	}
	if s := d.Stats(); s.Endpoints["publish"].Refused != int64(len(replies)) || s.LostReplies != 0 {
		t.Errorf("counted %+v", s)
	}
	wantLog(t, d.log, map[string]int{"requests with a reply subject": 1})
}

// A requester gets its answer at any other reply subject.
func TestReplySubjectOfTheRequester(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	for _, reply := range []string{"claimed", "_INBOX.x", "inbox-of.alice.1", "bellhop", "bellhops.a", "Bellhop.a", "a$b", "a.$b", "a*.>b", "ä"} {
		got := subscribe(t, conn, reply)
		storetest.Publish(t, store, body(notify.NewID()))
		storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, reply, nil))
		m := storetest.Receive(t, "a claimed message at "+reply, got)
		settle(t, conn, m, "+ACK")
		if end := storetest.Receive(t, "the end at "+reply, got); end.Header.Get("Status") != "204" {
			t.Errorf("%s: got %v", reply, end.Header)
		}
	}
	if n := gate.Stats().RefusedReplies; n != 0 {
		t.Errorf("%d are refused", n)
	}
}
