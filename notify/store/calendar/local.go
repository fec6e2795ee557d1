package calendar

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Wall is the location of a time that is what a wall clock shows, in a zone that is named beside it.
var Wall = time.FixedZone("wall clock", 0)

// Local returns when something is due: at due, or, if that is in [Wall], when the wall clock of a zone shows it first. A time in a gap is at the end of the
// gap, and one in an hour that is repeated the first time, as of a rule with fixed times. The error is a Fault: of an unknown zone, or where one of both is
// missing.
func Local(due time.Time, zone string) (time.Time, error) {
	const form = "2006-01-02T15:04:05"
	switch isWall := due.Location() == Wall; {
	case zone == "" && !isWall:
		return due, nil
	case zone == "":
		return due, fault.New("due", "due %s: it has no offset; write one, such as %[1]sZ or %[1]s+02:00, or give its zone, such as Europe/Berlin", due.Format(form))
	case due.IsZero():
		return due, fault.New("due", "due: it is missing, and the zone %.64s is for it; give a time without an offset, such as 2030-01-02T08:00, or leave the zone out", zone)
	case !isWall:
		return due, fault.New("zone", "zone %.64s: due has an offset, so it needs no zone; leave one of them out", zone)
	}
	of, err := Zone(zone)
	if err != nil {
		return due, err
	}
	return reach(of, due), nil
}

// reach returns when the wall clock of a zone first shows a time, or passes it.
func reach(zone *time.Location, wall time.Time) time.Time {
	shows := wall.Unix()
	for start := shows - settled; ; {
		offset, end := stretchAt(zone, start)
		switch at := shows - offset; {
		case at < start: // it is in a gap, which ends here
			return time.Unix(start, 0).UTC()
		case at < end:
			return time.Unix(at, int64(wall.Nanosecond())).UTC()
		}
		start = end
	}
}
