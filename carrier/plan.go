package carrier

import (
	"cmp"
	"math"
	"slices"
	"sort"
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
	late  []time.Time // what is withdrawn, in order
	more  bool        // there is more to make at once
	fill  store.Fill
}

// planOf returns what to make of a schedule at a time.
func planOf(of store.DueSchedule, now time.Time) store.Fill {
	p := &plan{of: &of, now: now, noted: make(map[int64]bool), left: math.MaxInt, fill: store.Fill{Of: of, Cursor: of.State.Cursor}}
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

// isMissed reports whether what was due at a time is later than the grace.
func (p *plan) isMissed(due time.Time) bool { return due.Before(p.now.Add(-p.grace)) }

// withdraw takes back what was made and waits still, and is missed: what was made behind its time is late from when it was made.
func (p *plan) withdraw() {
	p.late = nil
	for _, made := range p.of.State.Occurrences {
		if slices.ContainsFunc(p.of.Late, made.At.Equal) && p.isMissed(latest(made.Due, made.Published)) {
			p.late = append(p.late, made.At)
			delete(p.noted, made.At.Unix())
		}
	}
	if len(p.late) == 0 {
		return
	}
	p.fill.Withdraw = p.now.Add(-p.grace - time.Millisecond)
	if p.left < math.MaxInt {
		p.left += len(p.late)
	}
	p.most = max(p.most, len(p.late)) // all that is withdrawn is made again, or missed: the rest would be lost
	slices.SortFunc(p.late, time.Time.Compare)
}

// settle judges what is past, each by its own lateness. Of what is missed, and was withdrawn or never made, it makes what the schedule says, and it
// makes all else that never was made. Of a schedule that has made as many as it may nothing was missed.
func (p *plan) settle() {
	p.withdraw()
	if p.left <= 0 {
		return
	}
	if p.of.Schedule.Missed == store.MissedAll {
		p.missOld()
	} else {
		p.missAll()
	}
	p.makeUpTo(p.fill.Cursor)
}

// missOld notes as missed what is older than the catch-up, and makes what else was withdrawn.
func (p *plan) missOld() {
	cut := p.now.Add(-max(cmp.Or(p.of.Schedule.Catchup, store.DefaultCatchup), p.grace))
	p.fill.Missed, p.fill.Cursor = p.missedIn(func(at time.Time) bool { return at.Before(cut) })
	for _, at := range p.late {
		if at.Before(cut) {
			p.fill.Missed++
		} else {
			p.make(at)
		}
	}
}

// missAll notes as missed what is, but makes the last of it unless the schedule says that none is made.
func (p *plan) missAll() {
	n, last := p.missedIn(func(at time.Time) bool { return p.isMissed(p.of.Schedule.DueOf(at)) })
	p.fill.Missed, p.fill.Cursor = n+len(p.late), last
	if len(p.late) > 0 && (n == 0 || p.late[len(p.late)-1].After(last)) {
		last = p.late[len(p.late)-1]
	}
	if p.fill.Missed > 0 && p.of.Schedule.Missed != store.MissedSkip && p.make(last) {
		p.fill.Missed--
	}
}

// missedIn returns how many times behind the cursor are missed, and the last of them, or the cursor.
func (p *plan) missedIn(is func(at time.Time) bool) (n int, last time.Time) {
	last = p.fill.Cursor
	for next, ok := p.next(last); ok && !next.After(p.now) && is(next); next, ok = p.next(next) {
		if n, last = n+1, next; n == mostMissed {
			return n, p.lastMissed(last, is)
		}
	}
	return n, last
}

// lastMissed returns the last time that is missed, from one that is on, by bisection: it may be very many times later.
func (p *plan) lastMissed(from time.Time, is func(at time.Time) bool) time.Time {
	n := sort.Search(int(p.now.Sub(from)/time.Second), func(n int) bool {
		next, ok := p.rule.Next(from.Add(time.Duration(n) * time.Second))
		return !ok || next.After(p.now) || !is(next)
	})
	return from.Add(time.Duration(n) * time.Second) // all are at whole seconds
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
