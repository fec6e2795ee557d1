//go:build linux

package vm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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

// The tests of one machine share its boot and what is installed: each only reads, or has units of its own.
func TestOneMachine(t *testing.T) {
	t.Parallel()
	one, _ := running(t)
	two := installed(t, sandbox.Options{Name: "two", Network: one.Sandbox})
	for name, test := range map[string]func(t *testing.T, one, two *host){
		"Units": units, "Reload": reload, "StartWithoutRedis": startWithoutRedis, "Killed": killed, "Watchdog": watchdog,
		"BadConfiguration": badConfiguration, "JournalPriorities": journalPriorities, "Takeover": takeover,
		"ReloadTokens": reloadTokens, "ReloadTLS": reloadTLS,
		"Worker": worker, "WorkerWithoutExecutable": workerWithoutExecutable, "FirstProcess": firstProcess,
		"Listener": listener, "ListenerWithoutRedis": listenerWithoutRedis, "ListenerOfPattern": listenerOfPattern,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newHost(t, one.For(t)), newHost(t, two.For(t)))
		})
	}
}

// Without Redis, at boot or later, the daemon waits and is not restarted.
func startWithoutRedis(_ *testing.T, one, _ *host) {
	h := one.daemon("early", 8431, "BELLHOP_REDIS_URL=redis://127.0.0.1:6381")
	h.Run("systemctl", "start", h.service) // returns when the daemon is ready
	h.shows(h.service, "ActiveState", "active")
	pid := h.show(h.service, "MainPID")
	h.becomes(h.service, "StatusText", "waiting for Redis at redis://127.0.0.1:6381")
	h.answers("/readyz", "503")
	h.answers("/healthz", "200")
	h.redisAt("6381")
	h.becomes(h.service, "StatusText", "carrier")
	h.answers("/readyz", "200")
	h.Run("systemctl", "stop", "redis-6381")
	h.becomes(h.service, "StatusText", "waiting for Redis")
	h.redisAt("6381")
	h.becomes(h.service, "StatusText", "carrier")
	h.shows(h.service, "MainPID", pid)
	h.shows(h.service, "NRestarts", "0")
}

// started waits for a new process after one that died.
func (h *host) started(after string) {
	h.t.Helper()
	h.becomes(h.service, "NRestarts", "1")
	h.becomes(h.service, "StatusText", "carrier")
	if pid := h.show(h.service, "MainPID"); pid == after {
		h.t.Errorf("process %s still runs", pid)
	}
}

func killed(_ *testing.T, one, _ *host) {
	h := one.daemon("killed", 8432)
	h.Run("systemctl", "start", h.service)
	pid := h.show(h.service, "MainPID")
	h.Run("kill", "-9", pid)
	h.started(pid)
}

// The daemon gives signs of life. When it hangs it is ended, with its stacks in the journal, and restarted.
func watchdog(t *testing.T, one, _ *host) {
	h := one.daemon("watched", 8433)
	h.Run("systemctl", "start", h.service)
	h.becomes(h.service, "StatusText", "carrier")
	sign := func() string { return h.show(h.service, "WatchdogTimestampMonotonic") }
	if first := sign(); !eventually(func() bool { return sign() != first }) {
		t.Errorf("there is no sign of life since that at %s us", first)
	}
	h.shows(h.service, "NRestarts", "0")
	pid := h.show(h.service, "MainPID")
	h.Run("kill", "-STOP", pid)
	// It cannot give one now, so systemd need not wait as long as the unit says.
	h.Run("env", "NOTIFY_SOCKET=/run/systemd/notify", "systemd-notify", "--pid="+pid, "WATCHDOG_USEC=1")
	h.started(pid)
	contains(t, h.journal("-u", h.service), "Watchdog timeout", "SIGABRT: abort", "goroutine 1 ")
}

