package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// startDev starts bellhop dev and returns a shell for the Redis that it runs.
func startDev(t *testing.T, vars []string, args ...string) (*process, *shell) {
	t.Helper()
	s := newShell(t, vars...)
	p := s.launch(s.command(append([]string{"dev"}, args...)...))
	p.await(1, "Ctrl-C ends this.")
	address := regexp.MustCompile(`on (127\.0\.0\.1:\d+)`).FindStringSubmatch(p.said())
	if address == nil {
		t.Fatalf("no address in:\n%s", p.said())
	}
	if !strings.HasSuffix(address[1], ":6379") {
		contains(t, p.said(), "export BELLHOP_REDIS_URL=redis://"+address[1])
	}
	s.env = append(s.env, "BELLHOP_REDIS_URL=redis://"+address[1])
	return p, s
}

func TestDevTour(t *testing.T) {
	p, s := startDev(t, nil, "--dir", t.TempDir())
	if n := strings.Count(p.said(), "  delivered  "); n != 4 {
		t.Errorf("%d deliveries, want 4:\n%s", n, p.said())
	}
	contains(t, p.said(), "redis-server on 127.0.0.1:", " ms late: message 4")
	_, end, _ := strings.Cut(p.said(), "Everything runs.")
	if !regexp.MustCompile(`(?m)^The console shows all of it: http://127\.0\.0\.1:\d+/ui/$`).MatchString(end) {
		t.Errorf("the end of the tour does not say where the console is: %s", end)
	}
	s.call("publish", "greetings", "--body", "hello", "--delay", "50ms")
	contains(t, s.call("work", "greetings", "--count", "1"), "hello")
	p.signal(os.Interrupt)
	p.ends(exitDone)
}

func TestDevKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	p, s := startDev(t, nil, "--no-tour", "--dir", dir)
	if strings.Contains(p.said(), "delivered") {
		t.Errorf("the tour runs:\n%s", p.said())
	}
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "kept")
	contains(t, s.devFails(exitFailed, "--dir", dir), "folder "+dir+" is in use by another bellhop dev")
	p.stop()
	_, again := startDev(t, []string{"BELLHOP_PREFIX=" + s.setting("BELLHOP_PREFIX")}, "--no-tour", "--dir", dir)
	contains(t, again.call("inspect", "t", "1"), "kept")
}

// A folder with the store of another version is named with the remedy, and stays as it is.
func TestDevOfAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir, Args: []string{"--appendonly", "yes"}})
	storetest.Must(t, err)
	defer server.Stop()
	s := newShell(t)
	store := storetest.With(t, notify.Config{URL: server.URL(), Prefix: s.setting("BELLHOP_PREFIX")})
	storetest.Must(t, store.Client().Set(t.Context(), store.Keys().Format(), "1 other", 0).Err())
	server.Stop()
	for range 2 {
		contains(t, s.devFails(exitFailed, "--dir", dir), "has format 1, and", "its data is in "+dir, "remove that folder, or name another one with --dir")
	}
}

// Messages may be secret: others cannot read the files, even in a folder that they may list.
func TestDevHidesItsData(t *testing.T) {
	dir := t.TempDir()
	storetest.Must(t, os.Chmod(dir, 0o755))
	p, s := startDev(t, nil, "--no-tour", "--dir", dir)
	s.call("publish", "t", "--body", "secret")
	p.stop()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		about, err := d.Info()
		if err == nil && about.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, about.Mode())
		}
		return err
	})
	storetest.Must(t, err)
}

func TestDevEndsWithItsRedis(t *testing.T) {
	p, s := startDev(t, nil, "--no-tour", "--dir", t.TempDir())
	store := storetest.With(t, notify.Config{URL: s.setting("BELLHOP_REDIS_URL")})
	_ = store.Client().ShutdownNoSave(t.Context()).Err() // Redis answers by closing the connection
	p.ends(exitFailed)
	contains(t, p.said(), "bellhop: a server ended by itself: redis-server on ")
}

// devFails expects an exit code of dev, and returns what it printed. It runs in a process of its own, since it changes the umask, and
// looks for redis-server in the environment of the process.
func (s *shell) devFails(code int, args ...string) string {
	s.t.Helper()
	p := s.launch(s.command(append([]string{"dev"}, args...)...))
	p.ends(code)
	return p.said()
}

func TestDevInMemory(t *testing.T) {
	storetest.OneShard(t, "a Redis in memory holds one")
	p, s := startDev(t, []string{"PATH=" + t.TempDir(), redisserver.Variable + "="})
	contains(t, p.said(), "in memory on 127.0.0.1:", "MESSAGES VANISH", " ms late: message 4")
	s.call("publish", "greetings", "--body", "hello", "--delay", "50ms")
	contains(t, s.call("work", "greetings", "--count", "1"), "hello")
	contains(t, s.call("doctor"), "ok    rights", "ok    carrier", "warn  persistence")
	p.stop()
	contains(t, s.devFails(exitFailed, "--shards", "8"), "redis-server is not on PATH", "a Redis in memory holds one shard, not 8")
}

// With a manual clock Redis is in memory, though redis-server is installed, and there is no tour.
func TestDevManualClock(t *testing.T) {
	storetest.OneShard(t, "a Redis in memory holds one")
	p, s := startDev(t, nil, "--clock", "manual", "--at", "2030-01-01T00:00:00Z")
	contains(t, p.said(), "in memory on 127.0.0.1:", "with a clock that stands still", "Time stands still. To move it, POST /v1/clock?advance=30m")
	if strings.Contains(p.said(), "delivered") {
		t.Errorf("the tour runs:\n%s", p.said())
	}
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "x")
	contains(t, s.call("inspect", "t", "1"), "2030-01-01T01:00:00")
	storetest.Eventually(t, "a carrier is elected", func() bool { return s.feed("", "carrier").code == exitDone })
	contains(t, s.call("doctor"), "ok    rights              not rehearsed", "ok    clock", "the trial server's clock, which is moved by hand, is ")
	p.stop()
	contains(t, s.devFails(exitUsage, "--clock", "sundial"), `clock "sundial": use manual or real`)
	contains(t, s.devFails(exitUsage, "--at", "2030-01-01T00:00:00Z"), "at: it is when a manual clock begins; add --clock manual")
	contains(t, s.devFails(exitUsage, "--clock", "manual", "--at", "noon"), `at "noon": write a time such as`)
	contains(t, s.devFails(exitUsage, "--clock", "manual", "--shards", "8"), "which holds one shard; leave one of the two out")
}

func TestDevShards(t *testing.T) {
	dir := t.TempDir()
	p, s := startDev(t, nil, "--shards", "8", "--dir", dir)
	if n := strings.Count(p.said(), "  delivered  "); n != 4 {
		t.Errorf("%d deliveries, want 4:\n%s", n, p.said())
	}
	contains(t, s.call("shards"), "8 shards on 1 server, home is shard 0; ")
	contains(t, s.feed("", "doctor").out, "ok    shards              8 on 1 master: 8", " has 8; their beats arrive")
	contains(t, s.devFails(exitUsage, "--shards", "3"), "shards 3: use a power of two, 1 to 256")
	p.stop()
	contains(t, s.devFails(exitUsage, "--no-tour", "--shards", "4", "--dir", dir), "it has 8 shards, and shards is 4")
}
