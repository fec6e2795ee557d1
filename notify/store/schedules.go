package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	putScheduleScript    = script.New("put_schedule", script.Promised, script.Grows)
	changeScheduleScript = script.New("change_schedule", script.Promised)
	scheduleScript       = script.New("schedule")
	schedulesScript      = script.New("schedules")
	renewZonesScript     = script.New("renew_zones", script.Grows)
	fillScript           = script.New("fill", script.Grows)
)

func init() { script.Define(fmt.Sprintf("local HEADER_SCHEDULE = '%s'\n", HeaderSchedule)) }

// Errors of schedules.
var (
	ErrNoSchedule      = errors.New("no schedule of the topic has this name")
	ErrScheduleChanged = errors.New("the schedule was changed meanwhile; read it again")
)

// AnyRevision changes a schedule whatever its revision.
const AnyRevision = -1

// A ScheduleState is how far a schedule is.
type ScheduleState struct {
	Revision int64     `json:"-"`                // another one after each change, and never the same twice, also where it was deleted
	Cursor   time.Time `json:"cursor"`           // all up to it is settled: made, missed or left out
	Fell     time.Time `json:"fell,omitzero"`    // the last that fell due, as far as it was noted; zero: none
	Made     int64     `json:"made,omitempty"`   // occurrences that were made, and not withdrawn
	Missed   int64     `json:"missed,omitempty"` // that never were
	Taken    int64     `json:"taken,omitempty"`  // whose id was in use
	Paused   time.Time `json:"paused,omitzero"`  // since when; zero: it is not
	Refused  time.Time `json:"-"`                // since when its next cannot be made, since a key of its topic is foreign; zero: it can
	Unread   time.Time `json:"-"`                // since when the carrier cannot read the schedule; zero: it can

	Occurrences []Made `json:"occurrences,omitempty"` // the last 64 that were made, and not withdrawn, by time
}

// Made is an occurrence that was made.
type Made struct {
	At        time.Time `json:"at"`
	Due       time.Time `json:"due"`                // of its message; zero in a Backfill if it is Taken, or is not made
	Published time.Time `json:"published,omitzero"` // when it was made; zero: it was not
	Taken     bool      `json:"-"`                  // since its id was in use
	Off       bool      `json:"-"`                  // it is to come, and its message was cancelled or moved; a page looks no further than its first five, or the first
}

// PutSchedule puts a schedule, or changes the one of its name: what that made ahead is withdrawn, as far as it waits as it was made, and it
// goes on from now, or where it was, if its times are as before. One that is there as it is put stays as it is: then the outcome is OutcomeKept.
// Revision is the one that must be there, 0 for none; AnyRevision: any or none. It returns the revision. Errors: a joined Fault for what is wrong,
// also of one that would never fire and is new or has other times, ErrScheduleChanged, and those of Publish.
func (s Shard) PutSchedule(ctx context.Context, schedule *Schedule, revision int64) (Outcome, int64, error) {
	if err := schedule.Check(); err != nil {
		return OutcomeRefused, 0, err
	}
	text, err := schedule.encode()
	if err != nil {
		return OutcomeRefused, 0, fmt.Errorf("put the schedule %s: %w", schedule.Name, err)
	}
	last, err := schedule.lastAt()
	if err != nil {
		return OutcomeRefused, 0, err
	}
	r, err := s.Repeat(ctx, putScheduleScript, schedule.Topic, schedule.Name, text, expected(revision), last)
	if err != nil {
		return OutcomeRefused, 0, err
	}
	what, is := r.Text(), r.Integer()
	outcome := map[string]Outcome{"created": OutcomeCreated, "changed": OutcomeReplaced, "unchanged": OutcomeKept, "conflict": OutcomeRefused, "over": OutcomeRefused}[what]
	if outcome == "" {
		r.Fail("what became of a schedule", what)
	}
	switch err := r.End(); {
	case err != nil || outcome != OutcomeRefused:
		return outcome, is, err
	case what == "over":
		return outcome, is, schedule.over()
	}
	return outcome, is, fmt.Errorf("put the schedule %s: %w", schedule.Name, ErrScheduleChanged)
}

// expected returns a revision as scripts get it.
func expected(revision int64) string {
	if revision == AnyRevision {
		return ""
	}
	return strconv.FormatInt(revision, 10)
}

// PauseSchedule pauses a schedule: what it made ahead is withdrawn, and until it is resumed it makes none. Errors: ErrNoSchedule,
// ErrScheduleChanged, or that of the connection.
func (s Shard) PauseSchedule(ctx context.Context, topic, name string, revision int64) error {
	return s.changeSchedule(ctx, topic, name, "pause", revision)
}

// ResumeSchedule has a schedule go on from now: what the pause skipped is not missed. One that was filled while the clock of Redis was ahead goes on
// from now, too, paused or not. Errors as PauseSchedule.
func (s Shard) ResumeSchedule(ctx context.Context, topic, name string, revision int64) error {
	return s.changeSchedule(ctx, topic, name, "resume", revision)
}

