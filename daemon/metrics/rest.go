package metrics

import "github.com/bellhopd/bellhop/notify"

// A tally is what is counted for ever: published, acknowledged, died and sent.
type tally [4]int64

func tallyOf(c notify.Counts) tally { return tally{c.Published, c.Acked, c.Died, c.Sent} }

// A rest counts what the topics without a label of their own do. What it counts
// for ever begins at zero, and never goes down when labels come and go: it adds up
// how much the totals of the store grew, less how much the topics did that have
// had a label since the last look.
type rest struct {
	totals tally
	named  map[string]tally // by the last look; nil: there was none

	sum, shown tally // sum may go down where topics were counted a moment later than the totals
}

// counts takes note of the totals of a store and the counts of the topics that
// have a label, and returns those of the others as topic "other". What there is only
// a common total of, scheduled and ready, stands in Scheduled.
func (r *rest) counts(s notify.Survey, named []notify.Counts) notify.Counts {
	r.grow(tally{s.Published, s.Acked, s.Died, s.Sent}, named)
	c := notify.Counts{
		Topic: other, Published: r.shown[0], Acked: r.shown[1], Died: r.shown[2], Sent: r.shown[3],
		Scheduled: s.Messages - s.Leased - s.Dead - s.Broadcasts, Leased: s.Leased, Dead: s.Dead, Broadcasts: s.Broadcasts,
	}
	has := make(map[string]bool, len(named))
	for _, n := range named {
		has[n.Topic] = true
		c.Scheduled -= n.Scheduled + n.Ready
		c.Leased -= n.Leased
		c.Dead -= n.Dead
		c.Broadcasts -= n.Broadcasts
	}
	for _, count := range []*int64{&c.Scheduled, &c.Leased, &c.Dead, &c.Broadcasts} {
		*count = max(0, *count) // they were counted a moment later
	}
	for _, n := range s.Overdue {
		if !has[n.Topic] {
			c.Overdue = s.Now.Sub(n.Since)
			break
		}
	}
	return c
}

// grow adds to the sum what the totals grew by, less what is shown elsewhere.
func (r *rest) grow(totals tally, named []notify.Counts) {
	before, first := r.named, r.named == nil
	r.named = make(map[string]tally, len(named))
	for _, c := range named {
		r.named[c.Topic] = tallyOf(c)
	}
	for i := range totals {
		grown := totals[i] - r.totals[i]
		if first || grown < 0 { // less than before: Redis lost what it held
			continue
		}
		r.sum[i] += grown
		for topic, now := range r.named {
			if last, stayed := before[topic]; stayed {
				r.sum[i] -= max(0, now[i]-last[i])
			}
		}
		r.shown[i] = max(r.shown[i], r.sum[i])
	}
	r.totals = totals
}
