package record_test

import (
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

func TestOverlaps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"order.paid", "order.paid", true},
		{"order.paid", "order.sent", false},
		{"order.paid", "order", false},
		{"order.*", "order.paid", true},
		{"order.*", "order", false},
		{"order.*", "order.paid.eu", false},
		{"order.>", "order.paid.eu", true},
		{"order.>", "order", false},
		{"order.*", "order.*", true},
		{"order.*", "*.paid", true},
		{"order.*", "*.paid.eu", false},
		{"order.*", "mail.*", false},
		{"order.*.eu", "*.paid.us", false},
		{"order.>", "*.*.eu", true},
		{"order.>", "*", false},
		{"*.>", "*", false},
		{">", "*", true},
		{">", "order.*.eu.>", true},
		{">", "$dead.order", false},
		{"*.order", "$dead.order", false},
		{"*.order", "$dead.*", false},
		{"$dead.>", "$dead.order", true},
		{"$dead.*", "$dead.*.eu", false},
		{"$dead.order", "$dead.order", true},
	} {
		for _, pair := range [][2]string{{test.a, test.b}, {test.b, test.a}} {
			if got := parse(t, pair[0]).Overlaps(parse(t, pair[1])); got != test.want {
				t.Errorf("%s overlaps %s: %v", pair[0], pair[1], got)
			}
		}
	}
	if (record.Pattern{}).Overlaps(parse(t, ">")) || parse(t, ">").Overlaps(record.Pattern{}) {
		t.Error("the zero pattern overlaps one")
	}
}

// Two patterns overlap where one of all short topics is named by both.
func TestOverlapsAsTheyMatch(t *testing.T) {
	t.Parallel()
	topics := append(names(4, "a", "b"), prefixed(names(4, "a", "b"))...)
	var all []record.Pattern
	for _, text := range append(patterns(3), prefixed(patterns(2))...) {
		all = append(all, parse(t, text))
	}
	for _, a := range all {
		matched := slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return !a.Match(topic) })
		for _, b := range all {
			want := slices.ContainsFunc(matched, b.Match)
			if got := a.Overlaps(b); got != want {
				t.Errorf("%s overlaps %s: %v", a, b, got)
			}
		}
	}
}

func parse(t *testing.T, text string) record.Pattern {
	t.Helper()
	p, err := record.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// names returns all names of up to most of some tokens.
func names(most int, tokens ...string) (all []string) {
	last := []string{""}
	for range most {
		var longer []string
		for _, begin := range last {
			for _, token := range tokens {
				longer = append(longer, begin+token)
			}
		}
		all = append(all, longer...)
		last = nil
		for _, name := range longer {
			last = append(last, name+".")
		}
	}
	return all
}

// patterns returns all patterns of up to most tokens, of two letters.
func patterns(most int) []string {
	all := append(names(most, "a", "b", "*"), ">")
	for _, begin := range names(most-1, "a", "b", "*") {
		all = append(all, begin+".>")
	}
	return all
}

// prefixed returns topics of deaths.
func prefixed(of []string) (all []string) {
	for _, name := range of {
		all = append(all, record.DeadPrefix+name)
	}
	return all
}
