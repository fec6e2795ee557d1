package crash_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// A copyRun is a run of the handler of a copy, in a branch.
type copyRun struct {
	*ledgerRun
	id         string
	due, fence int // of its message, first, in ms; and of a key
}

// copies returns the runs of the handlers of a branch.
func (l *runLedger) copies(branch string) (all []copyRun) {
	for name, runs := range l.runs {
		id, is := strings.CutPrefix(name, branch+":")
		for i := 0; is && i < len(runs); i++ {
			one := copyRun{ledgerRun: runs[i], id: id}
			_, _ = fmt.Sscanf(one.notes, "%d/%d", &one.due, &one.fence) // zero, if it is wrong: that is early
			all = append(all, one)
		}
	}
	return all
}

// againstBranches returns what is wrong with what was handled of so many messages, and how many copies came again since their lease had ended.
func (l *runLedger) againstBranches(count int) (wrong []string, again int) {
	for _, branch := range signupBranches {
		for n := range count {
			m := signupOf(n)
			runs := l.runs[branch+":"+m.ID]
			if len(runs) > 1 {
				again++
			}
			if text := l.ofCopy(m, runs); text != "" {
				wrong = append(wrong, branch+":"+m.ID+" "+text)
			}
		}
		all := l.copies(branch)
		slices.SortFunc(all, func(a, b copyRun) int { return cmp.Or(a.claimed-b.claimed, a.due-b.due) })
		keys := make(map[string][]copyRun)
		var plain []copyRun
		for _, one := range all {
			switch m, known := signup(one.id, count); {
			case !known:
				wrong = append(wrong, branch+":"+one.id+" was not published")
			case m.Key != "":
				keys[m.Key] = append(keys[m.Key], one)
			case one.attempt == 1:
				plain = append(plain, one)
			}
		}
		for _, text := range overtaken(plain) {
			wrong = append(wrong, branch+":"+text)
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			for _, text := range ofKey(keys[key]) {
				wrong = append(wrong, branch+":"+text)
			}
		}
	}
	return wrong, again
}

// signup returns the message that has an id, if it is one of so many.
func signup(id string, count int) (m notify.Message, known bool) {
	var n int
	if _, err := fmt.Sscan(id, &n); err != nil || n < 0 || n >= count || fmt.Sprint(n) != id {
		return m, false
	}
	return signupOf(n), true
}

// ofCopy returns what is wrong with the runs of one copy.
func (l *runLedger) ofCopy(m notify.Message, runs []*ledgerRun) string {
	if !slices.ContainsFunc(runs, func(r *ledgerRun) bool { return r.ended > 0 }) {
		return "was not handled"
	}
	if text := twice(runs); text != "" {
		return "came " + text
	}
	for _, run := range runs {
		if soon := l.tried[m.ID] + int(m.Delay.Milliseconds()) - run.at; soon > 0 {
			return fmt.Sprintf("came %d ms too early", soon)
		}
	}
	return ""
}

// overtaken returns which of some first runs, in the order of their claims, came behind one that was due later.
func overtaken(runs []copyRun) (wrong []string) {
	last, next := copyRun{}, copyRun{} // those that were due last, before the present ms and up to it
	for i, run := range runs {
		if i > 0 && run.claimed > runs[i-1].claimed {
			last = next
		}
		if last.ledgerRun != nil && run.due < last.due {
			wrong = append(wrong, fmt.Sprintf("%s came behind %s, which was due %d ms later", run.id, last.id, last.due-run.due))
		}
		if next.ledgerRun == nil || run.due > next.due {
			next = run
		}
	}
	return wrong
}

// ofKey returns which runs of messages of one key came before another one was done, or was due.
func ofKey(runs []copyRun) (wrong []string) {
	slices.SortFunc(runs, func(a, b copyRun) int { return a.fence - b.fence })
	for i, run := range runs[1:] {
		before := runs[i]
		over := before.ended > 0 && before.ended < run.began || run.claimed >= before.claimed+int(heldFor.Milliseconds())
		switch {
		case run.fence == before.fence:
			wrong = append(wrong, fmt.Sprintf("%s has the fence of %s", run.id, before.id))
		case run.id != before.id && !over:
			wrong = append(wrong, fmt.Sprintf("%s came before %s of its key was done", run.id, before.id))
		case run.due < before.due:
			wrong = append(wrong, fmt.Sprintf("%s came behind %s of its key, which was due %d ms later", run.id, before.id, before.due-run.due))
		}
	}
	return wrong
}

