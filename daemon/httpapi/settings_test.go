package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
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
	if got := read[calls.Topics](s.call("GET", "/v1/topics", "").is(200)); len(got.Topics) != 0 {
		t.Errorf("the topic is still known: %+v", got)
	}
	storetest.Empty(t, s.store)
}

// Faults of the body, of the address and of its query are reported each with its place, and nothing is changed.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("PATCH", settingsPath, `{"attempts":3,"backoff_min":"1m"}`).is(200)
	same := s.unchanged()
	for body, want := range map[string]string{
		``: "settings", `{"attempts":5}x`: "settings", `{"atempts":5}`: "atempts", `{"backoff_max":"59s"}`: "backoff_max", `{"attempts":0,"lease":5,"x":1,"paused":"yes"}`: "attempts lease paused x",
	} {
		p := s.call("PATCH", settingsPath, body).is(422).kind("invalid").problem()
		if got := strings.Join(names(p), " "); got != want || slices.ContainsFunc(p.Errors, func(f api.ProblemFault) bool { return f.In != "body" }) {
			t.Errorf("%s: faults of %q, want %q: %+v", body, got, want, p.Errors)
		}
	}
	s.call("PATCH", settingsPath+"?attempts=5", `{"attempts":5}`).is(422).says("unknown")
	s.call("PATCH", settingsPath, `{"attempts":5,"x":"`+strings.Repeat("x", 1<<20)+`"}`).is(413)
	for _, topic := range []string{"a..b", "order.*", "order.>", "%3E", "**", "*.a", strings.Repeat("a", 129)} {
		s.call("PATCH", "/v1/topics/"+topic+"/settings", `{"attempts":5}`).is(422).says("topic")
		s.call("GET", "/v1/topics/"+topic+"/settings", "").is(422).says("topic")
	}
	s.call("DELETE", settingsPath, "").is(http.StatusMethodNotAllowed)
	same()
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
