package fields

import (
	"cmp"
	"math"
	"regexp"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// day is the unit d of durations, unknown to time.ParseDuration.
const day = 24 * time.Hour

// longestDays is the number of days in the longest duration.
const longestDays = math.MaxInt64 / int64(day)

// durationGrammar is the grammar of time.ParseDuration, with days in front.
var durationGrammar = regexp.MustCompile(`^([-+]?)(?:([0-9]+\.?[0-9]*|\.[0-9]+)d)?((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))*)$`)

// ParseDuration reads a duration such as 90s, 1h30m or 1d12h for a named field. A day
// is 24 hours, an empty text is zero. The error is a fault.Fault of the field.
func ParseDuration(field, text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && text[0] != '-' && text[0] != '+' { // most durations; the grammar is slower
		return d, nil
	}
	parts := durationGrammar.FindStringSubmatch(text)
	if parts == nil || parts[2] == "" && parts[3] == "" {
		return 0, fault.New(field, "%s %.100q: write a duration such as 500ms, 90s, 1h30m or 1d", field, text)
	}
	days, errDays := time.ParseDuration(cmp.Or(parts[2], "0") + "h")
	rest, errRest := time.ParseDuration(cmp.Or(parts[3], "0"))
	if errDays != nil || errRest != nil || days > (math.MaxInt64-rest)/24 { // the grammar is right, so it is too long
		return 0, fault.New(field, "%s %.100q: it is too long; the longest duration is %dd", field, text, longestDays)
	}
	d := 24*days + rest
	if parts[1] == "-" {
		d = -d
	}
	return d, nil
}

// timeGrammar is the grammar of RFC 3339. time.Parse also accepts 1:02:03,4Z and any offset.
var timeGrammar = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// LocalPattern is that grammar where the offset may be left out, and then the seconds, too.
const LocalPattern = `^\d{4}-\d\d-\d\dT\d\d:\d\d((:\d\d(\.\d+)?)?|:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))$`

// localGrammar is that of a time without an offset.
var localGrammar = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$`)

// parseLocal is ParseTime for a time that may have no offset, and is in calendar.Wall then.
func parseLocal(field, text string) (time.Time, error) {
	if !localGrammar.MatchString(text) {
		return ParseTime(field, text)
	}
	seconds := ""
	if len(text) == len("2030-01-02T15:04") {
		seconds = ":00"
	}
	t, err := ParseTime(field, text+seconds+"Z")
	if err != nil {
		return time.Time{}, fault.New(field, "%s %.100q: write a time such as 2030-01-02T15:04:05Z, or of a zone such as 2030-01-02T15:04", field, text)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), calendar.Wall), nil
}

// ParseTime reads a time of RFC 3339 for a named field. The error is a fault.Fault of
// the field.
func ParseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timeGrammar.MatchString(text) {
		return time.Time{}, fault.New(field, "%s %.100q: write a time such as 2030-01-02T15:04:05Z or 2030-01-02T15:04:05.678+02:00", field, text)
	}
	if t.IsZero() { // the zero time means no time
		return time.Time{}, fault.New(field, "%s %.100s: it is before 1970", field, text)
	}
	return t, nil
}
