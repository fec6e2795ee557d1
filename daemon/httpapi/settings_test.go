package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	settingsPath = topicPath + "/settings"
	commonPath   = "/v1/topics/*/settings"
)

// builtIn returns the settings of a topic without any set.
func builtIn(topic string) api.Settings {
	return api.Settings{Topic: topic, Attempts: 10, LeaseMs: 30_000, BackoffMinMs: 1000, BackoffMaxMs: 600_000, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go", Rate: "none", Own: []string{}}
}

// wantSettings checks the settings in an answer.
func wantSettings(t *testing.T, a answer, want api.Settings) {
	t.Helper()
	if diff := cmp.Diff(want, read[api.Settings](a.is(200))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", a.call, diff)
	}
}

// Settings can be changed one by one, also of an unused topic, and returned to the defaults.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	want, common := builtIn("orders"), builtIn("*")
	wantSettings(t, s.call("GET", settingsPath, ""), want)
	want.Attempts, want.LeaseMs, want.Own = 5, 60_000, []string{"attempts", "lease"}
	wantSettings(t, s.call("PATCH", settingsPath, `{"lease":"1m","attempts":5}`, "Content-Type: application/json"), want)
	common.Attempts, common.LeaseMs, common.BackoffMaxMs, common.Own = 7, 120_000, 3_600_000, []string{"attempts", "lease", "backoff_max"}
	wantSettings(t, s.call("PATCH", commonPath, `{"lease":"2m","attempts":7,"backoff_max":"1h"}`, "Content-Type: application/merge-patch+json"), common)
	wantSettings(t, s.call("GET", "/v1/topics/%2A/settings", ""), common)

	want.BackoffMaxMs = 3_600_000
	wantSettings(t, s.call("GET", settingsPath, ""), want)
	want.LeaseMs, want.Own = 120_000, []string{"attempts"}
	wantSettings(t, s.call("PATCH", settingsPath, `{"lease":null}`), want)
	want.Attempts, want.BackoffMinMs, want.BackoffMaxMs, want.Paused = 7, 1, 365*86_400_000, true
	want.Own = []string{"backoff_min", "backoff_max", "paused"}
	wantSettings(t, s.call("PATCH", settingsPath, `{"attempts":null,"lease":null,"backoff_min":"1ms","backoff_max":"365d","paused":true}`), want)
	wantSettings(t, s.call("GET", settingsPath, ""), want)
	s.call("GET", topicPath, "").is(200).says(`"paused":true`)

	want = builtIn("orders")
	wantSettings(t, s.call("PATCH", commonPath, `{"lease":null,"attempts":null,"backoff_max":null}`), builtIn("*"))
	wantSettings(t, s.call("PATCH", settingsPath, `{"backoff_min":null,"backoff_max":null,"paused":false}`), want)
	if got := read[api.Topics](s.call("GET", "/v1/topics", "").is(200)); len(got.Topics) != 0 {
		t.Errorf("the topic is still known: %+v", got)
	}
	storetest.Empty(t, s.store)
}

