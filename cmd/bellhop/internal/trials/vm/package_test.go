//go:build linux

package vm_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var unitNames = []string{
	"bellhop.service", "bellhop.socket", "bellhop-work@order.timeout.service", "bellhop-listen@prices-eu.gold.service",
	"bellhop-check.service", "bellhop-check.timer",
}

// The units are sound and hardened.
func units(t *testing.T, h, _ *host) {
	for _, unit := range unitNames {
		// It exits with 0 for an unknown key, so its output counts.
		if said := h.Run("systemd-analyze", "verify", "--man=no", unit); said != "" {
			t.Errorf("systemd-analyze verify %s says:\n%s", unit, said)
		}
	}
	for _, unit := range []string{"bellhop.service", "bellhop-work@.service", "bellhop-listen@.service", "bellhop-check.service"} {
		if said, err := h.Try("systemd-analyze", "security", "--offline=true", "--threshold=15", "/usr/lib/systemd/system/"+unit); err != nil {
			t.Errorf("%s is exposed to more than 1.5:\n%s", unit, said)
		}
	}
}

// Units that serve neither HTTP nor NATS must not fail because of settings of the daemon.
func TestSettingsOfTheDaemonAlone(t *testing.T) {
	t.Parallel()
	unset := make(map[string]string)
	for _, unit := range []string{"bellhop-work@.service", "bellhop-listen@.service", "bellhop-check.service"} {
		text, err := os.ReadFile(filepath.Join(root, "systemd", unit))
		storetest.Must(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "UnsetEnvironment=") {
				unset[unit] += line
			}
		}
		first := unset["bellhop-work@.service"]
		if unit == "bellhop-check.service" { // the doctor looks at databases, too
			first = strings.Replace(first, " BELLHOP_ARCHIVE_URL BELLHOP_ARCHIVE_PASSWORD_FILE BELLHOP_OUTBOX_URL BELLHOP_OUTBOX_PASSWORD_FILE", "", 1)
		}
		if unset[unit] != first || first == "" {
			t.Errorf("%s leaves out\n%s, and bellhop-work@.service\n%s", unit, unset[unit], first)
		}
	}
}

// leftovers returns the files that the package, or its programs, left behind.
func (h *host) leftovers() string {
	return h.Run("find", "/etc", "/usr", "/var", "/run", "-xdev", "-name", "*bellhop*", "-not", "-path", "/var/lib/dpkg/info/*", "-not", "-path", "/usr/share/doc/*")
}

func TestPackage(t *testing.T) {
	t.Parallel()
	h := bare(t, sandbox.Options{})
	before := h.leftovers()
	h.dpkg("-i", "/root/bellhop.deb")
	for _, unit := range unitNames {
		h.shows(unit, "ActiveState", "inactive")
		if state, err := h.Try("systemctl", "is-enabled", unit); err == nil && strings.TrimSpace(state) != "static" {
			t.Errorf("%s is %s after the installation", unit, state)
		}
	}
	contains(t, h.Run("sh", "-c", "getent passwd bellhop-work; getent group bellhop-secrets"), "/var/lib/bellhop-work", "bellhop-secrets")
	files := h.Run("dpkg", "-L", "bellhop")
	for _, unit := range unitNames {
		for page := range strings.FieldsSeq(h.show(unit, "Documentation")) {
			name, _, _ := strings.Cut(strings.Trim(page, `"`), "(")
			if file := "/usr/share/man/man1/" + strings.TrimPrefix(name, "man:") + ".1.gz\n"; !strings.Contains(files, file) {
				t.Errorf("%s names %s, and there is no such page", unit, page)
			}
		}
	}
	contains(t, h.Run("bash", "-ic", ". /usr/share/bash-completion/completions/bellhop; complete -p bellhop"), "__start_bellhop")
	contains(t, h.Run("bellhop", "version"), "bellhop ")
	contains(t, h.Run("cat", "/usr/share/bellhop/grafana.json"), `"panels"`)
	contains(t, h.Run("cat", "/usr/share/bellhop/alerts.yml"), "BellhopNoCarrier")

	h.redis()
	h.settings("BELLHOP_PREFIX=mine")
	h.Write("/etc/bellhop/work/mail", "#!/bin/sh\n", 0o755)
	h.Run("systemctl", "enable", "--now", "bellhop.service", "bellhop-work@mail.service", "bellhop-check.timer")
	h.becomes("bellhop.service", "StatusText", "carrier")
	h.dpkg("-r", "bellhop")
	for _, unit := range []string{"bellhop.service", "bellhop-work@mail.service", "bellhop-check.timer"} {
		h.shows(unit, "ActiveState", "inactive")
	}
	contains(t, h.Run("cat", "/etc/bellhop/bellhop.env"), "BELLHOP_PREFIX=mine")

	h.dpkg("-i", "/root/bellhop.deb") // enabled units are still enabled
	h.Run("systemctl", "is-enabled", "bellhop.service")
	h.Run("systemctl", "start", "bellhop.service")
	h.becomes("bellhop.service", "StatusText", "carrier")
	h.dropIn("bellhop.service", "[Service]\nLimitNOFILE=1024\n")
	h.dropIn("bellhop-check.service", "[Service]\nEnvironment=ACCEPT=standby\n")
	h.Write("/etc/credstore/bellhop.tokens", "secret", 0o600)

	h.dpkg("--purge", "bellhop")
	if after := h.leftovers(); after != before {
		t.Errorf("after the purge there is still:\n%s", after)
	}
	if found, err := h.Try("sh", "-c", "getent passwd bellhop-work || getent group bellhop-work bellhop-secrets"); err == nil {
		t.Errorf("after the purge there are still the users %s", found)
	}
	if state, _ := h.Try("systemctl", "is-enabled", "bellhop.service"); strings.TrimSpace(state) == "enabled" {
		t.Error("after the purge the service is still enabled")
	}
	if said := h.Run("systemctl", "--failed", "--plain", "--no-legend"); said != "" {
		t.Errorf("after the purge systemd is left with %s", said)
	}
	h.dpkg("-i", "/root/bellhop.deb") // it can be installed again
}

