package crash_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// The topics of imports: rows are members of groups, and parts are callbacks, which may be members of the next group.
const (
	rowTopic  = "row.import"
	partTopic = "import.part"
)

// An importing is a group and the callback that waits for it.
type importing struct {
	topic, name string
	rows        []string // ids of those that its publisher publishes
	added       []string // of those that a handler publishes
	late        []string // of those that are published behind the callback: they join, and are waited for, or are refused
	before      string   // id of the callback before, of a chain, which is a member, too; empty: there is none
	callback    string   // id
	onDead      string
	unique      bool // ids of rows stay taken
}

// links is how many groups a chain has.
const links = 5

// mostRows is how many members a group has at most.
const mostRows = 50

// importOf returns what is published of a number: one group, or a chain of them. What a handler does with a row its id says.
func importOf(n int) []importing {
	one := importing{topic: rowTopic, name: fmt.Sprintf("%d.1", n), callback: fmt.Sprintf("%d.1-done", n), unique: n%2 == 0}
	row := func(what string, i int) string { return fmt.Sprintf("%s-%s%d", one.name, what, i) }
	size := 1 + n*7919%mostRows
	switch n % 10 {
	case 0:
		size = 0
	case 1:
		size = 1
	case 2:
		one.rows = []string{row("adds", 0)}
		for i := range addedRows {
			one.added = append(one.added, one.rows[0]+"-"+strconv.Itoa(i))
		}
	case 3:
		return chainOf(one)
	case 4, 5:
		one.onDead = []string{"stop", "go"}[n%10-4]
		one.rows = []string{row("dies-"+one.onDead, 0), row("dies-"+one.onDead, 1)}
		size = min(size, mostRows-2)
	}
	for i := range size {
		one.rows = append(one.rows, row("row", i))
	}
	if n%10 > 7 {
		one.rows, one.late = one.rows[:size/2], one.rows[size/2:]
	}
	return []importing{one}
}

// chainOf returns groups of which each has the callback of the one before among its members.
func chainOf(one importing) (all []importing) {
	number, _, _ := strings.Cut(one.name, ".")
	for i := 1; i <= links; i++ {
		one.name = fmt.Sprintf("%s.%d", number, i)
		one.callback = one.name + "-done"
		one.rows = []string{one.name + "-row0", one.name + "-row1"}
		all = append(all, one)
		one.topic, one.before = partTopic, one.callback
	}
	return all
}

// members returns the ids of all members, as far as late ones joined.
func (l *runLedger) members(i importing) []string {
	all := slices.Concat(i.rows, i.added)
	if i.before != "" {
		all = append(all, i.before)
	}
	for _, id := range i.late {
		if l.joined[id] || l.runs[id] != nil {
			all = append(all, id)
		}
	}
	return all
}

// dies reports whether a row is dead once it was handled, for good or until it is requeued.
func dies(id string) bool { return strings.Contains(id, "dies") }

// against returns what is wrong with what was handled of groups, and how many callbacks came again since their lease had ended.
func (l *runLedger) against(all []importing) (wrong []string, again int) {
	for _, one := range all {
		runs := l.runs[one.callback]
		if len(runs) == 0 {
			wrong = append(wrong, one.callback+" is missing")
			continue
		}
		if len(runs) > 1 {
			again++
		}
		if text := twice(runs); text != "" {
			wrong = append(wrong, one.callback+" came "+text)
		}
		for _, id := range l.members(one) {
			if text := l.early(id, runs[0].began, one.onDead == "go" && dies(id)); text != "" {
				wrong = append(wrong, fmt.Sprintf("%s was early: %s %s", one.callback, id, text))
			}
		}
		if want := l.counts(one); one.unique && runs[0].notes != want {
			wrong = append(wrong, fmt.Sprintf("%s counts %s, want %s", one.callback, runs[0].notes, want))
		}
	}
	return wrong, again
}

// early returns what became of a message before a line at which all of its group had ended, if that is wrong. One that fails for good may have died
// as its lease ended, even before its handler began.
func (l *runLedger) early(id string, line int, fails bool) string {
	last := l.last(id)
	switch {
	case last == nil && fails:
		return ""
	case last == nil:
		return "was not handled"
	case last.began > line:
		return "was handled behind it"
	case last.ended == 0 && !fails:
		return "did not end"
	case last.ended > line:
		return "ended behind it"
	}
	return ""
}

// counts returns how many of a group are acknowledged and dead in the end.
func (l *runLedger) counts(i importing) string {
	all, dead := len(l.members(i)), 0
	for _, id := range i.rows {
		if i.onDead == "go" && dies(id) {
			dead++
		}
	}
	return fmt.Sprintf("%d/%d", all-dead, dead)
}

