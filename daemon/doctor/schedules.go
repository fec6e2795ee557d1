package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// How many schedules of a shard are looked at: those at which the carrier looks first, which it does soon where something is wrong.
const (
	glanced  = 1_000   // in a quick run
	examined = 100_000 // in a whole one
	pageSize = 100
)

// recurring is what was found of the schedules of a shard.
type recurring struct {
	shard       store.Shard
	all, looked int
	zones       string
	wrong, over []Finding
}

// schedules reports schedules that make nothing, or nothing any more, and by which rules of time zones they are made.
func (e *exam) schedules(ctx context.Context) {
	const check = "schedules"
	if founded, err := e.founded(ctx); err != nil || !founded {
		e.report(check, OK, "none", "") // to look would found the store
		return
	}
	each, err := store.GatherFrom(ctx, e.shards, e.recurring)
	if there(err) != nil {
		e.report(check, Warn, err.Error(), "fix what Redis reports")
		return
	}
	var wrong, over []Finding
	all, looked := 0, 0
	for _, r := range each {
		wrong, over = append(wrong, r.wrong...), append(over, r.over...)
		all, looked = all+r.all, looked+r.looked
	}
	for _, f := range wrong[:min(len(wrong), named)] {
		e.add(f)
	}
	if len(wrong) > 0 {
		e.reportRest(check, len(wrong), 0, "schedule", "bellhop schedule list", "")
	}
	for _, f := range over[:min(len(over), named)] {
		e.add(f)
	}
	if n := len(over) - named; n > 0 {
		e.report(check, OK, fmt.Sprintf("%s at the end, too", plural(n, "schedule")), "")
	}
	switch stale := e.zones(check, each); {
	case all == 0:
		e.report(check, OK, "none", "")
	case len(wrong) == 0 && !stale:
		e.report(check, OK, fmt.Sprintf("%s, by the time zones of %s, %s", plural(all, "schedule"), calendar.Version(), lookedAt(looked, all)), "")
	}
}

// lookedAt says how many of all schedules were looked at.
func lookedAt(looked, all int) string {
	if looked < all {
		return fmt.Sprintf("and none of the %d that are looked at next is behind", looked)
	}
	return "and none is behind"
}

// recurring looks at the schedules of a shard.
func (e *exam) recurring(ctx context.Context, shard store.Shard) (recurring, error) {
	r, most, after := recurring{shard: shard}, examined, store.Mark{}
	if e.o.Quick {
		most = glanced
	}
	for {
		page, err := shard.AllSchedules(ctx, pageSize, after)
		if err != nil {
			return r, err
		}
		r.all, r.zones = page.All, page.Zones
		for i := range page.Schedules {
			r.judge(&page.Schedules[i], page.Now)
		}
		if r.looked += len(page.Schedules); page.Next == (store.Mark{}) || r.looked >= most {
			return r, nil
		}
		after = page.Next
	}
}

// judge notes what is wrong with a schedule, or that it is at its end.
func (r *recurring) judge(d *store.DatedSchedule, now time.Time) {
	s := &d.Schedule
	name := s.Topic + " " + s.Name
	f := Finding{Check: "schedules", Name: s.Topic, ID: s.Name}
	note := func(to *[]Finding, v Verdict, found, remedy string) {
		f.Verdict, f.Found, f.Remedy = v, name+": "+found, remedy
		*to = append(*to, f)
	}
	next := s.Unmade(&d.State)
	if at := s.Swallowed(&d.State, now); !at.IsZero() && d.Err == nil {
		then := "never fires again"
		if !next.IsZero() {
			then = "fires next at " + next.Format(time.RFC3339)
		}
		f.Act = Resume
		note(&r.wrong, Warn, fmt.Sprintf("it misses %s: the clock of Redis was ahead when it was filled, so it %s", at.Format(time.RFC3339), then),
			"if that is too late, start it anew: bellhop schedule resume "+name)
		return
	}
	switch standing, err := d.Standing(now); standing {
	case store.Unreadable:
		note(&r.wrong, Fail, "it cannot be read, so it makes nothing: "+oneLine(err), "put it again: bellhop schedule put "+name+"; or remove it: bellhop schedule delete "+name)
	case store.IsRefused:
		note(&r.wrong, Fail, fmt.Sprintf("it could not be made for %s, since a key of its topic is foreign", rough(now.Sub(d.State.Refused))),
			"run bellhop doctor without --quick, which names that key; after it is removed this goes on within a minute")
	case store.IsBehind:
		note(&r.wrong, Warn, fmt.Sprintf("nobody made what fires since %s, %s ago", next.Format(time.RFC3339), rough(now.Sub(next))),
			"see the check of the carrier above; a live carrier then does what the schedule says of those that are missed")
	case store.GoesOn:
		if late := now.Sub(d.Look); !d.Look.IsZero() && late > tooLate {
			note(&r.wrong, Warn, fmt.Sprintf("its next occurrences should have been made %s ago", rough(late)),
				"see the checks of memory and of the carrier above: while Redis is full, or nobody carries, none are made")
		}
	case store.IsOver:
		note(&r.over, OK, "it never fires again, "+ended(s, &d.State)+"; if it has served, remove it: bellhop schedule delete "+name, "")
	}
}

// ended says why a schedule never fires again.
func ended(s *store.Schedule, state *store.ScheduleState) string {
	switch {
	case s.Count > 0 && state.Made >= int64(s.Count):
		return fmt.Sprintf("since it made the %d of its count", s.Count)
	case !s.Spec.Until.IsZero():
		return "since its until, " + s.Spec.Until.UTC().Format(time.RFC3339) + ", has passed"
	}
	return "since its times have passed"
}

// oneLine returns the text of an error, of which each fault is a line, as one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// zones reports by which rules of time zones the schedules of some shards were made, and whether these are others than this program's.
func (e *exam) zones(check string, each []recurring) (stale bool) {
	own := calendar.Version()
	others := make(map[string][]store.Shard)
	var versions []string
	for _, r := range each {
		if r.all == 0 || r.zones == "" || r.zones == own {
			continue
		}
		if others[r.zones] == nil {
			versions = append(versions, r.zones)
		}
		others[r.zones] = append(others[r.zones], r.shard)
	}
	for _, version := range versions {
		where := ""
		if len(e.shards) > 1 {
			where = numbers(others[version]) + ": "
		}
		found := fmt.Sprintf("%sschedules in time zones were made by the rules of %s, this program has those of %s", where, version, own)
		remedy := "update the daemon that carries: one with newer rules makes them anew when it is elected"
		if version > own {
			remedy = "update this program, and each daemon that is as old: where it carries, times are those of its older rules"
		}
		e.report(check, Warn, found, remedy)
	}
	return len(versions) > 0
}
