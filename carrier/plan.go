package carrier

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// How far occurrences are made ahead of their times.
const (
	aheadLeast = 2                // so that a takeover at one's time finds it made, and the next
	aheadTime  = time.Minute      // and all that are due within it
	aheadAgain = aheadTime / 2    // when so little is left of that, it is filled again
	aheadMost  = 64               // that wait, and the most that are made in one call, if their bodies are no larger than fillBytes
	mostMissed = 100_000          // that are counted one by one
	unreadable = time.Hour        // until a schedule that cannot be read is looked at again
	lateFills  = 30 * time.Second // by which schedules are late if they are to be settled before more of their topics is carried
)

// A plan says what to make of a schedule: a function of the schedule, its state and the time.
type plan struct {
	of    *store.DueSchedule
	rule  *calendar.Rule
	now   time.Time
	noted map[int64]bool // times that were made and stay so: they are never made again
	left  int            // how many more Count allows
	most  int            // that wait ahead, and that one call makes: fewer of large bodies
	grace time.Duration
	late  []time.Time // what is due and waits as it was made ahead
	more  bool        // there is more to make at once
	fill  store.Fill
}

// planOf returns what to make of a schedule at a time.
func planOf(of store.DueSchedule, now time.Time) store.Fill {
	p := &plan{of: &of, now: now, late: of.Late, noted: make(map[int64]bool), left: math.MaxInt, fill: store.Fill{Of: of, Cursor: of.State.Cursor}}
	if p.fill.Fault = of.Err; of.Err == nil {
		p.rule, p.fill.Fault = of.Schedule.Rule()
	}
	if p.fill.Fault != nil {
		p.fill.Next = now.Add(unreadable)
		return p.fill
	}
	for _, made := range of.State.Occurrences {
		p.noted[made.At.Unix()] = true
	}
	p.most = max(min(aheadMost, fillBytes/(len(of.Schedule.Message.Body)+1)), 1)
	if of.Schedule.Count > 0 {
		p.left = of.Schedule.Count - int(of.State.Made)
	}
	p.grace = cmp.Or(of.Schedule.Grace, store.DefaultGrace)
	if slices.ContainsFunc(p.late, p.isJudged) { // a withdrawal takes all, so what else is late is carried as it is
		p.late = nil
	}
	p.settle()
	p.makeAhead()
	p.count()
	if len(p.fill.Occurrences) == 0 && !p.fill.Next.IsZero() {
		p.fill.Next = latest(p.fill.Next, now.Add(time.Second)) // as many wait as may: it would be asked again at once
	}
	return p.fill
}

// next returns the first time after one that was not made.
func (p *plan) next(after time.Time) (time.Time, bool) {
	for {
		next, ok := p.rule.Next(after)
		if !ok || !p.noted[next.Unix()] {
			return next, ok
		}
		after = next
	}
}

// isJudged reports whether an occurrence was made behind its time, by a call before, and is not late since then: it is to be carried, and
// waits only since other messages of its topic are overdue. To judge it again would go on for ever where one call cannot make all.
func (p *plan) isJudged(late time.Time) bool {
	return slices.ContainsFunc(p.of.State.Occurrences, func(made store.Made) bool {
		return made.At.Equal(late) && made.Published.After(late) && !made.Due.Before(p.now.Add(-p.grace))
	})
}

// settle judges what is past: what was made and waits still, and what never was made. If the first of that is later than the grace, it is
// missed. Else all that never was made is made now. Of a schedule that has made as many as it may nothing was missed.
func (p *plan) settle() {
	if p.left <= 0 && len(p.late) == 0 {
		return
	}
	first, isPast := p.next(p.fill.Cursor)
	isPast = isPast && !first.After(p.now)
	if len(p.late) > 0 && (!isPast || p.late[0].Before(first)) {
		first = p.late[0]
	} else if !isPast {
		return
	}
	if !p.of.Schedule.DueOf(first).Before(p.now.Add(-p.grace)) {
		p.makeUpTo(p.fill.Cursor)
		return
	}
	for _, late := range p.late {
		p.fill.Withdraw = p.now
		delete(p.noted, late.Unix())
	}
	if p.left < math.MaxInt {
		p.left += len(p.late)
	}
	p.most = max(p.most, len(p.late)) // all that is withdrawn is made again, or missed: the rest would be lost
	p.judge()
}