// All faults are reported at once, each with its field, and nothing is changed.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("PATCH", settingsPath, `{"attempts":3,"backoff_min":"1m"}`).is(200)
	same := s.unchanged()
	for body, want := range map[string]string{
		``:                            "settings",
		`{}`:                          "settings",
		`[]`:                          "settings",
		`"attempts"`:                  "settings",
		`{"attempts":5`:               "settings",
		`{"attempts":5}x`:             "settings",
		`{"atempts":5}`:               "atempts",
		`{"attempts":5,"attempts":6}`: "attempts",
		`{"backoff_max":"59s"}`:       "backoff_max", // less than the set value
		`{"backoff_min":"20m"}`:       "backoff_max", // more than the default of the other
		`{"backoff_min":"2m","backoff_max":"1m"}`:              "backoff_max",
		`{"attempts":9,"lease":"x"}`:                           "lease",
		`{"attempts":0,"lease":5,"x":1,"paused":"yes"}`:        "attempts lease x paused",
		`{"lease":"99ms","backoff_min":"367d","attempts":1e6}`: "lease backoff_min attempts",
		`{"paused":0,"backoff_min":"1h","backoff_max":"1s"}`:   "paused backoff_max",
	} {
		p := s.call("PATCH", settingsPath, body).is(422).kind("invalid").problem()
		var names []string
		for _, e := range p.Errors {
			names = append(names, e.Name)
			if e.In != "body" || !strings.Contains(e.Detail, e.Name) {
				t.Errorf("%s: %+v", body, e)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: faults of %q, want %q", body, got, want)
		}
	}
	s.call("PATCH", settingsPath, `{"atempts":5}`).says("did you mean attempts? use attempts, lease, backoff_min, backoff_max, archive_acked, paused, history, key_concurrency, on_retry, on_dead, concurrency, rate, burst")
	s.call("PATCH", settingsPath, `{"ring_only":true}`).is(422).says("it is gone, since messages are always handed over")
	s.call("PATCH", commonPath, `{"paused":true,"attempts":-1}`).is(422).says("attempts \\\"-1\\\"").says("it is not for all topics together; set it for each one")
	s.call("PATCH", settingsPath+"?attempts=5", `{"attempts":5}`).is(422).says("unknown")
	s.call("PATCH", settingsPath, `{"attempts":5,"x":"`+strings.Repeat("x", 1<<20)+`"}`).is(413)
	for _, topic := range []string{"a..b", "order.*", "order.>", "%3E", "**", "*.a", strings.Repeat("a", 129)} {
		s.call("PATCH", "/v1/topics/"+topic+"/settings", `{"attempts":5}`).is(422).says("topic")
		s.call("GET", "/v1/topics/"+topic+"/settings", "").is(422).says("topic")
	}
	s.call("DELETE", settingsPath, "").is(http.StatusMethodNotAllowed)
	same()
}

// A token with the right admin may change the settings of its topics; those of * need a token for all topics.
func TestWhoMayChangeSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", strings.Join([]string{
		"reader " + tokenOf("reader") + " publish,consume,listen,metrics >",
		"here " + tokenOf("here") + " admin order.>,mail",
		"single " + tokenOf("single") + " admin *",
		"all " + tokenOf("all") + " admin >",
		"most " + tokenOf("most") + " admin *,*.>",
	}, "\n"))})
	for _, test := range []struct {
		token, topic string
		read, change int
	}{
		{"reader", "mail", 200, 403},
		{"reader", "*", 200, 403},
		{"here", "mail", 200, 200},
		{"here", "order.timeout", 200, 200},
		{"here", "order", 403, 403},
		{"here", "payments", 403, 403},
		{"here", "*", 403, 403},
		{"single", "mail", 200, 200},
		{"single", "*", 403, 403}, // as a pattern it is every topic of one word
		{"most", "*", 403, 403},
		{"all", "payments.card", 200, 200},
		{"all", "*", 200, 200},
	} {
		path, auth := "/v1/topics/"+test.topic+"/settings", "Authorization: Bearer "+tokenOf(test.token)
		same := s.unchanged()
		s.call("GET", path, "", auth).is(test.read)
		a := s.call("PATCH", path, `{"attempts":5}`, auth).is(test.change)
		if test.change != 200 {
			a.kind("forbidden")
			same()
		}
	}
	s.call("PATCH", commonPath, `{"attempts":5}`).is(401)
}

// A topic is paused by its settings or by the call alike, and its resume rings a waiting subscriber.
func TestPauseBySettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	h := serve(t, s.store, httpapi.Options{}, httpapi.Timing{})
	for i, calls := range [][2][3]string{
		{{"PATCH", settingsPath, `{"paused":true}`}, {"PATCH", settingsPath, `{"paused":false}`}},
		{{"PATCH", settingsPath, `{"paused":true}`}, {"PATCH", settingsPath, `{"paused":null}`}},
		{{"POST", topicPath + "/pause", ""}, {"PATCH", settingsPath, `{"paused":false}`}},
		{{"PATCH", settingsPath, `{"paused":true,"attempts":4}`}, {"POST", topicPath + "/resume", ""}},
	} {
		pause, resume := calls[0], calls[1]
		s.call(pause[0], pause[1], pause[2])
		s.call("POST", messages+"?id="+fmt.Sprint(i), "x").is(201)
		s.call("GET", topicPath, "").is(200).says(`"paused":true`)
		s.call("GET", settingsPath, "").is(200).says(`"paused":true`)
		got := h.claim(client(t), "orders", "wait=20s")
		storetest.Eventually(t, "it waits", func() bool { return read[api.Topic](s.call("GET", topicPath, "")).Waiting == 1 })
		s.call(resume[0], resume[1], resume[2]) // no carrier is here to help
		c := storetest.Receive(t, "the claim is answered", got)
		if diff := cmp.Diff([]string{fmt.Sprint(i)}, ids(t, c)); diff != "" {
			t.Errorf("%v: %s", calls, diff)
		}
		for _, m := range c.messages {
			s.call("POST", settle(m, "ack", ""), "").is(204)
		}
		s.call("GET", settingsPath, "").is(200).says(`"paused":false`)
	}
	wantSettings(t, s.call("PATCH", settingsPath, `{"attempts":null}`), builtIn("orders"))
}

