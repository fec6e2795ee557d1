package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// before is the oldest commit of which programs work beside those of this one: the first with the oldest format.
const before = "1a2d2212c079f4d2c74bbd1e5803ff0a7eb74405"

var besideFlag = flag.Int("faults.beside", 3, "rounds of TestBesideBefore, each with programs of two versions")

// Programs of the version before work beside present ones under faults: each second process of a daemon, and of bellhop work, is one. In each
// second round all faults are restarts, after which the other version takes over.
func TestBesideBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	program := buildBefore(t)
	restarts := filter(allSteps(), func(s step) bool {
		return strings.HasPrefix(faults[s.Fault].name, "kill") || faults[s.Fault].name == "SIGTERM"
	})
	var plans []plan
	for n := range *besideFlag {
		seed, steps := *seedFlag+uint64(n), restarts
		if seed%2 == 1 {
			steps = allSteps()
		}
		p := newPlan(seed, steps)
		p.Before = program
		plans = append(plans, p)
	}
	rounds(t, plans)
}

// A store is upgraded in place: the version after works beside this one, which the upgrade names and shuts out only if it is told to.
func TestUpgradeShutsOut(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	after := programAfter(t)
	server := storetest.Server(t)
	port, err := child.HoldPort()
	storetest.Must(t, err)
	env := append(os.Environ(), "BELLHOP_REDIS_URL="+server.URL(), "BELLHOP_LISTEN="+address(port))
	call := func(program string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Env = env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	says := func(text string, err error, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing, %v:\n%s", want, err, text)
			}
		}
	}
	start := func(name, program string, args ...string) (*child.Process, string) {
		file := filepath.Join(t.TempDir(), name)
		out, err := newOutput(file)
		storetest.Must(t, err)
		p, err := child.Start(child.Program{Name: name, Path: program, Args: args, Env: env, Output: out})
		storetest.Must(t, err)
		t.Cleanup(p.Kill)
		return p, file
	}
	publish := func(program, topic, body string) {
		t.Helper()
		out, err := call(program, "publish", topic, "--delay", "1s", "--body", body)
		says(out, err, topic+" ", " scheduled ")
	}
	publish(bellhop, "t", "founds the store, since the version after would give it another format")
	daemon, daemonLog := start("daemon", bellhop, "serve")
	worker, workerLog := start("worker", bellhop, "work", "t", "--name", "desk-3")
	storetest.Eventually(t, "both are listed", func() bool {
		out, err := call(after, "workers")
		return err == nil && strings.Contains(out, "desk-3") && strings.Contains(out, "daemon")
	})
	publish(after, "u", "published before")
	out, err := call(after, "upgrade", "--dry-run")
	says(out, err, "format 10 → 11 adds more\n", "shuts out desk-3 (worker, ", " (daemon, ", "shuts out an older version, which made a call ")
	out, err = call(after, "upgrade")
	says(out, err, "10, and 11 would shut out ", "desk-3 (worker, ", "; replace them, or shut them out with yes")
	if code := new(exec.ExitError); !errors.As(err, &code) || code.ExitCode() != 1 {
		t.Errorf("an upgrade beside older programs: %v", err)
	}
	out, err = call(bellhop, "work", "u", "--count", "1")
	says(out, err, "published before")

	out, err = call(after, "upgrade", "--yes", "--dry-run=false")
	says(out, err, "shuts out desk-3", "\ndone\n")
	for log, p := range map[string]*child.Process{daemonLog: daemon, workerLog: worker} {
		storetest.Receive(t, "an older program ends", p.Done())
		text, err := os.ReadFile(log)
		says(string(text), err, "has format 11, and this version of Bellhop works with formats 9 to 10; bellhop upgrade was run on it")
	}
	start("the daemon after", after, "serve")
	publish(after, "u", "published after")
	out, err = call(after, "work", "u", "--count", "1")
	says(out, err, "published after")
	out, err = call(after, "upgrade")
	says(out, err, "nothing to do: the store has format 11, the newest of this version\n")
}

// buildBefore builds the program of the version before, and returns its path.
func buildBefore(t *testing.T) string {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := git("cat-file", "-e", before+"^{commit}"); err != nil {
		t.Skipf("this is no clone with the commit %s; run git fetch --unshallow: %s", before, out)
	}
	tree, program := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "before")
	if out, err := git("worktree", "add", "--detach", tree, before); err != nil {
		t.Fatal(out, err)
	}
	t.Cleanup(func() { _ = exec.Command("git", "worktree", "remove", "--force", tree).Run() }) // its folder is removed anyway
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/bellhop")
	build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", before, err, out)
	}
	return program
}

// foundBefore has the version before found the store, which gives it a format that both versions know.
func (w *world) foundBefore(ctx context.Context) error {
	if w.before == "" {
		return nil
	}
	return w.run(ctx, w.before, "topics", "set", limitedTopic, fmt.Sprint("concurrency=", limits.Concurrency))
}

// run runs a program with all rights to the store.
func (w *world) run(ctx context.Context, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = environment(w.config())
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", c, err, out)
	}
	return nil
}

// bellhop returns the program that the present process of a member is: of two versions in turns, if the plan has two.
func (m *member) bellhop() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := strings.HasSuffix(m.name, "-1")
	if m.w.before != "" && !m.w.upgraded.Load() && (m.life%2 == 0) == first {
		return m.w.before
	}
	return bellhop
}
