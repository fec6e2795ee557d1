package record

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Rate is a number of messages per hour. As text it is N/s, N/m or N/h.
type Rate int64

// MaxRate is the greatest [Rate]: a million a second.
const MaxRate = 1_000_000 * PerSecond

// The rates of one message in a time.
const (
	PerHour   Rate = 1
	PerMinute      = 60 * PerHour
	PerSecond      = 60 * PerMinute
)

// String returns the rate in the shortest unit of which it is a whole number; none for 0.
func (r Rate) String() string {
	switch {
	case r == 0:
		return "none"
	case r%PerSecond == 0:
		return fmt.Sprintf("%d/s", r/PerSecond)
	case r%PerMinute == 0:
		return fmt.Sprintf("%d/m", r/PerMinute)
	}
	return fmt.Sprintf("%d/h", int64(r))
}

// MarshalText returns the rate as text.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText returns.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	if *r = 0; string(text) != r.String() {
		*r, err = ParseRate("rate", string(text))
	}
	return err
}

// ParseRate reads a rate as users write it, such as 1000/s. Its error is a Fault of the field that is named.
func ParseRate(field, text string) (Rate, error) {
	digits, unit, _ := strings.Cut(text, "/")
	per := map[string]Rate{"s": PerSecond, "m": PerMinute, "h": PerHour}[unit]
	n, err := strconv.ParseUint(digits, 10, 32)
	if rate := Rate(n) * per; err == nil && rate > 0 && rate <= MaxRate {
		return rate, nil
	}
	return 0, fault.New(field, "%s %.100q: write N/s, N/m or N/h, such as 1000/s, of at most %v", field, text, MaxRate)
}
