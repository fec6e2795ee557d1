package calendar

import (
	"math"
	"time"
)

// A time here is in Unix seconds, and what a wall clock shows is that time and its zone's offset.

const (
	day = 24 * 60 * 60

	// lastTime is the end of the year 9999: what is due later is refused.
	lastTime = 253402300799

	// settled is longer than it takes a wall clock that was set back to show again what it showed before.
	settled = 28 * 60 * 60
)

// stretchAt returns a zone's offset at a time, and a later time up to which it is the same. It asks for no beginning: in the year of the
// last change that the data lists, Go returns one that may be too early. And by Go a leap year ends a day early.
func stretchAt(zone *time.Location, at int64) (offset, end int64) {
	t := time.Unix(at, 0).In(zone)
	_, seconds := t.Zone()
	offset, end = int64(seconds), math.MaxInt64
	if _, until := t.ZoneBounds(); !until.IsZero() {
		end = until.Unix()
	}
	if end <= at {
		end = time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return offset, end
}

// next returns the first time after a time at which the rule fires, up to the end of the year 9999. It follows the wall clock from stretch
// to stretch of one offset. What the clock left out at the beginning of one fires there, and what it showed before does not again, unless the
// rule flows.
func (c *cron) next(after int64) (int64, bool) {
	at := after + 1
	start, shown := at-settled, int64(math.MinInt64) // the wall clock showed what is before shown
	for start <= lastTime {
		offset, end := stretchAt(c.zone, start)
		if end > at {
			first := max(start, at)
			from := first + offset
			if !c.flows && (start >= at || shown > from) {
				from = shown
			}
			wall, found := c.match(from)
			if fires := max(wall-offset, first); !found || fires < end {
				return fires, found && fires <= lastTime
			}
		}
		start, shown = end, max(shown, end+offset)
	}
	return 0, false
}

// match returns the first time of the wall clock, from one on, that is in the fields.
func (c *cron) match(wall int64) (int64, bool) {
	of := ((wall % day) + day) % day
	year, month, date := time.Unix(wall, 0).UTC().Date()
	if c.daysIn(year, month).has(date) {
		if second, found := c.matchInDay(int(of)); found {
			return wall - of + int64(second), true
		}
	}
	first, _ := c.matchInDay(0)
	date++
	for range 12 * 9 { // a leap year follows within eight years
		if date = c.daysIn(year, month).from(date); date <= 31 {
			return time.Date(year, month, date, 0, 0, first, 0, time.UTC).Unix(), true
		}
		date = 1
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// matchInDay returns the first second of a day, from one on, that is in the fields.
func (c *cron) matchInDay(from int) (second int, found bool) {
	h, m, s := from/3600, from/60%60, from%60
	inHour, inMinute := c.fields[hours].has(h), c.fields[minutes].has(m)
	if next := c.fields[seconds].from(s); inHour && inMinute && next < 60 {
		return h*3600 + m*60 + next, true
	}
	s = c.fields[seconds].from(0)
	if next := c.fields[minutes].from(m + 1); inHour && next < 60 {
		return h*3600 + next*60 + s, true
	}
	m = c.fields[minutes].from(0)
	if next := c.fields[hours].from(h + 1); next < 24 {
		return next*3600 + m*60 + s, true
	}
	return 0, false
}

// daysIn returns the days of a month that are in the fields.
func (c *cron) daysIn(year int, month time.Month) (all set) {
	if !c.fields[months].has(int(month)) {
		return 0
	}
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	if c.fields[weekdays] == kinds[weekdays].all() {
		return c.fields[days] & (1<<(last.Day()+1) - 1)
	}
	weekday := (int(last.Weekday()) - last.Day()%7 + 8) % 7 // of the first; such a rule has all days of the month
	for date := 1; date <= last.Day(); date++ {
		if c.fields[weekdays].has(weekday) {
			all |= 1 << date
		}
		weekday = (weekday + 1) % 7
	}
	return all
}

// closest returns the least number of seconds between two times of the wall clock that are in the fields.
func (c *cron) closest() int64 {
	least, span := int64(lastTime), int64(0) // span is from the first to the last of what is finer than a unit
	for _, of := range []struct {
		place int
		unit  int64
	}{{seconds, 1}, {minutes, 60}, {hours, 60 * 60}} {
		all := c.fields[of.place]
		first := int64(all.from(0))
		last := first
		for next := all.from(int(first) + 1); next < 64; next = all.from(next + 1) {
			least = min(least, of.unit*(int64(next)-last)-span)
			last = int64(next)
		}
		span += of.unit * (last - first)
	}
	return min(least, day*c.closestDays()-span)
}

// fewYears is how many years Closest looks at, of which three are leap years.
const fewYears = 12

// closestDays returns the least number of days between two that are in the fields.
func (c *cron) closestDays() int64 {
	least, last := int64(lastTime/day), int64(-1)
	for month := time.January; month <= fewYears*12 && least > 1; month++ {
		first := time.Date(1970, month, 1, 0, 0, 0, 0, time.UTC)
		all := c.daysIn(first.Year(), first.Month())
		for date := all.from(1); date < 64; date = all.from(date + 1) {
			at := first.Unix()/day + int64(date)
			if last >= 0 {
				least = min(least, at-last)
			}
			last = at
		}
	}
	return least
}