// judge makes of what was missed what the schedule says.
func (p *plan) judge() {
	late := p.late
	if p.of.Schedule.Missed == store.MissedAll {
		cut := p.now.Add(-cmp.Or(p.of.Schedule.Catchup, store.DefaultCatchup))
		n, last := p.missedIn(p.fill.Cursor, cut.Add(-time.Second))
		p.fill.Cursor = latest(p.fill.Cursor, last)
		i, _ := slices.BinarySearchFunc(late, cut, time.Time.Compare)
		p.fill.Missed = n + i
		for _, at := range late[i:] {
			p.make(at)
		}
		p.makeUpTo(latest(p.fill.Cursor, cut.Add(-time.Second)))
		return
	}
	n, last := p.missedIn(p.fill.Cursor, p.now)
	p.fill.Cursor = latest(p.fill.Cursor, last)
	if len(late) > 0 {
		n, last = n+len(late), latest(last, late[len(late)-1])
	}
	p.fill.Missed = n
	if p.of.Schedule.Missed != store.MissedSkip && p.make(last) {
		p.fill.Missed--
	}
}

// missedIn returns how many times are behind one, up to another, and the last of them. If there are too many to count it returns fewer.
func (p *plan) missedIn(after, upto time.Time) (n int, last time.Time) {
	for next, ok := p.next(after); ok && !next.After(upto); next, ok = p.next(next) {
		if n, last = n+1, next; n == mostMissed {
			last, _ = p.rule.Last(upto)
			break
		}
	}
	return n, last
}

// makeUpTo makes what is behind a time, up to now, as far as one call may.
func (p *plan) makeUpTo(after time.Time) {
	for next, ok := p.next(after); ok && !next.After(p.now); next, ok = p.next(next) {
		if !p.make(next) {
			p.more = p.left > 0
			return
		}
		p.fill.Cursor = next
	}
}

// make makes one, unless there are as many as may be.
func (p *plan) make(at time.Time) bool {
	if p.left <= 0 || len(p.fill.Occurrences) == p.most || p.noted[at.Unix()] {
		return false
	}
	p.left--
	p.noted[at.Unix()] = true
	p.fill.Occurrences = append(p.fill.Occurrences, store.Occurrence{At: at})
	return true
}

// makeAhead makes what is to come, and says when to look again: when less is made ahead than is to be, or more than half a minute of it has
// passed. Of a schedule at its end it looks at what is left at its times, since that may be missed, too.
func (p *plan) makeAhead() {
	var ahead []time.Time
	for _, made := range p.of.State.Occurrences {
		if p.noted[made.At.Unix()] && made.At.After(p.now) {
			ahead = append(ahead, made.At)
		}
	}
	at, most, full := latest(p.fill.Cursor, p.now), max(p.most, aheadLeast), false
	for !p.more {
		next, ok := p.next(at)
		if !ok || p.left <= 0 {
			break
		}
		if full = len(ahead) >= most; full || len(ahead) >= aheadLeast && next.After(p.now.Add(aheadTime)) {
			p.fill.Next = next.Add(-aheadAgain)
			break
		}
		if !p.make(next) { // one call made as many as may be
			p.fill.Next = p.now
			break
		}
		ahead = append(ahead, next)
		at, p.fill.Cursor = next, next
	}
	slices.SortFunc(ahead, time.Time.Compare)
	switch n := len(ahead); {
	case p.more:
		p.fill.Next = p.now
	case n > 0 && p.fill.Next.IsZero():
		p.fill.Next = ahead[0]
	case n > 0:
		least := ahead[max(n-aheadLeast, 0)]
		if full && most < aheadMost { // large bodies: a few seconds of a schedule of each second
			p.fill.Next = latest(p.fill.Next, least)
		}
		p.fill.Next = earlier(p.fill.Next, earlier(ahead[0].Add(aheadAgain), least))
	}
}

// count tells each occurrence which was before it, and the first how many were missed.
func (p *plan) count() {
	slices.SortFunc(p.fill.Occurrences, func(a, b store.Occurrence) int { return a.At.Compare(b.At) })
	var before []time.Time
	for _, made := range p.of.State.Occurrences {
		before = append(before, made.At)
	}
	for i := range p.fill.Occurrences {
		o := &p.fill.Occurrences[i]
		for _, at := range before {
			if at.Before(o.At) {
				o.Previous = latest(o.Previous, at)
			}
		}
		before = append(before, o.At)
	}
	if len(p.fill.Occurrences) > 0 {
		p.fill.Occurrences[0].Missed = p.fill.Missed
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
