package history

import (
	"maps"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Each message of a topic that has branches is a message of each of these, too: what is done to the original until it is copied is done to all. A copy whose
// id another one has in its branch has another one, its original's with ~ and a time behind it.

// withCopies returns the message of a record, and its copies.
func (c *checker) withCopies(r *Record) []*message {
	all := []*message{c.message(r)}
	for _, branch := range c.bounds.Branches[r.Topic] {
		of := *r
		of.Topic = branch
		copied := c.message(&of)
		copied.original = all[0]
		all = append(all, copied)
	}
	return all
}

// relateCopies takes cancels of originals that had been copied, and were kept so that their ids stayed taken, from their copies; and it gives copies with
// ids of their own what was done to their originals.
func (c *checker) relateCopies() {
	for _, m := range c.messages {
		if m.original != nil {
			m.cancels = slices.DeleteFunc(m.cancels, func(o *op) bool { return o.ok() && o.state() == "done" })
		}
	}
	for _, member := range slices.Concat(slices.Collect(maps.Keys(c.messages)), slices.Collect(maps.Keys(c.places))) {
		topic, id, _ := strings.Cut(member, ":")
		at := strings.LastIndexByte(id, '~')
		if at < 0 {
			continue
		}
		first := c.messages[record.Member(topic, id[:at])]
		if m := c.messages[member]; first == nil || first.original == nil || m != nil && m.original != nil {
			continue // it is no copy, or that of an id that was published
		}
		m := c.message(&Record{Topic: topic, ID: id})
		m.first, m.original, m.key = first, first.original, first.key
		m.publishes, m.cancels, m.reschedules = first.publishes, first.cancels, first.reschedules
	}
}

// halfCopied reports whether a call that copies a message may have stopped half way about a period: the copies and their original are there then, and what
// a branch has handled by the next call is copied again.
func (c *checker) halfCopied(m *message, from, to int64) bool {
	return m.original != nil && slices.ContainsFunc(c.windows, func(w window) bool {
		return w.halfway() && w.from() <= to+doubt && c.felt(w) >= from-doubt
	})
}

// isCopied reports whether a message is not to be looked for, but its copies are; or a copy is not there since its original still is, or died before it was
// copied, or since it is another one of an id.
func (c *checker) isCopied(m *message) bool {
	return c.bounds.Branches[m.topic] != nil || m.first != nil || m.original != nil && len(c.where(m.original)) > 0
}

// copiedTwice finds a message that was published once, and is in a branch under two ids.
func (c *checker) copiedTwice(m *message) {
	if m.first != nil && m.lives() == 1 && !c.halfCopied(m, -never, never) && !c.undone(m.topic, -never, never) {
		c.violate(Double, m.member+" is another copy of "+m.original.member, slices.Concat(m.publishes, m.first.ops(), m.ops())...)
	}
}
