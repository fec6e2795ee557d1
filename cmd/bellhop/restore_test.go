package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// putMany puts schedules of all kinds and pushes, of which some are paused, and has a daemon make their next occurrences.
func (s *shell) putMany() {
	s.t.Helper()
	secret := filepath.Join(s.t.TempDir(), "key")
	storetest.Must(s.t, os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600))
	s.call("schedule", "put", "invoices", "daily", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2190-01-01T00:00:00Z", "--until", "2199-01-01T00:00:00Z",
		"--jitter", "5m", "--missed", "all", "--catchup", "2h", "--grace", "10m", "--count", "1000", "--body", "<ä>\n", "--attempts", "3", "--ttl", "1h", "--header", "Shop=7", "--key", "k", "--if-busy", "drop")
	s.call("schedule", "put", "invoices", "often", "--every", "15m", "--from", "2190-01-01T00:00:00Z", "--overlap", "skip", "--body", "")
	s.call("schedule", "put", "prices", "once", "--at", "2190-01-01T00:00:00Z", "--at", "2191-01-01T00:00:00Z", "--broadcast", "--body", "x")
	s.call("schedule", "put", "prices", "never", "--every", "1s", "--body", "x")
	s.call("schedule", "pause", "prices", "never")
	s.call("push", "put", "crm", "--topic", "paid,sent", "--url", "https://x.example/?token=7", "--secret-file", secret, "--in-flight", "8")
	s.call("push", "put", "mail", "--topic", "mail.>", "--to", "nats:work.>")
	s.call("push", "put", "news", "--broadcasts", "--topic", "prices.*", "--url", "https://x.example", "--secret-file", secret)
	s.call("push", "pause", "crm")
	serve := s.start("serve")
	for topic, n := range map[string]int{"invoices": 4, "prices": 2} {
		storetest.Eventually(s.t, "occurrences are made", func() bool { return s.counts(topic).Scheduled+s.counts(topic).Broadcasts == int64(n) })
	}
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
}

// Schedules and pushes are the same elsewhere, with how far they are: what was made ahead is known as theirs, and is withdrawn with them. To restore
// them once more changes nothing, and what differs stays as it is.
func TestExportSchedulesAndPushes(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	from.putMany()
	path := filepath.Join(t.TempDir(), "all.jsonl")
	r := from.feed("", "export", path)
	if r.code != 0 || r.out != "exported 6: 4 scheduled, 0 ready, 0 leased, 0 dead, 2 broadcasts; 4 schedules, 3 pushes\n" {
		t.Fatalf("got %+v", r)
	}
	contains(t, r.err, "3 pushes, of which FILE has the secrets")
	written, err := os.ReadFile(path)
	storetest.Must(t, err)
	contains(t, string(written), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `"zones":"20`)
	contains(t, to.call("publish", "--file", path), "published 6, refused 0\nrestored 7 schedules and pushes\n")
	same := func() {
		t.Helper()
		if again := to.feed("", "export", "-"); again.code != 0 || !slices.Equal(sorted(again.out), sorted(string(written))) {
			t.Errorf("exported\n%s\nand then\n%s%s", written, again.out, again.err)
		}
	}
	same()
	again := to.feed("", "publish", "--file", path)
	if again.code != exitDone || again.out != "published 0, refused 0\nrestored 0 schedules and pushes\n13 lines were there unchanged\n" {
		t.Errorf("published again: %+v", again)
	}
	same()
	contains(t, to.call("push", "show", "crm"), "state      paused, by an operator")
	to.call("push", "resume", "crm")
	to.call("schedule", "delete", "invoices", "often")
	if n := to.counts("invoices").Scheduled; n != 2 {
		t.Errorf("%d are scheduled, want those of the other schedule", n)
	}
	to.call("schedule", "put", "invoices", "daily", "--every", "1h", "--body", "mine")
	to.call("push", "put", "mail", "--topic", "mail", "--to", "nats:other")
	again = to.feed("", "publish", "--file", path)
	contains(t, again.out, "restored 1 schedules and pushes\n")
	contains(t, again.err, "name daily: the topic invoices has another schedule of this name, which stays", "name mail: another push has this name, which stays")
	contains(t, to.call("schedule", "show", "invoices", "daily"), "every 1h")
	contains(t, to.call("push", "show", "mail"), "nats:other")
	contains(t, to.call("push", "show", "crm"), "state      no daemon sends it")
}

