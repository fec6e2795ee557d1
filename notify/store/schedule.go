package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Defaults of a Schedule.
const (
	DefaultGrace   = time.Minute
	DefaultCatchup = time.Hour
)

// Headers of the message of an occurrence.
const (
	HeaderSchedule  = "Bellhop-Schedule"  // name of the schedule
	HeaderScheduled = "Bellhop-Scheduled" // time of the occurrence
	HeaderPrevious  = "Bellhop-Previous"  // time of the one before; missing: there was none
	HeaderMissed    = "Bellhop-Missed"    // how many were missed before it; missing: none
	moreHeaders     = 4
)

// MissedPolicy says what becomes of occurrences whose time passed by more than the grace while no carrier made or carried them. An empty one is
// MissedOne.
type MissedPolicy string

// The missed policies.
const (
	MissedOne  MissedPolicy = "one"  // the latest is made
	MissedSkip MissedPolicy = "skip" // none is made
	MissedAll  MissedPolicy = "all"  // all are made that are not older than Catchup
)

// Overlap says what becomes of an occurrence while the one before is ready, leased or put off. An empty one is OverlapAllow.
type Overlap string

// The values of Overlap.
const (
	OverlapAllow Overlap = "allow" // it goes beside it
	OverlapSkip  Overlap = "skip"  // it is dropped, and counted
)

// A Schedule makes occurrences: ordinary messages of its topic, ahead of their times, each with the id NAME~2026-11-22T08:00:00Z. The elected
// carrier's process computes the times, and makes the next two, and all of the next minute, in a call that is fenced by its lease, and by the
// schedule's cursor and revision: so each occurrence is made once, whichever process is killed when. A takeover finds the next ones in the
// scheduled set, where they are found, cancelled and moved as any other message. What becomes of one never ends the chain.
//
// The tags describe the fields that have a name over HTTP, over NATS and as flags.
type Schedule struct {
	Topic, Name   string
	calendar.Spec // when it fires

	Jitter time.Duration `field:"jitter" shortest:"1ms" example:"30s" doc:"each occurrence is due up to so much later, always the same for one id; missing: no later"`
	Count  int           `field:"count" minimum:"1" maximum:"1000000000" example:"12" doc:"how many occurrences are made at the most; missing: no limit"`

	Overlap Overlap       `field:"overlap" enum:"allow,skip" example:"skip" doc:"what becomes of an occurrence while the one before is ready, leased or put off: allow lets it go beside it, skip drops it; missing: allow"`
	Missed  MissedPolicy  `field:"missed" enum:"one,skip,all" example:"all" doc:"what is made of occurrences that no carrier made in time: one, the latest; skip, none; or all that are not older than catchup; missing: one"`
	Grace   time.Duration `field:"grace" shortest:"1m" longest:"24h" example:"5m" doc:"how late an occurrence may be until it is missed; missing: 1m"`
	Catchup time.Duration `field:"catchup" shortest:"1s" longest:"720h" example:"1h" doc:"how old an occurrence may be that missed=all makes; missing: 1h"`

	Message record.Record // of each occurrence, but its times and the headers of this package
}

// Rule returns when the schedule fires. The error joins a Fault for each field that is wrong.
func (s *Schedule) Rule() (*calendar.Rule, error) { return s.Spec.Parse() }

// Check returns a joined Fault for each field of a schedule that is wrong. Fields of the message that any message has are the caller's to check.
func (s *Schedule) Check() error {
	rule, err := s.Rule()
	faults := []error{record.CheckTopic(s.Topic), record.CheckScheduleName(s.Name), err, fields.Check(s, false), s.checkTogether(), s.checkMessage()}
	if rule != nil && s.Jitter > 0 {
		if closest := rule.Closest(); closest > 0 && s.Jitter >= closest {
			faults = append(faults, fault.New("jitter", "jitter %s: two occurrences may be %s apart; use less", fault.Short(s.Jitter), fault.Short(closest)))
		}
	}
	return errors.Join(faults...)
}