func reload(_ *testing.T, h, _ *host) {
	pid := h.show(service, "MainPID")
	h.Run("systemctl", "reload", service)
	h.logs(service, "msg=reloaded")
	h.becomes(service, "ActiveState", "active")
	h.shows(service, "MainPID", pid)
	h.shows(service, "NRestarts", "0")
}

func badConfiguration(t *testing.T, one, _ *host) {
	h := one.daemon("bad", 8434, "BELLHOP_LEASE=soon", "BELLHOP_REDIS_URI=redis://127.0.0.1")
	if said, err := h.Try("systemctl", "start", h.service); err == nil {
		t.Errorf("it starts: %s", said)
	}
	h.shows(h.service, "ActiveState", "failed")
	h.shows(h.service, "ExecMainStatus", "2")
	h.shows(h.service, "NRestarts", "0")
	contains(t, h.journal("-u", h.service, "-p", "err"), `bellhop: BELLHOP_LEASE "soon": write a duration`, "bellhop: BELLHOP_REDIS_URI is not a setting; did you mean BELLHOP_REDIS_URL?")
}

// The password, tokens and a certificate are files of root, are found without a setting, and cannot be read by others. A restart
// reads new ones.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.redis("requirepass geheim")
	h.Write("/etc/credstore/bellhop.redis-password", "geheim\n", 0o600)
	token := strings.Repeat("3", 40)
	h.Write("/etc/credstore/bellhop.tokens", "three "+token+" admin >\n", 0o600)
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	h.answers("/v1/topics", "401")
	h.answers("/v1/topics", "200", "-H", "Authorization: Bearer "+token)
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

	for _, p := range []pair{newPair(t, "one"), newPair(t, "two")} {
		h.Write("/etc/credstore/bellhop.tls-cert", p.cert, 0o600)
		h.Write("/etc/credstore/bellhop.tls-key", p.key, 0o600)
		h.Run("systemctl", "restart", service)
		h.showsCert(p)
	}
}

func journalPriorities(t *testing.T, one, _ *host) {
	h := one.daemon("verbose", 8435, "BELLHOP_LOG_LEVEL=debug", "BELLHOP_LOG_FORMAT=json", "BELLHOP_REDIS_URL=redis://127.0.0.1:1")
	h.Run("systemctl", "start", h.service)
	h.logs(h.service, "cannot stand for election")
	found := make(map[string]string)
	for line := range strings.Lines(h.journal("-u", h.service, "-o", "json", "_COMM=bellhop")) {
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

// On a stop the standby on another host takes over, long before the lease would end; the stop is no failure. A killed carrier is
// replaced when its lease ends.
func takeover(t *testing.T, one, two *host) {
	carries := func(h *host, name string) {
		t.Helper()
		h.becomes(h.service, "StatusText", "carrier")
		contains(t, h.Run("env", "BELLHOP_PREFIX=taken", "bellhop", "carrier"), name+":")
	}
	one, two = one.daemon("taken", 8436, "BELLHOP_CARRIER_LEASE=10m"), two.daemon("taken", 8437, "BELLHOP_CARRIER_LEASE=10m")
	one.Run("systemctl", "start", one.service)
	carries(one, "sandbox")
	two.Run("systemctl", "start", two.service)
	two.becomes(two.service, "StatusText", "standby")
	one.Run("systemctl", "stop", one.service)
	carries(two, "two")
	one.shows(one.service, "Result", "success")
	contains(t, one.journal("-u", one.service), "stepped down", "msg=stopped")

	one = one.daemon("taken", 8436) // with the usual lease
	one.Run("systemctl", "start", one.service)
	one.becomes(one.service, "StatusText", "standby")
	two.Run("systemctl", "stop", two.service)
	carries(one, "sandbox")
	two.Run("systemctl", "start", two.service)
	one.dropIn(one.service, "[Service]\nRestartSec=1h\n") // else it may restart before its lease expires, and be elected again
	one.Run("kill", "-9", one.show(one.service, "MainPID"))
	carries(two, "two")
}