// A schedule of every second that moves while daemons run at both ends goes on: each second is handled once, at one of them.
func TestMovedScheduleGoesOn(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	var mu sync.Mutex
	got := make(map[string]int)
	handle := func(s *shell) (stop func()) {
		sub, err := subscribers.NewSubscriber(storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")))
		storetest.Must(t, err)
		err = sub.Handle("ticks", func(_ context.Context, d *subscribers.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got[d.ID]++
			return nil
		}, subscribers.HandleOptions{})
		storetest.Must(t, err)
		return storetest.Run(t, sub.Run)
	}
	handled := func(n int) {
		t.Helper()
		storetest.Eventually(t, "more is handled", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= n })
	}
	serve := from.start("serve")
	from.call("schedule", "put", "ticks", "clock", "--every", "1s", "--missed", "all", "--body", "tick")
	stop := handle(from)
	handled(3)
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
	stop()
	to.serve()
	handle(to)
	file := from.feed("", "export", "-").out
	contains(t, to.feed(file, "publish", "--file", "-").out, "restored 1 schedules and pushes")
	mu.Lock()
	n := len(got)
	mu.Unlock()
	handled(n + 3)
	db := storetest.At(t, storetest.URL(), to.setting("BELLHOP_PREFIX"))
	var waiting []string
	storetest.Eventually(t, "more is made", func() bool {
		waiting = to.waiting(db, "ticks")
		return len(waiting) > 0 && !strings.Contains(file, waiting[len(waiting)-1])
	})
	eachSecondOnce(t, "clock", func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		all := maps.Clone(got)
		for _, id := range waiting { // those that were handled since are counted already
			all[id] = max(all[id], 1)
		}
		return all
	})
}

// waiting returns the ids of the scheduled messages of a topic, by their times.
func (s *shell) waiting(db *notify.Store, topic string) (ids []string) {
	s.t.Helper()
	members, err := db.Client().ZRange(s.t.Context(), db.KeysOf(topic).Scheduled(topic), 0, -1).Result()
	storetest.Must(s.t, err)
	for _, member := range members {
		ids = append(ids, strings.TrimPrefix(member, topic+":"))
	}
	return ids
}

// eachSecondOnce waits until occurrences of every second between the first and the last were counted, and checks that each was once.
func eachSecondOnce(t *testing.T, name string, counted func() map[string]int) {
	t.Helper()
	of := store.Schedule{Name: name}
	storetest.Eventually(t, "no second is missing", func() bool {
		ids := slices.Sorted(maps.Keys(counted()))
		first, err := time.Parse(time.RFC3339, strings.TrimPrefix(ids[0], name+"~"))
		return err == nil && of.OccurrenceID(first.Add(time.Duration(len(ids)-1)*time.Second)) == ids[len(ids)-1]
	})
	for id, n := range counted() {
		if n != 1 {
			t.Errorf("%s was counted %d times", id, n)
		}
	}
}

// What is no export is refused by line, field and remedy, and changes nothing.
func TestRestoreSchedulesRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	line := func(rest string) string {
		return `{"kind":"schedule","topic":"t","name":"a","every":"1h","body":"x"` + rest + "}"
	}
	state := func(rest string) string { return line(`,"restore":{"cursor":"2026-01-01T00:00:00Z"` + rest + "}") }
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`{"at":"2026-01-01T00:%02d:%02dZ","due":"2026-01-01T00:00:00Z"}`, i/60, i%60)
	}
	for bad, want := range map[string]string{
		`{"kind":"listener","name":"a"}`:                        `kind "listener": use schedule, push or group`,
		line(""):                                                "restore: it is missing; use bellhop schedule apply",
		line(`,"restore":{}`):                                   "restore.cursor: it is missing",
		line(`,"restore":{"cursor":"soon"}`):                    "restore: ",
		line(`,"restore":[]`):                                   "restore: ",
		state(`,"revision":7`):                                  "restore: ",
		state(`,"made":-1`):                                     "restore.made -1",
		state(`,"missed":9007199254740993`):                     "restore.missed 9007199254740993",
		state(`,"fell":"1900-01-01T00:00:00Z"`):                 "restore.fell ",
		state(`,"zones":"2026a ; x"`):                           "restore.zones ",
		state(`,"occurrences":[{"at":"2026-01-01T00:00:00Z"}]`): "restore.occurrences.due: it is missing",
		state(`,"occurrences":[{"at":"2026-01-01T00:00:00.5Z","due":"2026-01-01T00:00:00Z"}]`): "with whole seconds",
		state(`,"occurrences":[` + strings.Join(many, ",") + `]`):                              "there are 65; a schedule notes the last 64",
		state("") + "x":                     "line: ",
		`{"kind":"schedule","kind":"push"}`: "given twice",
		`{"kind":"schedule","topic":"t t","name":"a~2026-11-22T08:00:00Z","cron":"x","body":"x","restore":{"cursor":"2026-01-01T00:00:00Z"}}`: "topic",
		`{"kind":"push","name":"crm","topics":["t"],"url":"https://x.example"}`:                                                               "secrets: there are 0",
		`{"kind":"push","name":"c m","topics":["t"],"to":"nats:x"}`:                                                                           "name",
		`{"kind":"push","name":"crm","topics":["t"],"to":"nats:x","failing":{}}`:                                                              "push: ",
		`{"kind":"push","name":"crm","topics":["t"],"to":"nats:bellhop.x","paused":7}`:                                                        "paused",
	} {
		r := s.feed(bad, "publish", "--file", "-")
		if r.code != exitFailed || !strings.HasPrefix(r.out, "published 0, refused 1\n") || !strings.Contains(r.err, "line 1: ") || !strings.Contains(r.err, want) {
			t.Errorf("%s: got %+v, want %s", bad, r, want)
		}
	}
	contains(t, s.feed(state(""), "publish", "--file", "-").out, "published 0, refused 0\nrestored 1 ")
	s.env = append(s.env, "BELLHOP_MAX_BODY=1024")
	r := s.feed(strings.Replace(state(""), `"x"`, `"`+strings.Repeat("x", 1025)+`"`, 1), "publish", "--file", "-")
	contains(t, r.err, "body: it has 1025 bytes; at most 1024 are allowed")
}

