package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/strictjson"
)

// maxPaused is the most bytes of the reason for which a push is paused.
const maxPaused = 4096

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

// A lineReader reads the members of a line that names what it describes.
type lineReader struct {
	texts  map[string]string // of those fields that stand for themselves
	rest   []byte            // the members of an object of the others
	given  int
	faults []error
}

// read reads a line of a kind: the fields own into texts, others as other takes them, and what that leaves into rest. The error says that it is no
// object of JSON, or of another kind.
func (l *lineReader) read(line []byte, kind, example string, own []string, other func(member strictjson.Member) (took bool, err error)) error {
	l.texts = make(map[string]string)
	err := strictjson.Members(line, func(member strictjson.Member) {
		l.given++
		field := string(member.Name)
		if slices.Contains(own, field) {
			text, err := member.Text()
			if l.texts[field] = string(text); err != nil {
				l.faults = append(l.faults, fault.New(field, "%s: %w", kind, err))
			}
			return
		}
		took, err := other(member)
		if l.faults = append(l.faults, err); !took {
			l.add(field, member.Value)
		}
	})
	if err != nil {
		return fault.New("line", "line: %w; write one JSON object a line, such as %s", err, example)
	}
	if is := l.texts["kind"]; is != "" && is != kind {
		return fault.New("kind", "kind %.40q: here each line is a %s; leave this one out", is, kind)
	}
	return nil
}

// add adds a field to the rest.
func (l *lineReader) add(field string, value []byte) {
	if len(l.rest) > 0 {
		l.rest = append(l.rest, ',')
	}
	name, _ := json.Marshal(field) // of types that always can
	l.rest = append(append(append(l.rest, name...), ':'), value...)
}

// addMs adds a duration that is given in whole milliseconds to the rest, under the name that it has in a put.
func (l *lineReader) addMs(put string, value []byte) error {
	var ms int64
	if err := json.Unmarshal(value, &ms); err != nil {
		return fault.New(put+"_ms", "%s_ms %.40s: write whole milliseconds, or %s with a duration such as 15m", put, value, put)
	}
	l.add(put, []byte(strconv.Quote(strconv.FormatInt(ms, 10)+"ms")))
	return nil
}

// object returns the rest as an object.
func (l *lineReader) object() []byte { return append(append([]byte{'{'}, l.rest...), '}') }

const scheduleExample = `{"topic":"invoices","name":"daily","cron":"30 2 * * *","body":""}`

// DecodeScheduleLine reads a ScheduleLine. What a list shows beside a put is read as that, or ignored. The error joins a notify.Fault for each thing
// that is wrong.
func DecodeScheduleLine(line []byte) (read ScheduleLine, err error) {
	return decodeScheduleLine("", line)
}

// decodeScheduleLine reads a ScheduleLine of a topic, if it names none. An empty one: it must name one.
func decodeScheduleLine(otherwise string, line []byte) (read ScheduleLine, err error) {
	var l lineReader
	err = l.read(line, store.KindSchedule, scheduleExample, []string{"kind", "topic", "name"}, func(member strictjson.Member) (bool, error) {
		field := string(member.Name)
		put, isMs := strings.CutSuffix(field, "_ms")
		switch {
		case field == "state" || field == "outcome":
			return true, nil
		case field == "restore":
			return true, read.restore(member.Value)
		case isMs && slices.Contains(ofSchedule, put):
			return true, l.addMs(put, member.Value)
		}
		return false, nil
	})
	if err != nil {
		return read, err
	}
	read.Topic = cmp.Or(l.texts["topic"], otherwise)
	topic, name, bad := read.Topic, l.texts["name"], record.CheckTopic(read.Topic)
	l.faults = append(l.faults, bad)
	if l.given == 1 && l.texts["topic"] != "" {
		return read, bad
	}
	if bad != nil {
		topic = "t" // so that the rest is judged, too
	}
	if name == "" {
		l.faults = append(l.faults, fault.New("name", "name: it is missing; give each schedule of a topic its own"))
		name = "n"
	}
	read.Schedule, err = DecodeSchedule(topic, name, l.object())
	return read, errors.Join(append(l.faults, err)...)
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
func DecodePushLine(line []byte) (p store.Push, err error) {
	var l lineReader
	err = l.read(line, store.KindPush, pushExample, []string{"kind", "name", "paused"}, func(strictjson.Member) (bool, error) { return false, nil })
	if err != nil {
		return p, err
	}
	if p, err = DecodePush(l.texts["name"], l.object()); err == nil {
		err = p.Check()
	}
	if p.Paused = l.texts["paused"]; len(p.Paused) > maxPaused {
		l.faults = append(l.faults, fault.New("paused", "paused: it has %d bytes; use at most %d", len(p.Paused), maxPaused))
	}
	return p, errors.Join(append(l.faults, err)...)
}
