//go:build linux

package vm_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
)

const service = "bellhop.service"

// running returns a host whose daemon carries, and the id of the daemon's process.
func running(t *testing.T) (*host, string) {
	t.Helper()
	h := installed(t, sandbox.Options{})
	h.redis()
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	return h, h.show(service, "MainPID")
}

// Without Redis, at boot or later, the daemon waits and is not restarted.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.Run("systemctl", "start", service) // returns when the daemon is ready
	h.shows(service, "ActiveState", "active")
	pid := h.show(service, "MainPID")
	h.becomes(service, "StatusText", "waiting for Redis at redis://127.0.0.1:6379")
	h.answers("/readyz", "503")
	h.answers("/healthz", "200")
	h.redis()
	h.becomes(service, "StatusText", "carrier, epoch 1")
	h.answers("/readyz", "200")
	h.Run("systemctl", "stop", "test-redis")
	h.becomes(service, "StatusText", "waiting for Redis")
	h.redis()
	h.becomes(service, "StatusText", "carrier")
	h.shows(service, "MainPID", pid)
	h.shows(service, "NRestarts", "0")
}

// started waits for a new process after one that died.
func (h *host) started(after string) {
	h.t.Helper()
	h.becomes(service, "NRestarts", "1")
	h.becomes(service, "StatusText", "carrier")
	if pid := h.show(service, "MainPID"); pid == after {
		h.t.Errorf("process %s still runs", pid)
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	h, pid := running(t)
	h.Run("kill", "-9", pid)
	h.started(pid)
}

// A hanging daemon is ended, with its stacks in the journal, and restarted.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.dropIn(service, "[Service]\nWatchdogSec=3s\n") // a busy machine keeps a process waiting for a second
	h.redis()
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	pid := h.show(service, "MainPID")
	alive := func() (us int) {
		us, _ = strconv.Atoi(h.show(service, "WatchdogTimestampMonotonic"))
		return us
	}
	if since := alive(); !eventually(func() bool { return alive() > since+6e6 }) { // two intervals of the watchdog
		t.Errorf("the last sign of life came at %d us, and at %d before", alive(), since)
	}
	h.shows(service, "NRestarts", "0")
	h.Run("kill", "-STOP", pid)
	h.started(pid)
	contains(t, h.journal("-u", service), "Watchdog timeout", "SIGABRT: abort", "goroutine 1 ")
}

func TestReload(t *testing.T) {
	t.Parallel()
	h, pid := running(t)
	h.Run("systemctl", "reload", service)
	h.logs(service, "msg=reloaded")
	h.becomes(service, "ActiveState", "active")
	h.shows(service, "MainPID", pid)
	h.shows(service, "NRestarts", "0")
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.settings("BELLHOP_LEASE=soon", "BELLHOP_REDIS_URI=redis://127.0.0.1")
	if said, err := h.Try("systemctl", "start", service); err == nil {
		t.Errorf("it starts: %s", said)
	}
	h.shows(service, "ActiveState", "failed")
	h.shows(service, "ExecMainStatus", "2")
	h.shows(service, "NRestarts", "0")
	contains(t, h.journal("-u", service, "-p", "err"), `bellhop: BELLHOP_LEASE "soon": write a duration`, "bellhop: BELLHOP_REDIS_URI is not a setting; did you mean BELLHOP_REDIS_URL?")
}

// The password is a file of root, is found without a setting, and cannot be read by others.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.redis("requirepass geheim")
	h.Write("/etc/credstore/bellhop.redis-password", "geheim\n", 0o600)
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	pid := h.show(service, "MainPID")
	const file = "/run/credentials/bellhop.service/bellhop.redis-password"
	if user := strings.TrimSpace(h.Run("stat", "-c", "%U", "/proc/"+pid)); user == "root" {
		t.Error("the daemon runs as root")
	}
	for _, other := range []string{"nobody", "bellhop-work"} {
		if got, err := h.Try("setpriv", "--reuid", other, "--clear-groups", "cat", file); err == nil || !strings.Contains(got, "Permission denied") {
			t.Errorf("%s may read the password: %s", other, got)
		}
	}
	if command := h.Run("sh", "-c", fmt.Sprintf("tr '\\0' ' ' < /proc/%s/cmdline; tr '\\0' ' ' < /proc/%s/environ", pid, pid)); strings.Contains(command, "geheim") {
		t.Errorf("the password is in %s", command)
	}
	if log := h.journal(); strings.Contains(log, "geheim") {
		t.Errorf("the password is in the journal:\n%s", log)
	}
	// The daemon is in the group, so it may read a file of the group.
	h.Write("/etc/bellhop/secret", "x", 0o640)
	h.Run("chgrp", "bellhop-secrets", "/etc/bellhop/secret")
	groups := h.Run("sh", "-c", "grep ^Groups: /proc/"+pid+"/status; getent group bellhop-secrets")
	fields := strings.Split(strings.TrimSpace(groups), ":")
	if id := fields[len(fields)-2]; !strings.Contains(strings.SplitN(groups, "\n", 2)[0], id) {
		t.Errorf("the daemon is not in the group bellhop-secrets: %s", groups)
	}
}

func TestJournalPriorities(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.settings("BELLHOP_LOG_LEVEL=debug", "BELLHOP_LOG_FORMAT=json")
	h.Run("systemctl", "start", service)
	h.logs(service, "cannot stand for election")
	found := make(map[string]string)
	for line := range strings.Lines(h.journal("-u", service, "-o", "json", "_COMM=bellhop")) {
		var entry struct{ PRIORITY, MESSAGE string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		var record struct{ Time, Level string }
		if err := json.Unmarshal([]byte(entry.MESSAGE), &record); err != nil || record.Time != "" {
			t.Errorf("the journal has %q, %v", entry.MESSAGE, err)
		}
		if was, ok := found[record.Level]; ok && was != entry.PRIORITY {
			t.Errorf("the level %s has the priorities %s and %s", record.Level, was, entry.PRIORITY)
		}
		found[record.Level] = entry.PRIORITY
	}
	for level, priority := range map[string]string{"INFO": "6", "ERROR": "3"} {
		if found[level] != priority {
			t.Errorf("the priorities of levels are %v", found)
		}
	}
}

// On a stop the standby on another host takes over; the stop is no failure.
func TestTakeover(t *testing.T) {
	t.Parallel()
	one := installed(t, sandbox.Options{Name: "one"})
	one.redis()
	one.Run("systemctl", "start", service)
	one.becomes(service, "StatusText", "carrier, epoch 1")
	two := installed(t, sandbox.Options{Name: "two", Network: one.Sandbox})
	two.settings("BELLHOP_LISTEN=127.0.0.1:8421") // both share one loopback
	two.Run("systemctl", "start", service)
	two.becomes(service, "StatusText", "standby")
	contains(t, two.Run("bellhop", "carrier"), "one:")

	began := time.Now()
	one.Run("systemctl", "stop", service)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	two.becomes(service, "StatusText", "carrier, epoch 2")
	contains(t, two.Run("bellhop", "carrier"), "two:")
	one.shows(service, "Result", "success")
	contains(t, one.journal("-u", service), "stepped down", "msg=stopped")
	one.Run("systemctl", "start", service)
	one.becomes(service, "StatusText", "standby")

	two.dropIn(service, "[Service]\nRestartSec=1h\n") // else it may restart before its lease expires, and be elected again
	two.Run("kill", "-9", two.show(service, "MainPID"))
	one.becomes(service, "StatusText", "carrier, epoch 3")
}
