package history

import (
	"cmp"
	"fmt"
	"slices"
)

// A Report is the result of Check.
type Report struct {
	Violations []Violation
	Stats      Stats
}

// Check checks a history, in the order of ReadDir, with the contents of Redis at its end. It
// fails if the history makes no sense.
func Check(records []Record, final Final, bounds Bounds) (Report, error) {
	c := newChecker(final, bounds)
	if len(records) > 0 {
		c.last = records[len(records)-1].At
	}
	if err := c.index(records); err != nil {
		return Report{}, fmt.Errorf("history: %w", err)
	}
	c.relate()
	for _, m := range c.messages {
		c.checkMessage(m)
	}
	for member := range c.places {
		if c.messages[member] == nil && c.ids[member] == nil {
			c.violate(Unpublished, member+" is there, and nobody published it")
		}
	}
	for member := range c.final.Done {
		if m := c.messages[member]; m == nil || len(m.publishes) == 0 {
			c.violate(Unpublished, member+" is kept, and nobody published it")
		}
	}
	for _, id := range c.ids {
		c.checkIdentity(id)
	}
	c.checkOrder()
	c.checkKeys()
	c.checkLimits()
	c.checkGroups()
	c.checkHands()
	c.checkAsked()
	sent := c.sent()
	c.dropped(sent)
	c.checkBroadcasts(sent)
	c.checkAnnounced(sent)
	c.checkCarriers()
	c.orphans()
	c.overdue()
	slices.SortStableFunc(c.violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	c.stats.sort()
	return Report{c.violations, c.stats}, nil
}

func (c *checker) checkMessage(m *message) {
	c.unpublished(m)
	c.lost(m)
	c.cancelled(m)
	c.stopped(m)
	c.archived(m)
	c.signed(m)
	if m.broadcast {
		return
	}
	c.again(m)
	c.handedOut(m)
	c.receipts(m)
	c.givenTwice(m)
	c.copiedTwice(m)
	c.tooLate(m)
	c.leases(m)
	c.buried(m)
	c.died(m)
	c.keptWell(m)
	c.awaited(m)
	for i, h := range m.handouts {
		c.early(m, h)
		c.expired(m, h)
		c.late(m, i)
	}
}
