package console

import (
	"context"
	"slices"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
)

// A wrong is what the doctor found wrong, with what a viewer can do about it.
type wrong struct {
	doctor.Finding
	Link  string // address of the page that shows it
	Mends []mend
}

// Class returns the class of the style of what is wrong, and Sign its sign.
func (w wrong) Class() string {
	if w.Verdict == doctor.Fail {
		return "dead"
	}
	return "late"
}

func (w wrong) Sign() string {
	if w.Verdict == doctor.Fail {
		return "✕"
	}
	return "▲"
}

// A mend is a button that mends something, or a link to the page that asks before, or shows why.
type mend struct {
	Text, Of string
	Link     string // empty: it is a button
	To       string // where that sends its form
	Name     string // of the button
	Value    string
}

// wrongOf returns a finding with what a viewer can do about it.
func wrongOf(v *visit, f doctor.Finding) wrong {
	w := wrong{Finding: f, Link: pageOf(f)}
	add := func(may bool, m mend) {
		if m.Of = f.Name; may {
			w.Mends = append(w.Mends, m)
		}
	}
	button := func(call, text, to, name, value string) {
		add(v.Can(call), mend{Text: text, To: to, Name: name, Value: value})
	}
	switch f.Check + " " + string(f.Act) {
	case "paused resume":
		button("resume", "Resume", "acts/topics", "resume", f.Name)
	case "pushes resume":
		button("resumePush", "Resume", "acts/pushes", "resume", f.Name)
	case "pushes test":
		button("testPush", "Test", "acts/pushes", "test", f.Name)
	case "schedules resume":
		button("resumeSchedule", "Resume", "acts/schedules", "resume", f.Name+":"+f.ID)
	case "leases stop":
		button("cancel", "Stop "+f.ID, messagePath(f.Name, f.ID), "act", "stop")
	case "blocked requeue":
		button("act", "Requeue "+f.ID, messagePath(f.Name, f.ID), "act", "requeue")
		add(v.Reads(), mend{Text: "Show the key " + f.Key, Link: findPath("topic:" + f.Name + " key:" + f.Key)})
	case "dead requeue":
		add(v.Can("act"), mend{Text: "Requeue them…", Link: actPath("topic:"+f.Name+" state:dead", "requeue")})
	case "groups requeue":
		add(v.Can("act"), mend{Text: "Requeue them…", Link: actPath("topic:"+f.Name+" group:"+f.ID+" state:dead", "requeue")})
	case doctor.Format + " upgrade":
		button("upgrade", "Upgrade", "acts/upgrade", "upgrade", "yes")
	}
	return w
}

// pageOf returns the address of the page of what a finding is about.
func pageOf(f doctor.Finding) string {
	switch {
	case f.Check == "schedules" && f.ID != "":
		return schedulePath(f.Name, f.ID)
	case f.Check == "schedules", f.Check == "outbox":
		return f.Check
	case f.Check == "listeners":
		return "broadcasts"
	case f.Check == "pushes" && f.Name == "":
		return "pushes"
	case f.Check == "pushes":
		return pushPath(f.Name)
	case f.Check == "dead" && f.Name == "":
		return "dead"
	case f.Check == "dead":
		return deadPath(f.Name, "")
	case f.ID != "" && (f.Check == "leases" || f.Check == "failing"):
		return messagePath(f.Name, f.ID)
	case f.Name != "":
		return topicPath(f.Name)
	case f.Check == "overdue", f.Check == "paused", f.Check == "blocked":
		return "topics"
	}
	return "carriers"
}

// wrongs returns what is wrong of what the doctor found, as far as a viewer may see it, and the checks that
// warn of how things are set up.
func (c *Console) wrongs(ctx context.Context, o *overview) {
	found := c.doctor.findings(ctx)
	o.Looking, o.Cut = found.At.IsZero(), found.Fault
	sees := func(doctor.Finding) bool { return true }
	if !o.SeesStore() {
		o.Cut, sees = nil, c.seenBy(ctx, o)
	}
	for _, f := range found.Wrong {
		if f.Check == "carrier" && !o.SeesStore() { // whose text names servers
			f.Found, f.Remedy = "none is heard for all shards, so nothing falls due there", ""
		}
		switch {
		case !sees(f):
		case f.IsOfSetUp() && f.Verdict == doctor.Warn:
			o.Advice = append(o.Advice, f.Check)
		default:
			o.Wrong = append(o.Wrong, wrongOf(o.visit, f))
		}
	}
	o.Advice = slices.Compact(o.Advice)
}

// ofTopics are the checks whose findings name topics.
var ofTopics = []string{"overdue", "paused", "failing", "dead", "blocked", "groups", "branches", "leases", "schedules"}

// seenBy returns which findings one sees who does not see the whole store: those of topics, pushes and listeners that the
// token permits. That others are wrong, too, is noted.
func (c *Console) seenBy(ctx context.Context, o *overview) func(doctor.Finding) bool {
	pushes, _ := c.pushesOf(ctx, o.visit) // the fault of Redis is that of the survey, here and of the listeners
	listeners, _ := c.listeners(ctx)
	return func(f doctor.Finding) bool {
		switch {
		case f.Check == "listeners":
			return slices.ContainsFunc(listeners, func(l notify.ListenerInfo) bool { return l.Name == f.Name && o.SeesPattern(l.Pattern) })
		case f.Check == "pushes":
			return o.Can("listPushes") && slices.ContainsFunc(pushes, func(p pushRow) bool { return p.Name == f.Name })
		case f.Check == "carrier":
			return true
		case !slices.Contains(ofTopics, f.Check), f.Check == "schedules" && !o.Can("listAllSchedules"):
			return false
		}
		o.Unseen = o.Unseen || f.Name == "" && !o.CoversAll() // there are more than the doctor names
		return f.Name != "" && o.Sees(f.Name)
	}
}
