package pagestest_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/bench"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/daemon"
)

const root = "../../../../.."

// Limits of the pages, in lines.
const (
	maxReadme = 200
	maxAll    = 1328
	goWithin  = 60
)

// walk calls f for each file of the tree with an ending.
func walk(t *testing.T, ending string, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "dist"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ending):
			return nil
		}
		text, err := os.ReadFile(path)
		f(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mark  = regexp.MustCompile("[^a-z0-9 _-]")
	named = regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z]+)`")
	code  = regexp.MustCompile("(?s)```.*?```")
)

// anchors returns the anchors that GitHub makes of a page's headings.
func anchors(text string) (all []string) {
	for line := range strings.Lines(code.ReplaceAllString(text, "")) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			all = append(all, strings.ReplaceAll(mark.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-"))
		}
	}
	return all
}

func TestLinks(t *testing.T) {
	walk(t, ".md", func(page, text string) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", page, found[1])
				continue
			}
			if anchor == "" {
				continue
			}
			if there, err := os.ReadFile(target); err != nil || !slices.Contains(anchors(string(there)), anchor) {
				t.Errorf("%s: %s has no heading #%s, %v", page, target, anchor, err)
			}
		}
	})
}

// Each page but the README begins with a table of contents that names all sections.
func TestContents(t *testing.T) {
	walk(t, "README.md", func(page, text string) {
		if filepath.Dir(page) == root {
			return
		}
		contents, _, _ := strings.Cut(text, "\n## ")
		for _, anchor := range anchors(text)[1:] {
			if !strings.Contains(contents, "(#"+anchor+")") {
				t.Errorf("the contents of %s do not name #%s", page, anchor)
			}
		}
	})
}

func TestPagesAreShort(t *testing.T) {
	all := 0
	walk(t, ".md", func(page, text string) {
		n := strings.Count(text, "\n")
		all += n
		if page == filepath.Join(root, "README.md") && n > maxReadme {
			t.Errorf("the README has %d lines, want at most %d", n, maxReadme)
		}
	})
	if all > maxAll {
		t.Errorf("the pages have %d lines, want at most %d", all, maxAll)
	}
	before, _, found := strings.Cut(pagestest.Section(t, root+"/README.md", ""), "```go")
	if n := strings.Count(before, "\n"); !found || n >= goWithin {
		t.Errorf("the README's program in Go begins after %d lines, want fewer than %d", n, goWithin)
	}
}

// Each test that a page names exists.
func TestNamedTestsExist(t *testing.T) {
	var tests bytes.Buffer
	walk(t, "_test.go", func(_, text string) { tests.WriteString(text) })
	walk(t, ".md", func(page, text string) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if !bytes.Contains(tests.Bytes(), []byte("\nfunc "+found[1]+"(")) {
				t.Errorf("%s names %s, which is no test and no benchmark", page, found[1])
			}
		}
	})
}

// The page of numbers names each measurement of the benchmark.
func TestMeasurements(t *testing.T) {
	text := pagestest.Section(t, root+"/cmd/bellhop/internal/bench/README.md", "")
	for _, name := range bench.Names() {
		if !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("the page of numbers has no row measured by `%s`", name)
		}
	}
}

// The page of settings lists every setting with its default.
func TestSettings(t *testing.T) {
	text := pagestest.Section(t, root+"/daemon/README.md", "Settings")
	for _, s := range (daemon.Config{}).Settings(nil) {
		want := s.Name
		if s.Default != "" {
			want += "=" + s.Default
		}
		if !strings.Contains(text, "`"+want+"`") {
			t.Errorf("daemon/README.md does not have `%s`", want)
		}
	}
	for _, found := range regexp.MustCompile("`(BELLHOP_[A-Z_]+)").FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc((daemon.Config{}).Settings(nil), func(s daemon.Setting) bool { return s.Name == found[1] }) && found[1] != "BELLHOP_" {
			t.Errorf("daemon/README.md has %s, which is no setting", found[1])
		}
	}
}

// The README's commands for a VM are also on the page of a VM, whose commands are run.
func TestVM(t *testing.T) {
	page := pagestest.Lines(t, root+"/systemd/README.md", "")
	for _, line := range pagestest.Lines(t, root+"/README.md", "On a VM") {
		if !slices.Contains(page, line) {
			t.Errorf("systemd/README.md does not have %q", line)
		}
	}
}
