package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../../../.."

// What is broken is in the sources, once, and the tests that are to find it are in their packages.
func TestListFits(t *testing.T) {
	t.Parallel()
	for _, f := range mutants {
		if _, err := f.apply(root); err != nil {
			t.Errorf("%s: %v", f.breaks, err)
		}
		tests := testsOf(t, filepath.Join(root, f.pkg))
		for name := range strings.SplitSeq(f.run, "|") {
			if !strings.Contains(tests, "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s: %s has no test %s", f.breaks, f.pkg, name)
			}
		}
	}
}

// testsOf returns the text of all tests of a package.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Failed tests, those that did not end, and panics are found in what go test says.
func TestFailures(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n":                           "TestA",
		"panic: test timed out after 1s\n\trunning tests:\n\t\tTestB (1s)\n\tTestC (1s)\n": "test timed out after 1s TestB",
		"ok  	x	1.2s\n": "",
	} {
		if got := strings.Join(failures(said), " "); got != want {
			t.Errorf("%q has %q, want %q", said, got, want)
		}
	}
}
