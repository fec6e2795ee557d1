package notify

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// A scheduleLine is a schedule in an export: what its put said, and how far it is.
type scheduleLine struct {
	Kind    string                `json:"kind"`
	Name    string                `json:"name"`
	Cron    string                `json:"cron,omitempty"`
	Every   string                `json:"every,omitempty"`
	At      []time.Time           `json:"at,omitempty"`
	Zone    string                `json:"zone,omitempty"`
	From    time.Time             `json:"from,omitzero"`
	Until   time.Time             `json:"until,omitzero"`
	Jitter  string                `json:"jitter,omitempty"`
	Count   int                   `json:"count,omitempty"`
	Overlap store.Overlap         `json:"overlap,omitempty"`
	Missed  store.MissedPolicy    `json:"missed,omitempty"`
	Grace   string                `json:"grace,omitempty"`
	Catchup string                `json:"catchup,omitempty"`
	Line                          // of each occurrence
	Restore store.ScheduleRestore `json:"restore"`
}

// A pushLine is a push in an export.
type pushLine struct {
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Topics     []string `json:"topics"`
	URL        string   `json:"url,omitempty"`
	To         string   `json:"to,omitempty"`
	Secrets    []string `json:"secrets,omitempty"`
	Broadcasts bool     `json:"broadcasts,omitempty"`
	InFlight   int      `json:"in_flight"`
	Timeout    string   `json:"timeout"`
	Paused     string   `json:"paused,omitempty"`
}

// scheduleLineOf returns a schedule as a line that restores it.
func scheduleLineOf(s *store.Schedule, restore store.ScheduleRestore) (line scheduleLine) {
	line = scheduleLine{Kind: store.KindSchedule, Line: Line{Topic: s.Topic, Mode: s.Message.Mode()}, Restore: restore}
	fields.Fill(&line, &s.Spec)
	fields.Fill(&line, s)
	fields.Fill(&line.Line, &s.Message, "FirstDue", "Body")
	if text := string(s.Message.Body); utf8.ValidString(text) {
		line.Body = &text
	} else {
		line.BodyBase64 = s.Message.Body
	}
	return line
}

// pushes exports the pushes, which the home shard has.
func (e *exportPart) pushes(ctx context.Context) error {
	if e.shard != e.inspector.store.Home() {
		return nil
	}
	all, foreign, err := e.shard.ExportPushes(ctx)
	if err != nil {
		return fmt.Errorf("read the pushes: %w", err)
	}
	e.leaveOut(foreign)
	for i := range all {
		line := pushLine{Kind: store.KindPush}
		fields.Fill(&line, &all[i])
		if err := e.line(line, &e.sum.Pushes); err != nil {
			return err
		}
	}
	return nil
}

// schedules exports the schedules of the shard, and notes how far each is: what it makes from then on is left out, since it makes that again
// elsewhere.
func (e *exportPart) schedules(ctx context.Context) error {
	for cursor := "0"; ; {
		page, err := e.shard.ExportSchedules(ctx, cursor)
		if err != nil {
			return fmt.Errorf("read the schedules: %w", err)
		}
		for i := range page.Schedules {
			if err := e.schedule(&page.Schedules[i], page.Zones); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "0" {
			return nil
		}
	}
}

// schedule exports a schedule, once.
func (e *exportPart) schedule(l *store.Listed, zones string) error {
	member := l.Schedule.Topic + ":" + l.Schedule.Name
	if _, had := e.made[member]; had {
		return nil
	}
	if l.Err != nil {
		e.leaveOut(1)
		return nil
	}
	made := madeBefore{cursor: l.State.Cursor}
	for _, one := range l.State.Occurrences {
		if one.At.After(made.cursor) {
			made.noted = append(made.noted, one.At)
		}
	}
	e.made[member] = made
	return e.line(scheduleLineOf(&l.Schedule, store.ScheduleRestore{ScheduleState: l.State, Zones: zones}), &e.sum.Schedules)
}

// madeBefore is what of a schedule was made when it was exported.
type madeBefore struct {
	cursor time.Time
	noted  []time.Time // behind the cursor
}

// isMadeAgain reports whether a message is an occurrence that was made behind the export of its schedule.
func (e *exportPart) isMadeAgain(i *Info) bool {
	name := i.Headers[store.HeaderSchedule]
	if name == "" {
		return false
	}
	made, known := e.made[i.Topic+":"+name]
	at, err := time.Parse(time.RFC3339, i.Headers[store.HeaderScheduled])
	of := store.Schedule{Name: name}
	return known && err == nil && i.ID == of.OccurrenceID(at) && at.After(made.cursor) && !slices.ContainsFunc(made.noted, at.Equal)
}

// line writes a line that is no message, and counts it.
func (e *export) line(line any, n *int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	*n++
	if e.failed == nil {
		e.failed = e.to.Encode(line)
	}
	return e.failed
}
