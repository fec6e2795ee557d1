package notify_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func pattern(t testing.TB, text string) notify.Pattern {
	t.Helper()
	p, err := notify.ParsePattern(text)
	storetest.Must(t, err)
	return p
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern  string
		yes, not []string
	}{
		{">", []string{">", "*", "a", "a.b", "*.*", "*.>", "a.>"}, nil},
		{"*", []string{"*", "a"}, []string{">", "a.b", "*.*", "*.>", "a.>"}},
		{"a", []string{"a"}, []string{"b", "*", ">", "a.b", "a.*", "a.>"}},
		{"a.>", []string{"a.>", "a.b", "a.*", "a.b.c", "a.*.>", "a.b.>"}, []string{"a", ">", "*", "*.b", "*.>", "b.>"}},
		{"a.*", []string{"a.*", "a.b"}, []string{"a", "a.>", "a.b.c", "a.*.*", "*.*", "*.b", ">"}},
		{"*.b", []string{"*.b", "a.b"}, []string{"*.*", "*.>", "a.*", "b", "a.b.c"}},
		{"*.>", []string{"*.>", "a.b", "*.*", "a.>", "*.*.>"}, []string{">", "*", "a"}},
		{"a.*.>", []string{"a.*.>", "a.b.c", "a.b.>", "a.*.*"}, []string{"a.>", "a.*", "a.b"}},
	} {
		for _, other := range test.yes {
			if !pattern(t, test.pattern).Covers(pattern(t, other)) {
				t.Errorf("%s does not cover %s", test.pattern, other)
			}
		}
		for _, other := range test.not {
			if pattern(t, test.pattern).Covers(pattern(t, other)) {
				t.Errorf("%s covers %s", test.pattern, other)
			}
		}
	}
	if zero := (notify.Pattern{}); zero.Covers(zero) || zero.Covers(pattern(t, "a")) || pattern(t, ">").Covers(zero) {
		t.Error("the zero pattern, which names nothing, covers something or is granted")
	}
}

// A pattern covers another one if, and only if, it matches every topic of it. Where the
// other one leaves a token open, the test puts a token that is in neither.
func FuzzCovers(f *testing.F) {
	f.Add("a.>", "a.*.b")
	f.Add("*.b", "*.*")
	f.Add(">", "a")
	f.Add("a.*", "a.>")
	f.Fuzz(func(t *testing.T, one, two string) {
		p, errP := notify.ParsePattern(one)
		q, errQ := notify.ParsePattern(two)
		if errP != nil || errQ != nil {
			return
		}
		fresh := strings.Repeat("x", len(one)+len(two)+1)
		all := true
		for n := range strings.Count(one, ".") + 2 {
			topic := strings.NewReplacer("*", fresh, ">", fresh+strings.Repeat("."+fresh, n)).Replace(two)
			if !q.Match(topic) {
				t.Fatalf("%s does not match %s", two, topic)
			}
			all = all && p.Match(topic)
		}
		if p.Covers(q) != all {
			t.Errorf("%s covers %s: %v, and it matches all its topics: %v", one, two, p.Covers(q), all)
		}
	})
}
