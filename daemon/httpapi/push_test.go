package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	pushPath   = "/v1/push/crm"
	pushSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// pushing starts a gateway of a daemon that may push to some addresses.
func pushing(t *testing.T, allow string, o httpapi.Options) *server {
	t.Helper()
	store := storetest.Open(t)
	service, err := calls.NewService(store, nil, nil)
	storetest.Must(t, err)
	if service.Pusher, err = push.New(store, push.Options{Allow: allow}); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, service.Pusher.Run)
	o.Service = service
	return serveOn(t, store, o)
}

// hidden fails the test if an answer has a text.
func hidden(a answer, texts ...string) {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(string(a.body), text) {
			a.t.Errorf("%s says %q: %s", a.call, text, a.body)
		}
	}
}

// A push is added, shown without its secrets, tested, paused, resumed, changed and removed.
func TestPush(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("webhook-id") + " " + string(body)
	}))
	t.Cleanup(endpoint.Close)
	s := pushing(t, "127.0.0.1", httpapi.Options{})
	s.call("GET", "/v1/push", "").is(200).says(`{"pushes":[]}`)
	body := `{"topics":["order.paid"],"url":"` + endpoint.URL + `/hook?token=7","secrets":["` + pushSecret + `"],"timeout":"30s"}`
	added := read[api.Push](s.call("PUT", pushPath, body).is(200))
	if added.Name != "crm" || added.URL != endpoint.URL+"/hook?…" || added.Secrets != 1 || added.InFlight != 32 || added.TimeoutMs != 30_000 {
		t.Errorf("got %+v", added)
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "order.paid", ID: "a", Body: []byte("hello")})
	if one := storetest.Receive(t, "it is pushed", got); one != "order.paid:a hello" {
		t.Errorf("got %q", one)
	}
	s.call("POST", pushPath+"/test", "").is(200).says(`"ok":true,"answer":"HTTP 200 OK"`)
	if one := storetest.Receive(t, "it is tested", got); !strings.HasPrefix(one, "order.paid:test~") {
		t.Errorf("got %q", one)
	}
	storetest.Eventually(t, "the message is acknowledged", func() bool {
		c, err := storetest.Count(s.store, "order.paid")
		return err == nil && c.Acked == 1
	})
	hidden(s.call("GET", pushPath, "").is(200).says(`"leased":0`), "failing", "unheard")
	s.call("POST", pushPath+"/pause", "").is(204)
	s.call("GET", pushPath, "").is(200).says(`"paused":"by `)
	s.call("PUT", pushPath, `{"topics":["order.paid","order.sent"],"url":"`+endpoint.URL+`"}`).is(200).says(`"paused":"by `).says(`"secrets":1,"in_flight":32,"timeout_ms":10000`)
	s.call("POST", pushPath+"/resume", "").is(204)
	hidden(s.call("GET", "/v1/push", "").is(200).says(`"order.sent"`), "paused", "whsec", "token=7")
	s.call("DELETE", pushPath, "").is(204)
	s.call("GET", pushPath, "").is(404).says("no push has this name")
	for _, path := range []string{"/pause", "/resume", "/test"} {
		s.call("POST", pushPath+path, "").is(404)
	}
}

// A push that is wrong is refused, and one to where the daemon sends nothing, which has a type of its own.
func TestWrongPush(t *testing.T) {
	t.Parallel()
	s := pushing(t, "public", httpapi.Options{})
	hidden(s.call("PUT", pushPath, `{"topics":[],"url":"http://crm.example","secrets":["`+pushSecret+`"],"timeout":"0s"}`).is(422).says(`"in":"body"`), pushSecret)
	s.call("PUT", "/v1/push/a%20b", `{}`).is(422).says("name")
	s.call("PUT", "/v1/push/jobs", `{"topics":["mail"],"to":"nats:jobs.mail"}`).is(404).kind("no-nats").says("BELLHOP_NATS_URL is empty")
	start(t, httpapi.Options{}).call("PUT", pushPath, `{"topics":["mail"],"url":"https://crm.example"}`).is(404).kind("push-off").says("BELLHOP_PUSH_ALLOW is empty")
}
