package text

import (
	"testing"
	"time"
)

func TestRelative(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		0: "in 0s", 7 * time.Millisecond: "in 7ms", -1500 * time.Millisecond: "1.5s ago", 59600 * time.Millisecond: "in 1m0s",
		29*time.Minute + 58*time.Second: "in 29m58s", time.Hour - time.Millisecond: "in 1h0m", -90 * time.Minute: "1h30m ago",
		24*time.Hour - time.Second: "in 1d0h", 100 * time.Hour: "in 4d4h",
	} {
		if got := Relative(now.Add(d), now); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestLateness(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Millisecond: "-1.0 ms", 1234 * time.Microsecond: "1.2 ms", 9999 * time.Millisecond: "9999.0 ms", 10 * time.Second: "10s", 90 * time.Minute: "1h30m",
	} {
		if got := Lateness(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
