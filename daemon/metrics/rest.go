package metrics

import "github.com/bellhopd/bellhop/notify"

// A tally is the counts that only grow: published, acknowledged, died, sent and dropped.
type tally [5]int64

func tallyOf(c notify.Counts) tally {
	return tally{c.Published, c.Acked, c.Died, c.Sent, c.Dropped}
}

// A rest counts what the topics without a label of their own do. Its tally begins at
// zero, and never goes down when labels come and go: it adds up the growth of the
// store's totals, less the growth of the topics that had a label at the last update and
// still have it.
type rest struct {
	totals tally
	named  map[string]tally // at the last update; nil: there was none

	sum, shown tally // sum may go down if topics were counted a moment later than the totals
}

// counts notes the totals of a store and the counts of the topics with a label, and
// returns those of the others as topic "other". Scheduled has the scheduled, ready and
// blocked messages, which only have a common total. A survey that is not whole says nothing
// of how the totals grow: the next whole one does.
func (r *rest) counts(s notify.Survey, named []notify.Counts, whole bool) notify.Counts {
	if whole {
		r.grow(tally{s.Published, s.Acked, s.Died, s.Sent, s.Dropped}, named)
	}
	c := notify.Counts{
		Topic: other, Published: r.shown[0], Acked: r.shown[1], Died: r.shown[2], Sent: r.shown[3], Dropped: r.shown[4],
		Scheduled: s.Messages - s.Leased - s.Dead - s.Broadcasts, Leased: s.Leased, Dead: s.Dead, Broadcasts: s.Broadcasts,
	}
	has := make(map[string]bool, len(named))
	for _, n := range named {
		has[n.Topic] = true
		c.Scheduled -= n.Scheduled + n.Ready + n.Blocked
		c.Leased -= n.Leased
		c.Dead -= n.Dead
		c.Broadcasts -= n.Broadcasts
	}
	for _, count := range []*int64{&c.Scheduled, &c.Leased, &c.Dead, &c.Broadcasts} {
		*count = max(0, *count) // topics were counted a moment later than the totals
	}
	for _, n := range s.Overdue {
		if !has[n.Topic] {
			c.Overdue = s.Now.Sub(n.Since)
			break
		}
	}
	return c
}

// grow adds the growth of the totals to the sum, less the growth of topics with a label.
func (r *rest) grow(totals tally, named []notify.Counts) {
	before, first := r.named, r.named == nil
	r.named = make(map[string]tally, len(named))
	for _, c := range named {
		r.named[c.Topic] = tallyOf(c)
	}
	for i := range totals {
		grown := totals[i] - r.totals[i]
		if first || grown < 0 { // less than before: Redis lost its data
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
