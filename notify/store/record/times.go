package record

import (
	"math"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// MaxDue is the latest due time, the end of the year 9999.
var MaxDue = time.UnixMilli(MaxDueMs).UTC()

// MaxDueMs is the last millisecond of the year 9999.
const MaxDueMs = 253402300799999

// Never is a time in us that never comes.
const Never = math.MaxInt64 / 2000

// Apart returns how far a time is before a later one, in years of the calendar, and days
// beside them: a time.Duration ends at 292 years.
func Apart(from, to time.Time) (years, days int) {
	from, to = from.UTC(), to.UTC()
	years = to.Year() - from.Year()
	if from.AddDate(years, 0, 0).After(to) {
		years--
	}
	return years, int(to.Sub(from.AddDate(years, 0, 0)) / (24 * time.Hour))
}

// TimeOf returns the time of a score in milliseconds. A foreign score, and one
// beyond the year 9999, is the zero time.
func TimeOf(score string) time.Time {
	ms, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}
	}
	return TimeOfMs(ms)
}

// TimeOfMs is TimeOf for a number.
func TimeOfMs(ms float64) time.Time {
	if !(ms >= 0 && ms <= MaxDueMs) {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}

// TimeOfMicros is TimeOf for a score in microseconds.
func TimeOfMicros(score string) time.Time {
	us, err := strconv.ParseFloat(score, 64)
	if err != nil || !(us >= 0 && us <= MaxDueMs*1000) {
		return time.Time{}
	}
	return time.UnixMicro(int64(us))
}

// CeilMs returns a duration in milliseconds, rounded up so that it is never too short.
func CeilMs(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Ms returns the duration of some milliseconds.
func Ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// CheckRestored returns a Fault for a time of a field that no export has; the zero time means none.
func CheckRestored(field string, at time.Time) error {
	if !at.IsZero() && (at.Before(time.UnixMilli(1)) || at.After(MaxDue)) {
		return fault.New(field, "%s %s: use a time from 1970 to 9999", field, at.Format(time.RFC3339))
	}
	return nil
}
