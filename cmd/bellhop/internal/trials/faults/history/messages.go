package history

import (
	"fmt"
	"slices"
)

// unpublished finds messages that were not published.
func (c *checker) unpublished(m *message) {
	began := int64(never)
	for _, p := range m.publishes {
		if p.maybe() {
			began = min(began, p.from())
		}
	}
	for _, h := range m.handouts {
		if h.latest() < began {
			c.violate(Unpublished, m.member+" was handed out, but no publish of it may have happened before", append(m.publishes, h.op)...)
			return
		}
	}
	if began == never && len(m.rows) > 0 {
		c.violate(Unpublished, m.member+" is in the archive, but no publish of it may have happened", append(m.publishes, m.rows...)...)
	}
	if where := c.where(m); began == never && len(where) > 0 {
		c.violate(Unpublished, fmt.Sprintf("%s is %s, but no publish of it may have happened", m.member, where[0]), m.publishes...)
	}
}

// lost finds messages that are missing. unsent is for broadcasts.
func (c *checker) lost(m *message) {
	if m.broadcast || len(c.where(m)) > 0 || c.isCopied(m) {
		return
	}
	for _, p := range m.publishes {
		if p.ok() && !c.forgot(p) && !c.removed(m) && !c.mayDrop(m) {
			c.violate(Lost, m.member+" was acknowledged, but is neither settled nor there", m.all()...)
			return
		}
	}
}

// cancelled finds messages that came after an acknowledged cancel.
func (c *checker) cancelled(m *message) {
	for _, cancel := range m.cancels {
		if !cancel.ok() || c.forgot(cancel) || m.lives() > 1 || c.halfCopied(m, cancel.from(), cancel.to()) {
			continue
		}
		for _, h := range m.handouts {
			if h.at > cancel.to()+doubt {
				c.violate(Cancelled, m.member+" was handed out after its cancellation was acknowledged", cancel, h.op)
				return
			}
		}
		if where := c.where(m); len(where) > 0 && (where[0] != "leased" || !cancel.stops()) {
			c.violate(Cancelled, fmt.Sprintf("%s was cancelled, but is %s at the end", m.member, where[0]), cancel)
			return
		}
	}
}

// again finds messages that came after a confirmed acknowledgement.
func (c *checker) again(m *message) {
	if m.lives() > 1 {
		return
	}
	for i, h := range m.handouts {
		ack := c.settled(h, Ack)
		if ack == nil || c.halfCopied(m, h.at, h.at) {
			continue
		}
		if i+1 < len(m.handouts) && m.handouts[i+1].latest() >= ack.from() { // else it was stale
			c.violate(Again, m.member+" was handed out again after its acknowledgement was confirmed", h.op, ack, m.handouts[i+1].op)
			return
		}
		if where := c.where(m); len(where) > 0 {
			c.violate(Again, fmt.Sprintf("%s was acknowledged, but is %s at the end", m.member, where[0]), h.op, ack)
			return
		}
	}
}

// receipts finds receipts that should have been refused: of no handout, of one that had been
// given back, or of one that another had followed for certain.
func (c *checker) receipts(m *message) {
	for _, s := range m.settles {
		if !s.ok() || c.undone(m.topic, -never, s.to()) {
			continue
		}
		h := m.handout(s)
		if h == nil {
			c.violate(Receipts, fmt.Sprintf("%s was settled with the receipt %d, which was never given", m.member, receiptOf(s)), append(m.ops(), s)...)
			return
		}
		if back := c.gaveBack(h, s); back != nil {
			c.violate(Receipts, m.member+" was settled with a stale receipt: that had given it back already", h.op, back, s)
			return
		}
		if i := slices.Index(m.handouts, h); i+1 < len(m.handouts) && m.handouts[i+1].latest() < s.from() {
			c.violate(Receipts, m.member+" was settled with a stale receipt: it had been handed out again", h.op, m.handouts[i+1].op, s)
			return
		}
	}
}

// gaveBack returns the call that had settled or given back a handout for certain before
// another call began.
func (c *checker) gaveBack(h *handout, s *op) *op {
	i := slices.IndexFunc(h.settles, func(o *op) bool {
		return o.call.Op != Extend && o.ok() && o.to() < s.from() && receiptOf(o) == receiptOf(s)
	})
	if i < 0 {
		return nil
	}
	return h.settles[i]
}

// givenTwice finds a receipt with which a message was handed out twice. It skips handouts by
// another process, where the end of the lease is known only roughly.
func (c *checker) givenTwice(m *message) {
	given := make(map[int64]*handout, len(m.handouts))
	for _, h := range m.handouts {
		if h.call.Target != "" || h.call.Now {
			continue
		}
		before := given[h.call.Receipt]
		if before != nil && m.lives() == 1 && !c.undone(m.topic, -never, h.latest()) {
			c.violate(Receipts, fmt.Sprintf("%s was handed out twice with the receipt %d", m.member, h.call.Receipt), before.op, h.op)
			return
		}
		given[h.call.Receipt] = h
	}
}
