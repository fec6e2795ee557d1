package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is wrong with a call of archive is told before the database is asked.
func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"archive":                                  "COMMAND is missing",
		"archive dig":                              `unknown command "dig"`,
		"archive search x":                         `unexpected argument "x"`,
		"archive search --limit 0":                 "invalid limit 0",
		"archive search --from yesterday":          `invalid from "yesterday": write a time such as 2030-01-02T15:04:05Z, or how long ago, such as 24h`,
		"archive search --to 1h2":                  `invalid to "1h2"`,
		"archive search --topic a..b":              `invalid topic "a..b"`,
		"archive search --header A":                `invalid header "A": write NAME=VALUE`,
		"archive show t":                           "ID is missing",
		"archive requeue":                          "nothing is selected: give flags such as --topic, or --all to requeue all that the archive holds",
		"archive requeue --all --id x":             "give --all or flags that select, not both",
		"archive requeue --id x --limit 0":         "invalid limit 0",
		"archive erase":                            "or --all to erase all",
		"archive prune":                            "--before is missing",
		"archive prune --before then":              `invalid before "then"`,
		"archive search --from 1h --to x --header": "flag needs an argument",
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "24h": now.Add(-24 * time.Hour), "2d": now.Add(-48 * time.Hour), "0s": now,
		"2029-01-02T03:04:05Z": time.Date(2029, 1, 2, 3, 4, 5, 0, time.UTC),
	} {
		if got, err := ago("from", text, func() (time.Time, error) { return now, nil }); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "now", "2029-01-02", "0001-01-01T00:00:00Z"} {
		if got, err := ago("from", text, func() (time.Time, error) { return now, nil }); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// A change goes on until all is done, its limit is reached or it fails, and adds up.
func TestArchiveInSteps(t *testing.T) {
	a := &app{err: &strings.Builder{}}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		limit int
		steps []archive.Change
		fails error // of the last step
		most  []int // that each step is asked for
		want  archive.Change
	}{
		"all":       {0, []archive.Change{{Done: 400, Refused: 100, Cursor: "a"}, {Done: 3}}, nil, []int{500, 500}, archive.Change{Done: 403, Refused: 100}},
		"limited":   {600, []archive.Change{{Done: 400, Refused: 100, Cursor: "a"}, {Done: 100, Cursor: "b"}}, nil, []int{500, 100}, archive.Change{Done: 500, Refused: 100, Cursor: "b"}},
		"fails":     {0, []archive.Change{{Done: 500, Cursor: "a"}, {Done: 20}}, broken, []int{500, 500}, archive.Change{Done: 520, Cursor: "a"}},
		"fails, on": {0, []archive.Change{{Done: 500, Cursor: "a"}, {Done: 20, Cursor: "b"}}, broken, []int{500, 500}, archive.Change{Done: 520, Cursor: "b"}},
	} {
		var cursor string
		n := 0
		got, err := a.inSteps("testing", archive.Change{}, test.limit, func(most int, from string) (step archive.Change, err error) {
			if n >= len(test.steps) || most != test.most[n] || from != cursor {
				t.Fatalf("%s: step %d is asked for %d from %q", name, n, most, from)
			}
			step = test.steps[n]
			if n++; n == len(test.steps) {
				err = test.fails
			}
			cursor = step.Cursor
			return step, err
		})
		if got != test.want || !errors.Is(err, test.fails) || n != len(test.steps) {
			t.Errorf("%s: got %+v, %v after %d steps, want %+v", name, got, err, n, test.want)
		}
	}
}

