package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// longestListen is the longest wait for a beat.
const longestListen = 10 * time.Second

// A look is what is known of the carrier of a shard.
type look struct {
	shard  store.Shard
	status carrier.Status
	err    error
	within time.Duration // how long a beat is waited for
	late   bool          // a beat that does not come within that is overdue
	heard  bool          // a beat arrived
}

// carrier checks that each shard has an elected carrier, and waits for its beat. A killed
// carrier is replaced after one lease, so no beat within two leases is a failure.
func (e *exam) carrier(ctx context.Context) {
	const check = "carrier"
	var all []Finding
	var carried []string
	e.looks = e.heard(ctx)
	for _, l := range e.looks {
		f := l.judged()
		if f.Check = check; len(e.shards) == 1 {
			e.report(check, f.Verdict, f.Found, f.Remedy)
			return
		}
		if f.Verdict == OK {
			carried = append(carried, l.status.Name)
		}
		all = append(all, f)
	}
	if len(carried) > 0 {
		e.report(check, OK, carriedBy(carried)+"; their beats arrive", "")
	}
	for left := all; len(left) > 0; {
		f := left[0]
		var alike []store.Shard
		for i, other := range all {
			if other == f {
				alike = append(alike, e.shards[i])
			}
		}
		if f.Verdict != OK {
			e.report(check, f.Verdict, numbers(alike)+": "+f.Found, f.Remedy)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(other Finding) bool { return other == f })
	}
}

// carriedBy describes how many shards each carrier has.
func carriedBy(names []string) string {
	slices.Sort(names)
	var each []string
	for len(names) > 0 {
		n := 1
		for n < len(names) && names[n] == names[0] {
			n++
		}
		each = append(each, fmt.Sprintf("%s has %d", names[0], n))
		names = names[n:]
	}
	return strings.Join(each, ", ")
}

// heard looks for the carriers of all shards, and waits for the beats of those that are elected, unless this process has just heard them.
func (e *exam) heard(ctx context.Context) []*look {
	var beats []reach.Channel
	looks, longest := make([]*look, len(e.shards)), time.Duration(0)
	for i, shard := range e.shards {
		l := &look{shard: shard}
		l.status, l.err = carrier.Look(ctx, shard)
		overdue := max(2*l.status.Whole, reach.Silence)
		l.within = min(overdue, longestListen)
		l.late = l.within == overdue
		l.heard = shard.IsHeard()
		if looks[i] = l; l.status.Name != "" && !l.heard {
			beats = append(beats, shard.BeatChannel())
			longest = max(longest, l.within)
		}
	}
	if len(beats) > 0 {
		e.listen(ctx, longest, looks, beats)
	}
	for _, l := range looks {
		if l.status.Name != "" && !l.heard {
			l.status, l.err = carrier.Look(ctx, l.shard)
		}
	}
	return looks
}

// listen waits until the beats of some shards have arrived.
func (e *exam) listen(ctx context.Context, within time.Duration, looks []*look, beats []reach.Channel) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	left := len(beats)
	e.store.Subscribe(ctx, func(event store.Event) {
		if event.Kind != reach.Beat {
			return
		}
		if l := looks[event.Shard().Number()]; !l.heard {
			l.heard = true
			left--
		}
		if left == 0 {
			stop()
		}
	}, beats...)
}

// judged returns the verdict on a carrier.
func (l *look) judged() Finding {
	switch status := l.status; {
	case l.err != nil:
		return Finding{Verdict: Fail, Found: l.err.Error(), Remedy: "see the check of rights above"}
	case status.Name == "" && !status.Next.IsZero():
		return Finding{Verdict: Fail, Found: "none is elected, so what is scheduled does not become due", Remedy: "start one: bellhop serve"}
	case status.Name == "":
		return Finding{Verdict: Warn, Found: "none is elected", Remedy: "start one: bellhop serve. Until then no delayed message is delivered"}
	case l.heard:
		return Finding{Verdict: OK, Found: fmt.Sprintf("%s, epoch %d, elected %s; its beat arrives", status.Name, status.Epoch, status.Since.Format(time.RFC3339))}
	case !l.late && status.Lease <= status.Whole:
		return Finding{
			Verdict: Warn, Found: fmt.Sprintf("%s is elected, but no beat arrived in %v", status.Name, l.within),
			Remedy: fmt.Sprintf("if it was killed, another takes over when its lease ends, in %v; if it runs, pub/sub does not reach this host", status.Lease),
		}
	default:
		return Finding{
			Verdict: Fail, Found: fmt.Sprintf("%s is elected, but no beat arrived in %v", status.Name, l.within),
			Remedy: "check that a daemon runs and reaches Redis: bellhop serve. Until then no delayed message is delivered. If one runs, pub/sub does not reach this host",
		}
	}
}
