package record

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAttempts(t *testing.T) {
	one := Attempt{Ended: time.UnixMilli(1_700_000_000_123), Took: 42 * time.Millisecond, By: "host-1", Reason: "no route  to host"}
	none := Attempt{Ended: time.UnixMilli(1_700_000_000_124), Took: -1}
	for value, want := range map[string]struct {
		used    int
		history []Attempt
	}{
		"":  {},
		"3": {3, nil},
		"2\n1700000000123 42 host-1 no route  to host\n1700000000124 - - ": {2, []Attempt{one, none}},
		"0\n1700000000124 - - ":         {0, []Attempt{none}},
		"foreign":                       {0, nil},
		"1\nx\n1700000000124 - - \n1 2": {1, []Attempt{none}},
	} {
		used, history := DecodeAttempts(value)
		if used != want.used || cmp.Diff(want.history, history) != "" {
			t.Errorf("%q: got %d, %+v", value, used, history)
		}
		if !strings.ContainsAny(value, "fx") && EncodeAttempts(used, history) != value {
			t.Errorf("%q: encoded %q", value, EncodeAttempts(used, history))
		}
	}
	one.Reason = "a\nb\r\nc"
	if got := EncodeAttempts(1, []Attempt{one}); got != "1\n1700000000123 42 host-1 a b  c" {
		t.Errorf("encoded %q", got)
	}
}
