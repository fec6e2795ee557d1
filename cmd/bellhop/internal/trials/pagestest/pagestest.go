// Package pagestest reads the pages, for tests that run their commands. Its own tests
// check that links lead somewhere and that pages stay short.
package pagestest

import (
	"os"
	"strings"
	"testing"
)

// Blocks returns the blocks of commands in a section, or in the whole page if section
// is empty. Commands are indented by four blanks; an empty line ends a block.
func Blocks(t testing.TB, page, section string) (all []string) {
	t.Helper()
	for paragraph := range strings.SplitSeq(Section(t, page, section), "\n\n") {
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
	if len(all) == 0 {
		t.Fatalf("%s has no commands in its section %q", page, section)
	}
	return all
}

// Lines returns the lines of Blocks.
func Lines(t testing.TB, page, section string) (all []string) {
	t.Helper()
	for _, block := range Blocks(t, page, section) {
		all = append(all, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return all
}

// Section returns the text of a section, or of the whole page if section is empty.
func Section(t testing.TB, page, section string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if section == "" {
		return string(text)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}
