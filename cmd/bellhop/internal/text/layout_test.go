package text

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"order.timeout", 13, "order.timeout"},
		{"order.timeout", 12, "order.…meout"},
		{"order.timeout", 3, "o…t"},
		{"日本語日本語", 12, "日本語日本語"},
		{"日本語日本語", 9, "日本…本語"},
		{"日本語", 2, "…"},
		{"", 0, ""},
	} {
		if got := Shorten(test.text, test.most); got != test.want || uniseg.StringWidth(got) > test.most {
			t.Errorf("%q in %d columns is %q, want %q", test.text, test.most, got, test.want)
		}
	}
	if diff := cmp.Diff([]string{"one two", "three-and-more", "four"}, Wrap("one  two three-and-more four", 8)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