// archived starts a daemon with an archive, kills messages of a topic, and waits until the
// archive has them.
func (s *shell) archived(topic string, n int) {
	s.t.Helper()
	s.start("serve")
	store := storetest.At(s.t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	archivetest.Registered(s.t, store)
	s.kill(topic, n)
	storetest.Eventually(s.t, "the archive has all", func() bool {
		b, err := store.Backlog(s.t.Context())
		return err == nil && b.Entries == 0
	})
}

// search returns what archive search --json prints.
func (s *shell) search(args ...string) (page calls.ArchivePage) {
	s.t.Helper()
	s.json(&page, append([]string{"archive", "search", "--json"}, args...)...)
	return page
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_ARCHIVE_URL="+databasetest.Database(t))
	s.archived("order.timeout", 3)

	selected := []string{"--topic", "mail", "--topic", "order.*", "--state", "dead", "--reason", "broken", "--body", "body", "--from", "1h"}
	contains(t, s.call(append([]string{"archive", "search"}, selected...)...), "ENDED ", "TOPIC ", "order.timeout  1   dead   1         exit status 65: broken (buried by the handler)\n")
	for args, want := range map[string]int{"": 3, "--id 2": 1, "--topic mail": 0, "--to 1h": 0, "--header A=b": 0, "--limit 2": 2} {
		if page := s.search(strings.Fields(args)...); len(page.Messages) != want || page.Cursor == "" != (want != 2) {
			t.Errorf("%s: got %d rows, cursor %q, want %d", args, len(page.Messages), page.Cursor, want)
		}
	}
	first := s.search("--limit", "2")
	if rest := s.search("--limit", "2", "--cursor", first.Cursor); len(rest.Messages) != 1 || rest.Messages[0].ID == first.Messages[0].ID || rest.Messages[0].ID == first.Messages[1].ID {
		t.Errorf("after %+v: got %+v", first, rest)
	}
	if one := s.search("--id", "2").Messages[0]; one.Body != nil || one.Size != len("body 2") {
		t.Errorf("got %+v", one)
	}
	if one := s.search("--id", "2", "--bodies").Messages[0]; one.Body == nil || *one.Body != "body 2" {
		t.Errorf("got %+v", one)
	}
	contains(t, s.call("archive", "search", "--limit", "2"), "\nmore: --cursor "+first.Cursor+"\n")
	contains(t, s.call("archive", "show", "order.timeout", "2"), "topic          order.timeout\n", "state          dead\n", "ended ", "body           6 bytes\n", "\nbody 2\n")
	contains(t, s.fails(exitFailed, "archive", "show", "order.timeout", "4"), "the archive holds nothing of 4 of order.timeout")
	var shown calls.ArchivePage
	if s.json(&shown, "archive", "show", "order.timeout", "3", "--json"); len(shown.Messages) != 1 || *shown.Messages[0].Body != "body 3" {
		t.Errorf("got %+v", shown)
	}
}

// A reason of several lines, such as a traceback, is shown in lines, and a list has its last one.
func TestArchivedTraceback(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_ARCHIVE_URL="+databasetest.Database(t))
	s.archived("t", 1)
	s.publish("trace", 1)
	s.call("work", "trace", "--count", "1", "--", "sh", "-c", `printf 'Traceback (most recent call last):\n  File "a.py"\nValueError: no such card\n' >&2; exit 65`)
	storetest.Eventually(t, "the archive has it", func() bool { return len(s.search("--topic", "trace").Messages) == 1 })
	id := s.search("--topic", "trace").Messages[0].ID
	if out := s.call("archive", "search", "--topic", "trace"); !strings.Contains(out, ": ValueError: no such card") || strings.Contains(out, "Traceback") {
		t.Errorf("got %s", out)
	}
	for _, args := range [][]string{{"archive", "show", "trace", id}, {"inspect", "trace", id}} {
		out := s.call(args...)
		contains(t, out, "Traceback (most recent call last):\n", "\n                 File \"a.py\"\n", "\n               ValueError: no such card")
	}
}

// What was removed from Redis is published again from the archive, unless its id is in use.
func TestArchiveRequeue(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_ARCHIVE_URL="+databasetest.Database(t))
	s.archived("t", 3)
	s.call("dead", "purge", "t", "--all")
	s.call("publish", "t", "--id", "3", "--body", "another", "--delay", "1h")
	if r := s.feed("", "archive", "requeue", "--id", "3"); r.code != exitFailed || r.out != "requeued 0, refused 1\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if out := s.call("archive", "requeue", "--id", "1", "--json"); out != `{"count":1}`+"\n" {
		t.Errorf("got %q", out)
	}
	if r := s.feed("", "archive", "requeue", "--all"); r.code != exitFailed || r.out != "requeued 1, refused 2\n" || r.err != "" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := s.feed("", "archive", "requeue", "--topic", "t", "--limit", "1"); r.code != exitFailed || !strings.HasPrefix(r.out, "requeued 0, refused 1\nmore: --cursor ") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	contains(t, s.call("work", "t", "--count", "2"), "1  attempt 1 ", "2  attempt 1 ")
}

func TestArchiveRemoves(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_ARCHIVE_URL="+databasetest.Database(t))
	s.archived("t", 4)
	contains(t, s.fails(exitUsage, "archive", "erase", "--id", "1"), "give --yes to mean it")
	contains(t, s.fails(exitUsage, "archive", "prune", "--before", "0s"), "give --yes to mean it")
	if out := s.call("archive", "erase", "--id", "1", "--yes"); out != "erased 1\n" {
		t.Errorf("got %q", out)
	}
	if out := s.call("archive", "prune", "--before", "1d", "--yes"); out != "pruned 0\n" {
		t.Errorf("got %q", out)
	}
	if out := s.call("archive", "prune", "--before", "0s", "--yes", "--json"); out != `{"count":3}`+"\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.call("archive", "search"), "the archive holds nothing like that\n")
	if out := s.call("archive", "erase", "--all", "--yes"); out != "erased 0\n" {
		t.Errorf("got %q", out)
	}
}

// Without an archive, or with one that is away, the commands say so, and no password.
func TestArchiveIsAway(t *testing.T) {
	t.Parallel()
	contains(t, newShell(t).fails(exitUsage, "archive", "search"), "no archive is configured: set BELLHOP_ARCHIVE_URL")
	s := newShell(t, "BELLHOP_ARCHIVE_URL=postgres://bellhop:geheim@127.0.0.1:1/bellhop")
	for _, args := range []string{"search", "show t 1", "requeue --all", "prune --before 1d --yes", "erase --all --yes"} {
		said := s.fails(exitFailed, append([]string{"archive"}, strings.Fields(args)...)...)
		contains(t, said, "127.0.0.1:1")
		if strings.Contains(said, "geheim") {
			t.Errorf("archive %s says %s", args, said)
		}
	}
}
