// Mutants tests that the suite still finds faults: it breaks one thing at a time, in a copy of one file, and runs the tests that
// mean what was broken. They must fail.
//
//	make mutants
//	go run ./cmd/bellhop/internal/trials/mutants -only 'lease|receipt'
//
// It prints each fault with the tests that found it. Errors: a fault whose text is no longer in its file, one that does not build,
// one that its tests do not find, and tests that fail without any fault. With -all the whole suite looks for what those tests did
// not find, and the tests that do are printed: they belong into the list (list.go).
//
// Nothing of the tree is written: the go command takes the changed file in place of the file (-overlay), embedded ones, too. Packages
// are tested one after the other, built as the trials are, and wait for less than usual, since the tests of a fault often wait
// for what never comes. Results are kept, as those of make packages are: one that hides a change lets its fault pass.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var m machine
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.BoolVar(&m.all, "all", false, "run the whole suite for a fault that its tests do not find")
	flags.StringVar(&m.wait, "wait", "20 * time.Second", "how long a test waits for something")
	only := flags.String("only", "", "break only what this regular expression matches")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	pattern, err := regexp.Compile(*only)
	if err == nil {
		err = m.mutate(ctx, slices.DeleteFunc(slices.Clone(mutants), func(f mutant) bool { return !pattern.MatchString(f.breaks) }))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 1
	}
	return 0
}

// A machine breaks things and runs tests.
type machine struct {
	all  bool
	wait string // in Go
	root string // of the tree
	dir  string // of the changed files
}

// mutate tests the tests without any fault, then with each one alone.
func (m *machine) mutate(ctx context.Context, all []mutant) (err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the root of the tree: %w", err)
	}
	m.root = filepath.Dir(strings.TrimSpace(string(out)))
	if m.dir, err = os.MkdirTemp("", "mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(m.dir)
	if err := m.unbroken(ctx, all); err != nil {
		return err
	}
	wrong := 0
	for _, f := range all {
		began := time.Now()
		found, err := m.test(ctx, &f, f.pkg, f.run)
		if err == nil && len(found) == 0 {
			err = m.search(ctx, &f)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			wrong++
			fmt.Printf("WRONG  %s (%.0fs): %v\n", f.breaks, time.Since(began).Seconds(), err)
			continue
		}
		fmt.Printf("found  %s (%.0fs): %s %s\n", f.breaks, time.Since(began).Seconds(), f.pkg, strings.Join(found, " "))
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d faults are wrong, or were not found", wrong, len(all))
	}
	fmt.Printf("all %d faults were found\n", len(all))
	return nil
}

// unbroken runs the tests of all mutants with nothing broken, each package once.
func (m *machine) unbroken(ctx context.Context, all []mutant) error {
	tests := make(map[string][]string)
	for _, f := range all {
		tests[f.pkg] = append(tests[f.pkg], f.run)
	}
	for pkg, names := range tests {
		failed, err := m.test(ctx, nil, pkg, strings.Join(names, "|"))
		if err == nil && len(failed) > 0 {
			err = errors.New(strings.Join(failed, " "))
		}
		if err != nil {
			return fmt.Errorf("%s fails with nothing broken: %w", pkg, err)
		}
	}
	return nil
}

// search returns an error that says which tests of the whole suite find what its own do not.
func (m *machine) search(ctx context.Context, f *mutant) error {
	if !m.all {
		return fmt.Errorf("%s %s passes", f.pkg, f.run)
	}
	found, err := m.test(ctx, f, "./...", ".")
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("the whole suite passes")
	}
	return fmt.Errorf("%s %s passes; it is found by %s", f.pkg, f.run, strings.Join(found, " "))
}

// test runs tests, one package after the other, with a fault or with none, and returns those that failed.
func (m *machine) test(ctx context.Context, f *mutant, pkg, run string) (failed []string, err error) {
	overlay, err := m.overlay(f)
	if err != nil {
		return nil, err
	}
	args := []string{"test", "-p", "1", "-vet", "off", "-trimpath", "-timeout", "10m", "-overlay", overlay}
	if run != "." {
		args = append(args, "-failfast", "-run", "^("+run+")$")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = m.root, append(os.Environ(), "CGO_ENABLED=0")
	out, failure := cmd.CombinedOutput()
	said := string(out)
	failed = failures(said)
	switch {
	case strings.Contains(said, "[no tests to run]") && run != ".":
		return nil, fmt.Errorf("no test of %s matches %s", pkg, run)
	case strings.Contains(said, "[build failed]"), strings.Contains(said, "[setup failed]"), failure != nil && len(failed) == 0:
		return nil, fmt.Errorf("go test: %w\n%s", failure, said)
	}
	return failed, nil
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^\t\t(Test\w+) \(\d|^panic: (.*)$`)

// failures returns the tests that failed, did not end in time, or panicked.
func failures(said string) (failed []string) {
	for _, found := range failure.FindAllStringSubmatch(said, -1) {
		failed = append(failed, strings.Join(found[1:], ""))
	}
	return failed
}

// overlay writes the file for go test -overlay, with a fault or with none.
func (m *machine) overlay(f *mutant) (path string, err error) {
	files := []change{{"notify/storetest/storetest.go", "const Deadline = time.Minute", "const Deadline = " + m.wait}}
	if f != nil {
		files = append(files, f.change)
	}
	replace := make(map[string]string)
	for i, c := range files {
		text, err := c.apply(m.root)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(m.dir, fmt.Sprint(i, filepath.Ext(c.file)))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(m.root, c.file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(m.dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}

// A change is one of a file.
type change struct {
	file string
	old  string // is in the file once
	new  string
}

// apply returns the text of the changed file.
func (c change) apply(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, c.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), c.old); n != 1 {
		return "", fmt.Errorf("%s has this %d times, want once: %s", c.file, n, c.old)
	}
	return strings.Replace(string(text), c.old, c.new, 1), nil
}
