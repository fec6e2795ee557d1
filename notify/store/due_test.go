package store

import "testing"

func TestDue(t *testing.T) {
	for score, want := range map[string]int64{
		"1763676000123": 1763676000123000, "5.25": 5250, "-inf": 0, "inf": Never, "-3": 0, "1e300": Never, "1e999": Never, "": Never, "nan": Never,
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
