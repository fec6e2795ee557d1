package find

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Query is a question that Parse has read. The zero Query matches nothing.
type Query struct {
	topics       []notify.Pattern // of which one must match; none: all but those of the system
	states       []notify.State   // none: all
	id           string           // * stands for any text; empty: any
	key          string           // empty: any
	group        string           // empty: any
	reason, body string
	headers      []header
	after        *moment // nil: any
	before       *moment
	now          time.Time // by Redis's clock, from which moments count; a search sets it
}

// A header is one that a message must have.
type header struct{ name, value string }

// A moment is a time, or how far it is from now.
type moment struct {
	at   time.Time // zero: in
	in   time.Duration
	text string // canonical
}

func (m *moment) time(now time.Time) time.Time {
	if !m.at.IsZero() {
		return m.at
	}
	return now.Add(m.in)
}

// countsFromNow reports whether a moment of the question does.
func (q Query) countsFromNow() bool {
	counts := func(m *moment) bool { return m != nil && m.at.IsZero() }
	return counts(q.after) || counts(q.before)
}

// AsksBodies reports whether the question asks for a part of bodies.
func (q Query) AsksBodies() bool { return q.body != "" }

// States returns the states that the question asks for by name; none: it asks for all.
func (q Query) States() []notify.State { return slices.Clone(q.states) }

// In returns the question for some states alone; without any for all.
func (q Query) In(states ...notify.State) Query {
	q.states = slices.Sorted(slices.Values(states))
	return q
}

// String returns the question as Parse reads it, in one order and without what is told twice.
func (q Query) String() string {
	var terms []string
	add := func(name, value string) {
		if value != "" {
			terms = append(terms, name+quoted(value))
		}
	}
	add("topic:", joined(q.topics, notify.Pattern.String))
	add("state:", joined(q.states, notify.State.String))
	add("id:", q.id)
	add("key:", q.key)
	add("group:", q.group)
	add("reason~", q.reason)
	for _, h := range q.headers {
		add("header."+h.name+"=", h.value)
	}
	add("body~", q.body)
	if q.after != nil {
		add("due>", q.after.text)
	}
	if q.before != nil {
		add("due<", q.before.text)
	}
	return strings.Join(terms, " ")
}

func joined[T any](all []T, text func(T) string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = text(one)
	}
	return strings.Join(texts, ",")
}

// quoted returns a value as it stands in a question.
func quoted(value string) string {
	if !strings.ContainsAny(value, spaces+`"`) {
		return value
	}
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(value) + `"`
}

// matches reports whether a message is one that the question asks for.
func (q Query) matches(i notify.Info) bool {
	return q.wantsTopic(i.Topic) && slices.Contains(q.asked(), i.State) && q.wantsID(i.ID) && (q.key == "" || q.key == i.Key) && (q.group == "" || q.group == i.Group) && q.wantsDue(dueOf(&i)) &&
		strings.Contains(i.Reason, q.reason) && q.wantsHeaders(i.Headers) && (q.body == "" || strings.Contains(bodyOf(&i), q.body))
}

func (q Query) wantsTopic(topic string) bool {
	if len(q.topics) == 0 {
		return !strings.HasPrefix(topic, "$")
	}
	return slices.ContainsFunc(q.topics, func(p notify.Pattern) bool { return p.Match(topic) })
}

// asked returns the states of which there can be matches, in the order of the search.
func (q Query) asked() []notify.State {
	states := q.states
	if len(states) == 0 {
		states = []notify.State{notify.Scheduled, notify.Ready, notify.Blocked, notify.Leased, notify.Dead, notify.Done}
	}
	return slices.DeleteFunc(slices.Clone(states), func(s notify.State) bool {
		return s != notify.Dead && q.reason != "" || s == notify.Done && q.asksRecords()
	})
}

// asksRecords reports whether the question asks for something that stands in records.
func (q Query) asksRecords() bool {
	return q.key != "" || q.group != "" || q.body != "" || len(q.headers) > 0 || q.after != nil || q.before != nil
}

