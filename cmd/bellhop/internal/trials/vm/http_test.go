//go:build linux

package vm_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
)

// knock calls an address until the file /run/enough exists, each time on a new connection. It
// prints the status and curl's exit code.
const knock = `until [ -e /run/enough ]; do curl -sk -o /dev/null -w '%{http_code} ' --max-time 60 "$1"; echo $?; done`

// knocks calls an address all the time, and returns once a call was answered. enough ends that when there were some
// calls, also on a machine that is slow, and counts how they ended.
func (h *host) knocks(url string) (enough func() map[string]int) {
	h.t.Helper()
	h.Write("/root/knock", knock, 0o755)
	h.Run("systemd-run", "--quiet", "--unit=knock", "-p", "StandardOutput=file:/run/knocks", "bash", "/root/knock", url)
	ended := func(n int) {
		h.t.Helper()
		answers := func() int {
			said, _ := h.Try("cat", "/run/knocks") // there is no such file at first
			return strings.Count(said, "\n")
		}
		if !eventually(func() bool { return answers() >= n }) {
			h.t.Fatalf("%d calls ended, want %d", answers(), n)
		}
	}
	ended(1)
	return func() map[string]int {
		h.t.Helper()
		ended(5)
		h.Write("/run/enough", "", 0o600)
		h.becomes("knock", "ActiveState", "inactive")
		counts := make(map[string]int)
		for line := range strings.Lines(h.Run("cat", "/run/knocks")) {
			counts[strings.TrimSpace(line)]++
		}
		return counts
	}
}

// No connection is refused while the daemon restarts, after it is killed, or before it is started.
func TestSocketRefusesNobody(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.redis()
	h.Run("systemctl", "enable", "--now", "bellhop.socket")
	h.shows(service, "ActiveState", "inactive")
	h.answers("/healthz", "200") // the call starts the daemon
	h.becomes(service, "StatusText", "carrier")

	knocking := h.knocks("http://127.0.0.1:8420/healthz")
	for range 3 {
		h.Run("systemctl", "restart", service)
		h.answers("/readyz", "200")
	}
	h.Run("kill", "-9", h.show(service, "MainPID"))
	h.becomes(service, "NRestarts", "1")
	h.answers("/readyz", "200")
	counts := knocking()
	// 52 is an empty answer and 56 a reset, both by the killed daemon.
	for answer, n := range counts {
		if answer != "200 0" && !((answer == "000 52" || answer == "000 56") && n == 1) {
			t.Errorf("%d of the calls ended with %s (status, exit code of curl); all: %v", n, answer, counts)
		}
	}
	if counts["200 0"] < 5 {
		t.Errorf("there were hardly any calls: %v", counts)
	}
	h.shows("bellhop.socket", "NRefused", "0")
}

// A reload reads tokens again; an unusable file changes nothing.
func reloadTokens(t *testing.T, one, _ *host) {
	h := one.daemon("tokens", 8438, "BELLHOP_TOKENS_FILE=/etc/bellhop/tokens")
	first, second := strings.Repeat("1", 40), strings.Repeat("2", 40)
	h.secret("/etc/bellhop/tokens", "one "+first+" admin >\n")
	h.Run("systemctl", "start", h.service)
	pid := h.show(h.service, "MainPID")
	bearer := func(token string) []string { return []string{"-H", "Authorization: Bearer " + token} }
	h.answers("/v1/topics", "200", bearer(first)...)
	h.answers("/v1/topics", "401", bearer(second)...)
	h.answers("/v1/topics", "401")

	h.secret("/etc/bellhop/tokens", "two "+second+" admin >\n")
	h.Run("systemctl", "reload", h.service)
	h.answers("/v1/topics", "200", bearer(second)...)
	h.answers("/v1/topics", "401", bearer(first)...)

	h.secret("/etc/bellhop/tokens", "what is this\n")
	h.Run("systemctl", "reload", h.service)
	h.logs(h.service, "cannot reload; going on as before")
	h.answers("/v1/topics", "200", bearer(second)...)
	if status := h.show(h.service, "StatusText"); !strings.HasSuffix(status, "; the last reload failed: see the log") {
		t.Errorf("the status is %q", status)
	}
	h.shows(h.service, "ActiveState", "active")
	h.shows(h.service, "MainPID", pid)
}

// A socket that other machines can reach requires tokens. Without them, clients start the
// daemon a few times, but not for ever. After the correction one restart brings back both.
func TestSocketForOtherMachines(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.redis()
	h.dropIn("bellhop.socket", "[Socket]\nListenStream=\nListenStream=0.0.0.0:8420\nTriggerLimitIntervalSec=1h\n") // a busy machine starts it less often
	h.Run("systemctl", "enable", "--now", "bellhop.socket")
	if said, err := h.Try("systemctl", "start", service); err == nil {
		t.Errorf("it starts: %s", said)
	}
	h.shows(service, "ExecMainStatus", "2")
	h.shows("bellhop.socket", "ActiveState", "active")
	const call = "http://127.0.0.1:8420/healthz"
	if said, err := h.Try("curl", "-sS", call); err == nil || strings.Contains(said, "timed out") {
		t.Errorf("a client gets %q, %v", said, err)
	}
	h.becomes("bellhop.socket", "Result", "trigger-limit-hit")
	h.shows(service, "ActiveState", "failed")
	log := h.journal("-u", service, "-p", "err")
	contains(t, log, "bellhop: invalid address 0.0.0.0:8420: other machines reach it", "set BELLHOP_TOKENS_FILE")
	if n := strings.Count(log, "bellhop: invalid address"); n > 25 {
		t.Errorf("it was started %d times", n)
	}
	contains(t, h.Run("sh", "-c", "curl -sS "+call+" 2>&1 || true"), "Couldn't connect")

	token := strings.Repeat("4", 40)
	h.secret("/etc/bellhop/tokens", "four "+token+" admin >\n")
	h.settings("BELLHOP_TOKENS_FILE=/etc/bellhop/tokens")
	h.Run("systemctl", "restart", service)
	h.shows("bellhop.socket", "ActiveState", "active")
	h.answers("/v1/topics", "200", "-H", "Authorization: Bearer "+token)
	h.answers("/v1/topics", "401")
	contains(t, h.journal("-u", service), "address=0.0.0.0:8420 tls=false tokens=true")

	h.dropIn("bellhop.socket", "[Socket]\nListenStream=\nListenStream=127.0.0.2:8420\n")
	h.Run("systemctl", "stop", "bellhop.socket")
	h.Run("systemctl", "restart", service)
	h.shows("bellhop.socket", "ActiveState", "active")
	contains(t, h.journal("-u", service), "address=127.0.0.2:8420 tls=false tokens=true")
}
