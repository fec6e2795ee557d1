package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The schedules of a file are put, those that are there as they are put stay, and a dry run tells the same and changes nothing.
func TestScheduleApply(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := `{"topic":"mail","name":"digest","cron":"0 8 * * *","zone":"Europe/Berlin","body":"<ä>","headers":{"Shop":"7"},"attempts":3}

{"topic":"mail","name":"often","every":"15m","overlap":"skip","body":""}
{"topic":"news","name":"once","at":["2199-01-01T00:00:00Z"],"mode":"broadcast","body_base64":"/w=="}
`
	apply := func(file string, args ...string) string {
		t.Helper()
		r := s.feed(file, append([]string{"schedule", "apply", "-"}, args...)...)
		if r.code != 0 {
			t.Fatalf("got %+v", r)
		}
		return r.out
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	is(apply(file, "--dry-run"), "mail digest added\nmail often added\nnews once added\nadded 3, changed 0, unchanged 0, deleted 0; this was a dry run, and nothing was changed\n")
	is(s.call("schedule", "list", "mail"), "no schedule\n")
	is(apply(file), "mail digest added\nmail often added\nnews once added\nadded 3, changed 0, unchanged 0, deleted 0\n")
	list := func() (all []calls.Schedule) {
		t.Helper()
		for _, topic := range []string{"mail", "news"} {
			var page calls.Schedules
			s.json(&page, "schedule", "list", topic, "--json")
			all = append(all, page.Schedules...)
		}
		return all
	}
	revisions := func() (all string) {
		t.Helper()
		for _, one := range list() {
			all += fmt.Sprint(one.Name, one.State.Revision, " ")
		}
		return all
	}
	before := revisions()
	is(apply(file, "--prune"), "mail digest unchanged\nmail often unchanged\nnews once unchanged\nadded 0, changed 0, unchanged 3, deleted 0\n")
	is(revisions(), before)
	is(apply(s.call("schedule", "show", "mail", "digest", "--json")+s.call("schedule", "show", "news", "once", "--json")), "mail digest unchanged\nnews once unchanged\nadded 0, changed 0, unchanged 2, deleted 0\n")
	var exported strings.Builder
	for line := range strings.Lines(s.call("export", "-")) {
		if strings.Contains(line, `"kind":"schedule"`) {
			exported.WriteString(line)
		}
	}
	contains(t, apply(exported.String()), "added 0, changed 0, unchanged 3, deleted 0\n")
	changed := strings.Replace(file, `"15m"`, `"30m"`, 1)
	contains(t, apply(changed, "--dry-run"), "mail often changed\n", "added 0, changed 1, unchanged 2, deleted 0; ")
	is(revisions(), before)
	contains(t, apply(changed), "mail often changed\n", "added 0, changed 1, unchanged 2, deleted 0\n")
	if all := list(); len(all) != 3 || all[1].EveryMs != 1800_000 {
		t.Errorf("got %+v", all)
	}
}

// With --prune the topics that a file names have its schedules and no others; those of other topics stay.
func TestScheduleApplyPrunes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, name := range []string{"mail a", "mail b", "news a", "other a"} {
		s.call(append(append([]string{"schedule", "put"}, strings.Fields(name)...), "--every", "1h", "--body", "x")...)
	}
	file := `{"topic":"mail","name":"b","every":"1h","body":"x"}` + "\n" + `{"topic":"news"}`
	contains(t, s.feed(file, "schedule", "apply", "-").out, "mail b unchanged\nadded 0, changed 0, unchanged 1, deleted 0\n")
	want := "mail b unchanged\nmail a deleted\nnews a deleted\nadded 0, changed 0, unchanged 1, deleted 2"
	contains(t, s.feed(file, "schedule", "apply", "-", "--prune", "--dry-run").out, want+"; this was a dry run, and nothing was changed\n")
	contains(t, s.call("schedule", "list", "news"), "every 1h")
	r := s.feed(file, "schedule", "apply", "-", "--prune", "--json")
	contains(t, r.out, `{"dry_run":false,"schedules":[{"topic":"mail","name":"b","outcome":"kept"},{"topic":"mail","name":"a","outcome":"deleted"},{"topic":"news","name":"a","outcome":"deleted"}]}`)
	contains(t, s.call("schedule", "list", "news"), "no schedule\n")
	contains(t, s.call("schedule", "list", "other"), "every 1h")
	contains(t, s.feed("\n", "schedule", "apply", "-", "--prune").out, "added 0, changed 0, unchanged 0, deleted 0\n")
	contains(t, s.call("schedule", "list", "other"), "every 1h")
}

