package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	exportSchedulesScript = script.New("export_schedules")
	restoreScheduleScript = script.New("restore_schedule", script.Promised, script.Grows)
)

// A ScheduleRestore is how far a schedule was in another store. Its revision there says nothing here.
type ScheduleRestore struct {
	ScheduleState
	Zones string `json:"zones,omitempty"` // by which version of the rules of time zones it was filled; empty: unknown
}

// What a line of an export is that has a kind: all others are messages.
const (
	KindSchedule = "schedule"
	KindPush     = "push"
	KindGroup    = "group"
)

// keptOccurrences is how many a schedule notes.
const keptOccurrences = 64

// versionGrammar is that of a version of the rules of time zones.
var versionGrammar = regexp.MustCompile(`^[A-Za-z0-9.-]{0,32}$`)

// Check returns a joined Fault for each field that is wrong.
func (r *ScheduleRestore) Check() error {
	faults := []error{checkRestored("cursor", r.Cursor, true), checkRestored("fell", r.Fell, false), checkRestored("paused", r.Paused, false)}
	for i, n := range []int64{r.Made, r.Missed, r.Taken} {
		name := "restore." + []string{"made", "missed", "taken"}[i]
		faults = append(faults, fault.Within(name, name, n, 0, int64(1)<<53))
	}
	if n := len(r.Occurrences); n > keptOccurrences {
		faults = append(faults, fault.New("restore.occurrences", "restore.occurrences: there are %d; a schedule notes the last %d", n, keptOccurrences))
	}
	noted := make(map[int64]bool)
	for _, one := range r.Occurrences {
		faults = append(faults, checkRestored("occurrences.at", one.At, true), checkRestored("occurrences.due", one.Due, true), checkRestored("occurrences.published", one.Published, false))
		if one.At.Nanosecond() != 0 || noted[one.At.Unix()] {
			faults = append(faults, fault.New("restore.occurrences.at", "restore.occurrences.at %s: write each once, with whole seconds", one.At.Format(time.RFC3339Nano)))
		}
		noted[one.At.Unix()] = true
	}
	if !versionGrammar.MatchString(r.Zones) {
		faults = append(faults, fault.New("restore.zones", "restore.zones %.40q: write a version such as 2025c, or leave it out", r.Zones))
	}
	return errors.Join(faults...)
}

// checkRestored checks a time of a ScheduleRestore.
func checkRestored(field string, at time.Time, needed bool) error {
	field = "restore." + field
	if at.IsZero() && needed {
		return fault.New(field, "%s: it is missing; write what the export has, or leave restore out and use schedule apply", field)
	}
	return record.CheckRestored(field, at)
}

// encode returns the state as Redis holds it, see shared/schedules.lua.
func (r *ScheduleRestore) encode() string {
	var b strings.Builder
	fmt.Fprintf(&b, " cursor=%d fell=%d made=%d missed=%d taken=%d paused=%s\n", r.Cursor.Unix(), secondsOf(r.Fell), r.Made, r.Missed, r.Taken, zeroOr(r.Paused))
	for _, one := range slices.SortedFunc(slices.Values(r.Occurrences), func(a, b Made) int { return a.At.Compare(b.At) }) {
		fmt.Fprintf(&b, " %d,%d,%s", one.At.Unix(), one.Due.UnixMilli(), zeroOr(one.Published))
	}
	return b.String()
}

// zeroOr returns a time in ms, 0 of none.
func zeroOr(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return msOf(t)
}

