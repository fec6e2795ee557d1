package calls

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// KindOf returns the kind of a line, empty of a message, and of what cannot be read.
func KindOf(line []byte) (kind string) {
	if !bytes.Contains(line, []byte(`"kind"`)) { // of a million messages none is read twice
		return ""
	}
	err := strictjson.Members(line, func(member strictjson.Member) {
		if string(member.Name) == "kind" {
			text, _ := member.Text()
			kind = string(text)
		}
	})
	if err != nil {
		return ""
	}
	return kind
}

// A ScheduleLine is a schedule as a line of JSON: the fields of a SchedulePut, its topic and its name. It may have been printed or exported.
type ScheduleLine struct {
	Topic    string
	Schedule *store.Schedule        // nil: the line has only a topic
	Restore  *store.ScheduleRestore // how far it was, in an export; nil: that is not said
}

const scheduleExample = `{"topic":"invoices","name":"daily","cron":"30 2 * * *","body":""}`

// DecodeScheduleLine reads a ScheduleLine. What a list shows beside a put is read as that, or ignored. The error joins a notify.Fault for each thing
// that is wrong.
func DecodeScheduleLine(line []byte) (read ScheduleLine, err error) {
	return decodeScheduleLine("", line)
}

// decodeScheduleLine reads a ScheduleLine of a topic, if it names none. An empty one: it must name one.
func decodeScheduleLine(otherwise string, line []byte) (read ScheduleLine, err error) {
	var r scheduleReader
	own, given := map[string]string{"kind": "", "topic": otherwise, "name": ""}, make(map[string]bool)
	err = strictjson.Members(line, func(m strictjson.Member) {
		put := strings.TrimSuffix(string(m.Name), "_ms") // which a list shows
		if given[put] {
			r.faults = append(r.faults, fault.New(put, "%s: it is given twice; give it once", put))
		}
		given[put] = true
		field := string(m.Name)
		_, isOwn := own[field]
		switch {
		case isOwn:
			text, err := m.Text()
			if own[field] = string(text); err != nil {
				r.faults = append(r.faults, fault.New(field, "schedule: %w", err))
			}
		case field == "restore":
			r.faults = append(r.faults, read.restore(m.Value))
		case field != "state" && field != "outcome":
			r.readShown(m)
		}
	})
	if err != nil {
		return read, fault.New("line", "line: %w; write one JSON object a line, such as %s", err, scheduleExample)
	}
	if err := wrongKind(own["kind"], store.KindSchedule); err != nil {
		return read, err
	}
	read.Topic = own["topic"]
	topic, name, bad := read.Topic, own["name"], record.CheckTopic(read.Topic)
	r.faults = append(r.faults, bad)
	if len(given) == 1 && topic != "" {
		return read, bad
	}
	if bad != nil {
		topic = "t" // so that the rest is judged, too
	}
	if name == "" {
		r.faults = append(r.faults, fault.New("name", "name: it is missing; give each schedule of a topic its own"))
		name = "n"
	}
	read.Schedule, err = r.schedule(topic, name)
	return read, err
}

// readShown reads a member, also one that a list shows: a duration in whole milliseconds.
func (r *scheduleReader) readShown(m strictjson.Member) {
	put, isMs := strings.CutSuffix(string(m.Name), "_ms")
	if _, is := fields.Named[store.Schedule](put); !isMs || !is && !slices.Contains(OfOccurrence(), put) {
		r.read(m)
		return
	}
	ms, err := strconv.ParseInt(string(m.Value), 10, 64)
	if err != nil {
		r.faults = append(r.faults, fault.New(put+"_ms", "%s_ms %.40s: write whole milliseconds, or %s with a duration such as 15m", put, m.Value, put))
		return
	}
	r.read(strictjson.Member{Name: []byte(put), Value: fmt.Appendf(nil, `"%dms"`, ms)})
}

// restore reads how far a schedule was.
func (l *ScheduleLine) restore(value []byte) error {
	l.Restore = new(store.ScheduleRestore)
	if err := strictjson.Decode(value, l.Restore); err != nil {
		return fault.New("restore", "restore: %w; write what the export has, or leave it out", err)
	}
	for i := range l.Restore.Occurrences {
		one := &l.Restore.Occurrences[i]
		one.Taken = one.Published.IsZero()
	}
	return l.Restore.Check()
}

const pushExample = `{"kind":"push","name":"crm","topics":["paid"],"url":"https://x.example","secrets":["whsec_…"]}`

// DecodePushLine reads a push from a line of an export: the fields of a PushRequest, its name, and why it is paused. The error joins a
// notify.Fault for each thing that is wrong.
func DecodePushLine(line []byte) (store.Push, error) {
	var r form[struct {
		Kind   string `field:"kind"`
		Name   string `field:"name"`
		Paused string `field:"paused" maxLength:"4096"`
		store.Push
	}]
	if err := strictjson.Members(line, func(m strictjson.Member) { r.read("push", m) }); err != nil {
		return store.Push{}, fault.New("line", "push: %w; write one JSON object a line, such as %s", err, pushExample)
	}
	p := r.of.Push
	p.Name, p.Paused = r.of.Name, r.of.Paused
	if err := wrongKind(r.of.Kind, store.KindPush); err != nil {
		return p, err
	}
	if len(r.faults) == 0 {
		return p, p.Check()
	}
	return p, errors.Join(r.faults...)
}

const groupExample = `{"kind":"group","topic":"row.import","name":"import-7","acked":5}`

// DecodeGroupLine reads a group from a line of an export. The error joins a notify.Fault for each thing that is wrong.
func DecodeGroupLine(line []byte) (store.ExportedGroup, error) {
	var l struct {
		Kind string `json:"kind"`
		store.ExportedGroup
	}
	if err := strictjson.Decode(line, &l); err != nil {
		return l.ExportedGroup, fault.New("line", "group: %w; write one JSON object a line, such as %s", err, groupExample)
	}
	return l.ExportedGroup, l.Check()
}

// wrongKind returns a Fault for a line of another kind.
func wrongKind(kind, want string) error {
	if kind == "" || kind == want {
		return nil
	}
	return fault.New("kind", "kind %.40q: here each line is a %s; leave this one out", kind, want)
}
