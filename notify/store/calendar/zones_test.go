package calendar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// A wall is what a wall clock shows, in minutes since it showed the beginning of 1970.
type wall int64

func (w wall) minute() int           { return int(w % 60) }
func (w wall) hour() int             { return int(w / 60 % 24) }
func (w wall) day() int              { return time.Unix(int64(w)*60, 0).UTC().Day() }
func (w wall) weekday() time.Weekday { return time.Unix(int64(w)*60, 0).UTC().Weekday() }

// counted are rules, each with the same in Go's words, and whether it fires whenever the clock shows such a time.
var counted = []struct {
	cron  string
	fires func(wall) bool
	flows bool
}{
	{"30 2 * * *", func(w wall) bool { return w.hour() == 2 && w.minute() == 30 }, false},
	{"0 0 * * *", func(w wall) bool { return w.hour() == 0 && w.minute() == 0 }, false},
	{"15,45 0-4,23 * * *", func(w wall) bool { return (w.hour() <= 4 || w.hour() == 23) && w.minute()%30 == 15 }, false},
	{"0-59 1,2 * * *", func(w wall) bool { return w.hour() == 1 || w.hour() == 2 }, false},
	{"10 3 1-15 * *", func(w wall) bool { return w.hour() == 3 && w.minute() == 10 && w.day() <= 15 }, false},
	{"59 1 * * SUN", func(w wall) bool { return w.hour() == 1 && w.minute() == 59 && w.weekday() == time.Sunday }, false},
	{"*/30 * * * *", func(w wall) bool { return w.minute()%30 == 0 }, true},
	{"20 */2 * * *", func(w wall) bool { return w.minute() == 20 && w.hour()%2 == 0 }, true},
	{"*/7 2 * * 0,6", func(w wall) bool {
		return w.hour() == 2 && w.minute()%7 == 0 && (w.weekday() == time.Sunday || w.weekday() == time.Saturday)
	}, true},
}

const (
	firstYear, lastYear = 2020, 2037
	counts              = 4 * 60 // minutes that are counted before and after each change
)

// changesOf returns the times at which a zone's offset changes, found by asking each day what it is.
func changesOf(zone *time.Location) (all []time.Time) {
	offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
	at := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	for before := offset(at); at.Year() <= lastYear; at = at.Add(24 * time.Hour) {
		if now := offset(at); now != before {
			t := at
			for offset(t.Add(-time.Minute)) == now {
				t = t.Add(-time.Minute)
			}
			all = append(all, t)
			before = now
		}
	}
	return all
}

// shownIn returns what a wall clock shows in each minute from a time on.
func shownIn(zone *time.Location, from time.Time, n int) []wall {
	shown := make([]wall, n)
	for i := range shown {
		t := from.Add(time.Duration(i) * time.Minute)
		_, offset := t.In(zone).Zone()
		shown[i] = wall((t.Unix() + int64(offset)) / 60)
	}
	return shown
}

// count returns the minutes in which a rule fires, by what the clock shows in each.
func count(shown []wall, fires func(wall) bool, flows bool) (minutes []int) {
	most := shown[0] - 1 // that was shown
	for i, w := range shown {
		is := flows && fires(w)
		for ; most < w; most++ {
			is = is || !flows && fires(most+1)
		}
		if is {
			minutes = append(minutes, i)
		}
	}
	return minutes
}

// TestZones compares rules in all zones, around each change of the wall clock, with minutes that are counted one by one.
func TestZones(t *testing.T) {
	seen := make(map[string]bool) // changes of zones that were looked at
	changes := 0
	for _, name := range calendar.Zones() {
		zone, err := calendar.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		all := changesOf(zone)
		_, offset := time.Date(firstYear, 1, 1, 0, 0, 0, 0, zone).Zone()
		if key := fmt.Sprint(offset, all); seen[key] || len(all) == 0 {
			continue
		} else {
			seen[key] = true
		}
		for _, change := range all {
			changes++
			compare(t, name, zone, change.Add(-counts*time.Minute))
		}
	}
	if len(seen) < 40 || changes < 1000 {
		t.Errorf("compared %d changes of %d groups of zones", changes, len(seen))
	}
}

// compare compares all rules in a zone from a time on.
func compare(t *testing.T, name string, zone *time.Location, from time.Time) {
	shown := shownIn(zone, from, 2*counts)
	for _, c := range counted {
		rule, err := calendar.Spec{Cron: c.cron, Zone: name}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for at := from.Add(-time.Second); ; {
			next, ok := rule.Next(at)
			if minute := int(next.Sub(from) / time.Minute); ok && minute < len(shown) {
				got = append(got, minute)
				at = next
				continue
			}
			break
		}
		if want := count(shown, c.fires, c.flows); !slices.Equal(got, want) {
			t.Errorf("%s in %s, minutes from %s on: (- counted, + got)\n%s", c.cron, name, from.Format(time.RFC3339), cmp.Diff(want, got))
		}
	}
}

// A zone goes by an older name, too: what was made with that before it was renamed stays as it was.
func TestRenamedZones(t *testing.T) {
	t.Parallel()
	for old, name := range map[string]string{"Asia/Calcutta": "Asia/Kolkata", "Europe/Kiev": "Europe/Kyiv", "US/Pacific": "America/Los_Angeles", "America/Godthab": "America/Nuuk"} {
		before, bad := calendar.Zone(old)
		now, err := calendar.Zone(name)
		if bad != nil || err != nil {
			t.Errorf("%s: %v, %s: %v", old, bad, name, err)
			continue
		}
		if diff := cmp.Diff(changesOf(now), changesOf(before)); diff != "" {
			t.Errorf("%s is not %s (-want +got):\n%s", old, name, diff)
		}
	}
}