// ledgerOfSignups returns a ledger of so many messages, each handled in each branch when it is due, but in the first branch those of some words: a word is
// ID.ATTEMPT/DUE/CLAIMED/FENCE, with a - behind it if the run does not end, and a + if it ends last, or an ID that is not handled.
func ledgerOfSignups(count int, words string) *runLedger {
	l := new(runLedger)
	runs := make(map[string][]string)
	for n := range count {
		m := signupOf(n)
		due := n + 1 + int(m.Delay.Milliseconds())
		l.add(fmt.Appendln(nil, "tried", m.ID, n+1))
		runs[m.ID] = []string{fmt.Sprintf("%s.1/%d/%d/%d", m.ID, due, due, due)}
		l.add(handledSoon(signupBranches[1], runs[m.ID][0]))
	}
	named := make(map[string][]string)
	for word := range strings.FieldsSeq(words) {
		id, _, handled := strings.Cut(word, ".")
		named[id] = append(named[id], word)
		if !handled {
			named[id] = nil
		}
	}
	maps.Copy(runs, named)
	all := slices.Concat(slices.Collect(maps.Values(runs))...)
	slices.SortFunc(all, func(a, b string) int { return numberIn(a, 2) - numberIn(b, 2) })
	var last []byte
	for _, word := range all {
		begin, end, _ := strings.Cut(string(handledSoon(signupBranches[0], word)), "\n")
		l.add([]byte(begin + "\n"))
		switch {
		case strings.HasSuffix(word, "+"):
			last = append(last, end...)
		case !strings.HasSuffix(word, "-"):
			l.add([]byte(end))
		}
	}
	l.add(last)
	return l
}

// numberIn returns the number at a place of a word.
func numberIn(word string, place int) (n int) {
	_, _ = fmt.Sscan(strings.Split(word, "/")[place], &n)
	return n
}

// handledSoon returns the lines of a run.
func handledSoon(branch, word string) []byte {
	name, rest, _ := strings.Cut(word, "/")
	id, attempt, _ := strings.Cut(name, ".")
	due, _, _ := strings.Cut(rest, "/")
	claimed, fence := numberIn(word, 2), numberIn(word, 3)
	return fmt.Appendf(nil, "begin %[1]s:%[2]s %[3]s %[4]s/%[6]d %[5]d false %[5]d\nend %[1]s:%[2]s %[3]s\n", branch, id, attempt, due, claimed, fence)
}

// What is wrong is found.
func TestLedgerOfBranchesIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ words, wrong string }{
		"all once":                   {"", ""},
		"leases that ended":          {"0.1/1/1/1- 0.2/1/1001/2 12.1/13/1002/13 1.1/421/421/0- 1.2/421/1421/0", ""},
		"several in one ms":          {"2.1/341/421/0", ""},
		"one is missing":             {"2", "2 was not handled"},
		"one did not end":            {"2.1/341/341/0-", "2 was not handled"},
		"one is of nobody":           {"13.1/500/500/0", "13 was not published"},
		"another id":                 {"3~4.1/4/4/0", "3~4 was not published"},
		"one came twice":             {"3.1/4/4/0 3.1/4/1100/0", "3 came in attempt 1 behind 1, 0 ms too soon"},
		"one came in its lease":      {"3.1/4/4/0 3.2/4/1000/0", "3 came in attempt 2 behind 1, 4 ms too soon"},
		"one came early":             {"1.1/421/420/0", "1 came 1 ms too early"},
		"one was overtaken":          {"2.1/341/422/0", "2 came behind 1, which was due 80 ms later"},
		"one of a key was overtaken": {"12.1/13/13/5 0.1/1/14/6", "0 came behind 12 of its key, which was due 12 ms later"},
		"before its worker died":     {"0.1/1/1/1- 12.1/13/13/13 0.2/1/1001/14", "12 came before 0 of its key was done"},
		"before it was done":         {"0.1/1/1/1+", "12 came before 0 of its key was done"},
		"a fence that was there":     {"12.1/13/13/1", "12 has the fence of 0"},
	} {
		wrong, again := ledgerOfSignups(13, test.words).againstBranches(13)
		got := strings.Join(wrong, "; ")
		if test.wrong == "" && got != "" || !strings.Contains(got, test.wrong) {
			t.Errorf("%s: found %q, want %q", name, got, test.wrong)
		}
		if name == "leases that ended" && again != 2 {
			t.Errorf("%d copies came again, want 2", again)
		}
	}
}
