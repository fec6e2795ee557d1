package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// index sorts the records by what they are about.
func (c *checker) index(records []Record) error {
	ops := make(map[key]*op, len(records)/2)
	for i := range records {
		r := &records[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		c.stats.add(r.Op, r.Phase, 1)
		k := key{r.Process, r.N, r.Op == Heal}
		switch {
		case r.Phase == Event || r.Phase == Call:
			o := &op{call: r}
			if r.Op == Take {
				if err := c.take(o, ops[k]); err != nil {
					return err
				}
				continue
			}
			if r.Phase == Call {
				if ops[k] != nil {
					return fmt.Errorf("two operations have one number: %s and %s", ops[k].call, r)
				}
				ops[k] = o
			}
			if err := c.file(o); err != nil {
				return err
			}
		case ops[k] == nil || ops[k].call.Op != r.Op || ops[k].end != nil:
			return fmt.Errorf("the end of no operation: %s", r)
		default:
			ops[k].end = r
		}
	}
	return nil
}

// take files a claimed message.
func (c *checker) take(o, claim *op) error {
	if claim == nil || claim.call.Op != Claim {
		return fmt.Errorf("a take of no claim: %s", o.call)
	}
	m := c.message(o.call)
	m.handouts = append(m.handouts, &handout{op: o, claim: claim})
	return nil
}

// file puts an operation where it belongs.
func (c *checker) file(o *op) error {
	r := o.call
	switch r.Op {
	case Publish, Broadcast:
		for _, m := range c.withCopies(r) {
			m.broadcast = r.Op == Broadcast
			m.publishes = append(m.publishes, o)
			m.key = r.Key
		}
	case Cancel:
		for _, m := range c.withCopies(r) {
			m.cancels = append(m.cancels, o)
		}
	case Reschedule:
		for _, m := range c.withCopies(r) {
			m.reschedules = append(m.reschedules, o)
		}
	case Requeue:
		m := c.message(r)
		m.requeues = append(m.requeues, o)
	case CancelNext:
		m := c.message(r)
		m.nexts = append(m.nexts, o)
	case Ack, Nack, Snooze, Bury, Release, Extend:
		m := c.message(r)
		m.settles = append(m.settles, o)
	case Handle:
		m := c.message(r)
		m.handouts = append(m.handouts, &handout{op: o})
		c.kept[r.Topic] = true
	case Claim:
		c.claims = append(c.claims, o)
	case Await:
		m := c.message(r)
		m.awaits = append(m.awaits, o)
	case Archive:
		m := c.message(r)
		m.rows = append(m.rows, o)
	case Push:
		m := c.message(r)
		m.pushes = append(m.pushes, o)
	default:
		return c.fileOther(o)
	}
	return nil
}

// fileOther files what is not about a message for a worker.
func (c *checker) fileOther(o *op) error {
	r := o.call
	switch r.Op {
	case Listen:
		pattern, err := notify.ParsePattern(r.Pattern)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		starts, err := c.bounds.starts(r.Position, r.Bookmark)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		c.listeners[listenerKey{r.Process, r.Listener}] = &listener{listen: o, pattern: pattern, starts: starts}
	case Receive, Gap:
		h := c.listeners[listenerKey{r.Process, r.Listener}]
		if h == nil {
			return fmt.Errorf("received by no listener: %s", r)
		}
		if r.Position == 0 {
			all, err := c.bounds.starts(r.Position, r.Bookmark)
			if err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			r.Position = all[c.bounds.shardOf(r.Topic)]
		}
		h.received = append(h.received, o)
	case Store:
		c.stored = append(c.stored, o)
	case Fault:
		c.faults = append(c.faults, o)
	case Heal:
		c.heals[key{r.Process, r.N, false}] = o
	case Kill, Stop:
		c.ends = append(c.ends, o)
	case Beat:
		c.beats[r.Shard] = append(c.beats[r.Shard], o)
	case Drained:
		c.drained = r.At
	}
	return nil
}

// message returns the message of a record.
func (c *checker) message(r *Record) *message {
	member := record.Member(r.Topic, r.ID)
	if r.Version != "" {
		return c.versionOf(member, r)
	}
	m := c.messages[member]
	if m == nil {
		m = &message{member: member, topic: r.Topic}
		c.messages[member] = m
	}
	return m
}

// versionOf returns the version of a record.
func (c *checker) versionOf(member string, r *Record) *message {
	name := member + "#" + r.Version
	if m := c.messages[name]; m != nil {
		return m
	}
	id := c.ids[member]
	if id == nil {
		id = &identity{member: member}
		c.ids[member] = id
	}
	m := &message{member: name, topic: r.Topic, id: id, version: r.Version}
	id.versions = append(id.versions, m)
	c.messages[name] = m
	return m
}

// relate connects the filed operations: faults with heals, claims with faults, messages with
// their handouts.
func (c *checker) relate() {
	var set []*op
	for _, fault := range c.faults {
		heal := c.heals[key{fault.call.Process, fault.call.N, false}]
		c.windows = append(c.windows, newWindow(fault, heal))
		switch {
		case heal != nil && fault.offset()|heal.offset() != 0: // the other one may reset the clock
			set = append(set, fault, heal)
		case fault.offset() != 0:
			set = append(set, fault)
		}
	}
	slices.SortFunc(c.windows, func(a, b window) int { return cmp.Compare(a.from(), b.from()) })
	c.clock = newClock(set)
	for _, claim := range c.claims {
		for _, topic := range claim.topics() {
			if c.mayHide(claim) {
				c.open[topic] = append(c.open[topic], claim)
			}
			if c.mayHide(claim) && claim.call.Now {
				c.taking[topic] = append(c.taking[topic], claim)
			}
		}
	}
	c.identify()
	c.relateCopies()
	for _, m := range c.messages {
		m.relate(c.clock)
		if m.key != "" {
			c.keys[m.of()] = append(c.keys[m.of()], m)
		}
	}
	c.give()
}

// identify gives each id what was done to it, whatever its version was.
func (c *checker) identify() {
	for member, id := range c.ids {
		m := c.messages[member]
		if m == nil || len(m.publishes)+len(m.handouts) > 0 {
			continue
		}
		id.cancels, id.nexts = m.cancels, m.nexts
		for _, v := range id.versions {
			v.requeues = m.requeues
		}
		delete(c.messages, member)
	}
}
