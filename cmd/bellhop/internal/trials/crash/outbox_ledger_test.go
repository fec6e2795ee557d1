package crash_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A sold is a row of the ledger of a shop. An id may be there twice, of a transaction that was repeated.
type sold struct {
	ID      string
	Account int // zero: none
	N       int // of the UPDATE of the account
	Due     time.Time
}

// A handling is one run of a handler.
type handling struct {
	id      string
	attempt int
	claimed time.Time
}

// handled are all runs of handlers, in their order.
type handled struct {
	mu  sync.Mutex
	all []handling
	ids map[string]bool
}

func (h *handled) add(one handling) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids == nil {
		h.ids = make(map[string]bool)
	}
	h.all, h.ids[one.id] = append(h.all, one), true
}

func (h *handled) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ids[id]
}

// of returns the ids in the order in which they were handled first, and the attempts of each.
func (h *handled) of() (ids []string, attempts map[string][]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	attempts = make(map[string][]int)
	for _, one := range h.all {
		if attempts[one.id] == nil {
			ids = append(ids, one.id)
		}
		attempts[one.id] = append(attempts[one.id], one.attempt)
	}
	return ids, attempts
}

// against returns what is wrong with what was handled by what the ledger says, and how many messages came again since their lease had ended, which
// is the only exception: their attempts follow on each other. A message that was published a second time has its first attempt again.
func (h *handled) against(ledger []sold) (wrong []string, again int) {
	ids, attempts := h.of()
	rows := make(map[string]sold)
	for _, row := range ledger {
		if before, is := rows[row.ID]; !is || row.Due.Before(before.Due) {
			rows[row.ID] = row
		}
	}
	for id := range rows {
		switch all := slices.Sorted(slices.Values(attempts[id])); {
		case all == nil:
			wrong = append(wrong, id+" was committed, and not handled")
		case !followOn(all):
			wrong = append(wrong, fmt.Sprintf("%s was published twice: it was handled in the attempts %v", id, attempts[id]))
		case len(all) > 1:
			again++
		}
	}
	last := make(map[int]int)
	for _, id := range ids {
		row, is := rows[id]
		switch {
		case !is:
			wrong = append(wrong, id+" was handled, and not committed")
		case row.Account > 0 && row.N != last[row.Account]+1:
			wrong = append(wrong, fmt.Sprintf("account %d: %d was handled behind %d", row.Account, row.N, last[row.Account]))
			fallthrough
		case row.Account > 0:
			last[row.Account] = row.N
		}
	}
	return append(wrong, h.early(rows)...), again
}

// followOn reports whether each number is one more than that before it.
func followOn(numbers []int) bool {
	for i, n := range numbers {
		if n != numbers[0]+i {
			return false
		}
	}
	return true
}

// early returns which messages were claimed before they were due.
func (h *handled) early(rows map[string]sold) (wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		if by := rows[one.id].Due.UnixMilli() - one.claimed.UnixMilli(); rows[one.id].ID != "" && by > 0 {
			wrong = append(wrong, fmt.Sprintf("%s was claimed %d ms before it was due", one.id, by))
		}
	}
	return wrong
}

// What is wrong is found.
func TestLedgerIsChecked(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	ledger := []sold{{"a", 0, 0, at}, {"b", 1, 1, at}, {"c", 1, 2, at}, {"d", 2, 1, at}, {"a", 0, 0, at.Add(time.Hour)}}
	for name, test := range map[string]struct{ handled, wrong string }{
		"all once":             {"a1 b1 d1 c1", ""},
		"a lease that ended":   {"a1 b1 b2 c2 c3 d2 a2", ""},
		"one is lost":          {"a1 b1 c1", "d was committed, and not handled"},
		"one is twice":         {"a1 b1 a1 c1 d1", "a was published twice"},
		"one is twice, late":   {"a1 a2 b1 a1 a2 c1 d1", "a was published twice"},
		"one is foreign":       {"a1 b1 x1 c1 d1", "x was handled, and not committed"},
		"another order":        {"a1 c1 b1 d1", "account 1: 2 was handled behind 0"},
		"one is early":         {"a1 b1 c1 d1!", "d was claimed 5 ms before it was due"},
		"another one is early": {"a1! b1 c1 d1", "a was claimed 5 ms before it was due"},
	} {
		h := new(handled)
		for _, text := range strings.Fields(test.handled) {
			one := handling{id: text[:1], attempt: int(text[1] - '0'), claimed: at}
			if strings.HasSuffix(text, "!") {
				one.claimed = at.Add(-5 * time.Millisecond)
			}
			h.add(one)
		}
		wrong, _ := h.against(ledger)
		got := strings.Join(wrong, "; ")
		if test.wrong == "" && got != "" || !strings.HasPrefix(got, test.wrong) {
			t.Errorf("%s: found %q, want %q", name, got, test.wrong)
		}
	}
	_, again := (&handled{all: []handling{{"a", 1, at}, {"a", 2, at}}}).against(ledger[:1])
	storetest.Is(t, "messages that came again", again, 1)
}
