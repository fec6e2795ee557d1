package store

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

func TestDue(t *testing.T) {
	for score, want := range map[string]int64{
		"1763676000123": 1763676000123000, "5.25": 5250, "-inf": 0, "inf": record.Never, "-3": 0, "1e300": record.Never, "1e999": record.Never, "": record.Never, "nan": record.Never,
	} {
		r := &reply{values: []any{score}}
		if got := r.due(); got != want || r.end() != nil {
			t.Errorf("%q is due at %d, want %d; %v", score, got, want, r.end())
		}
	}
	r := &reply{values: []any{"x"}}
	if r.due(); r.end() == nil {
		t.Error("x is a due time")
	}
}

// A receipt has the last digit of how many attempts are used up, whatever is known of them.
func TestDigitOf(t *testing.T) {
	for value, want := range map[string]int64{"": 0, "7": 7, "12": 2, "12\n5 - - x9": 2, "x": 0, "12\n": 2, "-3": 0, "\n5": 0} {
		if got := digitOf(value); got != want {
			t.Errorf("%q: got %d", value, got)
		}
	}
}
