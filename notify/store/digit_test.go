package store

import (
	"testing"
)

// A receipt has the last digit of how many attempts are used up, whatever is known of them.
func TestDigitOf(t *testing.T) {
	for value, want := range map[string]int64{"": 0, "7": 7, "12": 2, "12\n5 - - x9": 2, "x": 0, "12\n": 2, "-3": 0, "\n5": 0} {
		if got := digitOf(value); got != want {
			t.Errorf("%q: got %d", value, got)
		}
	}
}