// checkTogether checks what does not go with another field.
func (s *Schedule) checkTogether() error {
	var catchup, overlap error
	if s.Catchup != 0 && s.Missed != MissedAll {
		catchup = fault.New("catchup", "catchup: it says how far back all that was missed is made; set missed=all, or leave it out")
	}
	if m := s.Message; s.Overlap == OverlapSkip && (m.Key != "" || m.IfBusy != "" || m.Broadcast || s.Missed == MissedAll) {
		overlap = fault.New("overlap", "overlap skip: the occurrences have a key of their own; leave key, if_busy, broadcast and missed=all out, or overlap")
	}
	return errors.Join(catchup, overlap)
}

// checkMessage checks what a message of a schedule may not have.
func (s *Schedule) checkMessage() error {
	var faults []error
	if bytes.Contains(s.Message.Body, []byte("{{")) {
		faults = append(faults, fault.New("body", "body: it has {{, and there are no templates; the headers %s and %s say which occurrence it is. Write the braces apart", HeaderSchedule, HeaderScheduled))
	}
	if s.Message.Group != "" {
		faults = append(faults, fault.New("group", "group: each occurrence would join the same group; leave it out, and have the handler publish into one"))
	}
	if s.Message.AfterGroup != "" {
		faults = append(faults, fault.New("after_group", "after_group: each occurrence would wait for the same group; leave it out, and have the handler publish what waits"))
	}
	if s.Message.UniqueFor != 0 {
		faults = append(faults, fault.New("unique_for", "unique_for: an occurrence is made once; leave it out"))
	}
	if n := len(s.Message.Headers); n > record.MaxHeaders-moreHeaders {
		faults = append(faults, fault.New("headers", "headers: there are %d, and an occurrence has up to %d more; give at most %d", n, moreHeaders, record.MaxHeaders-moreHeaders))
	}
	for name := range s.Message.Headers {
		if strings.HasPrefix(strings.ToLower(name), "bellhop-") {
			faults = append(faults, fault.New("headers", "header %.100q: names that begin with Bellhop- are the schedule's own; name another", name))
		}
	}
	return errors.Join(faults...)
}

// CheckOver returns a Fault for a schedule that never fires behind a time. A put where one with the same times is there already needs no such check.
func (s *Schedule) CheckOver(now time.Time) error {
	rule, err := s.Rule()
	if err != nil {
		return err
	}
	if _, fires := rule.Next(now); fires {
		return nil
	}
	return s.over()
}

// over returns the Fault of a schedule that fires no more.
func (s *Schedule) over() error {
	if len(s.Spec.At) > 0 && (s.Spec.Until.IsZero() || !s.Spec.Until.Before(slices.MaxFunc(s.Spec.At, time.Time.Compare))) {
		return fault.New("at", "at: none of its times is to come, so it never fires; give one that is, or publish a message")
	}
	return fault.New("until", "until %s: there is no occurrence between now and then, so it never fires; name a later time, or leave it out", s.Spec.Until.UTC().Format(time.RFC3339))
}

// lastAt returns the last time at which the schedule fires as scripts get it, empty if it goes on for good.
func (s *Schedule) lastAt() (string, error) {
	rule, err := s.Rule()
	if err != nil {
		return "", err
	}
	last, ends := rule.End()
	if !ends {
		return "", nil
	}
	return strconv.FormatInt(last.Unix(), 10), nil
}

// rule is what of a schedule Redis holds as JSON. Times are in Unix seconds, and durations in ms but Every in seconds.
type rule struct {
	Cron    string       `json:"cron,omitempty"`
	Every   int64        `json:"every,omitempty"`
	At      []int64      `json:"at,omitempty"`
	Zone    string       `json:"zone,omitempty"`
	From    int64        `json:"from,omitempty"`
	Until   int64        `json:"until,omitempty"`
	Jitter  int64        `json:"jitter,omitempty"`
	Count   int          `json:"count,omitempty"`
	Overlap Overlap      `json:"overlap,omitempty"`
	Missed  MissedPolicy `json:"missed,omitempty"`
	Grace   int64        `json:"grace,omitempty"`
	Catchup int64        `json:"catchup,omitempty"`
}

