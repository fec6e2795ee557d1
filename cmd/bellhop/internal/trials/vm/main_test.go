//go:build linux

package vm_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// root is the root of the tree.
const root = "../../../../.."

// deadline is how long a test waits for something that should happen soon, and look how often it checks.
const (
	deadline = storetest.Deadline
	look     = 40 * time.Millisecond
)

// atOnce is how many tests run in parallel: they wait more than they compute.
const atOnce = "5"

// packages is the folder of the Debian package, built once for all tests.
var packages string

func TestMain(m *testing.M) {
	sandbox.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if packages, err = os.MkdirTemp("", "bellhop-deb-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(packages)
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the package as a user does, and from it one of a later version with another environment file.
var build = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("make", "-C", root, "deb", "DIST="+packages, "DEB_VERSION=1.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make deb: %w\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(packages, "bellhop_1.0_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("make deb left %q, %w", found, err)
	}
	later := exec.Command("sh", "-ec", `dpkg-deb -R "$1" "$2/later"; sed -i 's/^Version: .*/Version: 2.0/' "$2/later/DEBIAN/control"; echo '# Another setting.' >> "$2/later/etc/bellhop/bellhop.env"; dpkg-deb -Zgzip -z1 -b "$2/later" "$2/later.deb"`, "-", found[0], packages)
	if out, err := later.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a later package: %w\n%s", err, out)
	}
	return found[0], nil
})

// A host is a machine with systemd, and both packages in /root. Its methods mean one daemon on it.
type host struct {
	*sandbox.Sandbox
	t       *testing.T
	service string // unit of the daemon
	address string // of its HTTP
}

// newHost returns a host for the daemon of the package.
func newHost(t *testing.T, b *sandbox.Sandbox) *host { return &host{b, t, service, "127.0.0.1:8420"} }

// bare returns a host with nothing installed.
func bare(t *testing.T, o sandbox.Options) *host {
	t.Helper()
	h := newHost(t, sandbox.Boot(t, o))
	deb, err := build()
	storetest.Must(t, err)
	for from, to := range map[string]string{deb: "/root/bellhop.deb", filepath.Join(packages, "later.deb"): "/root/later.deb"} {
		content, err := os.ReadFile(from)
		storetest.Must(t, err)
		h.Write(to, string(content), 0o644)
	}
	return h
}

// installed returns a host with Bellhop and no settings.
func installed(t *testing.T, o sandbox.Options) *host {
	t.Helper()
	h := bare(t, o)
	h.dpkg("-i", "/root/bellhop.deb")
	return h
}

// daemon adds a daemon beside that of the package, for a test that stops it or gives it settings: the same unit under another name,
// with a port and a prefix of its own.
func (h *host) daemon(name string, port int, settings ...string) *host {
	h.t.Helper()
	other := &host{h.Sandbox, h.t, name + ".service", fmt.Sprintf("127.0.0.1:%d", port)}
	unit := h.Run("cat", "/usr/lib/systemd/system/"+service)
	other.settings(append(settings, "BELLHOP_PREFIX="+name, "BELLHOP_LISTEN="+other.address)...)
	h.Write("/etc/systemd/system/"+other.service, strings.ReplaceAll(unit, "/etc/bellhop/bellhop.env", other.environment()), 0o644)
	h.Run("systemctl", "daemon-reload")
	return other
}

// copy copies the contents of a folder outside into one inside.
func (h *host) copy(from, to string) {
	h.t.Helper()
	if out, err := exec.Command("cp", "-a", from+"/.", h.Path(to)).CombinedOutput(); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}

// dpkg runs dpkg without triggers, which would update the index of man pages for seconds.
func (h *host) dpkg(args ...string) string {
	h.t.Helper()
	return h.Run("dpkg", append([]string{"--no-triggers", "--force-unsafe-io", "--force-confold"}, args...)...)
}

// redis starts a redis-server on the host's loopback, with further lines of configuration.
func (h *host) redis(lines ...string) {
	h.t.Helper()
	h.redisAt("6379", lines...)
}

