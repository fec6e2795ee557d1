package store

import (
	"strconv"
	"time"
)

// MaxDue is the latest due time, the end of the year 9999.
var MaxDue = time.UnixMilli(maxDueMs).UTC()

// maxDueMs is the last millisecond of the year 9999.
const maxDueMs = 253402300799999

// Ms returns a duration in milliseconds, rounded up, as a script's argument.
func Ms(d time.Duration) string {
	whole := d.Milliseconds()
	if d%time.Millisecond > 0 {
		whole++
	}
	return strconv.FormatInt(whole, 10)
}
