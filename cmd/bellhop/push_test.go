package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A daemon that may push does so, and ends in order.
func TestServePushes(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header.Get("webhook-id")
	}))
	t.Cleanup(endpoint.Close)
	secret := filepath.Join(t.TempDir(), "crm.key")
	storetest.Must(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	s := newShell(t, "BELLHOP_PUSH_ALLOW=127.0.0.1")
	serve := s.start("serve")
	serve.await(1, "msg=elected")
	s.call("push", "put", "crm", "--topic", "order.*", "--url", endpoint.URL, "--secret-file", secret)
	s.call("publish", "order.paid", "--id", "a", "--delay", "100ms", "--body", "x")
	if id := storetest.Receive(t, "it is pushed", got); id != "order.paid:a" {
		t.Errorf("got %q", id)
	}
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
	contains(t, s.call("topics"), "order.paid  0")
}

// A push is added, listed, shown on a terminal in 80 columns, tested, paused, resumed and deleted; its secret is never shown.
func TestPush(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusOK)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(endpoint.Close)
	s := newShell(t)
	contains(t, s.call("push", "list"), "no push\n")
	secret := filepath.Join(t.TempDir(), "crm.key")
	storetest.Must(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	out := s.call("push", "put", "crm", "--topic", "order.paid", "--url", endpoint.URL+"/hook?token=7", "--secret-file", secret)
	contains(t, out, "topics     order.paid\n", "to         "+endpoint.URL+"/hook?…\n", "secrets    1\n", "in flight  0, at most 32 a topic and daemon\n", "timeout    10s\n", "state      no daemon sends it\n", "remedy     run a daemon with BELLHOP_PUSH_ALLOW=public, or the net of the URL\n")
	if strings.Contains(out, "whsec") || strings.Contains(out, "token=7") {
		t.Errorf("a secret is shown: %s", out)
	}
	contains(t, s.call("push", "put", "crm", "--topic", "order.paid,order.sent", "--url", endpoint.URL, "--in-flight", "8", "--timeout", "1m"), "order.paid, order.sent", "secrets    1\n", "timeout    1m\n")
	contains(t, s.call("push", "pause", "crm"), "paused crm\n")
	contains(t, s.call("push", "list"), "NAME  TOPICS", "crm   order.paid,order.sent  "+endpoint.URL+"  paused, by an operator\n")
	contains(t, s.call("push", "resume", "crm"), "resumed crm\n")
	contains(t, s.call("push", "list"), endpoint.URL+"  no daemon sends it\n")
	sender := newShell(t, "BELLHOP_PUSH_ALLOW=127.0.0.1", "BELLHOP_PREFIX="+s.setting("BELLHOP_PREFIX"))
	serve := sender.start("serve")
	serve.await(1, "msg=elected")
	storetest.Eventually(t, "the daemon sends it", func() bool { return strings.Contains(s.call("push", "show", "crm"), "state      works\n") })
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	failing := func(p *store.Push) (*store.Push, error) {
		p.Failing = &store.PushFailure{Answer: "HTTP 500 Internal Server Error: " + strings.Repeat("x", 200)}
		return p, nil
	}
	storetest.Must(t, db.Home().ChangePush(t.Context(), "crm", failing))
	for _, command := range []string{"list", "show crm"} {
		for line := range strings.Lines(s.onTerminal(append([]string{"push"}, strings.Fields(command)...)...)) {
			if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 && command == "list" {
				t.Errorf("a line of %d columns: %s", n, line)
			}
		}
	}
	contains(t, s.call("push", "show", "crm"), "state      fails since ", "answer     HTTP 500 ", "next try   with the next message\n")
	storetest.Must(t, db.Home().PushTried(t.Context(), "crm", 36*time.Hour, "HTTP 502 Bad Gateway"))
	contains(t, s.call("push", "show", "crm"), "answer     HTTP 502 Bad Gateway\n", "next try   in 1d1")
	storetest.Publish(t, db, notify.Message{Topic: "order.sent", ID: "a"})
	storetest.Must(t, storetest.ErrOf(subscriberstest.Claimer(t, db).Claim(t.Context(), "order.sent", subscribers.ClaimOptions{Lease: time.Hour})))
	var shown api.Push
	s.json(&shown, "push", "show", "crm", "--json")
	if f := shown.Failing; shown.Leased == nil || *shown.Leased != 1 || f == nil || f.Answer != "HTTP 502 Bad Gateway" || time.Until(f.Next) < time.Hour {
		t.Errorf("got %+v, %+v", shown, f)
	}
	contains(t, s.call("push", "show", "crm"), "in flight  1, at most 8 a topic and daemon\n")
	contains(t, s.fails(exitFailed, "push", "test", "crm"), "")
	s.env = append(s.env, "BELLHOP_PUSH_ALLOW=127.0.0.1")
	contains(t, s.call("push", "test", "crm"), "ok after ", " ms: HTTP 200 OK\n")
	status.Store(http.StatusBadGateway)
	contains(t, s.fails(exitFailed, "push", "test", "crm"), "")
	var list api.Pushes
	s.json(&list, "push", "list", "--json")
	if len(list.Pushes) != 1 || list.Pushes[0].Failing == nil || list.Pushes[0].TimeoutMs != 60_000 {
		t.Errorf("got %+v", list)
	}
	contains(t, s.fails(exitUsage, "push", "put", "mail", "--topic", "order.sent", "--url", "https://x.example", "--secret-file", secret), "the push crm has the topic order.sent")
	contains(t, s.fails(exitUsage, "push", "put", "mail", "--topic", "*.sent", "--url", "https://x.example", "--secret-file", secret), "the push crm has the topic order.sent, and a message could match that and *.sent")
	contains(t, s.call("push", "put", "bill", "--topic", "bill.*,mail", "--url", endpoint.URL, "--secret-file", secret), "topics     bill.*, mail\n")
	contains(t, s.call("push", "list"), "bill  bill.*,mail ")
	s.call("push", "delete", "bill")
	contains(t, s.fails(exitUsage, "push", "put", "mail", "--topic", "mail", "--url", "https://x.example"), "secrets: there are 0")
	contains(t, s.fails(exitUsage, "push", "put", "mail", "--topic", "mail", "--url", "x.example", "--secret-file", secret+"x"), "secret file")
	contains(t, s.fails(exitUsage, "push", "put", "mail", "--topic", "mail", "--url", "https://x.example", "--secret-file", secret, "--timeout", "0s", "--in-flight", "0"), "timeout 0s", `in_flight "0"`)
	contains(t, s.fails(exitUsage, "push"), "COMMAND is missing: use put, list")
	contains(t, s.fails(exitUsage, "push", "stop"), `unknown command "stop"`)
	contains(t, s.fails(exitFailed, "push", "pause", "none"), "none: no push has this name")
	contains(t, s.call("push", "delete", "crm"), "deleted crm\n")
	contains(t, s.fails(exitFailed, "push", "show", "crm"), "no push has this name")
}

