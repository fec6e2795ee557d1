package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify"
)

const (
	topicRows = 50               // on a page
	lateAfter = 10 * time.Second // for which a message may be ready before its topic counts as late
)

// A counted is what is known of a topic, and what is to be said of it.
type counted struct {
	snapshots.Counted
	push *pushRow // which has messages of the topic wait; nil: none does
}

// rated returns what is known of some topics, in their order, as it was a second ago at most. Errors: see [snapshots.Snapshots.Count].
func (c *Console) rated(ctx context.Context, topics []string) ([]counted, error) {
	return c.ratedWithin(ctx, topics, snapshots.Rhythm)
}

// ratedWithin is rated for counts of another age at most.
func (c *Console) ratedWithin(ctx context.Context, topics []string, age time.Duration) ([]counted, error) {
	counts, err := c.snapshots.CountWithin(ctx, topics, age)
	all, isLeased := make([]counted, len(counts)), false
	for i, one := range counts {
		all[i], isLeased = counted{Counted: one}, isLeased || one.Leased > 0
	}
	if isLeased {
		c.hold(ctx, all)
	}
	c.noteHeldUp(ctx, all)
	return all, err
}

// noteHeldUp notes of topics with messages ready the push that has these wait. Where pushes cannot be read the counts stand without.
func (c *Console) noteHeldUp(ctx context.Context, all []counted) {
	if !slices.ContainsFunc(all, func(one counted) bool { return one.Ready > 0 }) {
		return
	}
	pushes, _ := c.allPushes(ctx)
	for i := range pushes {
		row := pushRow{api.PushOf(pushes[i])}
		if row.Broadcasts || row.State() == "works" {
			continue
		}
		for _, text := range row.Topics {
			pattern, _ := notify.ParsePattern(text) // the push was checked
			for t := range all {
				if all[t].Ready > 0 && pattern.Match(all[t].Topic) {
					all[t].push = &row
				}
			}
		}
	}
}

// hold notes for how long workers have had messages of topics. Where that cannot be read the counts stand without.
func (c *Console) hold(ctx context.Context, all []counted) {
	there, err := c.caches.workers.Get(ctx, cache.Keep{Age: workersEvery}, c.attended)
	if err != nil {
		return
	}
	now := c.now(ctx)
	for i := range all {
		one := []notify.Counts{all[i].Counts}
		there.hand.Note(one, now)
		all[i].Counts = one[0]
	}
}

// heldAfter is how long a worker has a message until pages say so.
const heldAfter = time.Minute

// Held says for how long a worker that told its name has had a message; empty: not for long.
func (c counted) Held() string {
	if c.OldestLease < heldAfter {
		return ""
	}
	return short(c.OldestLease)
}

// LeasedFor returns how many messages are leased, and for how long if that is long.
func (c counted) LeasedFor() string {
	if held := c.Held(); held != "" {
		return grouped(c.Leased) + " for " + held
	}
	return grouped(c.Leased)
}

// Flow returns how many messages come and go a second; empty: it is unknown yet.
func (c counted) Flow() string {
	if c.Per == nil {
		return ""
	}
	if in, out := c.In(), c.Out(); in != "0" || out != "0" {
		return in + " in, " + out + " out"
	}
	return "0"
}

// Link returns the address of the page of the topic.
func (c counted) Link() string { return topicPath(c.Topic) }

// isWaiting reports whether a message is due: it is ready, or no carrier made it ready.
func (c counted) isWaiting() bool { return c.Ready > 0 || c.Behind >= snapshots.Rhythm }

// IsBehind reports whether the oldest that is due is one that no carrier made ready.
func (c counted) IsBehind() bool { return c.Behind >= snapshots.Rhythm && c.Behind > c.Overdue }

// late returns for how long the oldest that is due has been so.
func (c counted) late() time.Duration { return max(c.Overdue, c.Behind) }

// Late returns late as text; empty: nothing is due.
func (c counted) Late() string {
	if !c.isWaiting() {
		return ""
	}
	return short(c.late())
}

// Lag returns the class of the style for how late the topic is.
func (c counted) Lag() string {
	if c.Sign() != "late" {
		return ""
	}
	return "late"
}

// Sign returns the worst that is to be said of a topic: a class of the style, which is its
// word, too.
func (c counted) Sign() string {
	switch {
	case c.Paused:
		return "paused"
	case c.isWaiting() && c.late() >= lateAfter:
		return "late"
	case c.Dead > 0:
		return "dead"
	}
	return "ok"
}

// Ends returns until when a topic is paused, behind that word; empty: its pause has no end.
func (c counted) Ends() string {
	if c.PausedUntil.IsZero() {
		return ""
	}
	return " until " + moment(c.PausedUntil)
}

// Nobody reports whether messages are ready and nobody waits for them or has some, also no push that is to go on.
func (c counted) Nobody() bool {
	return c.Ready > 0 && c.Waiting == 0 && c.Leased == 0 && !c.Paused && c.push == nil
}

// perSecond returns a rate as text.
func perSecond(per *snapshots.Rates, of func(*snapshots.Rates) float64) string {
	if per == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f", of(per))
}

// In and Out return how many messages a second are published, and acknowledged.
func (c counted) In() string {
	return perSecond(c.Per, func(r *snapshots.Rates) float64 { return r.Published })
}

func (c counted) Out() string {
	return perSecond(c.Per, func(r *snapshots.Rates) float64 { return r.Acked })
}

// overdue returns what the order overdue compares: paused topics are behind the others.
func (c counted) overdue() time.Duration {
	switch {
	case !c.isWaiting():
		return -2
	case c.Paused:
		return -1
	}
	return c.late()
}