// DeleteSchedule deletes a schedule, and withdraws what it made ahead. Errors as PauseSchedule.
func (s Shard) DeleteSchedule(ctx context.Context, topic, name string, revision int64) error {
	return s.changeSchedule(ctx, topic, name, "delete", revision)
}

func (s Shard) changeSchedule(ctx context.Context, topic, name, what string, revision int64) error {
	r, err := s.Repeat(ctx, changeScheduleScript, topic, name, what, expected(revision))
	if err != nil {
		return err
	}
	became, _ := r.Text(), r.Integer()
	switch became {
	case "changed", "unchanged":
	case "missing":
		err = fmt.Errorf("%s the schedule %s of %s: %w", what, name, topic, ErrNoSchedule)
	case "conflict":
		err = fmt.Errorf("%s the schedule %s of %s: %w", what, name, topic, ErrScheduleChanged)
	default:
		r.Fail("what became of a schedule", became)
	}
	return errors.Join(r.End(), err)
}

// Schedule returns a schedule, its state, and when the carrier looks at it next: zero if it is paused or at its end. Errors: ErrNoSchedule, one
// for a foreign value, or that of the connection.
func (s Shard) Schedule(ctx context.Context, topic, name string) (Schedule, ScheduleState, time.Time, error) {
	r, err := s.Run(ctx, scheduleScript, topic, name)
	if err != nil {
		return Schedule{}, ScheduleState{}, time.Time{}, err
	}
	text, state, at := r.Text(), "", time.Time{}
	if text != "" {
		state = r.Text()
		if us := r.Due(); us < record.Never {
			at = time.UnixMicro(us).UTC()
		}
	}
	switch err := r.End(); {
	case err != nil:
		return Schedule{}, ScheduleState{}, time.Time{}, err
	case text == "":
		return Schedule{}, ScheduleState{}, time.Time{}, fmt.Errorf("%s of %s: %w", name, topic, ErrNoSchedule)
	}
	schedule, err := decodeSchedule(topic, name, text)
	return schedule, readState(state), at, err
}

// A Listed is a schedule in a page of them.
type Listed struct {
	Schedule Schedule
	State    ScheduleState
	Err      error // why it cannot be read; of the schedule only topic and name are set
}

// Schedules returns a page of the schedules of a topic, or of all of the shard if that is empty, in no order, and the cursor of the next: empty at the end, as at the beginning. One
// that is there all the time is in a page, and may be in several, so after a restart of Redis, which begins anew. The error is that of the
// connection.
func (s Shard) Schedules(ctx context.Context, topic, cursor string) (page []Listed, next string, err error) {
	const size = 16
	return s.schedules(ctx, topic, cursor, size, false)
}

// BareSchedules is Schedules without what they publish, in pages of about a hundred.
func (s Shard) BareSchedules(ctx context.Context, topic, cursor string) (page []Listed, next string, err error) {
	const size = 100
	return s.schedules(ctx, topic, cursor, size, true)
}

func (s Shard) schedules(ctx context.Context, topic, cursor string, size int, bare bool) (page []Listed, next string, err error) {
	r, err := s.Run(ctx, schedulesScript, topic, cmp.Or(cursor, "0"), size, bare)
	if err != nil {
		return nil, "", err
	}
	next = nextIn(r)
	var large []int
	for r.More() {
		of, name, text, state := r.Text(), r.Text(), r.Text(), r.Text()
		if text == "" {
			large = append(large, len(page))
		}
		page = append(page, listed(of, name, text, state))
	}
	if err := r.End(); err != nil {
		return nil, "", err
	}
	page, err = s.readAlone(ctx, page, large)
	return page, next, err
}

// listed reads a schedule.
func listed(topic, name, text, state string) Listed {
	l := Listed{State: readState(state)}
	if l.Schedule, l.Err = decodeSchedule(topic, name, text); l.Err != nil {
		l.Schedule = Schedule{Topic: topic, Name: name}
	}
	return l
}

// readState reads what shared/schedules.lua wrote. What is foreign in it is left out.
func readState(text string) (s ScheduleState) {
	line, rest, _ := strings.Cut(text, "\n")
	numbers := make(map[string]int64)
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		numbers[name], _ = strconv.ParseInt(value, 10, 64)
	}
	s.Revision, s.Cursor, s.Fell = numbers["revision"], time.Unix(numbers["cursor"], 0).UTC(), timeOf(numbers["fell"])
	s.Made, s.Missed, s.Taken = numbers["made"], numbers["missed"], numbers["taken"]
	if ms := numbers["paused"]; ms > 0 {
		s.Paused = time.UnixMilli(ms).UTC()
	}
	if ms := numbers["refused"]; ms > 0 {
		s.Refused = time.UnixMilli(ms).UTC()
	}
	if ms := numbers["unread"]; ms > 0 {
		s.Unread = time.UnixMilli(ms).UTC()
	}
	for word := range strings.FieldsSeq(rest) {
		var at, due, made int64
		if n, _ := fmt.Sscanf(word, "%d,%d,%d", &at, &due, &made); n == 3 {
			one := Made{At: time.Unix(at, 0).UTC(), Due: time.UnixMilli(due).UTC(), Taken: made == 0, Off: strings.HasSuffix(word, "-")}
			if !one.Taken {
				one.Published = time.UnixMilli(made).UTC()
			}
			s.Occurrences = append(s.Occurrences, one)
		}
	}
	return s
}

