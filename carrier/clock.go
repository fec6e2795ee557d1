package carrier

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// trust is how long a clock keeps its best sample: clocks drift apart.
const trust = 10 * time.Second

// clock tells Redis's time from samples, each the time that a call answered:
// of the recent ones that whose call was fastest, taken as the middle of the
// call (the clock filter of NTP, RFC 5905 section 10, with one stage).
type clock struct {
	trip  time.Duration // there and back
	local time.Time     // the middle of the call
	redis int64         // Redis's time then, in us
}

// never is a time in us that does not come while anybody waits for it.
const never = store.Never

// sample takes note of a call between began and ended that took Redis some
// time, and at whose beginning it was at by Redis's clock, in us.
// One that the best so far cannot explain means that the clock was set, or that it is another Redis's.
func (c *clock) sample(began, ended time.Time, took time.Duration, at int64) {
	trip := max(ended.Sub(began)-took, 0)
	local := began.Add(trip / 2)
	off := time.Duration(at-c.redis)*time.Microsecond - local.Sub(c.local)
	if trip <= c.trip || ended.Sub(c.local) > trust || off.Abs() > trip+c.trip {
		*c = clock{trip, local, at}
	}
}

// when returns when to send a call that is to arrive at a time of Redis's clock, in us.
func (c *clock) when(us int64) time.Time {
	return c.local.Add(time.Duration(min(us, never)-c.redis)*time.Microsecond - c.trip/2)
}
