package httpapi_test

import (
	"fmt"
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
	if err != nil {
		t.Fatal(err)
	}
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

// What is wrong with a push is said at once, and changes nothing.
func TestWrongPush(t *testing.T) {
	t.Parallel()
	s := pushing(t, "public", httpapi.Options{})
	ok := `{"topics":["order.paid"],"url":"https://crm.example","secrets":["` + pushSecret + `"]}`
	s.call("PUT", pushPath, ok).is(200)
	for body, texts := range map[string][]string{
		`{}`:                                     {"topics: there are none", "url: it is missing", "https://HOST/PATH", "nats:SUBJECT"},
		`{"topics":["mail"],"to":"jobs.mail"}`:   {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:jobs.*"}`: {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:$JS.API.STREAM.PURGE.A"}`:           {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:>"}`:                                {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:_INBOX.a"}`:                         {"to", "answers go there"},
		`{"topics":["mail"],"to":"nats:` + strings.Repeat("a", 256) + `"}`: {"to", "255 bytes"},
		`{"topics":["a","b"],"broadcasts":true,"url":"https://a.example"}`: {"topics: there are 2", "prices.*"},
		`{"topics":["a.*.>b"],"broadcasts":true,"to":"nats:jobs"}`:         {"topics", "use tokens of letters", "PREFIX.broadcast.TOPIC"},
		strings.Replace(ok, `order.paid`, `order.>.a`, 1):                  {"topics", "order.>.a", "use tokens of letters", "> at the end"},
		strings.Replace(ok, `order.paid`, `$dead.*`, 1):                    {"topics", "names that begin with $ are the system's"},
		strings.Replace(ok, `"order.paid"`, `"a.*","a.*","b c"`, 1):        {"topics", `a.*\" is named twice`, `b c`},
		strings.Replace(ok, `"topics"`, `"to":"nats:jobs","topics"`, 1):    {"to", "neither url nor secrets"},
		strings.Replace(ok, `"order.paid"`, `"a b","a b"`, 1):              {"topics"},
		strings.Replace(ok, "https:", "http:", 1):                          {"http is not encrypted", "BELLHOP_PUSH_ALLOW"},
		strings.Replace(ok, "https:", "ftp:", 1):                           {"url", "https://HOST/PATH"},
		strings.Replace(ok, "crm.example", "me:pw@crm.example", 1):         {"it names a user"},
		strings.Replace(ok, "crm.example", "crm.example/#a", 1):            {"what follows #"},
		strings.Replace(ok, "crm.example", "crm.example/a b", 1):           {"a blank", "%20"},
		strings.Replace(ok, "crm.example", "crm.example/?a=ä", 1):          {"not ASCII in its query"},
		strings.Replace(ok, "crm.example", "crm.example:65536", 1):         {"no port is 65536", "1 to 65535"},
		strings.Replace(ok, "crm.example", "crm.example:0", 1):             {"no port is 0"},
		strings.Replace(ok, "crm.example", "127.0.0.1", 1):                 {"127.0.0.1 is not public"},
		strings.Replace(ok, "crm.example", "[::ffff:10.0.0.1]", 1):         {"10.0.0.1 is not public"},
		strings.Replace(ok, pushSecret, "whsec_c2hvcnQ=", 1):               {"Standard Webhooks", "24 to 64", "urandom"},
		strings.Replace(ok, pushSecret, pushSecret+`","a","b`, 1):          {"secrets: there are 3"},
		strings.Replace(ok, `"topics"`, `"in_flight":1001,"topics"`, 1):    {"in flight 1001", "1000"},
		strings.Replace(ok, `"topics"`, `"in_flight":0,"topics"`, 1):       {"in flight 0", "1 to 1000"},
		strings.Replace(ok, `"topics"`, `"timeout":"25h","topics"`, 1):     {"timeout 25h", "24h"},
		strings.Replace(ok, `"topics"`, `"timeout":"0s","topics"`, 1):      {"timeout 0s", "24h"},
		strings.Replace(ok, `"topics"`, `"timeout":"soon","topics"`, 1):    {"timeout"},
		strings.Replace(ok, `"topics"`, `"retries":3,"topics"`, 1):         {`the field \"retries\" is unknown`},
		strings.Repeat(" ", 10):                                            {"push"},
	} {
		a := s.call("PUT", pushPath, body).is(422)
		for _, text := range texts {
			a.says(text)
		}
		hidden(a, pushSecret, "me:pw")
	}
	s.call("PUT", "/v1/push/mail", ok).is(422).says("the push crm has the topic order.paid")
	for _, other := range []string{"order.*", ">", "*.paid", "mail\",\"*.>"} {
		s.call("PUT", "/v1/push/mail", strings.Replace(ok, "order.paid", other, 1)).is(422).says("the push crm has the topic order.paid, and a message could match that and ")
	}
	s.call("PUT", pushPath, strings.Replace(ok, "order.paid", "order.*", 1)).is(200).says(`"topics":["order.*"]`)
	s.call("PUT", "/v1/push/mail", ok).is(422).says("the push crm has the topic order.*, and a message could match that and order.paid, but goes to one push; name topics that do not overlap")
	s.call("PUT", "/v1/push/mail", strings.Replace(ok, "order.paid", "order.*", 1)).is(422).says("the push crm has the topic order.*, and each message goes to one push")
	s.call("PUT", "/v1/push/a%20b", ok).is(422).says("name")
	hidden(s.call("GET", "/v1/push", "").is(200).says(`"url":"https://crm.example"`), "mail")
	start(t, httpapi.Options{}).call("PUT", pushPath, ok).is(404).kind("push-off").says("BELLHOP_PUSH_ALLOW is empty")
	s.call("PUT", "/v1/push/jobs", `{"topics":["mail"],"to":"nats:jobs.mail"}`).is(404).kind("no-nats").says("BELLHOP_NATS_URL is empty")
}

// A token needs the right push, and all topics of a push.
func TestPushRights(t *testing.T) {
	t.Parallel()
	s := pushing(t, "public", httpapi.Options{TokensFile: file(t, "tokens",
		"a "+tokenOf("a")+" push order.*\nb "+tokenOf("b")+" publish,consume >\nc "+tokenOf("c")+" push mail.*\n")})
	body := `{"topics":["order.paid"],"url":"https://crm.example","secrets":["` + pushSecret + `"]}`
	a, b, c := "Authorization: Bearer "+tokenOf("a"), "Authorization: Bearer "+tokenOf("b"), "Authorization: Bearer "+tokenOf("c")
	s.call("PUT", pushPath, body, b).is(403).says("this needs push")
	s.call("PUT", pushPath, body, c).is(403).says("may not use the topic order.paid")
	s.call("PUT", pushPath, body, a).is(200)
	s.call("GET", "/v1/push", "", a).is(200).says("crm")
	s.call("GET", "/v1/push", "", c).is(200).says(`{"pushes":[]}`)
	s.call("PUT", pushPath, strings.Replace(body, "order.paid", "mail.in", 1), c).is(403).says("may not use the topic order.paid")
	s.call("PUT", pushPath, strings.Replace(body, "order.paid", "order.>", 1), a).is(403).says("may not use the topic order.>")
	s.call("PUT", pushPath, strings.Replace(body, "order.paid", "order.*", 1), a).is(200)
	for _, call := range []string{"GET ", "DELETE ", "POST /pause", "POST /resume", "POST /test"} {
		method, path, _ := strings.Cut(call, " ")
		s.call(method, pushPath+path, "", c).is(403)
	}
}

// One token does not take the places of all others.
func TestPushesOfAToken(t *testing.T) {
	t.Parallel()
	s := pushing(t, "public", httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" push order.*\nb "+tokenOf("b")+" push mail.*\nc "+tokenOf("c")+" push >\n")})
	put := func(token, name, topic string) answer {
		return s.call("PUT", "/v1/push/"+name, `{"topics":["`+topic+`"],"url":"https://crm.example","secrets":["`+pushSecret+`"]}`, "Authorization: Bearer "+tokenOf(token))
	}
	for i := range 100 {
		put("a", fmt.Sprint("p", i), fmt.Sprint("order.", i)).is(200)
	}
	put("a", "more", "order.more").is(422).says("name: 100 pushes have topics of this token")
	put("a", "p7", "order.seven").is(200)
	put("b", "mail", "mail.in").is(200)
	put("c", "more", "order.more").is(200)
}