// A DueSchedule is one that the carrier is to look at.
type DueSchedule struct {
	Listed
	Late []time.Time // occurrences that are due, and whose messages wait as they were made; only where it settles
}

// A Fill says what a call makes of a schedule, as the one before answered it.
type Fill struct {
	Of          DueSchedule
	Cursor      time.Time    // the new one
	Withdraw    time.Time    // what is due and was made up to then, and waits, is; zero: nothing
	Missed      int          // how many occurrences were missed
	Fault       error        // why the schedule cannot be read, so that nothing is made; nil: it can
	Occurrences []Occurrence // that are made
	Next        time.Time    // when to look at it again; zero: never
}

// Filled is what a call answers.
type Filled struct {
	Now   time.Time // by Redis's clock
	Made  []string  // of each Fill: made; stale, since the schedule was changed meanwhile; foreign, since its topic has a foreign key
	Due   []DueSchedule
	Whole bool // no schedule is to be looked at any more
}

// fillPage is how many schedules a call answers at the most.
const fillPage = 16

// FillSchedules makes occurrences ahead of their times for the elected carrier, and returns a page of the schedules that it is to look at
// now. With settle that includes what of each is late, for what is carried nowhere yet. Errors: a DeposedError, ErrFull, ErrUnfit, or that of the
// connection.
func (s Shard) FillSchedules(ctx context.Context, token string, settle bool, fills []Fill) (Filled, error) {
	args := []any{token, settle, fillPage}
	for i := range fills {
		f := &fills[i]
		of := &f.Of.Schedule
		args = append(args, of.Topic, of.Name, f.Of.State.Revision, f.Of.State.Cursor.Unix(), f.Cursor.Unix(), msOf(f.Withdraw), f.Missed, f.Fault != nil, msOf(f.Next), len(f.Occurrences))
		for _, o := range f.Occurrences {
			more, err := of.arguments(o)
			if err != nil {
				return Filled{}, fmt.Errorf("make %s of %s: %w", of.OccurrenceID(o.At), of.Topic, err)
			}
			args = append(args, more...)
		}
	}
	r, err := s.Run(ctx, fillScript, args...)
	if err != nil {
		return Filled{}, err
	}
	if err := deposed(r); err != nil {
		return Filled{}, err
	}
	f := Filled{Now: time.UnixMilli(r.Integer()).UTC(), Made: r.Texts()}
	if len(f.Made) != len(fills) || slices.ContainsFunc(f.Made, func(became string) bool { return became != "made" && became != "stale" && became != "foreign" }) {
		r.Fail("what became of each schedule", fmt.Sprint(f.Made))
	}
	for page := r.List(); page.More(); {
		f.Due = append(f.Due, dueIn(page.List()))
	}
	f.Whole = len(f.Due) == 0
	return f, r.End()
}

// RenewZones withdraws what was made of some schedules in zones by an older version of their rules than the one given, so that the carrier makes it anew,
// at the new times. What a newer version made stays. It takes a cursor, empty at first, and returns that of the next schedules, empty where there are no
// more. An elected carrier does so before it fills schedules. Errors: a DeposedError, a notify.ErrFull, or that of the connection.
func (s Shard) RenewZones(ctx context.Context, token, version, cursor string) (next string, err error) {
	r, err := s.Run(ctx, renewZonesScript, token, version, cmp.Or(cursor, "0"))
	if err != nil {
		return cursor, err
	}
	if err := deposed(r); err != nil {
		return cursor, err
	}
	next = nextIn(r)
	if err := r.End(); err != nil {
		return cursor, err
	}
	return next, nil
}

// nextIn reads the cursor of the next page: empty at the end.
func nextIn(r *script.Reply) string {
	next := r.Text()
	if !cursors.MatchString(next) {
		r.Fail("a cursor", next)
	}
	if next == "0" {
		return ""
	}
	return next
}

// cursors matches those of pages, see shared/scans.lua.
var cursors = regexp.MustCompile(`^\d+(_[0-9a-f]*)?$`)

// msOf returns a time in ms as text, empty of none.
func msOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// dueIn reads a schedule that is to be looked at.
func dueIn(r *script.Reply) (d DueSchedule) {
	topic, name, text, state := r.Text(), r.Text(), r.Text(), r.Text()
	for late := r.List(); late.More(); {
		d.Late = append(d.Late, time.Unix(late.Integer(), 0).UTC())
	}
	if r.End() == nil {
		d.Listed = listed(topic, name, text, state)
	}
	return d
}
