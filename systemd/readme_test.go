//go:build linux

package systemd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/systemd/sandbox"
)

// blocks returns what a section of the README has one type, block by block.
func blocks(t *testing.T, section string) (all []string) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		block := ""
		for line := range strings.Lines(paragraph + "\n") {
			if code, ok := strings.CutPrefix(line, "    "); ok {
				block += code
			}
		}
		if block != "" {
			all = append(all, block)
		}
	}
	return all
}

// Every command of the README works as it stands there, one after the other.
func TestReadme(t *testing.T) {
	t.Parallel()
	h := bare(t, sandbox.Options{})
	h.Run("rm", "-f", "/var/lib/man-db/auto-update") // an index of man pages takes seconds
	h.redis()
	h.Run("sh", "-c", "mkdir /root/dist && mv /root/bellhop.deb /root/dist")
	all := blocks(t, "On a VM")
	if len(all) < 7 {
		t.Fatalf("the README has only %d blocks: %q", len(all), all)
	}
	for _, block := range all {
		if strings.Contains(block, "make install") {
			continue // see TestMakeInstall
		}
		if strings.Contains(block, "redis-password") {
			h.Run("redis-cli", "config", "set", "requirepass", "PASSWORD")
		}
		block = strings.Replace(block, "make deb\n", "", 1) // it is done
		said := h.Run("bash", "-ec", "export APT_LISTCHANGES_FRONTEND=none DEBIAN_FRONTEND=noninteractive; cd /root; "+strings.ReplaceAll(block, "apt ", "apt -q -y --no-install-recommends "))
		switch {
		case strings.Contains(block, "redis-password"):
			h.becomes(service, "StatusText", "carrier")
			h.Run("redis-cli", "-a", "PASSWORD", "config", "set", "requirepass", "")
			h.Run("rm", "/etc/credstore/bellhop.redis-password")
			h.Run("systemctl", "restart", service)
		case strings.Contains(block, "bellhop-work@"):
			contains(t, said, `order order-4718 was not paid: {"total":12}`)
		case strings.Contains(block, "bellhop-listen@"):
			h.logs("bellhop-listen@prices.gold", "gold is at 42")
		}
	}
}
