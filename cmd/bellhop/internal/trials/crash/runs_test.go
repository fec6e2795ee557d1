package crash_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// heldFor is the lease of what is handled by a ledger.
const heldFor = time.Second

// A ledgerRun is one run of a handler, from line to line of the ledger.
type ledgerRun struct {
	attempt, began int
	ended          int    // zero: it was killed, or is at work
	notes          string // of a callback: how many of its group were acknowledged, and how many are dead; of a copy: when it was due first, in ms, and its fence
	claimed        int    // by Redis's clock, in ms
	handed         bool   // it came with the ring: when its lease ends unconfirmed, that uses up no attempt
	at             int    // when its handler began, by the clock of the machine, in ms; zero: that is not noted
}

// A runLedger is what handlers wrote, in the order in which it happened: to one file, at its end, and before their messages are settled.
type runLedger struct {
	lines int
	runs  map[string][]*ledgerRun // by id
	whole map[string]bool         // numbers of which all was published

	joined map[string]bool // late members
	tried  map[string]int  // by id, when a publisher was about to publish a message first, in ms
}

// add reads lines.
func (l *runLedger) add(text []byte) {
	if l.runs == nil {
		l.runs, l.whole, l.joined, l.tried = make(map[string][]*ledgerRun), make(map[string]bool), make(map[string]bool), make(map[string]int)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		l.lines++
		what, rest, _ := strings.Cut(lines.Text(), " ")
		var id string
		run := &ledgerRun{began: l.lines}
		n, _ := fmt.Sscan(rest, &id, &run.attempt, &run.notes, &run.claimed, &run.handed, &run.at)
		switch {
		case what == "whole":
			l.whole[rest] = true
		case what == "joined":
			l.joined[rest] = true
		case what == "tried" && n == 2 && l.tried[id] == 0:
			l.tried[id] = run.attempt
		case what == "begin" && n >= 5:
			l.runs[id] = append(l.runs[id], run)
		case what == "end" && n >= 2:
			l.end(id, run.attempt)
		}
	}
}

// end notes the end of a run.
func (l *runLedger) end(id string, attempt int) {
	for _, run := range slices.Backward(l.runs[id]) {
		if run.attempt == attempt && run.ended == 0 {
			run.ended = l.lines
			return
		}
	}
}

// ended reports whether a run of a message ended.
func (l *runLedger) ended(id string) bool {
	return slices.ContainsFunc(l.runs[id], func(r *ledgerRun) bool { return r.ended > 0 })
}

// last returns that run of a message which settled it: of several with the last attempt the last. Another one may be of a process that lost its lease.
func (l *runLedger) last(id string) (last *ledgerRun) {
	for _, run := range l.runs[id] {
		if last == nil || run.attempt >= last.attempt {
			last = run
		}
	}
	return last
}

// twice returns which run of a message did not come since the lease of the one before had ended, if there is one. Not each attempt has a run: a worker
// may be killed with a message that waits for its handler.
func twice(runs []*ledgerRun) string {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b *ledgerRun) int { return a.claimed - b.claimed })
	for i, run := range runs[1:] {
		before := runs[i]
		unused := before.handed && run.attempt == before.attempt
		if soon := before.claimed + int(heldFor.Milliseconds()) - run.claimed; soon > 0 || run.attempt <= before.attempt && !unused {
			return fmt.Sprintf("in attempt %d behind %d, %d ms too soon", run.attempt, before.attempt, max(0, soon))
		}
	}
	return ""
}

// book writes a line at the end of a ledger.
func book(file *os.File, words ...any) error {
	_, err := file.WriteString(fmt.Sprintln(words...)) // at once, so that lines of several processes stay whole
	return err
}

// openLedger opens the ledger of CRASH_NAME, and reads what it has.
func openLedger() (*os.File, *runLedger, error) {
	path, l := os.Getenv("CRASH_NAME"), new(runLedger)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	l.add(text)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	return file, l, err
}