// Settings stay when all else of a topic is forgotten, or never existed.
func TestSettingsStay(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("PATCH", "/v1/topics/unused/settings", `{"attempts":2}`).is(200)
	s.call("PATCH", settingsPath, `{"lease":"1h"}`).is(200)
	for _, topic := range []string{"orders", "other"} {
		s.call("POST", "/v1/topics/"+topic+"/messages", "x").is(201)
		d := s.claim(topic)
		s.call("POST", fmt.Sprintf("/v1/topics/%s/messages/%s/ack?receipt=%d", topic, d.ID, d.Receipt), "").is(204)
	}
	c, err := carrier.New(s.store, carrier.Options{KeepTopics: carrier.MinKeepAge, KeepAge: carrier.MinKeepAge, Sweep: carrier.MinSweep})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, c.Run)
	known := func() (names []string) {
		for _, topic := range read[api.Topics](s.call("GET", "/v1/topics", "").is(200)).Topics {
			names = append(names, topic.Topic)
		}
		return names
	}
	storetest.Eventually(t, "another topic is forgotten", func() bool { return !strings.Contains(strings.Join(known(), " "), "other") })
	if diff := cmp.Diff([]string{"orders", "unused"}, known()); diff != "" {
		t.Error(diff)
	}
	want := builtIn("orders")
	want.LeaseMs, want.Own = 3_600_000, []string{"lease"}
	wantSettings(t, s.call("GET", settingsPath, ""), want)
	want = builtIn("unused")
	want.Attempts, want.Own = 2, []string{"attempts"}
	wantSettings(t, s.call("GET", "/v1/topics/unused/settings", ""), want)
}

// The limit of attempts is that of the message, else of its topic, else of all topics,
// else the built-in one, wherever an attempt fails.
func TestWhichLimitOfAttemptsCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, topic, common, query string
		limit                      int
	}{
		{"message over topic over store", `{"attempts":4}`, `{"attempts":5}`, "&attempts=2", 2},
		{"topic over store", `{"attempts":3}`, `{"attempts":4}`, "", 3},
		{"store over built-in", `{"attempts":null}`, `{"attempts":2}`, "", 2},
		{"built-in", `{"attempts":null}`, `{"attempts":null}`, "", 10},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := start(t, httpapi.Options{})
			carry(t, s.store)
			s.call("PATCH", settingsPath, test.topic).is(200)
			s.call("PATCH", commonPath, test.common).is(200)
			s.wantAttempts("refused", test.query, test.limit, func(d api.Delivery) {
				s.call("POST", settle(d, "nack", "&delay=0s&reason=no"), "").is(204)
			})
			s.wantAttempts("lease expiry", test.query, test.limit, func(d api.Delivery) {
				s.call("POST", settle(d, "extend", "&lease=100ms"), "").is(200)
			})
		})
	}
}

// wantAttempts publishes a message, has each attempt fail, and checks that it dies after so many.
func (s *server) wantAttempts(how, query string, limit int, fail func(api.Delivery)) {
	s.t.Helper()
	s.call("POST", messages+"?id=a"+query, "x").is(201)
	attempts := 0
	for {
		var state notify.State
		storetest.Eventually(s.t, "it is ready or dead", func() bool {
			state = s.look("a").State
			return state == notify.Ready || state == notify.Dead
		})
		if state == notify.Dead {
			break
		}
		attempts++
		fail(s.claim("orders"))
	}
	if got := s.look("a"); attempts != limit || got.AttemptsUsed != limit {
		s.t.Errorf("%s: it died after %d attempts, %d used up, want %d", how, attempts, got.AttemptsUsed, limit)
	}
	s.call("DELETE", messages+"/a", "").is(200)
}

