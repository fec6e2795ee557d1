package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// A tally sums up rounds.
type tally struct {
	mu     sync.Mutex
	rounds int
	faults map[string]int // by kind
	stats  history.Stats
}

// add adds a round. The lateness by a fault is taken from rounds with no other fault, except
// that beside it.
func (t *tally) add(p plan, s history.Stats) {
	if len(p.Steps) > 1 {
		maps.DeleteFunc(s.Lateness, func(kind string, _ history.Times) bool {
			return kind != history.Quiet && !strings.HasPrefix(kind, history.Beside)
		})
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

// String returns the report: sentences, and a table for the page.
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
	quiet := t.stats.Lateness[history.Quiet]
	fmt.Fprintf(&b, "\n\nlateness without a fault: p50 %s, p99 %s, max %s\n", shown(quiet, 0.5), shown(quiet, 0.99), shown(quiet, 1))
	for _, kind := range slices.Sorted(maps.Keys(t.stats.Lateness)) {
		if late := t.stats.Lateness[kind]; strings.HasPrefix(kind, history.Beside) {
			fmt.Fprintf(&b, "lateness in other shards, %s: p50 %s, p99 %s, max %s\n", kind, shown(late, 0.5), shown(late, 0.99), shown(late, 1))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(t.stats.Takeover)) {
		took := t.stats.Takeover[kind]
		if t.faults[kind] == 0 { // Kill or Stop, which belong to a fault
			continue
		}
		fmt.Fprintf(&b, "takeover after %s: %d times, p50 %s, p99 %s, max %s\n", kind, len(took), shown(took, 0.5), shown(took, 0.99), shown(took, 1))
	}
	b.WriteString("\nlateness of messages that met a fault, p99 and max in ms, in rounds with no other:\n\n")
	t.matrix(&b)
	return b.String()
}

// roles are the targets of faults, in the order of the table.
var roles = []string{"redis", clustered, "nats", "bridge", "carrier", "standby", "worker", "listener", "publisher", "web", "client", "courier", "hook", "command", database, archiver, relayer}

// matrix writes a table of faults and their targets.
func (t *tally) matrix(b *strings.Builder) {
	fmt.Fprintf(b, "| | %s |\n|---|%s\n", strings.Join(roles, " | "), strings.Repeat("---|", len(roles)))
	var names []string
	targeted := make(map[string]bool)
	for _, f := range faults {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
		for _, target := range f.targets {
			targeted[f.name+" "+roleOf(target)] = true
		}
	}
	for _, name := range names {
		cells := make([]string, len(roles))
		for j, role := range roles {
			kind := name + " " + role
			late := t.stats.Lateness[kind]
			switch {
			case !targeted[kind]:
			case len(late) == 0:
				cells[j] = "-"
			default:
				cells[j] = fmt.Sprintf("%d, %d", late.Quantile(0.99).Milliseconds(), late.Quantile(1).Milliseconds())
			}
		}
		fmt.Fprintf(b, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
}

func shown(t history.Times, share float64) string {
	if len(t) == 0 {
		return "-"
	}
	return t.Quantile(share).Round(time.Millisecond / 10).String()
}

// operations returns the number of operations, without events.
func operations(s history.Stats) (n int) {
	for _, phases := range s.Operations {
		n += phases[history.Call]
	}
	return n
}
