//go:build linux

package vm_test

import (
	"testing"
)

// The check fails while something needs attention, starts the operator's unit and
// writes its findings into the journal. Accepted warnings do not fail it.
func TestCheck(t *testing.T) {
	t.Parallel()
	const unit = "bellhop-check.service"
	h, _ := running(t)
	h.Write("/etc/systemd/system/page@.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo %i >> /run/pages'\n", 0o644)
	h.dropIn(unit, "[Unit]\nOnFailure=page@%N.service\n[Service]\nEnvironment=\"ACCEPT=standby,memory,persistence,pub/sub round trip,clock\"\n")
	check := func(status string, wants ...string) {
		t.Helper()
		_, err := h.Try("systemctl", "start", unit)
		if h.shows(unit, "ExecMainStatus", status); (err == nil) != (status == "0") {
			t.Errorf("its start ends with %v", err)
		}
		contains(t, h.journal("-u", unit), wants...)
	}
	h.Run("redis-cli", "config", "set", "appendonly", "yes")
	check("0", "ok    ", " checks\n")
	h.shows(unit, "ActiveState", "inactive")
	h.Run("bellhop", "publish", "orders", "--attempts", "1", "--body", "x")
	_, _ = h.Try("bellhop", "work", "orders", "--count", "1", "--", "/bin/false")
	check("3", "warn  dead                orders: 1 died in the last 24h", "→ see why, then requeue or purge them: bellhop dead list orders")
	h.shows(unit, "ActiveState", "failed")
	contains(t, h.journal("-u", unit, "-p", "warning"), "warn  dead")
	h.holds("grep", "-qx", "bellhop-check", "/run/pages")
	h.Run("redis-cli", "config", "set", "appendonly", "no")
	check("1", "fail  persistence         none")
	contains(t, h.journal("-u", unit, "-p", "err"), "fail  persistence")
	h.Run("bellhop", "dead", "purge", "orders", "--all")
	h.Run("redis-cli", "config", "set", "appendonly", "yes")
	check("0")

	// The timer runs it.
	h.dropIn(unit, "[Service]\n")
	h.dropIn("bellhop-check.timer", "[Timer]\nOnCalendar=\nOnCalendar=*:*:*\nRandomizedDelaySec=0\nAccuracySec=1us\n")
	h.Run("systemctl", "enable", "--now", "bellhop-check.timer")
	h.logs(unit, "warn  standby")
}