// An import that ends early says what is restored, and is completed by another one.
func TestRestoreIsCut(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	from.putMany()
	lines := slices.Collect(strings.Lines(from.feed("", "export", "-").out))
	p := to.start("publish", "--file", "-")
	for _, line := range lines[:8] {
		storetest.Must(t, storetest.ErrOf(p.in.Write([]byte(line))))
	}
	storetest.Eventually(t, "a message is there", func() bool { return to.counts("invoices").Scheduled+to.counts("prices").Broadcasts > 0 })
	p.signal(syscall.SIGINT)
	p.ends(exitFailed)
	contains(t, p.said(), "no schedule, push and group is restored; publish the file again")
	contains(t, to.call("schedule", "list", "invoices"), "no schedule\n")
	r := to.feed(strings.Join(lines, ""), "publish", "--file", "-")
	contains(t, r.out, "refused 0\nrestored 7 schedules and pushes\n")
	again := to.feed("", "export", "-")
	if !slices.Equal(sorted(again.out), sorted(strings.Join(lines, ""))) {
		t.Errorf("exported %s, want %s", again.out, lines)
	}
	var sum map[string]int
	if err := json.Unmarshal([]byte(to.feed(strings.Join(lines, ""), "publish", "--file", "-", "--json").out), &sum); err != nil || sum["unchanged"] != 13 || sum["refused"] != 0 {
		t.Errorf("got %v, %v", sum, err)
	}
}

// An import that is killed behind any line is completed by another one: what is restored twice is there once.
func TestRestoreInSteps(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	from.putMany()
	lines := slices.Collect(strings.Lines(from.feed("", "export", "-").out))
	for n := range lines {
		to.feed(strings.Join(lines[:n], ""), "publish", "--file", "-")
	}
	r := to.feed(strings.Join(lines, ""), "publish", "--file", "-")
	contains(t, r.out, "published 1, refused 0\nrestored 0 schedules and pushes\n12 lines were there unchanged\n")
	if again := to.feed("", "export", "-"); !slices.Equal(sorted(again.out), sorted(strings.Join(lines, ""))) {
		t.Errorf("exported %s, want %s", again.out, lines)
	}
}

// A dead letter of a schedule whose occurrences do not overlap is exported as a message without the schedule's key, and can be published again.
func TestDeadOccurrenceIsPublishedAgain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	serve := s.start("serve")
	s.call("schedule", "put", "t", "a", "--every", "1s", "--count", "1", "--overlap", "skip", "--attempts", "1", "--body", "x")
	s.call("work", "t", "--count", "1", "--", "false")
	serve.signal(syscall.SIGTERM)
	serve.ends(0)
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	s.call("dead", "export", "t", "--output", path)
	s.call("dead", "purge", "t", "--all")
	contains(t, s.call("publish", "--file", path), "published 1, refused 0\n")
}

// A group goes on elsewhere, wherever in the file its line is, and where it has none: what waits for it comes once, behind all messages of the file.
func TestExportGroups(t *testing.T) {
	t.Parallel()
	from := newShell(t)
	for _, id := range []string{"a", "b"} {
		from.call("publish", "rows", "--id", id, "--group", "g", "--body", "x")
	}
	from.call("publish", "done", "--id", "d", "--after-group", "rows:g", "--body", "x")
	r := from.feed("", "export", "-")
	contains(t, r.err, "exported 3: 1 scheduled, 2 ready, 0 leased, 0 dead, 0 broadcasts; 1 groups")
	lines := sorted(r.out) // a line with a kind is first
	if !strings.HasPrefix(lines[0], `{"kind":"group","topic":"rows","name":"g","opened":"`) {
		t.Fatalf("got %s", lines[0])
	}
	for _, file := range [][]string{lines, lines[1:], {lines[3], lines[2], lines[1], lines[0]}} {
		to := newShell(t)
		contains(t, to.feed(strings.Join(file, "\n"), "publish", "--file", "-").out, "published 3, refused 0\nrestored 0 schedules and pushes, and 1 groups\n")
		contains(t, to.feed(strings.Join(file, "\n"), "publish", "--file", "-").out, "published 0, refused 0\n")
		contains(t, to.call("inspect", "done", "d"), "of which 2 are left")
		to.start("serve")
		to.call("work", "rows", "--count", "2", "--", "true")
		to.call("work", "done", "--count", "1", "--", "true")
	}
	contains(t, from.feed(`{"kind":"group","topic":"rows","name":"a b","acked":-1}`, "publish", "--file", "-").err, `line 1: invalid name "a b"`, `invalid acked -1`)
}
