package record_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A rate is read and written as users write it.
func TestRateAsText(t *testing.T) {
	for text, want := range map[string]record.Rate{"1000/s": 1000 * record.PerSecond, "90/m": 90 * record.PerMinute, "7/h": 7, "1000000/s": record.MaxRate, "none": 0} {
		if want.String() != text {
			t.Errorf("%d is %s, want %s", want, want, text)
		}
		if got, err := record.ParseRate("rate", text); want != 0 && (got != want || err != nil) {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	if got := (60 * record.PerMinute).String(); got != "1/s" {
		t.Errorf("60/m is %s, want 1/s", got)
	}
	for _, text := range []string{"", "5", "/s", "0/s", "-1/s", "1.5/s", "5/d", "1000001/s", "4294967296/h", "5/s/s", " 5/s"} {
		if got, err := record.ParseRate("rate", text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
