//go:build linux

package vm_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var twice = flag.Bool("twice", false, "make a release for all architectures, in two clones, and compare the bytes")

// command runs a command on this machine, and returns what it prints.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}

// keyring makes a key that signs, and returns the setting of where it is.
func keyring(t *testing.T) (env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpg") // the path of its agent's socket must be short
	storetest.Must(t, err)
	env = []string{"GNUPGHOME=" + dir}
	t.Cleanup(func() {
		command(t, env, "gpgconf", "--kill", "all")
		os.RemoveAll(dir)
	})
	command(t, env, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "release@example.com")
	return env
}

// release makes a release in a clone, for some architectures, and returns its folder.
func release(t *testing.T, env []string, archs string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	command(t, nil, "git", "clone", "--quiet", root, clone)
	command(t, nil, "sh", "-ec", `git -C "$0" diff --binary HEAD | git -C "$1" apply --allow-empty --index`, root, clone) // what is not committed is tested, too
	at := []string{"GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z"}
	command(t, at, "git", "-C", clone, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty", "-m", "test")
	command(t, env, "make", "-C", clone, "release", "VERSION=v0.1.0", "ARCHS="+archs, "SIGN=release@example.com")
	return filepath.Join(clone, "dist/release")
}

// What "make release" makes runs on a machine without Go, as the pages say, and is the same in each clone of a commit. There is no Fedora here:
// what rpm itself can do on a Debian machine is tried.
func TestRelease(t *testing.T) {
	t.Parallel()
	h := newHost(t, sandbox.Boot(t, sandbox.Options{}))
	env, archs := keyring(t), runtime.GOARCH
	if *twice {
		archs = "amd64 arm64"
	}
	dir := release(t, env, archs)
	if *twice {
		command(t, nil, "diff", "--recursive", "--brief", "--exclude=*.asc", "--exclude=InRelease", dir, release(t, env, archs))
	}
	command(t, env, "gpg", "--batch", "--verify", filepath.Join(dir, "SHA256SUMS.asc"), filepath.Join(dir, "SHA256SUMS"))
	command(t, nil, "sh", "-c", `cd "$0" && sha256sum --check --strict --quiet SHA256SUMS`, dir)
	h.Run("mkdir", "-p", "/srv/release")
	h.copy(dir, "/srv/release")
	h.Run("sh", "-c", "! command -v go")
	for _, check := range []func(*testing.T, *host){fromArchive, fromApt, fromRPM, fromImage} {
		check(t, h)
	}
	fromProxy(t, dir)
	asClients(t, h)
}

// fromArchive unpacks the program, and runs what README begins with, without a redis-server.
func fromArchive(t *testing.T, h *host) {
	h.Run("sh", "-ec", "mkdir /root/unpacked; cd /root/unpacked; tar xzf /srv/release/bellhop_*_linux_"+runtime.GOARCH+".tar.gz")
	contains(t, h.Run("/root/unpacked/bellhop", "version"), "bellhop v0.1.0 ", ", stores of format")
	contains(t, h.Run("cat", "/root/unpacked/NOTICES"), "github.com/redis/go-redis/v9", "Go Authors")
	h.delivers("archive", "-E", "PATH=/none", "/root/unpacked/bellhop")
}

// delivers runs dev until it has shown a message arrive, in a unit with further properties and a command.
func (h *host) delivers(unit string, with ...string) {
	h.t.Helper()
	h.Run("systemd-run", append(append([]string{"--quiet", "--unit=" + unit}, with...), "dev")...)
	h.logs(unit, "delivered")
	h.Run("systemctl", "stop", unit)
}

// fromApt installs from the tree for apt, which is signed.
func fromApt(t *testing.T, h *host) {
	h.Run("rm", "-f", "/var/lib/man-db/auto-update") // an index of man pages takes seconds
	for _, block := range pagestest.Blocks(t, root+"/systemd/README.md", "Install") {
		if strings.Contains(block, "/apt ") {
			h.Run("bash", "-ec", "export DEBIAN_FRONTEND=noninteractive; "+strings.ReplaceAll(block, "apt install ", "apt install -q -y --no-install-recommends "))
		}
	}
	contains(t, h.Run("bellhop", "version"), "bellhop v0.1.0 ")
	contains(t, h.Run("zcat", "/usr/share/doc/bellhop/changelog.gz"), "bellhop (0.1.0)")
	h.redis()
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	h.dpkg("--purge", "bellhop")
}

// fromRPM installs the package for rpm, and removes it.
func fromRPM(t *testing.T, h *host) {
	rpm := strings.TrimSpace(h.Run("sh", "-c", "ls /srv/release/bellhop-0.1.0-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm"))
	contains(t, h.Run("rpm", "-K", rpm), "digests OK")
	h.Run("rpm", "-i", "--nodeps", rpm)
	contains(t, h.Run("rpm", "-q", "--requires", "bellhop"), "systemd", "shadow-utils")
	h.Run("systemctl", "start", service)
	h.becomes(service, "StatusText", "carrier")
	before := h.show(service, "MainPID")
	h.Run("rpm", "-U", "--nodeps", "--replacepkgs", rpm) // as an upgrade
	h.becomes(service, "StatusText", "carrier")
	if h.show(service, "MainPID") == before {
		t.Error("an upgrade leaves the daemon before running")
	}
	h.Run("rpm", "-e", "bellhop")
	h.shows(service, "ActiveState", "inactive")
}

// fromImage runs the program of the image as the user of the image, with nothing else around.
func fromImage(t *testing.T, h *host) {
	contains(t, h.Run("skopeo", "inspect", "oci-archive:/srv/release/bellhop_0.1.0_oci.tar"), `"org.opencontainers.image.version": "0.1.0"`)
	h.Run("sh", "-ec", "cd /srv; skopeo copy --quiet oci-archive:release/bellhop_0.1.0_oci.tar oci:image:new; umoci unpack --image image:new bundle")
	contains(t, h.Run("cat", "/srv/bundle/config.json"), `"/usr/bin/bellhop"`, `"serve"`, `"uid": 65532`)
	contains(t, h.Run("cat", "/srv/bundle/rootfs/etc/ssl/certs/ca-certificates.crt"), "-----BEGIN CERTIFICATE-----")
	h.delivers("image", "chroot", "--userspec=65532:65532", "/srv/bundle/rootfs", "/usr/bin/bellhop")
}

// fromProxy has go download the module from the folder that serves as a proxy, which checks it. TestPageOfReadmeInGo of cmd/bellhop builds a program so.
func fromProxy(t *testing.T, dir string) {
	env := []string{"GOPROXY=file://" + filepath.Join(dir, "goproxy"), "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir()} // this v0.1.0 is no other one's
	contains(t, command(t, env, "go", "mod", "download", "-json", "github.com/bellhopd/bellhop@v0.1.0"), `"GoModSum": "h1:`)
}

// asClients installs the packages for Node and for Python in empty folders, and runs the workers of the pages until each has what it published.
func asClients(t *testing.T, h *host) {
	page, readme := pagestest.Section(t, root+"/daemon/httpapi/clients/README.md", ""), pagestest.Section(t, root+"/README.md", "In Node and Python")
	h.Run("systemd-run", "--quiet", "--unit=dev", "-E", "PATH=/none", "/root/unpacked/bellhop", "dev", "--no-tour")
	h.logs("dev", "Ctrl-C ends this")
	for name, c := range map[string]struct{ language, install, run, says, readme string }{
		"node":   {"js", "npm install --offline --no-audit --no-fund ./bellhop-client-0.1.0.tgz", "node worker", "order order-4711 was not paid: 12", "mail-3: 12"},
		"python": {"python", "pip3 install --no-index --target=. ./bellhop_client-0.1.0-py3-none-any.whl", "python3 -u worker", "order order-4712 was not paid: 12", "mail-4: 12"},
	} {
		if words := strings.Fields(c.install); !strings.Contains(page, words[0][:3]) || !strings.Contains(page, words[len(words)-1]) || !strings.Contains(readme, words[len(words)-1]) {
			t.Errorf("a page does not say how to install %s", words[len(words)-1])
		}
		dir := "/root/" + name
		h.Run("sh", "-ec", "mkdir "+dir+"; cp /srv/release/bellhop*client* "+dir)
		h.Run("sh", "-ec", "cd "+dir+"; "+c.install)
		for unit, program := range map[string][2]string{name: {page, c.says}, name + "-readme": {readme, c.readme}} {
			h.Write(dir+"/worker"+map[string]string{"js": ".mjs", "python": ".py"}[c.language], fenced(t, program[0], c.language), 0o600)
			h.Run("systemd-run", "--quiet", "--unit="+unit, "--property=WorkingDirectory="+dir, "sh", "-c", "exec "+c.run+".*")
			h.logs(unit, program[1])
			h.Run("systemctl", "stop", unit)
			h.shows(unit, "ActiveState", "inactive") // not failed
		}
	}
	h.Run("systemctl", "stop", "dev")
}

// fenced returns the one block of a page in a language.
func fenced(t *testing.T, page, language string) string {
	t.Helper()
	_, block, ok := strings.Cut(page, "\n```"+language+"\n")
	block, _, ended := strings.Cut(block, "\n```\n")
	if !ok || !ended {
		t.Fatalf("the page has no block in %s", language)
	}
	return block + "\n"
}
