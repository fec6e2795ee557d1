package api

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/strictjson"
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
	Mode      string        `json:"mode,omitempty" doc:"broadcast; missing: messages"`
	asked.Options
	Text
	State ScheduleState `json:"state"`
	Error string        `json:"error,omitempty" doc:"why it cannot be read, in a list"`
}

// Schedules are a page of the schedules of a topic.
type Schedules struct {
	Schedules []Schedule `json:"schedules" nullable:"false"`
	Cursor    string     `json:"cursor,omitempty" doc:"of the next page; missing: this was the last"`
}

// SchedulePutReply says what became of a put.
type SchedulePutReply struct {
	Outcome string `json:"outcome" enum:"created,replaced,kept" doc:"kept: it was there as it was put"`
	Schedule
}

// ScheduleState is how far a schedule is.
type ScheduleState struct {
	Revision int64        `json:"revision" doc:"another one after each change"`
	Paused   *time.Time   `json:"paused,omitempty" doc:"since when; missing: it is not"`
	Made     int64        `json:"made" doc:"how many occurrences were made, those among them that overlap=skip dropped"`
	Missed   int64        `json:"missed" doc:"how many never were"`
	Taken    int64        `json:"taken" doc:"how many had an id that was in use"`
	Next     []time.Time  `json:"next" nullable:"false" doc:"the next five times at which it fires, but those whose message was cancelled or moved"`
	Last     []Occurrence `json:"last" nullable:"false" doc:"the last twenty occurrences that were made, by time; those ahead are messages"`
}

// ScheduleNext is when a schedule fires next.
type ScheduleNext struct {
	Next []time.Time `json:"next" nullable:"false" doc:"but those whose message was cancelled or moved; fewer than were asked for: it is at its end, or paused"`
}

// NextOf returns up to n times after now at which a schedule fires.
func NextOf(s *store.Schedule, state *store.ScheduleState, now time.Time, n int) ScheduleNext {
	next := ScheduleNext{Next: []time.Time{}}
	for _, at := range s.Following(state, now, n) {
		next.Next = append(next.Next, at.UTC())
	}
	return next
}

// Occurrence is one that a schedule made.
type Occurrence struct {
	At    time.Time `json:"at"`
	ID    string    `json:"id"`
	Due   time.Time `json:"due,omitzero" doc:"of its message; missing of a backfill that did not make it"`
	Taken bool      `json:"taken,omitempty" doc:"its id was in use, and counts as made"`

	Became string `json:"became,omitempty" enum:"scheduled,ready,blocked,leased,dead,done,gone" doc:"the state of its message; gone: it ended; missing: not asked for"`
	LateMs int64  `json:"late_ms,omitempty" doc:"how long after it was due it was claimed last, while that is known"`
}

// note notes what became of the message of an occurrence, and how late it was claimed.
func (o *Occurrence) note(look *store.Inspected) {
	if o.Taken {
		return
	}
	if o.Became = "gone"; look.State != 0 {
		o.Became = look.State.String()
	}
	if !look.Since.IsZero() {
		o.LateMs = max(look.Since.Sub(o.Due).Milliseconds(), 0)
	}
}

// Note notes what became of the last occurrences, by what store.Shard.Occurrences returned.
func (s *Schedule) Note(looks []store.Inspected) {
	known := make(map[string]*store.Inspected, len(looks))
	for i := range looks {
		known[looks[i].Member] = &looks[i]
	}
	for i := range s.State.Last {
		if look := known[record.Member(s.Topic, s.State.Last[i].ID)]; look != nil {
			s.State.Last[i].note(look)
		}
	}
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
		JitterMs: Ms(s.Jitter), Count: s.Count, Overlap: cmp.Or(s.Overlap, store.OverlapAllow), IfMissed: cmp.Or(s.Missed, store.MissedOne), GraceMs: Ms(cmp.Or(s.Grace, store.DefaultGrace)),
		CatchupMs: Ms(s.Catchup), Mode: s.Message.Mode(), Options: asked.Of(s.Message), Text: TextOf(s.Message.Body),
	}
	st := ScheduleState{Revision: state.Revision, Paused: given(state.Paused), Made: state.Made, Missed: state.Missed, Taken: state.Taken, Next: NextOf(s, &state, now, nextShown).Next, Last: []Occurrence{}}
	for _, one := range state.Occurrences {
		if !one.At.After(now) {
			st.Last = append(st.Last, Occurrence{At: one.At, ID: s.OccurrenceID(one.At), Due: one.Due, Taken: one.Taken})
		}
	}
	st.Last = st.Last[max(len(st.Last)-lastShown, 0):]
	shown.State = st
	return shown
}