// What is wrong is found.
func TestLedgerOfImportsIsChecked(t *testing.T) {
	t.Parallel()
	two := importing{name: "g", rows: []string{"a", "b"}, callback: "c", unique: true}
	goes := importing{name: "g", rows: []string{"a", "dies"}, callback: "c", unique: true, onDead: "go"}
	chain := importing{name: "g", rows: []string{"a"}, before: "b", callback: "c"}
	late := importing{name: "g", rows: []string{"a"}, late: []string{"b"}, callback: "c", unique: true}
	adds := importing{name: "g", rows: []string{"a"}, added: []string{"b"}, callback: "c"}
	for name, test := range map[string]struct {
		of            importing
		ledger, wrong string
	}{
		"all once":                     {two, "a1 b1 a1. b1. c1=2/0 c1.", ""},
		"a lease that ended":           {two, "a1 b1 b2 a1. b2. c1=2/0 c2=2/0 c2.", ""},
		"a hand-over that lapsed":      {two, "a1 b1 a1. b1. c1h=2/0 c1=2/0 c1. c2=2/0", ""},
		"a late one without lease":     {two, "a1 a1. b1 b2 b2. c1=2/0 b1. c1.", ""},
		"another life of a member":     {chain, "a1 a1. b1 b2 b2. a1 a1. c1 c1.", ""},
		"none came":                    {two, "a1 b1 a1. b1.", "c is missing"},
		"it came twice":                {two, "a1 b1 a1. b1. c1=2/0 c1. c1=2/0 c1.", "c came in attempt 1 behind 1, 0 ms too soon"},
		"it came in its lease":         {two, "a1 b1 a1. b1. c1=2/0 c2!=2/0 c2.", "c came in attempt 2 behind 1, 1 ms too soon"},
		"it was handed over in lease":  {two, "a1 b1 a1. b1. c1h=2/0 c1!=2/0 c1.", "c came in attempt 1 behind 1, 1 ms too soon"},
		"its first worker is killed":   {two, "a1 b1 a1. b1. c2=2/0 c4=2/0 c4.", ""},
		"one is missing":               {two, "a1 a1. c1=2/0 c1.", "c was early: b was not handled"},
		"one comes behind it":          {two, "a1 a1. c1=2/0 b1 b1. c1.", "c was early: b was handled behind it"},
		"one ends behind it":           {two, "a1 b1 a1. c1=2/0 b1. c1.", "c was early: b ended behind it"},
		"one was killed":               {two, "a1 b1 a1. c1=2/0 c1.", "c was early: b did not end"},
		"one comes again behind it":    {two, "a1 b1 a1. b1. c1=2/0 b2 b2. c1.", "c was early: b was handled behind it"},
		"one was added":                {adds, "a1 a1. c1 b1 b1.", "c was early: b was handled behind it"},
		"a late one is refused":        {late, "a1 a1. c1=1/0 c1.", ""},
		"a late one joined":            {late, "a1 a1. b1 b1. c1=2/0 c1.", ""},
		"a late one is not waited for": {late, "a1 a1. c1=2/0 b1 b1. c1.", "c was early: b was handled behind it"},
		"a late one is lost":           {late, "a1 a1. joined:b c1=2/0 c1.", "c was early: b was not handled"},
		"the link before":              {chain, "a1 a1. b1 c1 b1. c1.", "c was early: b ended behind it"},
		"one is dead":                  {goes, "a1 dies1 a1. dies1. c1=1/1", ""},
		"one died with its process":    {goes, "a1 dies1 a1. c1=1/1", ""},
		"one died in a queue":          {goes, "a1 a1. c1=1/1", ""},
		"one dies behind it":           {goes, "a1 a1. c1=1/1 dies1 dies1.", "c was early: dies was handled behind it"},
		"it counts wrongly":            {goes, "a1 dies1 a1. dies1. c1=2/0", "c counts 2/0, want 1/1"},
	} {
		l := new(runLedger)
		for i, word := range strings.Fields(test.ledger) {
			if what, id, other := strings.Cut(word, ":"); other {
				l.add(fmt.Appendln(nil, what, id))
				continue
			}
			word, counts, _ := strings.Cut(word, "=")
			word, soon := strings.CutSuffix(word, "!")
			word, handed := strings.CutSuffix(word, "h")
			word, ends := strings.CutSuffix(word, ".")
			what, claimed := "begin", i*int(heldFor.Milliseconds())
			if ends {
				what = "end"
			}
			if soon {
				claimed--
			}
			l.add(fmt.Appendln(nil, what, word[:len(word)-1], word[len(word)-1:], cmp.Or(counts, "/"), claimed, handed))
		}
		wrong, _ := l.against([]importing{test.of})
		got := strings.Join(wrong, "; ")
		if test.wrong == "" && got != "" || !strings.HasPrefix(got, test.wrong) {
			t.Errorf("%s: found %q, want %q", name, got, test.wrong)
		}
	}
	l := new(runLedger)
	l.add([]byte("begin c 1 0/0 0 false\nbegin c 2 0/0 1000 false\nend c 2\nwhole 7\n"))
	wrong, again := l.against([]importing{{callback: "c", unique: true}})
	storetest.Is(t, "faults", len(wrong), 0)
	storetest.Is(t, "callbacks that came again", again, 1)
	storetest.Is(t, "whole numbers", len(l.whole), 1)
}
