//go:build linux

package vm_test

import "testing"

// note is an executable that appends its message to a file.
const note = `#!/bin/sh -e
echo "$MESSAGE_TOPIC $MESSAGE_ID $(cat) by $(id -un) in $(pwd)" >> /var/lib/bellhop-work/notes
`

// notes waits until a line was noted.
func (h *host) notes(want string) {
	h.t.Helper()
	h.holds("grep", "-qxF", want, "/var/lib/bellhop-work/notes")
}

func worker(_ *testing.T, h, _ *host) {
	h.Run("bellhop", "topics", "set", "order.sent", "branches=mail")
	for topic, of := range map[string]string{"order.timeout": "order.timeout", "mail-out": "mail-out", "order.sent@mail": "order.sent"} {
		unit := "bellhop-work@" + topic + ".service"
		h.Write("/etc/bellhop/work/"+topic, note, 0o755)
		h.Run("systemctl", "start", unit)
		h.shows(unit, "ActiveState", "active")
		h.Run("bellhop", "publish", of, "--id", "a", "--body", "hello")
		h.notes(topic + " a hello by bellhop-work in /var/lib/bellhop-work")
		h.Run("systemctl", "stop", unit)
		h.shows(unit, "Result", "success")
	}
	h.Write("/etc/bellhop/work/others", note, 0o755)
	h.Write("/etc/bellhop/work/others.env", "TOPIC=mail-out\n", 0o644)
	h.Run("systemctl", "start", "bellhop-work@others")
	h.Run("bellhop", "publish", "mail-out", "--id", "b", "--body", "hello")
	h.notes("mail-out b hello by bellhop-work in /var/lib/bellhop-work")
}

// A stop waits for a running executable, even if the unit allows less time. systemd forgets that it was asked for more when it is
// reloaded, so the machine is the test's own.
func TestWorkerFinishes(t *testing.T) {
	t.Parallel()
	h, _ := running(t)
	const unit = "bellhop-work@slow.service"
	h.Write("/etc/bellhop/work/slow", "#!/bin/sh -e\necho begun\nsleep 10\necho \"done by $CONCURRENCY\"\n", 0o755)
	h.Write("/etc/bellhop/work/slow.env", "CONCURRENCY=3\n", 0o644)
	h.dropIn(unit, "[Service]\nTimeoutStopSec=8s\n")
	h.Run("systemctl", "start", unit)
	h.Run("bellhop", "publish", "slow", "--id", "a", "--body", "x")
	h.logs(unit, "begun")
	h.Run("systemctl", "stop", unit)
	h.shows(unit, "Result", "success")
	contains(t, h.journal("-u", unit), "done by 3")
	if said, err := h.Try("bellhop", "inspect", "slow", "a"); err == nil {
		t.Errorf("the message is still there: %s", said)
	}
}

func workerWithoutExecutable(t *testing.T, h, _ *host) {
	const unit = "bellhop-work@nothing.service"
	if said, err := h.Try("systemctl", "start", unit); err == nil {
		t.Errorf("it starts: %s", said)
	}
	h.shows(unit, "NRestarts", "0")
	contains(t, h.journal("-u", unit, "-p", "err"), "bellhop: invalid command", "/etc/bellhop/work/nothing")
}

// A worker that is the first process of a container leaves no zombies of what its commands leave behind.
func firstProcess(_ *testing.T, h, _ *host) {
	const unit = "first"
	h.Run("systemd-run", "--quiet", "--unit="+unit, "unshare", "--pid", "--fork", "--mount-proc",
		"bellhop", "work", unit, "--concurrency", "4", "--", "sh", "-c", "(sleep 1; setsid sleep 1) > /dev/null 2>&1 &")
	for range 20 {
		h.Run("bellhop", "publish", unit, "--body", "x")
	}
	h.holds("sh", "-c", `bellhop topics first --json | grep -q '"acked":20\b'`)
	h.holds("sh", "-ec", `first=$(pgrep -P "$(systemctl show -P MainPID first)"); ! ps -o pid,stat,args --ppid "$first"`) // none is there, dead or alive
	h.Run("systemctl", "stop", unit)
}

// Each host gets each broadcast, also those sent while its listener was stopped.
func listener(t *testing.T, one, two *host) {
	const unit = "bellhop-listen@prices-eu.gold.service"
	for _, h := range []*host{one, two} {
		h.Write("/etc/bellhop/listen/prices-eu.gold", note, 0o755)
		h.Run("systemctl", "start", unit)
	}
	one.Run("bellhop", "broadcast", "prices-eu.gold", "--id", "a", "--body", "41")
	for _, h := range []*host{one, two} {
		h.notes("prices-eu.gold a 41 by bellhop-work in /var/lib/bellhop-work")
		h.Run("systemctl", "stop", unit)
	}
	one.Run("bellhop", "broadcast", "prices-eu.gold", "--id", "b", "--body", "42")
	for _, h := range []*host{one, two} {
		h.Run("systemctl", "start", unit)
		h.notes("prices-eu.gold b 42 by bellhop-work in /var/lib/bellhop-work")
	}
	contains(t, one.Run("bellhop", "listeners"), "sandbox.prices-eu.gold", "two.prices-eu.gold")
}

// A pattern, and the deaths of a topic, are in the environment file: systemd expands none of it.
func listenerOfPattern(t *testing.T, h, _ *host) {
	for name, pattern := range map[string]string{"on-call": "$dead.calls.>", "rates": "rates.*"} {
		h.Write("/etc/bellhop/listen/"+name, note, 0o755)
		h.Write("/etc/bellhop/listen/"+name+".env", "TOPIC="+pattern+"\n", 0o644)
		h.Run("systemctl", "start", "bellhop-listen@"+name)
		contains(t, h.Run("bellhop", "listeners", "--json"), `"name":"sandbox.`+name+`","pattern":"`+pattern+`"`)
	}
	h.Run("bellhop", "publish", "calls.new", "--id", "a", "--body", "x")
	h.Run("bellhop", "work", "calls.new", "--count", "1", "--", "sh", "-c", "exit 65")
	h.holds("grep", "-q", `^$dead.calls.new .*"id":"a","reason":"exit status 65 `, "/var/lib/bellhop-work/notes")
	h.Run("bellhop", "broadcast", "rates.gold", "--id", "a", "--body", "7")
	h.notes("rates.gold a 7 by bellhop-work in /var/lib/bellhop-work")
}

// A listener starts without Redis, and listens when Redis is there.
func listenerWithoutRedis(_ *testing.T, h, _ *host) {
	const unit = "bellhop-listen@news.service"
	h.Write("/etc/bellhop/listen/news", note, 0o755)
	h.Write("/etc/bellhop/listen/news.env", "BELLHOP_REDIS_URL=redis://127.0.0.1:6382\n", 0o644)
	h.Run("systemctl", "start", unit)
	h.shows(unit, "ActiveState", "active")
	h.redisAt("6382")
	h.logs(unit, "msg=listening")
	h.shows(unit, "NRestarts", "0")
}