// RestoreSchedule restores a schedule of an export, behind the messages that it made: it goes on where it was. One that is here as it was put
// there stays as it is, and the outcome is OutcomeKept. Errors: a joined Fault for what is wrong, also where another schedule has its name,
// and those of Publish.
func (s Shard) RestoreSchedule(ctx context.Context, schedule *Schedule, restore *ScheduleRestore) (Outcome, error) {
	if err := errors.Join(schedule.Check(), restore.Check()); err != nil {
		return OutcomeRefused, err
	}
	text, err := schedule.encode()
	if err != nil {
		return OutcomeRefused, fmt.Errorf("restore the schedule %s: %w", schedule.Name, err)
	}
	r, err := s.Repeat(ctx, restoreScheduleScript, schedule.Topic, schedule.Name, text, restore.encode(), restore.Zones)
	if err != nil {
		return OutcomeRefused, err
	}
	became := r.Text()
	outcome, err := OutcomeRefused, error(nil)
	switch became {
	case "created":
		outcome = OutcomeCreated
	case "unchanged":
		outcome = OutcomeKept
	case "other":
		err = fault.New("name", "name %s: the topic %s has another schedule of this name, which stays; delete that one, or leave this out", schedule.Name, schedule.Topic)
	default:
		r.Fail("what became of a schedule", became)
	}
	return outcome, errors.Join(r.End(), err)
}

// ExportedSchedules are a page of the schedules of a shard.
type ExportedSchedules struct {
	Next      string // cursor of the next page, "0" at the end
	Zones     string // by which version of the rules of time zones they were filled
	Schedules []Listed
}

// ExportSchedules returns a page of the schedules of all topics, in no order, from a cursor; "0" is the beginning. One that is there all the time
// is in a page, and may be in two. Those that cannot be read have an Err. Errors: as those of Export.
func (s Shard) ExportSchedules(ctx context.Context, cursor string) (ExportedSchedules, error) {
	const size = 16
	r, err := s.Run(ctx, exportSchedulesScript, cursor, size)
	if err != nil {
		return ExportedSchedules{}, restarted(err)
	}
	page := ExportedSchedules{Next: r.Text(), Zones: r.Text()}
	var large []int
	for r.More() {
		topic, name, text, state := r.Text(), r.Text(), r.Text(), r.Text()
		l := listed(topic, name, text, state)
		if topic == "" {
			l.Err = fmt.Errorf("%s: it is foreign", name)
		} else if text == "" {
			large = append(large, len(page.Schedules))
		}
		page.Schedules = append(page.Schedules, l)
	}
	if err := r.End(); err != nil {
		return ExportedSchedules{}, err
	}
	page.Schedules, err = s.readAlone(ctx, page.Schedules, large)
	return page, err
}

// readAlone reads those of a page one by one, by their indexes, that did not fit into its reply, and leaves out what was deleted meanwhile.
func (s Shard) readAlone(ctx context.Context, page []Listed, large []int) ([]Listed, error) {
	gone := make(map[int]bool)
	for _, i := range large {
		l := &page[i]
		schedule, state, _, err := s.Schedule(ctx, l.Schedule.Topic, l.Schedule.Name)
		switch {
		case err == nil:
			*l = Listed{Schedule: schedule, State: state}
		case errors.Is(err, ErrNoSchedule):
			gone[i] = l.State.Revision == 0 // else what was put is missing
		case state.Revision == 0:
			return nil, err
		default:
			l.State, l.Err = state, err
		}
	}
	i := -1
	return slices.DeleteFunc(page, func(Listed) bool { i++; return gone[i] }), nil
}

// hasTimesOf reports whether the schedule fires at the times of another one, as put_schedule.lua sees it: their rules are written alike.
func (s *Schedule) hasTimesOf(other *Schedule) bool {
	a, b := &s.Spec, &other.Spec
	return strings.TrimSpace(a.Cron) == strings.TrimSpace(b.Cron) && a.Every == b.Every && a.Zone == b.Zone && a.From.Equal(b.From) && a.Until.Equal(b.Until) &&
		slices.EqualFunc(a.At, b.At, time.Time.Equal)
}

// Same reports whether a put of the schedule where the other is would change nothing.
func (s *Schedule) Same(other *Schedule) bool {
	a, err := s.encode()
	b, bad := other.encode()
	return err == nil && bad == nil && a == b
}
