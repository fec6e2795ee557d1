package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify"
)

// mostBefore is the most pages that one can go back from a page of a search without beginning anew, and cursorsBefore the most bytes of
// their cursors in its address.
const (
	mostBefore    = 10
	cursorsBefore = 2000
)

// before returns how many messages the pages before have, as its address says.
func (f *findView) before() int64 {
	n, _ := strconv.ParseInt(f.query("seen"), 10, 64)
	return max(n, 0)
}

// Place says which of all that match are on the page, and of how many where that is known: 51 to 100 of 375.
func (f *findView) Place() string {
	first := f.before()
	last := first + int64(len(f.Rows))
	text := grouped(first+1) + " to " + grouped(last)
	switch {
	case f.Next == "":
		return text + " of " + grouped(last)
	case f.total > last:
		return text + " of " + grouped(f.total)
	}
	return text
}

// Previous returns the address of the page before; empty: this is the first one.
func (f *findView) Previous() string {
	q := f.r.URL.Query()
	all := q["before"]
	if q.Get("cursor") == "" {
		return ""
	}
	if len(all) == 0 { // it is not known any more
		return f.Link("cursor", "", "seen", "", "stop", "")
	}
	seen, cursor, _ := strings.Cut(all[len(all)-1], ".")
	return f.at(cursor, seen, all[:len(all)-1])
}

// onwards returns the address of the page behind, which begins at a cursor.
func (f *findView) onwards(cursor string) string {
	all := append(slices.Clone(f.r.URL.Query()["before"]), strconv.FormatInt(f.before(), 10)+"."+f.query("cursor"))
	if len(f.Rows) == 0 { // nobody goes back to it
		all = all[:len(all)-1]
	}
	bytes := 0
	for i := len(all) - 1; i >= 0; i-- {
		if bytes += len(all[i]); bytes > cursorsBefore || len(all)-i > mostBefore {
			all = all[i+1:]
			break
		}
	}
	return f.at(cursor, strconv.FormatInt(f.before()+int64(len(f.Rows)), 10), all)
}

func (f *findView) at(cursor, seen string, before []string) string {
	q := url.Values{"q": {f.Q}, "before": before}
	for name, value := range map[string]string{"cursor": cursor, "seen": seen} {
		if value != "" && value != "0" {
			q.Set(name, value)
		}
	}
	return address(f.r, q)
}

// totalOf returns how many messages are in the states that a question asks for; 0: that is not known without a search.
func totalOf(chosen []notify.State, counts map[notify.State]int64) (sum int64) {
	for _, s := range chosen {
		n, known := counts[s]
		if !known {
			return 0
		}
		sum += n
	}
	return sum
}
