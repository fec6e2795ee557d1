package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two programs have the figures in common that the comparison is made for.
func TestMeasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "bellhop")
	if err := build(t.Context(), "../../../../..", program); err != nil {
		t.Fatal(err)
	}
	all, err := comparison{turns: 2, messages: 500}.measure(t.Context(), dir, program, program)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.name)
		for i, ratio := range p.ratios() {
			if p.then[i] <= 0 || p.now[i] <= 0 || ratio != p.now[i]/p.then[i] {
				t.Errorf("%s: %v to %v is %v", p.name, p.now, p.then, ratio)
			}
		}
		if len(p.then) != 2 || len(p.now) != 2 {
			t.Errorf("%s: %d and %d turns", p.name, len(p.then), len(p.now))
		}
	}
	want := []string{
		"publish: single calls from 16 goroutines", "publish: batches of 500",
		"http: single calls over 64 connections", "http: batches of 500 lines", "http: claimed 100 at a time and acknowledged",
		"http: processor time of the daemon for all", "http: processor time of Redis for all",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
