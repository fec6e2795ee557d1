package natsgate_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// settle settles a claimed message by a request, which must succeed.
func settle(t testing.TB, conn *nats.Conn, m *nats.Msg, data string) {
	t.Helper()
	if reply := request(t, conn, m.Reply, data); string(reply.Data) != "+OK" || len(reply.Header) != 0 {
		t.Fatalf("the settlement %s is answered %v %q", data, reply.Header, reply.Data)
	}
}

// gone reports whether the topic's message is gone.
func gone(t testing.TB, db *notify.Store, id string) bool {
	t.Helper()
	there, err := db.Client().HExists(t.Context(), db.KeysOf(topic).Messages(), record.Member(topic, id)).Result()
	storetest.Must(t, err)
	return !there
}

func TestAck(t *testing.T) {
	t.Parallel()
	conn, db, gate := open(t)
	m := claimOne(t, conn, db, "", body("a"))
	settle(t, conn, m, "+ACK")
	if !gone(t, db, "a") {
		t.Error("it is acknowledged, and there")
	}
	for _, verb := range []string{"+ACK", "-NAK", "+WPI", "+TERM"} {
		wantRefused(t, request(t, conn, m.Reply, verb), 409, "order.timeout:a", "lease lost")
	}
	// A client's respond is not a request.
	m = claimOne(t, conn, db, "", body("b"))
	storetest.Must(t, m.Respond([]byte("+ACK")))
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, db, "b") })
	storetest.Must(t, m.Respond([]byte("+ACK")))
	storetest.Eventually(t, "the refusal is counted", func() bool { return gate.Stats().Endpoints["settle"].Refused == 5 })
	keys, err := db.Client().Keys(t.Context(), db.KeysOf(topic).Base()+"extended:*").Result()
	if err != nil || len(keys) != 0 {
		t.Errorf("nothing was extended, and the keys are %v, %v", keys, err)
	}
}

func TestNak(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	began := time.Now()
	settle(t, conn, claimOne(t, conn, db, "", body("a")), `-NAK {"delay":"1h"}`)
	settle(t, conn, claimOne(t, conn, db, "", body("b")), "-NAK {\"delay\": 7200000000000}\n")
	m := body("last")
	m.MaxAttempts = 1
	settle(t, conn, claimOne(t, conn, db, "", m), "-NAK")
	if got := info(t, db, "last"); got.State != notify.Dead || !strings.Contains(got.Reason, "-NAK") {
		t.Errorf("got %v, %q", got.State, got.Reason)
	}
	m = body("told")
	m.MaxAttempts = 1
	settle(t, conn, claimOne(t, conn, db, "", m), `-NAK {"reason":"no such order"}`)
	if got := info(t, db, "told"); got.State != notify.Dead || got.Reason != "no such order" {
		t.Errorf("got %v, %q", got.State, got.Reason)
	}
	settle(t, conn, claimOne(t, conn, db, "", body("c")), "-NAK")
	for id, most := range map[string]time.Duration{"a": time.Hour, "b": 2 * time.Hour, "c": time.Second} {
		got := info(t, db, id)
		if d := time.Until(got.Due); got.State != notify.Scheduled || got.Attempts != 1 || d > most+time.Millisecond || most > time.Minute && got.Due.Before(began.Add(most)) {
			t.Errorf("%s is %v, due in %v, %d attempts are used up", id, got.State, d, got.Attempts)
		}
	}
}

func TestTerm(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	settle(t, conn, claimOne(t, conn, db, "", body("a")), "+TERM")
	settle(t, conn, claimOne(t, conn, db, "", body("b")), "+TERM no such order \xff")
	for id, reason := range map[string]string{"a": "refused for good over nats with +TERM", "b": "no such order �"} {
		if got := info(t, db, id); got.State != notify.Dead || got.Reason != reason {
			t.Errorf("%s is %v, %q", id, got.State, got.Reason)
		}
	}
}

// The reply subject stays valid however often the lease is extended.
func TestWorkInProgress(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	for _, verb := range []string{"+ACK", "+TERM", "-NAK"} { // a message that comes again, and is overdue, would hold up the next one
		m := claimOne(t, conn, db, `{"lease":"1h"}`, body(verb[1:]))
		first := info(t, db, verb[1:]).Until
		for range 3 {
			before := info(t, db, verb[1:]).Until
			storetest.Eventually(t, "the clock moves on", func() bool {
				settle(t, conn, m, "+WPI")
				return info(t, db, verb[1:]).Until.After(before)
			})
		}
		if !info(t, db, verb[1:]).Until.After(first) {
			t.Errorf("the lease is not extended")
		}
		key := db.KeysOf(topic).Base() + "extended:" + record.Member(topic, verb[1:])
		if left, err := db.Client().PTTL(t.Context(), key).Result(); err != nil || left < time.Hour || left > time.Hour+2*time.Minute {
			t.Errorf("its data expires in %v, %v", left, err)
		}
		settle(t, conn, m, verb)
		wantRefused(t, request(t, conn, m.Reply, verb), 409, "lease lost")
		wantRefused(t, request(t, conn, m.Reply, "+WPI"), 409, "lease lost")
	}
}

