package calls

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// Schedule is a schedule, and how far it is.
type Schedule struct {
	Topic     string             `json:"topic"`
	Name      string             `json:"name"`
	Cron      string             `json:"cron,omitempty"`
	EveryMs   int64              `json:"every_ms,omitempty"`
	At        []time.Time        `json:"at,omitempty"`
	Zone      string             `json:"zone,omitempty"`
	From      *time.Time         `json:"from,omitempty"`
	Until     *time.Time         `json:"until,omitempty"`
	JitterMs  int64              `json:"jitter_ms,omitempty"`
	Count     int                `json:"count,omitempty"`
	Overlap   store.Overlap      `json:"overlap"`
	IfMissed  store.MissedPolicy `json:"missed"`
	GraceMs   int64              `json:"grace_ms"`
	CatchupMs int64              `json:"catchup_ms,omitempty"`
	Mode      string             `json:"mode,omitempty" doc:"broadcast; missing: messages"`
	asked.Options
	api.Text
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
		Topic: s.Topic, Name: s.Name, Cron: s.Spec.Cron, EveryMs: api.Ms(s.Spec.Every), At: s.Spec.At, Zone: s.Spec.Zone, From: api.Given(s.Spec.From), Until: api.Given(s.Spec.Until),
		JitterMs: api.Ms(s.Jitter), Count: s.Count, Overlap: cmp.Or(s.Overlap, store.OverlapAllow), IfMissed: cmp.Or(s.Missed, store.MissedOne), GraceMs: api.Ms(cmp.Or(s.Grace, store.DefaultGrace)),
		CatchupMs: api.Ms(s.Catchup), Mode: s.Message.Mode(), Options: asked.Of(s.Message), Text: api.TextOf(s.Message.Body),
	}
	st := ScheduleState{Revision: state.Revision, Paused: api.Given(state.Paused), Made: state.Made, Missed: state.Missed, Taken: state.Taken, Next: NextOf(s, &state, now, nextShown).Next, Last: []Occurrence{}}
	for _, one := range state.Occurrences {
		if !one.At.After(now) {
			st.Last = append(st.Last, Occurrence{At: one.At, ID: s.OccurrenceID(one.At), Due: one.Due, Taken: one.Taken})
		}
	}
	st.Last = st.Last[max(len(st.Last)-lastShown, 0):]
	shown.State = st
	return shown
}

// ListedOf returns a schedule of a list in its JSON form, with why it cannot be read.
func ListedOf(l *store.Listed, now time.Time) Schedule {
	shown := ScheduleOf(&l.Schedule, l.State, now)
	if l.Err != nil {
		shown.Error = l.Err.Error()
	}
	return shown
}

// SchedulePut and NamedSchedule are what a client says to add a schedule, or to change one: the fields of a store.Schedule, and those of the message of
// each occurrence that OfOccurrence names; in a list beside them its name.
type (
	SchedulePut   struct{}
	NamedSchedule struct{}
)

// NotOfSchedule are the fields of a notify.Message that an occurrence does not have.
var NotOfSchedule = []string{"id", "delay", "due", "if_exists", "max_wait", "spread", "then", "unique_for", "zone"}

// OfOccurrence returns the names of the fields of a message that an occurrence has.
var OfOccurrence = sync.OnceValue(func() []string {
	names := []string{"mode", "headers", "body", "body_base64"}
	for _, f := range fields.In[notify.Message]() {
		if !slices.Contains(NotOfSchedule, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
})

// decodeSchedule reads a SchedulePut from JSON. The error joins a notify.Fault for each thing that is wrong.
func decodeSchedule(topic, name string, data []byte) (*store.Schedule, error) {
	var r scheduleReader
	if err := strictjson.Members(data, r.read); err != nil {
		return nil, fault.New("schedule", "schedule: %w; write one JSON object, such as {\"cron\":\"30 2 * * *\",\"body\":\"\"}", err)
	}
	return r.schedule(topic, name)
}

// A scheduleReader reads the members of a SchedulePut.
type scheduleReader struct {
	form[store.Schedule]
	message notify.LineReader
}

// read reads a member.
func (r *scheduleReader) read(m strictjson.Member) {
	if slices.Contains(OfOccurrence(), string(m.Name)) {
		r.message.Read(m)
		return
	}
	r.form.read("schedule", m, OfOccurrence()...)
}

// schedule returns the schedule of a topic that was read.
func (r *scheduleReader) schedule(topic, name string) (*store.Schedule, error) {
	r.message.Read(strictjson.Member{Name: []byte("topic"), Value: []byte(strconv.Quote(topic))})
	m, wrong := r.message.Message()
	if wrong == nil {
		wrong = m.Faults()
	}
	r.of.Topic, r.of.Name = topic, name
	fields.Fill(&r.of.Message, &m)
	bad := errors.Join(r.faults...)
	if bad == nil {
		bad = r.of.Check()
	}
	return &r.of, errors.Join(bad, wrong)
}

// CheckBody returns a notify.ErrTooLarge for a schedule whose body has more than most bytes.
func CheckBody(s *store.Schedule, most int) error {
	if n := len(s.Message.Body); n > most {
		return &fault.Fault{Field: "body", Err: fmt.Errorf("%w: it has %d bytes; at most %d are allowed (BELLHOP_MAX_BODY)", notify.ErrTooLarge, n, most)}
	}
	return nil
}

// InZone is the form in which a time at which a schedule fires is shown: in its zone, with the offset.
const InZone = "2006-01-02 15:04:05 -0700"

// Fires says when a schedule fires.
func (s *Schedule) Fires() string {
	return Fires(calendar.Spec{Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.EveryMs) * time.Millisecond, At: s.At}, s.Count)
}

// Fires says when a schedule of a rule and a count fires.
func Fires(of calendar.Spec, count int) string {
	text := "at " + fmt.Sprint(len(of.At)) + " times"
	switch {
	case of.Cron != "" && of.Zone != "":
		text = of.Cron + " in " + of.Zone
	case of.Cron != "":
		text = of.Cron + " in UTC"
	case of.Every > 0:
		text = "every " + fault.Short(of.Every)
	case len(of.At) == 1:
		text = "at " + of.At[0].UTC().Format(time.RFC3339)
	}
	if count > 0 {
		text += fmt.Sprintf(", %d times", count)
	}
	return text
}
