package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	newShell(t).call("man", dir)
	listen, err := os.ReadFile(filepath.Join(dir, "bellhop-listen.1"))
	storetest.Must(t, err)
	contains(t, string(listen), `.TH "BELLHOP-LISTEN" "1"`, "In a pattern * stands for any one token", "\n  65  never to be done", "bellhop listen prices.gold")
	for _, name := range []string{"bellhop.1", "bellhop-serve.1", "bellhop-dead-requeue.1"} {
		if page, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(page), ".SH DESCRIPTION") {
			t.Errorf("page %s: %v\n%s", name, err, page)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "bellhop-man.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

func TestConfigEnv(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("config", "--env"), "\n#BELLHOP_LEASE=\n")
	contains(t, s.fails(2, "config", "--env", "--json"), "env json")
}

// The help of every command fits into 80 columns.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	below := regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`)
	var check func(args ...string)
	check = func(args ...string) {
		help := s.call(append(args, "--help")...)
		for line := range strings.Lines(help) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("bellhop %s --help has a line of %d columns: %s", strings.Join(args, " "), len(line), line)
			}
		}
		for _, command := range below.FindAllStringSubmatch(help, -1) {
			check(append(slices.Clone(args), command[1])...)
		}
	}
	check()
}