// redisAt starts a redis-server at a port, as the unit redis-PORT.
func (h *host) redisAt(port string, lines ...string) {
	h.t.Helper()
	program, err := redisserver.Program()
	storetest.Must(h.t, err)
	unit := "redis-" + port
	lines = append(lines, "bind 127.0.0.1", "port "+port, `save ""`)
	h.Write("/run/"+unit+".conf", strings.Join(lines, "\n")+"\n", 0o600)
	h.Run("systemd-run", "--quiet", "--unit="+unit, "--service-type=exec", program, "/run/"+unit+".conf")
	h.logs(unit, "Ready to accept connections")
}

// settings writes the environment file.
func (h *host) settings(lines ...string) {
	h.t.Helper()
	h.Write(h.environment(), strings.Join(lines, "\n")+"\n", 0o644)
}

// environment returns the path of the environment file.
func (h *host) environment() string {
	return "/etc/bellhop/" + strings.TrimSuffix(h.service, ".service") + ".env"
}

// secret writes a file that the daemon may read at any time.
func (h *host) secret(path, text string) {
	h.t.Helper()
	h.Write(path, text, 0o640)
	h.Run("chgrp", "bellhop-secrets", path)
}

// dropIn changes a unit as systemctl edit does.
func (h *host) dropIn(unit, text string) {
	h.t.Helper()
	h.Write("/etc/systemd/system/"+unit+".d/override.conf", text, 0o644)
	h.Run("systemctl", "daemon-reload")
}

// show returns a property of a unit.
func (h *host) show(unit, property string) string {
	h.t.Helper()
	return strings.TrimSpace(h.Run("systemctl", "show", "-P", property, unit))
}

// eventually waits until a condition is true, and reports false after deadline.
func eventually(condition func() bool) bool { return storetest.Poll(look, deadline, condition) }

// holds waits until a command inside succeeds.
func (h *host) holds(name string, args ...string) {
	h.t.Helper()
	if !eventually(func() bool { _, err := h.Try(name, args...); return err == nil }) {
		h.t.Fatalf("waited %v for %s %s", deadline, name, strings.Join(args, " "))
	}
}

// becomes waits until a property of a unit begins with want.
func (h *host) becomes(unit, property, want string) {
	h.t.Helper()
	var got string
	if !eventually(func() bool { got = h.show(unit, property); return strings.HasPrefix(got, want) }) {
		h.t.Fatalf("%s of %s is %q, want %q:\n%s", property, unit, got, want, h.journal("-u", unit))
	}
}

// shows checks that a property of a unit has a value now.
func (h *host) shows(unit, property, want string) {
	h.t.Helper()
	if got := h.show(unit, property); got != want {
		h.t.Errorf("%s of %s is %q, want %q", property, unit, got, want)
	}
}

// journal returns entries of the journal, without times and names.
func (h *host) journal(args ...string) string {
	h.t.Helper()
	h.Run("journalctl", "--sync")
	return h.Run("journalctl", append([]string{"-q", "--no-pager", "-o", "cat"}, args...)...)
}

// logs waits until a unit has logged a text.
func (h *host) logs(unit, want string) {
	h.t.Helper()
	if !eventually(func() bool { return strings.Contains(h.journal("-u", unit), want) }) {
		h.t.Fatalf("%s does not log %q:\n%s", unit, want, h.journal("-u", unit))
	}
}

// answers waits until a call of the daemon by curl has a status.
func (h *host) answers(path, want string, args ...string) {
	h.t.Helper()
	args = append(args, "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://"+h.address+path)
	var got string
	if !eventually(func() bool { got, _ = h.Try("curl", args...); return got == want }) { // 000 if nothing listens
		h.t.Fatalf("%s answers %s, want %s:\n%s", path, got, want, h.journal("-u", h.service))
	}
}

// contains checks that an output contains texts.
func contains(t *testing.T, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
