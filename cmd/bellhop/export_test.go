package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// sorted returns the lines of a text, sorted.
func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }

// files returns the names of the files in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	storetest.Must(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// fillStore publishes messages of every kind, and pauses a topic.
func fillStore(s *shell) {
	s.t.Helper()
	s.call("publish", "order.timeout", "--id", "a", "--delay", "1h", "--body", "x", "--ttl", "1h", "--attempts", "3", "--header", "K=v")
	s.call("publish", "mail", "--id", "b", "--body", "y")
	s.call("broadcast", "prices.gold", "--id", "c", "--delay", "1h", "--body", "42")
	s.call("publish", "failed", "--id", "d", "--attempts", "1", "--body", "z")
	s.call("work", "failed", "--count", "1", "--", "sh", "-c", "echo no such order >&2; exit 1")
	s.call("pause", "mail")
}

// Exported messages can be published under another prefix, and are the same there.
func TestExport(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	fillStore(from)
	path := filepath.Join(t.TempDir(), "messages.jsonl")
	r := from.feed("", "export", path)
	if r.code != exitDone || r.out != "exported 4: 1 scheduled, 1 ready, 0 leased, 1 dead, 1 broadcasts\n" ||
		r.err != "bellhop: 1 paused, which is not exported; call bellhop pause where you publish this, for each of: mail\n" {
		t.Errorf("got %+v", r)
	}
	written, err := os.ReadFile(path)
	storetest.Must(t, err)
	if about, err := os.Stat(path); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", about.Mode(), err)
	}
	if got := to.call("publish", "--file", path); got != "published 4, refused 0\n" {
		t.Errorf("got %q", got)
	}
	r = to.feed("", "export", "-")
	if r.code != exitDone || !slices.Equal(sorted(r.out), sorted(string(written))) {
		t.Errorf("exit %d, exported %s\nand then %s", r.code, written, r.out)
	}
	contains(t, r.err, "exported 4: ")
	contains(t, to.call("dead", "list", "failed"), "exit status 1: no such order")
	r = to.feed("", "publish", "--file", path)
	if r.code != exitDone || r.out != "published 0, refused 0\n4 lines were there unchanged\n" {
		t.Errorf("published again: %+v", r)
	}
	var sum notify.Exported
	from.json(&sum, "export", path, "--json") // in its place
	if sum.Total() != 4 || sum.Dead != 1 || !slices.Equal(sum.Paused, []string{"mail"}) || !slices.Equal(files(t, filepath.Dir(path)), []string{"messages.jsonl"}) {
		t.Errorf("got %+v, and there is %q", sum, files(t, filepath.Dir(path)))
	}
}

// An invalid line of an export is reported with its number and its field; the others are restored.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	r := s.feed(`{"topic":"t","id":"a","body":"x","restore":{"died":"2020-01-01T00:00:00Z","attempts_used":-1}}
{"topic":"t","id":"b","body":"x","restore":{"died":"2020-01-01T00:00:00Z"}}
{"topic":"t","id":"c","body":"x","restore":{}}`, "publish", "--file", "-")
	if r.code != exitFailed || r.out != "published 1, refused 2\n" {
		t.Errorf("got %+v", r)
	}
	contains(t, r.err, "line 1: invalid restore.attempts_used -1: use 0 to ", "line 3: invalid due: it is missing; ")
}

// An export of an empty store succeeds, and names the prefix and the address.
func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	r := s.feed("", "export", "-")
	if r.code != exitDone || r.out != "" || !strings.Contains(r.err, "no message under the prefix "+s.setting("BELLHOP_PREFIX")+" at redis://") {
		t.Errorf("got %+v", r)
	}
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.fails(exitUsage, "export"), "FILE is missing")
	contains(t, s.fails(exitUsage, "export", "a", "b"), `unexpected argument "b"`)
	contains(t, s.fails(exitUsage, "export", t.TempDir()), "it is not a regular file; name another, or write to standard output")
	contains(t, s.fails(exitUsage, "export", "/dev/null"), "it is not a regular file")
	contains(t, s.fails(exitFailed, "export", filepath.Join(t.TempDir(), "none", "file")), "no such file or directory")
}

// A store of another format is not exported; the error refers to a newer version.
func TestExportOfAnotherFormat(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	fillStore(s)
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Must(t, store.Client().Set(t.Context(), store.Keys().Format(), "999 ID", 0).Err())
	dir := t.TempDir()
	contains(t, s.fails(exitFailed, "export", filepath.Join(dir, "messages.jsonl")), "has format 999", "replace this program by a newer version")
	if names := files(t, dir); len(names) != 0 {
		t.Errorf("there is %q", names)
	}
}

// An interrupted export leaves no file that could be mistaken for a complete one, and keeps the one that was there.
func TestExportIsCut(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+redis.URL())
	fillStore(s)
	dir := t.TempDir()
	path := filepath.Join(dir, "messages.jsonl")
	storetest.Must(t, os.WriteFile(path, []byte("before"), 0o600))
	storetest.Must(t, storetest.At(t, redis.URL(), "").Client().Do(t.Context(), "client", "pause", 60_000, "all").Err())
	p := s.start("export", path)
	storetest.Eventually(t, "it has begun", func() bool { return len(files(t, dir)) == 2 })
	p.signal(syscall.SIGINT)
	p.ends(exitFailed)
	contains(t, p.said(), "interrupted", path+" was not written")
	if text, err := os.ReadFile(path); string(text) != "before" || len(files(t, dir)) != 1 {
		t.Errorf("there is %q, and the file holds %q, %v", files(t, dir), text, err)
	}
}

// If standard output is full, the exit code is that of a failure.
func TestExportToFullDisk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	fillStore(s)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	storetest.Must(t, err)
	defer full.Close()
	var errOut strings.Builder
	if code := run([]string{"export", "-"}, s.env, strings.NewReader(""), full, &errOut); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	contains(t, errOut.String(), "no space left on device")
}

// The commands of the page's section on another version work.
func TestPageOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	fillStore(s)
	commands := strings.Join(pagestest.Blocks(t, "../../daemon/README.md", "Another version"), "")
	dir := t.TempDir()
	storetest.Must(t, os.Symlink(self(t), filepath.Join(dir, "bellhop")))
	cmd := exec.Command("sh", "-exc", strings.ReplaceAll(commands, "bellhop2", s.setting("BELLHOP_PREFIX")+"-2"))
	cmd.Dir, cmd.Env = dir, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	contains(t, string(out), "exported 4: ", "published 4, refused 0")
}
