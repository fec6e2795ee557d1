package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// SchedulesApply is what a client says to have a topic get some schedules.
type SchedulesApply struct {
	Schedules []NamedSchedule `json:"schedules" nullable:"false" maxItems:"10000" doc:"as a list shows them, too: how far they are is ignored"`
	Prune     bool            `json:"prune,omitempty" doc:"true: the topic gets these schedules, and no others: those are deleted"`
	DryRun    bool            `json:"dry_run,omitempty" doc:"true: nothing is changed, and the answer is what would be done"`
}

// SchedulesApplied is what was done to each schedule, or would be.
type SchedulesApplied struct {
	DryRun    bool            `json:"dry_run"`
	Schedules []store.Applied `json:"schedules" nullable:"false"`
}

// mostWrong is how many schedules that are wrong an error names.
const mostWrong = 20

// maxSchedules is how many schedules a SchedulesApply may have.
const maxSchedules = 10_000

// decodeApply reads a SchedulesApply of a topic, whose bodies may have so many bytes. The error is that of the context, or joins a notify.Fault for
// each thing that is wrong, of up to 20 schedules.
func decodeApply(ctx context.Context, topic string, data []byte, maxBody int) (a store.Apply, err error) {
	var all []json.RawMessage
	var prune, given bool
	var faults []error
	into := map[string]any{"schedules": &all, "prune": &prune, "dry_run": &a.DryRun}
	are := map[string]string{"schedules": "a list of objects", "prune": "true or false", "dry_run": "true or false"}
	err = strictjson.Members(data, func(member strictjson.Member) {
		field := string(member.Name)
		to, known := into[field]
		if !known {
			faults = append(faults, fault.New(field, "the field %.100q is unknown; use schedules, prune and dry_run", field))
		} else if json.Unmarshal(member.Value, to) != nil {
			faults = append(faults, fault.New(field, "%s %.40s: write %s", field, member.Value, are[field]))
		}
		given = given || field == "schedules" && !member.IsNull()
	})
	if err != nil {
		return a, fault.New("schedules", `schedules: %w; write one JSON object, such as {"schedules":[{"name":"daily","every":"24h","body":""}]}`, err)
	}
	if !given && len(faults) == 0 {
		faults = append(faults, fault.New("schedules", "schedules: they are missing; write a list, which may be empty"))
	}
	if len(all) > maxSchedules {
		return a, fault.New("schedules", "schedules: there are %d, and up to %d are possible; apply the others by a second list, both without prune", len(all), maxSchedules)
	}
	if prune {
		a.Prune = []string{topic}
	}
	wrong, at := 0, make(map[string]int)
	for i, raw := range all {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		s, err := decodeNamed(topic, raw)
		if err == nil {
			err = CheckBody(s, maxBody)
		}
		if err == nil && at[s.Name] > 0 {
			err = fault.New("name", "name %s: it is that of schedule %d, too; give each its own", s.Name, at[s.Name])
		}
		if err == nil {
			a.Schedules, at[s.Name] = append(a.Schedules, s), i+1
			continue
		}
		if wrong++; wrong <= mostWrong {
			for _, f := range fault.All(err) {
				faults = append(faults, &fault.Fault{Field: f.Field, Err: fmt.Errorf("schedule %d: %w", i+1, f)})
			}
		}
	}
	if wrong > mostWrong {
		faults = append(faults, fault.New("schedules", "schedules: %d of them are wrong, and nothing was changed", wrong))
	}
	return a, errors.Join(faults...)
}

// decodeNamed reads a NamedSchedule of a topic, which may name that.
func decodeNamed(topic string, raw []byte) (*store.Schedule, error) {
	l, err := decodeScheduleLine(topic, raw)
	switch {
	case err != nil:
		return nil, err
	case l.Topic != topic:
		return nil, fault.New("topic", "topic %s: these are the schedules of %s; leave it out", l.Topic, topic)
	case l.Schedule == nil:
		return nil, fault.New("name", "name: it is missing; give each schedule its own")
	}
	return l.Schedule, nil
}