// A file in which a line is wrong changes nothing, and each bad line is named with its number, its field and the remedy.
func TestScheduleApplyRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_MAX_BODY=1024")
	s.call("schedule", "put", "mail", "old", "--every", "1h", "--body", "x")
	for bad, want := range map[string]string{
		`{"topic":"mail","name":"a","cron":"0 25 * * *","body":"x"}`:                          "hour",
		`{"topic":"mail","name":"a","cron":"0 8 * * *","zone":"Europe/Berlinn","body":"x"}`:   "do you mean Europe/Berlin",
		`{"topic":"mail","name":"a","every":"1h"}`:                                            "body: it is missing",
		`{"topic":"mail","every":"1h","body":"x"}`:                                            "name: it is missing",
		`{"topic":"mail","name":"","every":"1h","body":"x"}`:                                  "name: it is missing",
		`{"topic":"ma\"il","name":"a","every":"1h","body":"x"}`:                               "topic",
		`{"topic":7,"name":"a","every":"1h","body":"x"}`:                                      "schedule: ",
		`{"name":"a","every":"1h","body":"x"}`:                                                "topic",
		`{"topic":""}`:                                                                        "topic",
		`{}`:                                                                                  "topic",
		`{"topic":"mail","name":"a","every":"1h","every_ms":3600000,"body":"x"}`:              "given twice",
		`{"topic":"mail","name":"a","every_ms":"1h","body":"x"}`:                              `every_ms "1h": write whole milliseconds, or every`,
		`{"topic":"mail","name":"a","every_ms":1e99,"body":"x"}`:                              "every_ms 1e99",
		`{"topic":"mail","name":"a","every":"1h","due":"2199-01-01T00:00:00Z","body":"x"}`:    `the field "due" is unknown; its fields are`,
		`{"topic":"mail","name":"a","every":"1h","body":"` + strings.Repeat("x", 1025) + `"}`: "body: it has 1025 bytes; at most 1024",
		`{"kind":"push","name":"crm","topics":["mail"],"to":"nats:x"}`:                        `kind "push": here each line is a schedule`,
		`[{"topic":"mail","name":"a","every":"1h","body":"x"}]`:                               "write one JSON object a line",
		`{"topic":"mail","name":"a","every":"1h","body":"x"`:                                  "write one JSON object a line",
		"\xff": "write one JSON object a line",
		`{"topic":"mail","name":"new","every":"2h","body":"x"}`:                                 "name new: line 1 has it, too",
		`{"topic":"mail","name":"a","every":"1h","body":"` + strings.Repeat("x", 80<<10) + `"}`: "line: it is longer than ",
	} {
		r := s.feed(`{"topic":"mail","name":"new","every":"1h","body":"x"}`+"\n\n"+bad+"\n", "schedule", "apply", "-", "--prune")
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "bellhop: line 3: ") || !strings.Contains(r.err, want) || !strings.Contains(r.err, "1 lines are wrong, and nothing was changed") {
			t.Errorf("%s: got %+v, want %s", bad, r, want)
		}
	}
	r := s.feed(strings.Repeat("x\n", 30), "schedule", "apply", "-")
	if strings.Count(r.err, ": invalid line: ") != listedFaults || !strings.Contains(r.err, "30 lines are wrong") {
		t.Errorf("got %+v", r)
	}
	contains(t, s.fails(exitFailed, "schedule", "apply", filepath.Join(t.TempDir(), "none")), "no such file")
	contains(t, s.fails(exitUsage, "schedule", "apply"), "FILE is missing")
	var all calls.Schedules
	if s.json(&all, "schedule", "list", "mail", "--json"); len(all.Schedules) != 1 || all.Schedules[0].Name != "old" {
		t.Errorf("got %+v", all)
	}
}

