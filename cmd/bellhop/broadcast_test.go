package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestBroadcastIsScheduled(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	out := s.call("broadcast", "prices.gold", "--id", "1", "--delay", "1h", "--body", "42", "--header", "A=b", "--content-type", "text/plain")
	contains(t, out, "prices.gold 1 scheduled ", "(in ")
	contains(t, s.fails(exitFailed, "broadcast", "prices.gold", "--id", "1", "--body", "x"), "prices.gold:1: id already in use")
	contains(t, s.call("inspect", "prices.gold", "1"), "mode          broadcast", "state         scheduled", "header A      b", "\n42\n")
	var info api.Message
	s.json(&info, "inspect", "prices.gold", "1", "--json")
	if info.Mode != record.ModeBroadcast || string(info.Bytes()) != "42" || info.Headers["A"] != "b" || info.ContentType != "text/plain" || info.State != notify.Scheduled {
		t.Errorf("got %+v", info)
	}
	contains(t, s.call("reschedule", "prices.gold", "1", "--delay", "3h"), "prices.gold 1 scheduled ", "(in ")
	if c := s.counts("prices.gold"); c.Broadcasts != 1 || c.Scheduled != 0 || c.Ready != 0 {
		t.Errorf("got %+v, want 1 scheduled broadcast", c)
	}
	contains(t, s.call("topics"), "OVERDUE  LATE  BCAST  LOG", "-        -     1      0")
	if out := s.call("cancel", "prices.gold", "1"); out != "prices.gold 1 cancelled, it was scheduled\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.fails(exitFailed, "inspect", "prices.gold", "1"), "no such message")
	if c := s.counts("prices.gold"); c.Broadcasts != 0 {
		t.Errorf("got %+v, want no scheduled broadcast", c)
	}
}

func TestBroadcastFromStandardInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	body := "two lines\n\x00\xff and bytes\n"
	if r := s.feed(body, "broadcast", "t", "--id", "1", "--due", "2100-01-01T00:00:00Z", "--json"); r.code != 0 || !strings.Contains(r.out, `"state":"scheduled"`) {
		t.Fatalf("%+v", r)
	}
	var info api.Message
	s.json(&info, "inspect", "t", "1", "--json")
	if string(info.BodyBase64) != body || info.Due.UTC().Year() != 2100 {
		t.Errorf("got %+v", info)
	}
}

func TestInspectListsBroadcasts(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, id := range []string{"1", "2", "3"} {
		s.call("broadcast", "t", "--id", id, "--delay", "1h", "--body", "body "+id)
	}
	s.call("broadcast", "other", "--delay", "1h", "--body", "x")
	s.call("publish", "t", "--id", "message", "--delay", "1h", "--body", "x")
	var page api.Page
	s.json(&page, "inspect", "t", "--broadcasts", "--limit", "2", "--json")
	if len(page.Messages) != 2 || page.Messages[0].ID != "1" || page.Messages[0].Mode != record.ModeBroadcast || page.Cursor == "" {
		t.Errorf("got %+v", page)
	}
	out := s.call("inspect", "t", "--broadcasts", "--cursor", page.Cursor)
	contains(t, out, "3   scheduled", "body 3")
	if strings.Contains(out, "more:") || strings.Contains(out, "body 2") {
		t.Errorf("it is not the last page:\n%s", out)
	}
	var messages api.Page
	s.json(&messages, "inspect", "t", "--json")
	if len(messages.Messages) != 1 || messages.Messages[0].ID != "message" || messages.Messages[0].Mode != "" {
		t.Errorf("got %+v, want the message alone", messages)
	}
	contains(t, s.call("inspect", "none", "--broadcasts"), "no messages")
	contains(t, s.fails(exitUsage, "inspect", "t", "--broadcasts", "--state", "dead"), "unexpected flag --state")
	contains(t, s.fails(exitUsage, "inspect", "t", "1", "--broadcasts"), "unexpected flag --broadcasts")
}

func TestBroadcastRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_MAX_BODY=10B")
	for _, test := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{}, "x", "TOPIC is missing"},
		{[]string{"t", "more"}, "x", `unexpected argument "more"`},
		{[]string{"t.*"}, "x", `invalid topic "t.*"`},
		{[]string{"t", "--id", ""}, "x", "--id is empty; leave it out"},
		{[]string{"t"}, "", "invalid body: standard input is empty; give --body ''"},
		{[]string{"t"}, "01234567890", "invalid body: more than 10 bytes"},
		{[]string{"t", "--delay", "-1s"}, "x", "invalid delay -1s: it is negative"},
		{[]string{"t", "--due", "tomorrow"}, "x", `invalid due "tomorrow"`},
		{[]string{"t", "--header", "x"}, "x", `invalid header "x"`},
		{[]string{"t", "--nonsense"}, "x", "unknown flag: --nonsense\nbellhop: run 'bellhop broadcast --help'\n"},
		{[]string{"t", "--ttl", "0.5ms"}, "x", "invalid ttl 500µs: use 1ms or more"},
		{[]string{"t", "--lease", "1m"}, "x", "unknown flag: --lease: a broadcast has no lease of its own, but each named listener has"},
		{[]string{"t", "--fail=drop"}, "x", "unknown flag: --fail: a broadcast has none: it is for a message to one worker, which bellhop publish sends"},
		{[]string{"t", "--attempts=3"}, "x", "unknown flag: --attempts: a broadcast has no limit of its own"},
		{[]string{"--file", "-"}, "x", "unknown flag: --file: many are sent by bellhop publish --file"},
	} {
		r := s.feed(test.stdin, append([]string{"broadcast"}, test.args...)...)
		if r.code != exitUsage || !strings.Contains(r.err, test.want) || !strings.HasPrefix(r.err, "bellhop: ") || r.out != "" {
			t.Errorf("broadcast %q: exit %d, %s, want exit 2 and %q", test.args, r.code, r.err, test.want)
		}
	}
	if out := s.call("topics"); !strings.Contains(out, "no topic") {
		t.Errorf("something was sent:\n%s", out)
	}
}

func TestPublishFileTakesBroadcasts(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	lines := []string{
		`{"topic":"t","id":"m","delay":"1h","body":"x"}`,
		`{"topic":"t","id":"n","mode":"message","delay":"1h","body":"x"}`,
		`{"topic":"t","id":"b","mode":"broadcast","delay":"1h","body":"x"}`,
		`{"topic":"t","id":"b","mode":"broadcast","delay":"1h","body":"again"}`,
		`{"topic":"t","id":"c","mode":"broadcast","delay":"1h","body":"x"}`,
		`{"topic":"t","id":"m","mode":"broadcast","delay":"1h","body":"x"}`,
		`{"topic":"t","mode":"all","body":"x"}`,
		`{"topic":"t","mode":"broadcast","delay":"1h","ttl":"1h","body":"x"}`,
		`{"topic":"t","mode":"broadcast","attempts":1,"body":"x"}`,
	}
	r := s.feed(strings.Join(lines, "\n"), "publish", "--file", "-")
	if r.code != exitFailed || r.out != "published 5, refused 4\n" {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	contains(t, r.err, "line 4: publish t:b: id already in use", "line 6: publish t:m: id already in use", `line 7: invalid mode "all"`,
		"line 9: invalid attempts 1: a broadcast has none")
	if c := s.counts("t"); c.Scheduled != 2 || c.Broadcasts != 3 {
		t.Errorf("got %+v, want 2 messages and 3 scheduled broadcasts", c)
	}
}

// A broadcast that cannot be sent becomes a dead letter, and its export has its mode.
func TestDeadBroadcast(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Must(t, db.Client().Set(t.Context(), db.Keys().Log("t"), "foreign", 0).Err())
	s.start("serve")
	s.call("broadcast", "t", "--id", "1", "--body", "x")
	storetest.Eventually(t, "it is dead", func() bool { return strings.Contains(s.call("inspect", "t", "1"), "dead") })
	lines := s.call("dead", "export", "t")
	var line notify.Line
	if err := json.Unmarshal([]byte(lines), &line); err != nil || line.Mode != record.ModeBroadcast || line.Reason == "" || line.Body == nil || *line.Body != "x" {
		t.Errorf("got %s, %v", lines, err)
	}
	contains(t, s.call("inspect", "t", "1"), "mode       broadcast\n", "state      dead\n")
	storetest.Must(t, db.Client().Del(t.Context(), db.Keys().Log("t")).Err())
	if out := s.call("dead", "requeue", "t", "1"); out != "requeued 1\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.call("listen", "t", "--from", "beginning", "--count", "1"), "  t  1  ", " late  x\n")
}
