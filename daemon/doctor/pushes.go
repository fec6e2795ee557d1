package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// pushes reports pushes that are paused, that no daemon sends, or whose endpoints fail.
func (e *exam) pushes(ctx context.Context, s service) {
	const check = "pushes"
	var all []store.Push
	if !s.Now.IsZero() { // else nothing was published yet
		var err error
		if all, err = e.allPushes(ctx); err != nil {
			e.report(check, Warn, err.Error(), "fix what Redis reports")
			return
		}
	}
	if err := e.store.Home().NoteUnsent(ctx, all); err != nil {
		e.report(check, Warn, err.Error(), "fix what Redis reports")
		return
	}
	rows := 0
	for _, p := range all {
		if p.Paused == "" && p.Failing == nil && !p.Unsent {
			continue
		}
		f := Finding{Check: check, Name: p.Name}
		switch rows++; {
		case rows > named:
		case p.Paused != "":
			f.Act = Resume
			e.mend(f, fmt.Sprintf("%s: it is paused, %s; its messages wait", p.Name, p.Paused), "bellhop push resume "+p.Name)
		case p.Unsent && p.Failing == nil:
			e.mend(f, p.Name+": no daemon sends it; its messages wait", "run one with BELLHOP_PUSH_ALLOW, or for a push to NATS with BELLHOP_NATS_URL")
		default:
			f.Act = Test
			e.mend(f, fmt.Sprintf("%s: its endpoint fails since %s ago, with %s; its messages wait, and it is asked again %s",
				p.Name, rough(s.Now.Sub(p.Failing.Since)), p.Failing.Answer, nextTry(p.Failing.Next, s.Now)), "bellhop push test "+p.Name)
		}
	}
	e.reportRest(check, rows, 0, "push", "bellhop push list", fmt.Sprintf("%d, none is paused, fails or lacks a daemon", len(all)))
}

// nextTry says when an endpoint that fails is asked again.
func nextTry(at, now time.Time) string {
	if !at.After(now) {
		return "with the next message"
	}
	return "in " + rough(at.Sub(now))
}

// pushOf returns what returns the push of a topic's messages, or nil if there is none, as far as pushes can be read.
func (e *exam) pushOf(ctx context.Context, s service) func(topic string) *store.Push {
	var all []store.Push
	if len(s.Overdue) > 0 {
		all, _ = e.allPushes(ctx) // the check of pushes reports the error
	}
	return func(topic string) *store.Push {
		for i := range all {
			for _, one := range all[i].Topics {
				if pattern, err := notify.ParsePattern(one); err == nil && pattern.Takes(topic) && !all[i].Broadcasts {
					return &all[i]
				}
			}
		}
		return nil
	}
}

// overduePush reports a topic whose ready messages are not pushed. Whether a daemon has no room for it, only that daemon knows.
func (e *exam) overduePush(topic, found string, c notify.Counts, p *store.Push) {
	const check = "overdue"
	switch {
	case p.Closed != nil && p.Paused == "" && p.Failing == nil:
		e.warn(topic, check, found+fmt.Sprintf("the endpoint of their push %s wants no request before %s, by %s", p.Name, p.Closed.Until.Format(time.RFC3339), p.Closed.Answer),
			"wait until then, or ask who runs it why")
	case p.Paused != "" || p.Failing != nil:
		e.warn(topic, check, found+"their push "+p.Name+" is paused, or fails", "see the check of pushes below")
	case c.Leased > 0:
		e.warn(topic, check, found+fmt.Sprintf("%d leased by the push %s", c.Leased, p.Name),
			"raise its --in-flight, if its endpoint is fast enough, or run another daemon: bellhop push show "+p.Name)
	case c.Waiting > 0:
		e.warn(topic, check, found+"those that wait for the push "+p.Name+" do not claim them",
			"check whether their daemons hang; a beat rings them again")
	default:
		e.warn(topic, check, found+"no daemon works for their push "+p.Name,
			"run one with BELLHOP_PUSH_ALLOW, or for a push to NATS with BELLHOP_NATS_URL; "+
				"where such daemons are busy with 1,000 topics each that patterns match, another one")
	}
}
