package natsgate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// builtIn are the settings of a topic if none is set.
func builtIn(topic string) api.Settings {
	return api.Settings{Topic: topic, Attempts: 10, LeaseMs: 30_000, BackoffMinMs: 1000, BackoffMaxMs: 600_000, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go", Rate: "none", Own: []string{}}
}

// wantSettings checks the answer to a request about settings.
func wantSettings(t *testing.T, reply *nats.Msg, want api.Settings) {
	t.Helper()
	if diff := cmp.Diff(want, read[api.Settings](t, reply)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	subject := "bellhop.settings." + topic
	want, common := builtIn(topic), builtIn("*")
	wantSettings(t, request(t, conn, subject, ""), want)
	wantSettings(t, request(t, conn, "bellhop.defaults", ""), common)
	want.Attempts, want.LeaseMs, want.Own = 5, 60_000, []string{"attempts", "lease"}
	wantSettings(t, request(t, conn, subject, `{"attempts":5,"lease":"1m"}`), want)
	common.LeaseMs, common.BackoffMinMs, common.Own = 3_600_000, 2000, []string{"lease", "backoff_min"}
	wantSettings(t, request(t, conn, "bellhop.defaults", `{"lease":"1h","backoff_min":"2s"}`), common)
	want.LeaseMs, want.BackoffMinMs, want.Paused, want.Own = 3_600_000, 2000, true, []string{"attempts", "paused"}
	wantSettings(t, request(t, conn, subject, `{"lease":null,"paused":true}`), want)
	wantSettings(t, request(t, conn, subject, ""), want)
	if c := counts(t, store); !c.Paused {
		t.Errorf("there is %+v", c)
	}
	wantSettings(t, request(t, conn, "bellhop.defaults", `{"lease":null,"backoff_min":null}`), builtIn("*"))
	wantSettings(t, request(t, conn, subject, `{"attempts":null,"paused":null}`), builtIn(topic))
	storetest.Empty(t, store)
}

// The data of both subjects are read for their own topics, and what is refused changes nothing.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	for _, test := range []struct{ subject, data, fields, text string }{
		{"settings." + topic, ` `, "settings", "not a JSON object"},
		{"settings." + topic, `{"atempts":5,"lease":60,"paused":"x"}`, "atempts lease paused", "did you mean attempts?"},
		{"settings.no!topic", `{"attempts":5}`, "topic", "no!topic"},
		{"settings.no!topic", ``, "topic", "no!topic"},
		{"defaults", `{"paused":true,"attempts":"5"}`, "attempts paused", "set it for each one"},
	} {
		reply := request(t, conn, "bellhop."+test.subject, test.data)
		wantRefused(t, reply, 422, test.text)
		if got := faultsOf(t, reply); got != test.fields {
			t.Errorf("%s %s: faults of %q, want %q", test.subject, test.data, got, test.fields)
		}
	}
	storetest.Empty(t, store)
}

// The right to the settings of topics does not include the defaults by a literal *, which a server takes as a subject.
func TestSettingsOfALiteralStar(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bell", Password: secret},
			{Username: "shop", Password: secret, Permissions: rights("_INBOX.>", "bellhop.settings.> bellhop.inspect.>")},
		}
	})
	store := storetest.Open(t)
	newGate(t, store, natsgate.Options{URL: strings.Replace(n.ClientURL(), "//", "//bell:"+secret+"@", 1)})
	conn := n.connect(nats.UserInfo("shop", secret))
	serving(t, conn)
	read[api.Settings](t, request(t, conn, "bellhop.settings."+topic, `{"attempts":5}`))
	wantRefused(t, request(t, conn, "bellhop.settings.*", `{"attempts":5}`), 422, `topic "*"`)
	wantRefused(t, request(t, conn, "bellhop.settings.>", ""), 422, `topic ">"`)
	got, err := storetest.Inspector(t, store).Settings(t.Context(), notify.AllTopics)
	if err != nil || len(got.Own) > 0 {
		t.Errorf("for all topics there is %+v, %v", got, err)
	}
}

// A message claimed over NATS has the lease of its topic, and keeps it when that changes.
func TestLeaseOfSettings(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	read[api.Settings](t, request(t, conn, "bellhop.settings."+topic, `{"lease":"2h"}`))
	storetest.Publish(t, store, body("a"))
	messages, _ := claim(t, conn, "")
	until := messages[0].Header.Get("Bellhop-Lease-Until")
	read[api.Settings](t, request(t, conn, "bellhop.settings."+topic, `{"lease":"100ms"}`))
	if got := info(t, store, "a").Until.UTC().Format("2006-01-02T15:04:05"); !strings.HasPrefix(until, got) {
		t.Errorf("it is leased until %s, was %s", got, until)
	}
	before := info(t, store, "a").Until
	settle(t, conn, messages[0], "+WPI") // the time of the claim, again
	if got := info(t, store, "a").Until; !got.After(before) {
		t.Errorf("it is leased until %v, was %v", got, before)
	}
	settle(t, conn, messages[0], "+ACK")
}
