package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository of a commit, the current folder.
func repository(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "systemd/CHANGES.md", "# Changes\n\n## v0.2.0\n\nNew.\n\n## v0.1.0\n")
	write(t, "dist/release/kept", "")
	write(t, ".gitignore", "/dist/\n")
	git(t, "init", "--quiet")
	git(t, "add", ".")
	git(t, "commit", "--quiet", "-m", "first")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
}

// A release that cannot be made says all that is in the way, with the remedy, and leaves what was made before.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		version, key string
		before       func()
		want         []string
	}{
		"no version":      {want: []string{`VERSION "": give a semantic version with a v`}},
		"a version alone": {version: "0.2.0", want: []string{`VERSION "0.2.0": give a semantic version with a v, such as VERSION=v0.1.0`}},
		"a word":          {version: "v1", want: []string{`VERSION "v1"`}},
		"with metadata":   {version: "v1.2.3+4", want: []string{`VERSION "v1.2.3+4"`}},
		"changed": {
			version: "v0.2.0", before: func() { write(t, "new", "") },
			want: []string{"the tree is not clean; commit or remove\n?? new"},
		},
		"another tag": {
			version: "v0.2.0", before: func() {
				git(t, "tag", "-m", "x", "v0.2.0")
				git(t, "commit", "--quiet", "--allow-empty", "-m", "second")
			},
			want: []string{"the tag v0.2.0 is commit ", "check the tag out, or give another VERSION"},
		},
		"other changes":     {version: "v0.3.0", want: []string{`the first heading of systemd/CHANGES.md is "v0.2.0"; write what v0.3.0 brings under ## v0.3.0`}},
		"an unknown key":    {version: "v0.2.0", key: "nobody@example.com", want: []string{`SIGN "nobody@example.com": gpg has no such secret key`}},
		"all that is wrong": {version: "v0.3.0", key: "nobody@example.com", before: func() { write(t, "new", "") }, want: []string{"not clean", "first heading", "SIGN"}},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t)
			if c.before != nil {
				c.before()
			}
			r := release{ctx: t.Context(), tag: c.version, key: c.key, dir: "dist/release", work: "dist/work", archs: []string{"amd64"}}
			err := r.make()
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, err := os.Stat("dist/release/kept"); err != nil {
				t.Error("what was made before is gone")
			}
		})
	}
}

// What is asked of a commit that may be released.
func TestAllowed(t *testing.T) {
	repository(t)
	git(t, "tag", "-m", "x", "v0.2.0")
	r := release{ctx: t.Context(), tag: "v0.2.0"}
	if err := r.check(); err != nil || len(r.commit) != 40 || r.at.IsZero() {
		t.Errorf("got %v, commit %q of %v", err, r.commit, r.at)
	}
}