// What would never fire again is refused, and nothing of the file is done; where it is there already it has served, and may be changed but for its times.
func TestScheduleApplyOver(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := `{"topic":"mail","name":"new","every":"1h","body":"x"}
{"topic":"mail","name":"until","every":"1h","until":"2026-01-01T00:00:00Z","body":"x"}
{"topic":"mail","name":"once","at":["2026-01-01T00:00:00Z"],"body":"x"}
`
	for _, args := range [][]string{{}, {"--dry-run"}} {
		r := s.feed(file, append([]string{"schedule", "apply", "-", "--prune"}, args...)...)
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "mail until: invalid until 2026-01-01T00:00:00Z: there is no occurrence") ||
			!strings.Contains(r.err, "mail once: invalid at: none of its times is to come") || !strings.Contains(r.err, "2 of them would never fire, and nothing was changed") {
			t.Errorf("%v: got %+v", args, r)
		}
	}
	if out := s.call("schedule", "list", "mail"); out != "no schedule\n" {
		t.Errorf("got %s", out)
	}
	restore := `,"restore":{"cursor":"2026-01-01T00:00:00Z"}}`
	lines := strings.Split(strings.TrimSpace(file), "\n")[1:]
	for i, line := range lines {
		lines[i] = `{"kind":"schedule",` + strings.TrimSuffix(line, "}")[1:] + restore
	}
	if r := s.feed(strings.Join(lines, "\n")+"\n", "publish", "--file", "-"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	if r := s.feed(file, "schedule", "apply", "-"); r.code != 0 || r.out != "mail new added\nmail until unchanged\nmail once unchanged\nadded 1, changed 0, unchanged 2, deleted 0\n" {
		t.Errorf("got %+v", r)
	}
	others := strings.ReplaceAll(file, `"body":"x"`, `"body":"y"`)
	for _, dry := range []string{"--dry-run", "--prune"} {
		if out := s.feed(others, "schedule", "apply", "-", dry).out; !strings.HasPrefix(out, "mail new changed\nmail until changed\nmail once changed\nadded 0, changed 3, unchanged 0, deleted 0") {
			t.Errorf("%s: got %s", dry, out)
		}
	}
	for was, is := range map[string]string{`"until":"2026-01-01`: `"until":"2026-01-02`, `"at":["2026-01-01`: `"at":["2026-01-02`} {
		r := s.feed(strings.Replace(others, was, is, 1), "schedule", "apply", "-")
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "1 of them would never fire, and nothing was changed") {
			t.Errorf("%s: got %+v", is, r)
		}
	}
}

// Sixteen processes apply one file at once, and then a changed one while it fires: one of them adds, and one changes, and each second is handled once.
func TestScheduleApplyAtOnce(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	sub, err := subscribers.NewSubscriber(storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")))
	storetest.Must(t, err)
	var mu sync.Mutex
	got, bodies := make(map[string]int), make(map[string]int)
	err = sub.Handle("ticks", func(_ context.Context, d *subscribers.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		got[d.ID]++
		bodies[string(d.Body)]++
		return nil
	}, subscribers.HandleOptions{})
	storetest.Must(t, err)
	storetest.Run(t, sub.Run)
	s.call("schedule", "put", "ticks", "old", "--every", "1h", "--body", "x")
	for _, body := range []string{"one", "two"} {
		path := filepath.Join(t.TempDir(), "all.jsonl")
		storetest.Must(t, os.WriteFile(path, []byte(`{"topic":"ticks","name":"clock","every":"1s","missed":"all","body":"`+body+`"}`), 0o600))
		var all [16]*process
		for i := range all {
			all[i] = s.launch(s.command("schedule", "apply", path, "--prune"))
		}
		did := make(map[string]int)
		for _, p := range all {
			p.ends(0)
			for line := range strings.Lines(p.said()) {
				did[strings.TrimSpace(line)]++
			}
		}
		verb := map[string]string{"one": "added", "two": "changed"}[body]
		if did["ticks clock "+verb] != 1 || did["ticks clock unchanged"] != len(all)-1 || did["ticks old deleted"] > 1 {
			t.Errorf("got %v", did)
		}
		storetest.Eventually(t, "it fires", func() bool { mu.Lock(); defer mu.Unlock(); return bodies[body] > 2 })
	}
	eachSecondOnce(t, "clock", func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(got)
	})
	var list calls.Schedules
	s.json(&list, "schedule", "list", "ticks", "--json")
	if shown := list.Schedules; len(shown) != 1 || shown[0].State.Missed != 0 || shown[0].State.Taken != 0 {
		t.Errorf("got %+v", shown)
	}
}
