package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// wantTable checks the table of settings: lines of NAME VALUE FROM.
func wantTable(t *testing.T, out string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if diff := cmp.Diff(append([]string{"NAME VALUE FROM"}, want...), lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTopicSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	wantTable(t, s.call("topics", "settings"),
		"attempts 10 built in", "lease 30s built in", "backoff_min 1s built in", "backoff_max 10m built in", "archive_acked false built in", "paused false built in", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
	wantTable(t, s.call("topics", "set", "mail", "attempts=5", "lease=1m", "paused=true"),
		"attempts 5 topic", "lease 1m topic", "backoff_min 1s built in", "backoff_max 10m built in", "archive_acked false built in", "paused true topic", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
	wantTable(t, s.call("topics", "set", "*", "lease=2m", "backoff_max=1d"),
		"attempts 10 built in", "lease 2m store", "backoff_min 1s built in", "backoff_max 24h store", "archive_acked false built in", "paused false built in", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
	wantTable(t, s.call("topics", "set", "mail", "lease=", "backoff_min=5s"),
		"attempts 5 topic", "lease 2m store", "backoff_min 5s topic", "backoff_max 24h store", "archive_acked false built in", "paused true topic", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
	wantTable(t, s.call("topics", "settings", "mail"),
		"attempts 5 topic", "lease 2m store", "backoff_min 5s topic", "backoff_max 24h store", "archive_acked false built in", "paused true topic", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
	contains(t, s.call("topics"), "mail", " paused ")

	want := `{"topic":"mail","attempts":5,"lease_ms":120000,"backoff_min_ms":5000,"backoff_max_ms":86400000,"archive_acked":false,"paused":true,"history":true,"key_concurrency":1,"on_retry":"block","on_dead":"go","concurrency":0,"rate":"none","burst":0,"branches":"","branch_ttl_ms":0,"own":["attempts","backoff_min","paused"]}` + "\n"
	if out := s.call("topics", "settings", "mail", "--json"); out != want {
		t.Errorf("got %s", out)
	}
	var all api.Settings
	s.json(&all, "topics", "set", "*", "--json", "lease=", "backoff_max=")
	if diff := cmp.Diff(api.Settings{Topic: "*", Attempts: 10, LeaseMs: 30_000, BackoffMinMs: 1000, BackoffMaxMs: 600_000, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go", Rate: "none", Own: []string{}}, all); diff != "" {
		t.Error(diff)
	}
	s.call("resume", "mail")
	s.json(&all, "topics", "set", "mail", "attempts=", "backoff_min=", "--json")
	if len(all.Own) > 0 {
		t.Errorf("got %+v", all)
	}
	contains(t, s.call("topics"), "no topic was published to yet")
	contains(t, s.call("topics", "--", "set"), "no topic") // of that name
}

// All faults are reported at once, one line each, and nothing is changed.
func TestBadTopicSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "mail", "backoff_min=1m")
	for _, test := range []struct {
		args string
		want []string
	}{
		{"set", []string{"TOPIC is missing", "run 'bellhop topics set --help'"}},
		{"set mail", []string{"NAME=VALUE is missing: give one or more of attempts, lease, backoff_min, backoff_max, archive_acked, paused, history, key_concurrency, on_retry, on_dead, concurrency, rate, burst"}},
		{"set mail ring_only=true", []string{`setting "ring_only": it is gone, since messages are always handed over, but for those of a topic with a concurrency or a rate; leave it out`}},
		{"set mail atempts=5", []string{`setting "atempts": it is unknown; did you mean attempts? use attempts, lease,`}},
		{"set mail atempts=5 lease=1 paused x=1 attempts=0", []string{`"atempts"`, `lease "1": write a duration`, `setting "paused": write NAME=VALUE`, `setting "x"`, `attempts "0": write a whole number from 1 to 1000000`}},
		{"set mail attempts=5 attempts=", []string{"attempts: it is given twice"}},
		{"set mail attempts", []string{`setting "attempts": write NAME=VALUE`}},
		{"set mail =5", []string{`setting "": it is unknown`}},
		{"set mail backoff_max=59s", []string{"backoff_max 59s: it is less than backoff_min, 1m; set both"}},
		{"set mail backoff_min=2m backoff_max=1m attempts=x", []string{`attempts "x"`, "backoff_max 1m: it is less than backoff_min, 2m"}},
		{"set * paused=true lease=1ms", []string{"lease 1ms: use 100ms to 24h", "paused: it is not for all topics together; set it for each one"}},
		{"set a..b attempts=5", []string{`invalid topic "a..b"`}},
		{"set order.* attempts=5", []string{`invalid topic "order.*"`}},
		{"settings a..b", []string{`invalid topic "a..b"`}},
		{"settings a b", []string{`unexpected argument "b"`}},
	} {
		out := s.fails(exitUsage, append([]string{"topics"}, strings.Fields(test.args)...)...)
		contains(t, out, test.want...)
		if n := strings.Count(out, "bellhop: "); n < len(test.want) {
			t.Errorf("%s: %d lines for %d faults:\n%s", test.args, n, len(test.want), out)
		}
	}
	wantTable(t, s.call("topics", "settings", "mail"),
		"attempts 10 built in", "lease 30s built in", "backoff_min 1m topic", "backoff_max 10m built in", "archive_acked false built in", "paused false built in", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
}

// A worker of the command follows the settings of its topic.
func TestWorkBySettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "mail", "attempts=2", "backoff_min=1ms", "backoff_max=1ms")
	p := s.start("serve")
	p.await(1, "elected")
	s.call("publish", "mail", "--id", "a", "--body", "x")
	w := s.start("work", "mail", "--count", "1", "--", "sh", "-c", "echo attempt $MESSAGE_ATTEMPT; exit 1")
	w.ends(exitDone)
	contains(t, w.said(), "attempt 1\n", "attempt 2\n")
	contains(t, s.call("inspect", "mail", "a"), "dead")
}

// A leased message is extended by the lease of its claim, whatever is set meanwhile; the next claim has the new lease.
func TestWorkerKeepsTheLeaseOfItsClaim(t *testing.T) {
	s := newShell(t)
	gate := filepath.Join(t.TempDir(), "gate")
	storetest.Must(t, syscall.Mkfifo(gate, 0o600))
	goOn := func() {
		if err := os.WriteFile(gate, nil, 0); err != nil { // waits until the command reads it
			t.Fatal(err)
		}
	}
	inspector := storetest.Inspector(t, storetest.At(t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX")))
	until := func(id string) (at time.Time) {
		info, err := inspector.Inspect(t.Context(), "mail", id)
		if err == nil {
			at = info.Until
		}
		return at
	}
	s.call("topics", "set", "mail", "lease=12s") // longer than a machine stands still
	s.call("publish", "mail", "--id", "a", "--body", "x")
	s.call("publish", "mail", "--id", "b", "--body", "x", "--delay", "1h")
	p := s.start("work", "mail", "--count", "2", "--", "cat", gate)
	storetest.Eventually(t, "it has the first", func() bool { return !until("a").IsZero() })
	s.call("topics", "set", "mail", "lease=1h")
	first := until("a")
	storetest.Eventually(t, "its lease is extended", func() bool { return until("a").After(first) })
	if left := time.Until(until("a")); left > time.Minute {
		t.Errorf("it is leased for %v more", left)
	}
	s.call("reschedule", "mail", "b", "--now") // no carrier runs here
	goOn()
	storetest.Eventually(t, "it has the second", func() bool { return !until("b").IsZero() })
	if left := time.Until(until("b")); left < 59*time.Minute {
		t.Errorf("the next is leased for %v", left)
	}
	goOn()
	p.ends(exitDone)
}

func TestCompletionOfSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"topics set mail ":                     "attempts= lease= backoff_min= backoff_max= archive_acked= paused= history= key_concurrency= on_retry= on_dead= concurrency= rate= burst= branches= branch_ttl=",
		"topics set mail b":                    "backoff_min= backoff_max= burst= branches= branch_ttl=",
		"topics set mail attempts=5 ":          "lease= backoff_min= backoff_max= archive_acked= paused= history= key_concurrency= on_retry= on_dead= concurrency= rate= burst= branches= branch_ttl=",
		"topics set mail attempts=5 lease= pa": "paused=",
		"topics set mail x":                    "",
	} {
		out := s.call(append([]string{"__complete"}, strings.Split(args, " ")...)...)
		offered, directive, _ := strings.Cut(out, ":")
		if got := strings.Join(strings.Fields(offered), " "); got != want || !strings.HasPrefix(directive, "6\n") { // no files, and no space after it
			t.Errorf("bellhop %s<Tab> offers %q :%q, want %q", args, got, directive, want)
		}
	}
}

// Unreadable settings are reported with the command that repairs them, which does.
func TestUnreadableTopicSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "mail", "attempts=5")
	store := storetest.At(t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	for _, one := range []struct {
		key          string
		field, value string
	}{{store.KeysOf("mail").Topics(), "mail:settings", " attempts=5 lease=soon"}, {store.Keys().Topics(), "*:settings", " attempts=0"}} {
		storetest.Must(t, store.Client().HSet(t.Context(), one.key, one.field, one.value).Err())
	}
	contains(t, s.fails(exitFailed, "topics", "settings", "mail"), "settings of mail: unreadable settings: ", "'bellhop doctor --repair' repairs them")
	out := s.feed("", "doctor", "--repair", "--yes").out
	mail, all := "mail in topics", "* in topics"
	if storetest.Shards() > 1 {
		mail, all = "mail in {"+store.KeysOf("mail").Tag()+"}:topics", "* in {"+store.Keys().Tag()+"}:topics"
	}
	contains(t, out, mail, "set to attempts=5", all)
	wantTable(t, s.call("topics", "settings", "mail"),
		"attempts 5 topic", "lease 30s built in", "backoff_min 1s built in", "backoff_max 10m built in", "archive_acked false built in", "paused false built in", "history true built in", "key_concurrency 1 built in", "on_retry block built in", "on_dead go built in", "concurrency none built in", "rate none built in", "burst none built in", "branches none built in", "branch_ttl none built in")
}

func TestManOfSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newShell(t).call("man", dir)
	page, err := os.ReadFile(filepath.Join(dir, "bellhop-topics-set.1"))
	storetest.Must(t, err)
	contains(t, string(page), "bellhop topics set TOPIC NAME=VALUE...", "limit of attempts of a message", "topics set '*' backoff_min=2s")
}

// An export reports what it leaves out.
func TestExportOfSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("mail", 1)
	s.publish("order", 1)
	s.call("pause", "order")
	s.call("topics", "set", "mail", "attempts=5")
	s.call("topics", "set", "unused", "lease=1m", "paused=true")
	s.call("topics", "set", "*", "lease=2m")
	path := filepath.Join(t.TempDir(), "messages.jsonl")
	if r := s.feed("", "export", path); r.err != "bellhop: 2 paused, which is not exported; call bellhop pause where you publish this, for each of: order unused\n"+
		"bellhop: 3 with settings, which are not exported; set them where you publish this, as bellhop topics settings shows them, for each of: * mail unused\n" {
		t.Errorf("got %+v", r)
	}
	var sum struct{ Paused, Settings []string }
	s.json(&sum, "export", path, "--json")
	if got := strings.Join(append(sum.Paused, sum.Settings...), " "); got != "order unused * mail unused" {
		t.Errorf("got %+v", sum)
	}
}

// The doctor compares the configuration's settings with those in effect.
func TestDoctorOfSettings(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_LEASE=1m")
	s.call("topics", "set", "*", "lease=2m")
	contains(t, s.feed("", "doctor", "--quick").out, "warn  settings            lease is 2m for topics without a setting of their own, but 1m in the configuration\n",
		"→ change the configuration, or run bellhop topics set '*' lease=1m\n")
	s.call("topics", "set", "*", "lease=1m")
	contains(t, s.feed("", "doctor", "--quick").out, "ok    settings            for all topics: lease 1m\n")
}
