package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/faults/history"
)

// A tally adds up what happened in rounds.
type tally struct {
	mu     sync.Mutex
	rounds int
	faults map[string]int // by kind
	stats  history.Stats
}

// add adds a round. How late messages are by a fault is taken from the rounds
// that made no other.
func (t *tally) add(p plan, s history.Stats) {
	if len(p.Steps) > 1 {
		s.Lateness = map[string]history.Times{history.Quiet: s.Lateness[history.Quiet]}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds++
	if t.faults == nil {
		t.faults = make(map[string]int)
	}
	for _, s := range p.Steps {
		t.faults[s.kind()]++
	}
	t.stats.Add(s)
}

// String is the report: sentences, and a table that fits into the README.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	made := 0
	for _, n := range t.faults {
		made += n
	}
	fmt.Fprintf(&b, "%d rounds, %d faults, %d operations:", t.rounds, made, operations(t.stats))
	for _, op := range slices.Sorted(maps.Keys(t.stats.Operations)) {
		phases := t.stats.Operations[op]
		fmt.Fprintf(&b, "\n  %-10s", op)
		for _, phase := range []history.Phase{history.Event, history.OK, history.No, history.Unknown} {
			if n := phases[phase]; n > 0 {
				fmt.Fprintf(&b, " %d %s", n, cmp.Or(string(phase), "events"))
			}
		}
	}
	b.WriteString("\n\n| fault | times | lateness p50 | p99 | max | takeover p50 | max |\n|---|---|---|---|---|---|---|\n")
	t.row(&b, "none", history.Quiet, t.rounds)
	for _, kind := range t.kinds() {
		t.row(&b, kind, kind, t.faults[kind])
	}
	return b.String()
}

// kinds returns the kinds of fault, in the order in which they are made.
func (t *tally) kinds() []string {
	order := make(map[string]int)
	for i, f := range faults {
		order[f.name] = i
	}
	place := func(kind string) int {
		name, _ := cutLast(kind)
		return order[name]
	}
	return slices.SortedFunc(maps.Keys(t.faults), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}

// cutLast takes the last word off a text.
func cutLast(text string) (before, last string) {
	i := strings.LastIndex(text, " ")
	return text[:i], text[i+1:]
}

func (t *tally) row(b *strings.Builder, name, kind string, times int) {
	late, took := t.stats.Lateness[kind], t.stats.Takeover[kind]
	fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s |\n", name, times,
		shown(late, 0.5), shown(late, 0.99), shown(late, 1), shown(took, 0.5), shown(took, 1))
}

func shown(t history.Times, share float64) string {
	if len(t) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ms", t.Quantile(share).Round(time.Millisecond).Milliseconds())
}

// operations counts those that have an end.
func operations(s history.Stats) (n int) {
	for _, phases := range s.Operations {
		n += phases[history.Call]
	}
	return n
}
