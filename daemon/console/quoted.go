package console

import (
	"slices"

	"github.com/bellhopd/bellhop/daemon/doctor"
)

// judged are the checks of the doctor whose subjects the first page judges by itself, each second.
var judged = []string{"memory", "eviction", "overdue", "behind", "paused", "dead", "listeners", "pushes"}

// seen returns what a viewer may see of what the doctor found: all, or what is of topics that the viewer sees.
func (o *overview) seen(found findings) findings {
	o.Looking = found.At.IsZero() && o.SeesStore()
	if o.SeesStore() {
		return found
	}
	found.Fault = nil
	found.Wrong = slices.DeleteFunc(slices.Clone(found.Wrong), func(f finding) bool {
		switch f.Check {
		case "blocked", "leases":
		case "schedules":
			if !o.Can("listAllSchedules") {
				return true
			}
		default:
			return true
		}
		o.Unseen = o.Unseen || f.Name == "" && !o.CoversAll() // there are more than the doctor names
		return f.Name == "" || !o.Sees(f.Name)
	})
	return found
}

// quote adds what the doctor found with a verdict to what is wrong, unless the page says it by itself. Warnings about
// how things are set up are advice.
func (o *overview) quote(found findings, verdict doctor.Verdict) {
	for _, f := range found.Wrong {
		switch {
		case f.Verdict != verdict, slices.Contains(judged, f.Check), f.Check == "carrier" && len(o.Office.Vacant) > 0:
		case f.IsOfSetUp() && verdict == doctor.Warn:
			o.Advice = append(o.Advice, f.Check)
		default:
			o.Wrong = append(o.Wrong, wrong{Sign: f.Class(), Text: f.Check + ": " + f.Found, Link: f.link(), Remedy: f.Remedy})
		}
	}
	if found.Fault != nil && verdict == doctor.Warn {
		o.Wrong = append(o.Wrong, wrong{Sign: "late", Text: "The doctor did not come to the end: " + found.Fault.Error(), Link: "carriers"})
	}
	o.Advice = slices.Compact(o.Advice)
}

// link returns the address of the page of what a finding is about.
func (f finding) link() string {
	switch {
	case f.Check == "schedules":
		return "schedules"
	case f.Check == "outbox":
		return "outbox"
	case f.Name != "":
		return topicPath(f.Name)
	}
	return "carriers"
}
