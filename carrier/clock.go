package carrier

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// trust is how long a clock keeps its best sample: clocks drift apart.
const trust = 10 * time.Second

// clock estimates Redis's time from samples, each a time that a call returned. It
// keeps the recent sample whose call was fastest, taken as the time in the middle
// of that call (the clock filter of NTP, RFC 5905 section 10, with one stage).
type clock struct {
	trip  time.Duration // time of the call on the way there and back
	local time.Time     // the middle of the call
	redis int64         // Redis's time then, in us
}

// sample takes a sample: a call between began and ended, of which Redis took took,
// and at whose beginning Redis's clock was at, in us. If the best sample so far
// cannot explain it, the clock was set or is another Redis's: then it replaces that, and
// by how much is returned.
func (c *clock) sample(began, ended time.Time, took time.Duration, at int64) (set time.Duration) {
	trip := max(ended.Sub(began)-took, 0)
	local := began.Add(trip / 2)
	off := time.Duration(at-c.redis)*time.Microsecond - local.Sub(c.local)
	if !c.local.IsZero() && off.Abs() > trip+c.trip {
		set = off
	}
	if trip <= c.trip || ended.Sub(c.local) > trust || set != 0 {
		*c = clock{trip, local, at}
	}
	return set
}

// when returns when to send a call so that it arrives at a time of Redis's clock, in us.
func (c *clock) when(us int64) time.Time {
	return c.local.Add(time.Duration(min(us, record.Never)-c.redis)*time.Microsecond - c.trip/2)
}
