package fields

import (
	"cmp"
	"math"
	"regexp"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
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
		return 0, store.Faultf(field, "%s %.100q: write a duration such as 500ms, 90s, 1h30m or 1d", field, text)
	}
	days, errDays := time.ParseDuration(cmp.Or(parts[2], "0") + "h")
	rest, errRest := time.ParseDuration(cmp.Or(parts[3], "0"))
	if errDays != nil || errRest != nil || days > (math.MaxInt64-rest)/24 { // they are of the grammar
		return 0, store.Faultf(field, "%s %.100q: it is too long; no duration is longer than %dd", field, text, longestDays)
	}
	d := 24*days + rest
	if parts[1] == "-" {
		d = -d
	}
	return d, nil
}

// timeGrammar is that of RFC 3339: time.Parse takes 1:02:03,4Z, too, and any offset.
var timeGrammar = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTime reads a time of a named field, as RFC 3339 has it. The error is a
// store.ErrInvalid that names the field.
func ParseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timeGrammar.MatchString(text) {
		return time.Time{}, store.Faultf(field, "%s %.100q: write a time such as 2030-01-02T15:04:05Z or 2030-01-02T15:04:05.678+02:00", field, text)
	}
	if t.IsZero() { // which would stand for no time
		return time.Time{}, store.Faultf(field, "%s %.100s: it is before 1970", field, text)
	}
	return t, nil
}