// An upgrade restarts running units once, and no others. No client is refused, and settings
// stay as they are. The same holds for a downgrade.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	h := installed(t, sandbox.Options{})
	h.redis()
	h.settings("BELLHOP_PREFIX=mine")
	h.Run("systemctl", "enable", "--now", "bellhop.socket", service)
	running := []string{service, "bellhop-work@mail.service", "bellhop-listen@news.service"}
	h.Write("/etc/bellhop/work/mail", note, 0o755)
	h.Write("/etc/bellhop/listen/news", note, 0o755)
	h.Run("systemctl", append([]string{"start"}, running...)...)
	h.becomes(service, "StatusText", "carrier")
	knocking := h.knocks("http://127.0.0.1:8420/healthz")
	for i, file := range []string{"/root/later.deb", "/root/bellhop.deb"} {
		h.dpkg("-i", file)
		h.becomes(service, "StatusText", "carrier")
		for _, unit := range running {
			h.shows(unit, "ActiveState", "active")
			if n := strings.Count(h.journal("-u", unit), "Started "+unit); n != i+2 {
				t.Errorf("after %s %s was started %d times, want %d", file, unit, n, i+2)
			}
		}
		for _, unit := range []string{"bellhop.socket", "bellhop-work@other.service"} {
			if was := h.show(unit, "ActiveState"); (was == "active") != (unit == "bellhop.socket") {
				t.Errorf("after %s %s is %s", file, unit, was)
			}
		}
		contains(t, h.Run("cat", "/etc/bellhop/bellhop.env"), "BELLHOP_PREFIX=mine")
		contains(t, h.Run("dpkg-query", "-W", "bellhop"), []string{"2.0", "1.0"}[i])
	}
	if counts := knocking(); len(counts) != 1 || counts["200 0"] < 5 {
		t.Errorf("the calls meanwhile ended with (status, exit code of curl): %v", counts)
	}
	h.shows("bellhop.socket", "NRefused", "0")
}

// The files of make install run, and make uninstall removes them, except settings.
func TestMakeInstall(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	run := func(target string) {
		t.Helper()
		if out, err := exec.Command("make", "-C", root, target, "DESTDIR="+dest).CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("install")
	h := newHost(t, sandbox.Boot(t, sandbox.Options{}))
	h.copy(dest, "/")
	h.Run("systemd-sysusers")
	h.Run("systemctl", "daemon-reload")
	h.redis()
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	contains(t, h.show(service, "ExecStart"), "/usr/local/bin/bellhop serve")

	run("uninstall")
	var left []string
	err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(path, dest))
		}
		return err
	})
	if diff := cmp.Diff([]string{"/etc/bellhop/bellhop.env"}, left); err != nil || diff != "" {
		t.Errorf("what is left (-want +got): %v\n%s", err, diff)
	}
}