// ScheduleRequest says when a schedule fires, and what becomes of occurrences.
type ScheduleRequest struct {
	Cron    string   `json:"cron,omitempty" maxLength:"512" example:"30 2 * * *" doc:"minute, hour, day of the month, month, day of the week, perhaps with the second before them; or @daily and the like. Give this, every, or at"`
	Every   string   `json:"every,omitempty" example:"15m" doc:"a pause of at least 1s, counted from the time from, else from 1970"`
	At      []string `json:"at,omitempty" maxItems:"1000" doc:"times at which it fires"`
	Zone    string   `json:"zone,omitempty" example:"Europe/Berlin" doc:"time zone of cron; missing: UTC"`
	From    string   `json:"from,omitempty" example:"2030-01-01T00:00:00Z" doc:"it does not fire before"`
	Until   string   `json:"until,omitempty" doc:"it does not fire after"`
	Jitter  string   `json:"jitter,omitempty" example:"30s" doc:"each occurrence is due up to so much later"`
	Count   *int     `json:"count,omitempty" nullable:"false" minimum:"1" doc:"how many occurrences are made at the most"`
	Overlap string   `json:"overlap,omitempty" enum:"allow,skip" default:"allow" doc:"skip drops an occurrence while the one before is ready, leased or put off"`
	Missed  string   `json:"missed,omitempty" enum:"one,skip,all" default:"one" doc:"what is made of those that no carrier made in time: one, the latest; skip, none; or all"`
	Grace   string   `json:"grace,omitempty" default:"1m" doc:"how late an occurrence may be until it is missed, 1m to 24h"`
	Catchup string   `json:"catchup,omitempty" default:"1h" doc:"how old one may be that missed=all makes, up to 30d"`
}

// SchedulePut is what a client says to add a schedule, or to change one: a rule, and the message of each occurrence.
type SchedulePut struct {
	ScheduleRequest
	Mode        string            `json:"mode,omitempty" enum:"message,broadcast" default:"message"`
	Key         string            `json:"key,omitempty" doc:"of each message, as the others below: see a publish"`
	IfBusy      string            `json:"if_busy,omitempty" enum:"wait,drop"`
	TTL         string            `json:"ttl,omitempty"`
	MaxAttempts int               `json:"attempts,omitempty"`
	Lease       string            `json:"lease,omitempty"`
	TryTimeout  string            `json:"try_timeout,omitempty"`
	Fail        notify.Fail       `json:"fail,omitempty" enum:"bury,drop"`
	LateAfter   string            `json:"late_after,omitempty"`
	Late        notify.Late       `json:"late,omitempty" enum:"mark,drop,bury"`
	Headers     map[string]string `json:"headers,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Body        *string           `json:"body,omitempty" nullable:"false" doc:"text, or"`
	BodyBase64  []byte            `json:"body_base64,omitempty" doc:"anything; one of both"`
}

// ofRule and ofSchedule are the names of the fields of a ScheduleRequest, and of a SchedulePut.
var ofRule, ofSchedule = namesIn[ScheduleRequest](), namesIn[SchedulePut]()

// namesIn returns the names in JSON of the fields of a struct.
func namesIn[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// DecodeSchedule reads a SchedulePut from JSON. The error joins a notify.Fault for each thing that is wrong.
func DecodeSchedule(topic, name string, data []byte) (*store.Schedule, error) {
	var rule ScheduleRequest
	var faults []error
	message := []byte(`{"topic":` + strconv.Quote(topic))
	err := strictjson.Members(data, func(member strictjson.Member) {
		switch field := string(member.Name); {
		case slices.Contains(ofRule, field):
			if err := member.Decode(&rule); err != nil {
				faults = append(faults, fault.New(field, "schedule: %w", err))
			}
		case slices.Contains(ofSchedule, field):
			message = append(append(message, `,"`+field+`":`...), member.Value...)
		default:
			faults = append(faults, fault.New(field, "schedule: the field %.100q is unknown; its fields are %s", field, strings.Join(ofSchedule, ", ")))
		}
	})
	if err != nil {
		return nil, fault.New("schedule", "schedule: %w; write one JSON object, such as {\"cron\":\"30 2 * * *\",\"body\":\"\"}", err)
	}
	m, err := notify.ParseLine(append(message, '}'))
	s, wrong := rule.Schedule(name, &m)
	if err := errors.Join(append(faults, err, wrong)...); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBody returns a notify.ErrTooLarge for a schedule whose body has more than most bytes.
func CheckBody(s *store.Schedule, most int) error {
	if n := len(s.Message.Body); n > most {
		return &fault.Fault{Field: "body", Err: fmt.Errorf("%w: it has %d bytes; at most %d are allowed (BELLHOP_MAX_BODY)", notify.ErrTooLarge, n, most)}
	}
	return nil
}

// Schedule returns the schedule that is asked for, of a message without id and times. The error joins a notify.Fault for each thing that is
// wrong.
func (r ScheduleRequest) Schedule(name string, m *notify.Message) (*store.Schedule, error) {
	s := &store.Schedule{
		Topic: m.Topic, Name: name, Spec: calendar.Spec{Cron: r.Cron, Zone: r.Zone}, Overlap: store.Overlap(r.Overlap), Missed: store.Missed(r.Missed),
	}
	fields.Fill(&s.Message, m)
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
