package api

import (
	"errors"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Schedule is a schedule, and how far it is.
type Schedule struct {
	Topic     string        `json:"topic"`
	Name      string        `json:"name"`
	Cron      string        `json:"cron,omitempty"`
	EveryMs   int64         `json:"every_ms,omitempty"`
	At        []time.Time   `json:"at,omitempty"`
	Zone      string        `json:"zone,omitempty"`
	From      *time.Time    `json:"from,omitempty"`
	Until     *time.Time    `json:"until,omitempty"`
	JitterMs  int64         `json:"jitter_ms,omitempty"`
	Count     int           `json:"count,omitempty"`
	Overlap   store.Overlap `json:"overlap"`
	IfMissed  store.Missed  `json:"missed"`
	GraceMs   int64         `json:"grace_ms"`
	CatchupMs int64         `json:"catchup_ms,omitempty"`
	Mode      string        `json:"mode"`
	asked.Options
	Text
	State ScheduleState `json:"state"`
}

// ScheduleState is how far a schedule is.
type ScheduleState struct {
	Revision int64        `json:"revision"`
	Paused   *time.Time   `json:"paused,omitempty"`
	Made     int64        `json:"made"`
	Missed   int64        `json:"missed"`
	Taken    int64        `json:"taken"`
	Next     []string     `json:"next"` // with the offset of the zone
	Last     []Occurrence `json:"last"`
}

// Occurrence is one that a schedule made.
type Occurrence struct {
	At    time.Time `json:"at"`
	ID    string    `json:"id"`
	Due   time.Time `json:"due"`
	Taken bool      `json:"taken,omitempty"`
}

// How much of a schedule is shown.
const (
	nextShown = 5
	lastShown = 20
)

// ScheduleOf returns a schedule in its JSON form, with what follows a time.
func ScheduleOf(s *store.Schedule, state store.ScheduleState, now time.Time) Schedule {
	shown := Schedule{
		Topic: s.Topic, Name: s.Name, Cron: s.Spec.Cron, EveryMs: Ms(s.Spec.Every), At: s.Spec.At, Zone: s.Spec.Zone, From: given(s.Spec.From), Until: given(s.Spec.Until),
		JitterMs: Ms(s.Jitter), Count: s.Count, Overlap: or(s.Overlap, store.OverlapAllow), IfMissed: or(s.Missed, store.MissedOne), GraceMs: Ms(or(s.Grace, store.DefaultGrace)),
		CatchupMs: Ms(s.Catchup), Mode: modeOf(s.Message.Broadcast), Options: asked.Of(s.Message), Text: TextOf(s.Message.Body),
	}
	st := ScheduleState{Revision: state.Revision, Paused: given(state.Paused), Made: state.Made, Missed: state.Missed, Taken: state.Taken, Next: []string{}, Last: []Occurrence{}}
	for _, at := range s.Following(&state, now, nextShown) {
		st.Next = append(st.Next, at.Format(time.RFC3339))
	}
	for i := max(len(state.Occurrences)-lastShown, 0); i < len(state.Occurrences); i++ {
		one := state.Occurrences[i]
		st.Last = append(st.Last, Occurrence{At: one.At, ID: s.OccurrenceID(one.At), Due: one.Due, Taken: one.Taken})
	}
	shown.State = st
	return shown
}

// modeOf returns the mode of a message.
func modeOf(broadcast bool) string {
	if broadcast {
		return "broadcast"
	}
	return "message"
}

func or[T comparable](value, otherwise T) T {
	var none T
	if value == none {
		return otherwise
	}
	return value
}

// ScheduleRequest says when a schedule fires, and what becomes of occurrences, as texts.
type ScheduleRequest struct {
	Cron, Every, Zone string
	At                []string
	From, Until       string
	Jitter            string
	Count             *int
	Overlap, Missed   string
	Grace, Catchup    string
}

// Schedule returns the schedule that is asked for, of a message without id and times. The error joins a notify.Fault for each thing that is
// wrong.
func (r ScheduleRequest) Schedule(name string, m *notify.Message) (*store.Schedule, error) {
	s := &store.Schedule{
		Topic: m.Topic, Name: name, Spec: calendar.Spec{Cron: r.Cron, Zone: r.Zone}, Overlap: store.Overlap(r.Overlap), Missed: store.Missed(r.Missed),
		Message: record.Record{
			Key: m.Key, IfBusy: m.IfBusy, ContentType: m.ContentType, Headers: m.Headers, TTL: m.TTL, MaxAttempts: m.MaxAttempts, Broadcast: m.Broadcast, Body: m.Body,
			Lease: m.Lease, TryTimeout: m.TryTimeout, Fail: m.Fail, LateAfter: m.LateAfter, Late: m.Late,
		},
	}
	var faults []error
	duration := func(to *time.Duration, field, text string) {
		if text == "" {
			return
		}
		d, err := fields.ParseDuration(field, text)
		if err == nil && d == 0 {
			err = fault.New(field, "%s %s: it is no time; leave it out, or write one such as 5m", field, text)
		}
		*to = d
		faults = append(faults, err)
	}
	at := func(to *time.Time, field, text string) {
		if text == "" {
			return
		}
		var err error
		*to, err = fields.ParseTime(field, text)
		faults = append(faults, err)
	}
	duration(&s.Spec.Every, "every", r.Every)
	duration(&s.Jitter, "jitter", r.Jitter)
	duration(&s.Grace, "grace", r.Grace)
	duration(&s.Catchup, "catchup", r.Catchup)
	at(&s.Spec.From, "from", r.From)
	at(&s.Spec.Until, "until", r.Until)
	for _, text := range r.At {
		var t time.Time
		at(&t, "at", text)
		s.Spec.At = append(s.Spec.At, t)
	}
	if r.Count != nil {
		s.Count = *r.Count
		faults = append(faults, fault.Within("count", "count", s.Count, 1, store.MaxCount))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, errors.Join(s.Check(), m.Faults())
}
