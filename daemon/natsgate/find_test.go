package natsgate_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A request finds messages of its topic, or of all, in pages that fit into an answer.
func TestFind(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, func(o *server.Options) { o.MaxPayload = 4096 }), storetest.Open(t)
	newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Delay: time.Hour, Body: []byte(strings.Repeat("x", 1500))},
			notify.Message{Topic: "other", ID: id, Delay: time.Hour, Body: []byte("4711")})
	}
	found := func(subject, question string) (n int) {
		t.Helper()
		for cursor := ""; ; {
			got := read[calls.Found](t, request(t, conn, subject, `{"q":"`+question+`","cursor":"`+cursor+`","limit":5}`))
			if n += len(got.Messages); got.Cursor == "" {
				return n
			}
			if raw, err := base64.RawURLEncoding.DecodeString(got.Cursor); err != nil || !strings.HasSuffix(subject, "-all") && strings.Contains(string(raw), `"q"`) {
				t.Errorf("%s: the cursor %q is not sealed, %v", subject, raw, err)
			}
			cursor = got.Cursor
		}
	}
	for subject, want := range map[string]int{"bellhop.find." + topic: 5, "bellhop.find.other": 5, "bellhop.find-all": 10, "bellhop.find.none": 0} {
		if got := found(subject, "state:scheduled"); got != want {
			t.Errorf("%s: %d messages, want %d", subject, got, want)
		}
	}
	if got := found("bellhop.find-all", "body~4711 id:*"); got != 5 {
		t.Errorf("%d messages", got)
	}
	wantRefused(t, request(t, conn, "bellhop.find-all", ""), 422)
	wantRefused(t, request(t, conn, "bellhop.find-all", `{"q":"stat:dead"}`), 422, "did you mean state?")
	wantRefused(t, request(t, conn, "bellhop.find-all", `{"q":"id:a","limit":0}`), 422, "limit")
	wantRefused(t, request(t, conn, "bellhop.find-all", `{"q":"id:a","cursor":"x"}`), 422, "cursor")
	wantRefused(t, request(t, conn, "bellhop.find.a!b", `{"q":"id:a"}`), 422, "topic")
}
