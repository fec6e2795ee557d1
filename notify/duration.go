package notify

import (
	"cmp"
	"math"
	"regexp"
	"time"
)

// day is the unit d of durations, which time.ParseDuration does not know.
const day = 24 * time.Hour

// longestDays are the days of the longest duration.
const longestDays = math.MaxInt64 / int64(day)

// durationGrammar is that of time.ParseDuration, with days in front.
var durationGrammar = regexp.MustCompile(`^([-+]?)(?:([0-9]+\.?[0-9]*|\.[0-9]+)d)?((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))*)$`)

// ParseDuration reads a duration of a named field, such as 90s, 1h30m or 1d12h;
// an empty one is zero. A day is 24 hours. The error is an ErrInvalid that names
// the field.
func ParseDuration(field, text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	parts := durationGrammar.FindStringSubmatch(text)
	if parts == nil || parts[2] == "" && parts[3] == "" {
		return 0, Faultf(field, "%s %.100q: write a duration such as 500ms, 90s, 1h30m or 1d", field, text)
	}
	days, errDays := time.ParseDuration(cmp.Or(parts[2], "0") + "h")
	rest, errRest := time.ParseDuration(cmp.Or(parts[3], "0"))
	if errDays != nil || errRest != nil || days > (math.MaxInt64-rest)/24 { // they are of the grammar
		return 0, Faultf(field, "%s %.100q: it is too long; no duration is longer than %dd", field, text, longestDays)
	}
	d := 24*days + rest
	if parts[1] == "-" {
		d = -d
	}
	return d, nil
}