// +WPI may say how far the work is, and inspect tells that; a wrong one extends nothing. Once the message is cancelled with stop each is refused.
func TestProgressOfWork(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	m := claimOne(t, conn, db, `{"lease":"1h"}`, body("a"))
	settle(t, conn, m, `+WPI {"progress":40,"note":"page 2 of 5"}`)
	until := info(t, db, "a").Until
	for bad, field := range map[string]string{
		`+WPI {}`: "progress", `+WPI {"note":"a"}`: "progress", `+WPI {"progress":101}`: "progress", `+WPI {"progress":1,"note":"\u0000"}`: "note",
		`+WPI {"progress":"40"}`: "progress", `+WPI {"percent":40}`: "percent", `+WPI 40`: "it is not a JSON object",
	} {
		wantRefused(t, request(t, conn, m.Reply, bad), 422, field)
	}
	if got := request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`).Data; !strings.Contains(string(got), `"progress":40,"note":"page 2 of 5"`) || !info(t, db, "a").Until.Equal(until) {
		t.Errorf("inspect answers %s", got)
	}
	read[calls.Cancelled](t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a","stop":true}`))
	wantRefused(t, request(t, conn, m.Reply, "+WPI"), 409, "the message is cancelled, and the work on it is to stop")
	settle(t, conn, m, "-NAK")
	if !gone(t, db, "a") {
		t.Error("it is cancelled, and there")
	}
}

// Any daemon carries out a settlement.
func TestSettledByAnother(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	conn := n.connect()
	first, stop := newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	connected(t, first)
	serving(t, conn)
	extended, plain := claimOne(t, conn, db, "", body("a")), claimOne(t, conn, db, "", body("b"))
	settle(t, conn, extended, "+WPI")
	stop()
	newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	serving(t, conn)
	settle(t, conn, extended, "+WPI")
	settle(t, conn, extended, "+ACK")
	settle(t, conn, plain, "+ACK")
	if !gone(t, db, "a") || !gone(t, db, "b") {
		t.Error("they are acknowledged, and there")
	}
}

func TestRefusedSettlements(t *testing.T) {
	t.Parallel()
	conn, db, gate := open(t)
	m := claimOne(t, conn, db, "", body("a"))
	at := strings.LastIndexByte(m.Reply, '.') + 1
	subject, token := m.Reply[:at], m.Reply[at:]
	raw, err := base64.RawURLEncoding.DecodeString(token)
	storetest.Must(t, err)
	for i := range raw {
		changed := append([]byte{}, raw...)
		changed[i] ^= 1
		wantRefused(t, request(t, conn, subject+base64.RawURLEncoding.EncodeToString(changed), "+ACK"), 422, "settle token", "was changed")
	}
	for _, bad := range []string{"x", "=", token[1:], token + "AAAA", token[:len(token)-4], strings.Repeat("A", 3000), base64.RawURLEncoding.EncodeToString(make([]byte, 16))} {
		wantRefused(t, request(t, conn, subject+bad, "+ACK"), 422, "settle token")
	}
	for _, bad := range []string{"", "ACK", "+ack", "+NXT", "+OK", "+ACK now", "+WPI {}", `-NAK {"delay":`, `-NAK {"delay":"soon"}`, `-NAK {"delay":-1}`, `-NAK {"wait":"5s"}`, "\xff"} {
		wantRefused(t, request(t, conn, m.Reply, bad), 422)
	}
	if got := info(t, db, "a"); got.State != notify.Leased {
		t.Errorf("it is %v", got.State)
	}
	settled := gate.Stats().Endpoints["settle"]
	if settled.Refused != int64(len(raw)+7+12) || settled.Failed != 0 {
		t.Errorf("counted %+v", settled)
	}
	settle(t, conn, m, "+ACK")
}