// The wait after a failure follows the topic's backoff, else the store's.
func TestWhichBackoffCounts(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("PATCH", commonPath, `{"backoff_min":"100d","backoff_max":"100d"}`).is(200)
	fails := func() time.Duration {
		s.call("POST", messages+"?id=a", "x").is(201)
		s.call("POST", settle(s.claim("orders"), "nack", ""), "").is(204)
		got := s.look("a")
		wait := got.Due.Sub(got.History[0].Ended)
		s.call("DELETE", messages+"/a", "").is(200)
		return wait
	}
	if wait := fails(); wait < time.Minute { // improbable: 1 in 144,000
		t.Errorf("by the store's backoff it waits %v", wait)
	}
	s.call("PATCH", settingsPath, `{"backoff_min":"1ms"}`).is(200)
	if wait := fails(); wait > time.Second {
		t.Errorf("by the topic's backoff it waits %v", wait)
	}
}

// A claim has the lease that it asks for, else that of the settings; a leased message keeps its lease when settings change.
func TestWhichLeaseCounts(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	left := func(d api.Delivery) time.Duration { return time.Until(until(d)).Round(time.Minute) }
	claimed := func(query string) api.Delivery {
		t.Helper()
		s.call("POST", messages, "x").is(201)
		got := read[api.Claimed](s.call("POST", topicPath+"/claim?"+query, "").is(200)).Messages
		if len(got) != 1 {
			t.Fatalf("got %+v", got)
		}
		return got[0]
	}
	s.call("PATCH", commonPath, `{"lease":"2h"}`).is(200)
	first := claimed("")
	s.call("PATCH", settingsPath, `{"lease":"3h"}`).is(200)
	second, third := claimed(""), claimed("lease=4h")
	if got := []time.Duration{left(first), left(second), left(third)}; !cmp.Equal(got, []time.Duration{2 * time.Hour, 3 * time.Hour, 4 * time.Hour}) {
		t.Errorf("the leases are %v", got)
	}
	s.call("PATCH", settingsPath, `{"lease":"100ms"}`).is(200)
	s.call("PATCH", commonPath, `{"lease":null}`).is(200)
	for _, d := range []api.Delivery{first, second, third} {
		if got := s.look(d.ID); got.State != notify.Leased || !got.Until.Equal(until(d).UTC()) {
			t.Errorf("got %+v, want it leased until %v", got, until(d))
		}
		s.call("POST", settle(d, "ack", ""), "").is(204)
	}
}

// Unreadable settings are reported, not guessed; a change of them repairs them.
func TestUnreadableSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("PATCH", settingsPath, `{"attempts":5}`).is(200)
	if err := s.store.Client().HSet(t.Context(), s.store.KeysOf("orders").Topics(), "orders:settings", " attempts=5 lease=soon").Err(); err != nil {
		t.Fatal(err)
	}
	s.call("GET", settingsPath, "").is(500).says(`unreadable settings: \"lease=soon\"`)
	want := builtIn("orders")
	want.Attempts, want.LeaseMs, want.Own = 5, 1000, []string{"attempts", "lease"}
	wantSettings(t, s.call("PATCH", settingsPath, `{"lease":"1s"}`), want)
}

// A change of settings is accepted exactly if the document permits it.
func TestDocumentOfSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for body, status := range map[string]int{
		`{"attempts":1}`:                        200,
		`{"attempts":1000000,"lease":"1d"}`:     200,
		`{"attempts":null,"lease":null}`:        200,
		`{"backoff_min":null,"paused":true}`:    200,
		`{"paused":false,"backoff_max":"1.5h"}`: 200,
		`{"paused":null,"backoff_max":null}`:    200,
		`{}`:                                    422,
		`[]`:                                    422,
		`{"attempts":0}`:                        422,
		`{"attempts":1000001}`:                  422,
		`{"attempts":1.5}`:                      422,
		`{"attempts":"5"}`:                      422,
		`{"lease":60}`:                          422,
		`{"lease":""}`:                          422,
		`{"lease":"1w"}`:                        422,
		`{"paused":"true"}`:                     422,
		`{"priority":1}`:                        422,
		`{"attempts":5,"lease_ms":60000}`:       422,
	} {
		s.call("PATCH", settingsPath, body).is(status)
		for _, op := range s.spec.ops {
			if op.OperationID != "changeSettings" {
				continue
			}
			for kind := range op.RequestBody.Content {
				if err := s.spec.json(op.pointer+pointer("requestBody", "content", kind, "schema"), []byte(body)); (err == nil) != (status == 200) {
					t.Errorf("%s as %s is answered %d, but the document says: %v", body, kind, status, err)
				}
			}
		}
	}
}