// encode returns the schedule as Redis holds it: equal ones are equal texts. The error is that of encoding JSON.
func (s *Schedule) encode() (string, error) {
	r := rule{
		Cron: strings.TrimSpace(s.Spec.Cron), Every: int64(s.Spec.Every / time.Second), Zone: s.Spec.Zone, From: secondsOf(s.Spec.From), Until: secondsOf(s.Spec.Until),
		Jitter: s.Jitter.Milliseconds(), Count: s.Count, Grace: cmp.Or(s.Grace, DefaultGrace).Milliseconds(),
		Overlap: Overlap(otherThan(string(s.Overlap), string(OverlapAllow))), Missed: MissedPolicy(otherThan(string(s.Missed), string(MissedOne))),
	}
	if s.Missed == MissedAll {
		r.Catchup = cmp.Or(s.Catchup, DefaultCatchup).Milliseconds()
	}
	for _, at := range s.Spec.At {
		r.At = append(r.At, at.Unix())
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	tail, err := s.Message.EncodeTail()
	if err != nil {
		return "", err
	}
	mark := ""
	if s.Message.IsMarked() {
		mark = "+"
	}
	return string(text) + "\n" + mark + "0" + tail, nil
}

// otherThan returns a text, empty if it is the default.
func otherThan(text, otherwise string) string {
	if text == otherwise {
		return ""
	}
	return text
}

// secondsOf returns a time in Unix seconds, 0 of none.
func secondsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// timeOf is the other way.
func timeOf(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// decodeSchedule reads what encode wrote.
func decodeSchedule(topic, name, text string) (Schedule, error) {
	object, message, _ := strings.Cut(text, "\n")
	var r rule
	if err := json.Unmarshal([]byte(object), &r); err != nil {
		return Schedule{}, fmt.Errorf("read the schedule %s of %s: %w", name, topic, err)
	}
	m, err := record.Decode(message)
	if err != nil {
		return Schedule{}, fmt.Errorf("read the schedule %s of %s: %w", name, topic, err)
	}
	m.Published, m.FirstDue = time.Time{}, time.Time{}
	s := Schedule{
		Topic: topic, Name: name, Message: m, Jitter: time.Duration(r.Jitter) * time.Millisecond, Count: r.Count, Overlap: r.Overlap, Missed: r.Missed,
		Grace: time.Duration(r.Grace) * time.Millisecond, Catchup: time.Duration(r.Catchup) * time.Millisecond,
		Spec: calendar.Spec{Cron: r.Cron, Every: time.Duration(r.Every) * time.Second, Zone: r.Zone, From: timeOf(r.From), Until: timeOf(r.Until)},
	}
	for _, at := range r.At {
		s.Spec.At = append(s.Spec.At, time.Unix(at, 0).UTC())
	}
	return s, nil
}

// An Occurrence is one that a schedule is to make.
type Occurrence struct {
	At       time.Time
	Previous time.Time // the one before; zero: there was none
	Missed   int       // how many before it were not made
}

// OccurrenceID returns the id of an occurrence.
func (s *Schedule) OccurrenceID(at time.Time) string {
	return s.Name + "~" + at.UTC().Format(time.RFC3339)
}

// Fires calls on with each time after one at which the schedule fires, in its zone, and whether its occurrence was made: with none while it is
// paused, with no more than its count lets it make, and not with those whose id was in use, or whose message was cancelled or moved.
func (s *Schedule) Fires(state *ScheduleState, after time.Time) iter.Seq2[time.Time, bool] {
	return func(on func(at time.Time, isMade bool) bool) {
		rule, err := s.Rule()
		zone, badZone := calendar.Zone(s.Spec.Zone)
		if err != nil || badZone != nil || !state.Paused.IsZero() {
			return
		}
		if state.Cursor.After(after) { // what was left out up to there may be very many, where a clock was set back
			for _, at := range state.madeBetween(rule, after, state.Cursor) {
				if !on(at.In(zone), true) {
					return
				}
			}
			after = state.Cursor
		}
		made, left := make(map[int64]*Made, len(state.Occurrences)), s.Count-int(state.Made)
		for i := range state.Occurrences {
			made[state.Occurrences[i].At.Unix()] = &state.Occurrences[i]
		}
		for at, ok := rule.Next(after); ok; at, ok = rule.Next(at) {
			one := made[at.Unix()]
			if one == nil {
				if s.Count > 0 && left <= 0 {
					return
				}
				left--
			}
			if (one == nil || one.comes()) && !on(at.In(zone), one != nil) {
				return
			}
		}
	}
}

// madeBetween returns the times after one and up to another at which a rule fires and whose occurrences were made, in order.
func (state *ScheduleState) madeBetween(rule *calendar.Rule, after, upto time.Time) (times []time.Time) {
	for _, one := range state.Occurrences {
		if !one.At.After(after) || one.At.After(upto) || !one.comes() {
			continue
		}
		if at, _ := rule.Next(one.At.Add(-time.Second)); at.Equal(one.At) {
			times = append(times, at)
		}
	}
	return times
}

// comes reports whether an occurrence that is to come will, at its time.
func (m *Made) comes() bool { return !m.Taken && !m.Off }

// Following returns up to n of the times that Fires has.
func (s *Schedule) Following(state *ScheduleState, after time.Time, n int) (times []time.Time) {
	for at := range s.Fires(state, after) {
		if times = append(times, at); len(times) >= n {
			break
		}
	}
	return times
}

// ScheduleKey returns the key of the occurrences of a schedule that are not to overlap. No other message has it.
func ScheduleKey(name string) string { return "~" + name }

// ScheduleOfKey returns the name of the schedule whose key that is, empty of any other key.
func ScheduleOfKey(key string) string {
	name, is := strings.CutPrefix(key, "~")
	if !is {
		return ""
	}
	return name
}

// DueOf returns when the message of an occurrence is due: with a jitter later than its time.
func (s *Schedule) DueOf(at time.Time) time.Time {
	return at.Add(record.Spread(record.Member(s.Topic, s.OccurrenceID(at)), s.Jitter))
}

// message returns the record of an occurrence.
func (s *Schedule) message(o Occurrence) record.Record {
	m := s.Message
	m.Headers = make(map[string]string, len(s.Message.Headers)+moreHeaders)
	for name, value := range s.Message.Headers {
		m.Headers[name] = value
	}
	m.Headers[HeaderSchedule], m.Headers[HeaderScheduled] = s.Name, o.At.UTC().Format(time.RFC3339)
	if !o.Previous.IsZero() {
		m.Headers[HeaderPrevious] = o.Previous.UTC().Format(time.RFC3339)
	}
	if o.Missed > 0 {
		m.Headers[HeaderMissed] = strconv.Itoa(o.Missed)
	}
	if s.Overlap == OverlapSkip {
		m.Key, m.IfBusy = ScheduleKey(s.Name), "drop"
	}
	return m
}

// arguments returns what fill.lua gets of an occurrence.
func (s *Schedule) arguments(o Occurrence) ([]any, error) {
	m := s.message(o)
	tail, err := m.EncodeTail()
	if err != nil {
		return nil, err
	}
	asks, err := json.Marshal(asking{TTL: m.TTL.Milliseconds(), Broadcast: m.Broadcast, Marked: m.IsMarked(), Key: m.Key, Drop: m.IfBusy == "drop"})
	if err != nil {
		return nil, err
	}
	return []any{o.At.Unix(), s.DueOf(o.At).UnixMilli(), asks, tail}, nil
}