// An answer that settles nothing, and asks for no reply, is logged with what is wrong and the remedy, at most once a minute.
func TestUntoldSettlements(t *testing.T) {
	t.Parallel()
	n, db, log := startNATS(t, nil), storetest.Open(t), &logBuffer{}
	newGate(t, db, natsgate.Options{URL: n.ClientURL(), Logger: log.logger()})
	conn := n.connect()
	serving(t, conn)
	m := claimOne(t, conn, db, "", body("a"))
	wantRefused(t, request(t, conn, m.Reply, `+ACK {"keep":"1h","keep":"2h"}`), 422, "keep", "is given twice; give it once")
	if said := log.String(); strings.Contains(said, "settle nothing") {
		t.Errorf("who asks for a reply is told, and the log says\n%s", said)
	}
	respond := func(answer string) {
		t.Helper()
		storetest.Must(t, m.Respond([]byte(answer)))
	}
	logged := func(n int, words ...string) {
		t.Helper()
		for _, word := range words {
			log.Await(t, word)
		}
		if said := log.String(); strings.Count(said, "settle nothing") != n {
			t.Errorf("want %d lines\n%s", n, said)
		}
	}
	respond(`-NAK {"delay":"5s","delay":"6s"}`)
	logged(1, "topic="+topic, "id=a", "is given twice; give it once")
	respond("+NXT")
	respond("+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return gone(t, db, "a") })
	respond("-NAK")
	logged(2, "lease lost")
}

// A secret that is lost in a failover, to a Redis that does not have it yet, is made
// again. Daemons that know the old one find the new one by themselves.
func TestSecretIsSharedAndMadeAnew(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	before := claimOne(t, conn, db, "", body("a"))
	storetest.Must(t, db.Client().Del(t.Context(), db.Keys().Secret()).Err())
	n2 := startNATS(t, nil)
	other, _ := newGate(t, db, natsgate.Options{URL: n2.ClientURL()})
	connected(t, other)
	conn2 := n2.connect()
	serving(t, conn2)
	after := claimOne(t, conn2, db, "", body("b"))
	storetest.Eventually(t, "the first gate reads the new secret", func() bool {
		return string(request(t, conn, after.Reply, "+ACK").Data) == "+OK"
	})
	wantRefused(t, request(t, conn, before.Reply, "+ACK"), 422, "settle token")
	settle(t, conn, claimOne(t, conn, db, "", body("c")), "+ACK")

	storetest.Must(t, db.Client().Set(t.Context(), db.Keys().Secret(), "foreign", 0).Err())
	storetest.Eventually(t, "the gate reads it", func() bool {
		return strings.Contains(string(request(t, conn, "bellhop.claim."+topic, "").Data), db.Keys().Secret())
	})
	storetest.Publish(t, db, body("d"))
	wantRefused(t, request(t, conn, "bellhop.claim."+topic, ""), 500, db.Keys().Secret(), "delete it")
	if got := info(t, db, "d"); got.State != notify.Ready {
		t.Errorf("it is %v", got.State)
	}
}

// Once the secret is rotated, no gateway takes what was sealed with the one before, also of a
// client that brings nothing else. The message is delivered again when its lease ends.
func TestRotatedSecret(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	carry(t, db)
	n2 := startNATS(t, nil)
	newGate(t, db, natsgate.Options{URL: n2.ClientURL()})
	conn2 := n2.connect()
	serving(t, conn2)
	m := claimOne(t, conn, db, `{"lease":"1m"}`, body("a"))
	for _, c := range []*nats.Conn{conn, conn2} {
		settle(t, c, m, "+WPI") // both know the secret
	}
	storetest.Must(t, db.Home().RotateSecret(t.Context()))
	for _, c := range []*nats.Conn{conn, conn2} {
		storetest.Eventually(t, "the token is refused", func() bool {
			return strings.Contains(string(request(t, c, m.Reply, "+WPI").Data), "settle token")
		})
		wantRefused(t, request(t, c, m.Reply, "+ACK"), 422, "settle token")
	}
	if got := info(t, db, "a"); got.State != notify.Leased {
		t.Errorf("it is %v", got.State)
	}
	settle(t, conn, claimOne(t, conn2, db, `{"lease":"1m"}`, body("b")), "+ACK") // of one gateway, settled over the other

	short := claimOne(t, conn, db, `{"lease":"1s"}`, body("c"))
	storetest.Must(t, db.Home().RotateSecret(t.Context()))
	storetest.Eventually(t, "it is ready again", func() bool { return info(t, db, "c").State == notify.Ready })
	storetest.Eventually(t, "the token is refused", func() bool {
		return strings.Contains(string(request(t, conn, short.Reply, "+ACK").Data), "settle token")
	})
	if got := info(t, db, "c"); got.State != notify.Ready {
		t.Errorf("it is %v", got.State)
	}
}

func TestTokensFitIntoSubjects(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	m := notify.Message{Topic: topic, ID: strings.Repeat("~", record.MaxID), Body: []byte("x"), Due: time.UnixMilli(1)}
	got := claimOne(t, conn, db, `{"lease":"24h"}`, m)
	settle(t, conn, got, "+ACK")
	for i := range 300 { // every length modulo 3, and numbers of every width
		m := claimOne(t, conn, db, "", body(strings.Repeat("x", i%60+1)+strconv.Itoa(i)))
		settle(t, conn, m, "+ACK")
	}
}

// The Redis in memory for trials knows all commands that a gateway uses.
func TestTrialRedis(t *testing.T) {
	storetest.OneShard(t, "the trial server has no sharded channels")
	t.Parallel()
	n := startNATS(t, nil)
	_, db := storetest.Trial(t, script.DefaultPrefix)
	newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	m := claimOne(t, conn, db, "", body("a"))
	settle(t, conn, m, "+WPI")
	settle(t, conn, m, "+WPI")
	settle(t, conn, m, "+ACK")
	wantRefused(t, request(t, conn, m.Reply, "+WPI"), 409, "lease lost")
}