// A daemon with NATS pushes there; while nobody listens, a test says so.
func TestPushToNATS(t *testing.T) {
	t.Parallel()
	url := natsServer(t)
	s := newShell(t, "BELLHOP_NATS_URL="+url)
	serve := s.start("serve")
	serve.await(1, "msg=elected")
	contains(t, s.fails(exitUsage, "push", "put", "jobs", "--topic", "mail", "--to", "nats:bellhop.publish.mail"), "subjects under bellhop are Bellhop's own")
	contains(t, newShell(t, "BELLHOP_NATS_PREFIX=shop.bells").fails(exitUsage, "push", "put", "jobs", "--topic", "mail", "--to", "nats:shop.>"), "a topic could make it one of the subjects under shop.bells")
	contains(t, s.call("push", "put", "jobs", "--topic", "mail,sms.*", "--to", "nats:jobs.>"), "to         nats:jobs.>\n", "timeout    30s\n")
	contains(t, s.call("push", "list"), "NAME  TOPICS      TO           STATE\n", "jobs  mail,sms.*  nats:jobs.>  works\n")
	contains(t, s.call("push", "show", "jobs", "--json"), `"to":"nats:jobs.>"`)
	s.fails(exitFailed, "push", "test", "jobs")
	home := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")).Home()
	storetest.Must(t, home.PushStored(t.Context(), "jobs", "jobs.mail", "MAILS"))
	contains(t, s.call("push", "show", "jobs"), "state      nobody listens\n", "stream     MAILS stores each try to jobs.mail: take the subject from it, or have a client listen\n")
	contains(t, s.call("push", "show", "jobs", "--json"), `"stored":{"jobs.mail":"MAILS"}`)
	storetest.Must(t, home.PushStored(t.Context(), "jobs", "jobs.mail", ""))
	contains(t, s.call("push", "show", "jobs"), "state      works\n")
	conn, err := nats.Connect(url)
	storetest.Must(t, err)
	t.Cleanup(conn.Close)
	got := make(chan *nats.Msg, 10)
	storetest.Must(t, storetest.ErrOf(conn.ChanSubscribe("jobs.sms.de", got)))
	storetest.Must(t, conn.Flush())
	s.call("publish", "sms.de", "--id", "a", "--delay", "100ms", "--body", "hello")
	m := storetest.Receive(t, "it is pushed", got)
	if m.Header.Get("ce-id") != "a" || string(m.Data) != "hello" {
		t.Errorf("got %v %q", m.Header, m.Data)
	}
	storetest.Must(t, m.Respond([]byte("+ACK")))
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
	contains(t, s.call("topics"), "sms.de  0")
}

// A put that changes the pattern of a push of broadcasts says what is dropped by that.
func TestPushPutDrops(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "crm.key")
	storetest.Must(t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	s := newShell(t)
	s.serve()
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	put := func(pattern string) string {
		t.Helper()
		return s.call("push", "put", "crm", "--broadcasts", "--topic", pattern, "--url", "https://x.example", "--secret-file", secret)
	}
	put("prices.*")
	s.broadcast("prices.gold a")
	storetest.Eventually(t, "it is sent", func() bool {
		grown, err := db.Of("prices.gold").Grown(t.Context(), 0, 1, "prices.gold")
		return err == nil && len(grown.Logs) == 1
	})
	if out := put("prices.>"); strings.Contains(out, "dropped") {
		t.Errorf("the new pattern matches all: %s", out)
	}
	contains(t, put("news.*"), "dropped     what was still to be sent of prices.gold\n")
}