func (q Query) wantsID(id string) bool {
	parts := strings.Split(q.id, "*")
	if len(parts) == 1 {
		return q.id == "" || q.id == id
	}
	rest, ok := strings.CutPrefix(id, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if ok {
			_, rest, ok = strings.Cut(rest, part)
		}
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

// wholeID returns the id of all messages that match, empty if there may be several.
func (q Query) wholeID() string {
	if strings.Contains(q.id, "*") {
		return ""
	}
	return q.id
}

func (q Query) wantsDue(due time.Time) bool {
	switch {
	case q.after == nil && q.before == nil:
		return true
	case due.IsZero():
		return false
	}
	return (q.after == nil || due.After(q.after.time(q.now))) && (q.before == nil || due.Before(q.before.time(q.now)))
}

func (q Query) wantsHeaders(of map[string]string) bool {
	for _, h := range q.headers {
		found := false
		for name, value := range of {
			found = found || strings.EqualFold(name, h.name) && value == h.value
		}
		if !found {
			return false
		}
	}
	return true
}

// dueOf returns the due time of a message; of one that is not scheduled, ready or blocked that of its
// first attempt.
func dueOf(i *notify.Info) time.Time {
	if i.State == notify.Scheduled || i.State == notify.Ready || i.State == notify.Blocked {
		return i.Due
	}
	return i.FirstDue
}

// bodyOf returns the body of a message; of an unreadable record what stands in its place.
func bodyOf(i *notify.Info) string {
	text := string(i.Body)
	if _, behind, ok := strings.Cut(text, "\n"); i.Fault != nil && ok {
		return behind
	}
	return text
}

// places returns where to look, in the order of the search.
func (q Query) places() (all []script.Place) {
	for _, state := range q.asked() {
		switch all = append(all, placeOf[state]); state {
		case notify.Scheduled:
			all = append(all, script.PlaceBroadcasts)
		}
	}
	return all
}

var placeOf = map[notify.State]script.Place{
	notify.Scheduled: script.PlaceScheduled, notify.Ready: script.PlaceReady, notify.Blocked: script.PlaceBlocked, notify.Leased: script.PlaceLeased, notify.Dead: script.PlaceDead,
	notify.Done: script.PlaceDone,
}

// stateIn returns the state of the messages in a place.
func stateIn(place script.Place) notify.State {
	for state, of := range placeOf {
		if of == place {
			return state
		}
	}
	return notify.Scheduled // of broadcasts that wait
}

// plain are values that JSON has as they are, whoever writes it.
var plain = regexp.MustCompile(`^[A-Za-z0-9 ._~:-]+$`)

// sought returns what Redis is to look for: all that matches, and little else.
func (q Query) sought() *store.Sought {
	s := &store.Sought{Reason: q.reason, Body: q.body}
	if strings.Contains(q.id, "*") {
		s.Parts = strings.Split(q.id, "*")
	}
	for _, h := range q.headers {
		if plain.MatchString(h.value) {
			value, _ := json.Marshal(h.value) // a string has no error
			s.Head = append(s.Head, string(value))
		}
	}
	if q.key != "" {
		s.Head = append(s.Head, `"key":"`+q.key+`"`)
	}
	if q.group != "" {
		s.Head = append(s.Head, `"group":"`+q.group+`"`)
	}
	if len(q.headers) > 0 {
		s.Head = append(s.Head, `"headers"`)
	}
	if q.after != nil {
		s.From = max(q.after.time(q.now).UnixMilli()+1, 1)
	}
	if q.before != nil {
		s.To = max(q.before.time(q.now).Add(time.Millisecond-1).UnixMilli()-1, 1)
	}
	return s
}

// beginnings returns what the members begin with that the question asks for.
func (q Query) beginnings() (all []string) {
	for _, p := range q.topics {
		text := p.String()
		if topic, one := p.Topic(); one {
			if text = topic + ":"; q.group != "" {
				all = append(all, topic+"@")
			}
		} else {
			text = text[:strings.IndexAny(text, "*>")]
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return []string{""}
	}
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}
