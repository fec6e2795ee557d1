package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// An op is an operation or an event. An event has no end.
type op struct {
	call, end *Record
}

func (o *op) from() int64 { return o.call.At }

func (o *op) phase() Phase {
	if o.end == nil {
		return Unknown
	}
	return o.end.Phase
}

// maybe reports whether the operation may have happened.
func (o *op) maybe() bool { return o.phase() != No }

// ok reports whether the operation happened for certain.
func (o *op) ok() bool { return o.phase() == OK }

// to returns the latest time at which the operation may have happened.
func (o *op) to() int64 {
	if o.phase() == Unknown {
		return never
	}
	return o.end.At
}

// ended returns when the end was recorded, whatever its phase.
func (o *op) ended() int64 {
	if o.end == nil {
		return never
	}
	return o.end.At
}

// either returns a field of the end, or of the call if it is zero there.
func either[T comparable](o *op, field func(*Record) T) T {
	var zero T
	if o.end != nil {
		if v := field(o.end); v != zero {
			return v
		}
	}
	return field(o.call)
}

func (o *op) offset() int64   { return either(o, func(r *Record) int64 { return r.Offset }) }
func (o *op) loss() int64     { return either(o, func(r *Record) int64 { return r.Loss }) }
func (o *op) waited() bool    { return either(o, func(r *Record) bool { return r.Waited }) }
func (o *op) halfway() bool   { return either(o, func(r *Record) bool { return r.Halfway }) }
func (o *op) epoch() int64    { return either(o, func(r *Record) int64 { return r.Epoch }) }
func (o *op) due() int64      { return either(o, func(r *Record) int64 { return r.Due }) }
func (o *op) outcome() string { return either(o, func(r *Record) string { return r.Outcome }) }
func (o *op) state() string   { return either(o, func(r *Record) string { return r.State }) }
func (o *op) forgotten() bool { return either(o, func(r *Record) bool { return r.Forgotten }) }

// records returns the records of the operation.
func (o *op) records() []Record {
	if o.end == nil {
		return []Record{*o.call}
	}
	return []Record{*o.call, *o.end}
}

// A message is all operations on one member.
type message struct {
	member      string    // with its version behind a #, if it has one
	id          *identity // nil for one without a version
	version     string
	topic       string
	key         string // its own, of the topic; empty: it has none
	broadcast   bool
	publishes   []*op
	cancels     []*op
	nexts       []*op // CancelNext
	reschedules []*op
	requeues    []*op
	settles     []*op // Ack, Nack, Snooze, Bury, Release, Extend
	handouts    []*handout
	awaits      []*op
	rows        []*op // Archive
	pushes      []*op // Push
}

// A handout is one delivery of a message to a worker.
type handout struct {
	*op           // Take or Handle
	claim   *op   // the claim of a Take
	claimed int64 // by Redis's clock, ms
	at      int64 // the same by the machine's, µs
	settles []*op // with a receipt of this handout
}

// earliest and latest bound the time of the claim by the machine's clock. What was handed over may have been on its way before its
// claim was called.
func (h *handout) earliest() int64 {
	if h.claim != nil && !h.call.Handed {
		return max(h.claim.from(), h.at)
	}
	return h.at
}

func (h *handout) latest() int64 { return h.from() }

// kept reports whether others own the lease and settle the message, unrecorded.
func (h *handout) kept() bool { return h.claim == nil }

// A listener is one of the listeners of a process.
type listener struct {
	listen   *op
	pattern  notify.Pattern
	starts   []int64 // by shard: the position after which it misses nothing
	received []*op   // broadcasts and gaps, in the order of their calls
}

type key struct {
	process string
	n       int64
	heal    bool
}

type listenerKey struct{ process, listener string }

// index sorts the records by what they are about.
func (c *checker) index(records []Record) error {
	ops := make(map[key]*op, len(records)/2)
	for i := range records {
		r := &records[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		c.count(r)
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

// topics returns the topics of a claim.
func (o *op) topics() []string {
	if o.call.Topics == "" {
		return []string{o.call.Topic}
	}
	return strings.Split(o.call.Topics, ",")
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
		m := c.message(r)
		m.broadcast = r.Op == Broadcast
		m.publishes = append(m.publishes, o)
		m.key = r.Key
	case Cancel:
		m := c.message(r)
		m.cancels = append(m.cancels, o)
	case Reschedule:
		m := c.message(r)
		m.reschedules = append(m.reschedules, o)
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
		starts, err := c.starts(r)
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
			all, err := c.starts(r)
			if err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			r.Position = all[c.shardOf(r.Topic)]
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
	for _, m := range c.messages {
		m.relate(c.clock)
		if m.key != "" {
			c.keys[m.of()] = append(c.keys[m.of()], m)
		}
	}
}

// mayHide reports whether a claim may have taken more messages than recorded: its outcome is
// unknown, or the claimer may have retried it during a fault.
func (c *checker) mayHide(claim *op) bool {
	return claim.phase() == Unknown || slices.ContainsFunc(c.windows, func(w window) bool {
		return w.touches(claim.from()-doubt, claim.to()+doubt)
	})
}

// relate sorts the handouts of a message and gives each the calls that settle it.
func (m *message) relate(clock clock) {
	for _, h := range m.handouts {
		h.claimed = h.call.Receipt/1000 - h.call.Lease
		h.at = clock.machine(h.claimed*1000, h.latest())
	}
	slices.SortStableFunc(m.handouts, func(a, b *handout) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call.Attempt, b.call.Attempt), cmp.Compare(a.from(), b.from()))
	})
	for _, s := range m.settles {
		if h := m.handout(s); h != nil {
			h.settles = append(h.settles, s)
		}
	}
}

// handout returns the last handout that had the receipt of a call, by itself or by an
// extension. If others own the lease, it returns the last handout of the process.
func (m *message) handout(settle *op) *handout {
	for _, h := range slices.Backward(m.handouts) {
		if h.from() <= settle.from() && m.leads(h.call.Receipt, settle) {
			return h
		}
	}
	for _, h := range slices.Backward(m.handouts) {
		if h.kept() && h.call.Process == settle.call.Process && h.from() <= settle.from() {
			return h
		}
	}
	return nil
}

// leads reports whether a receipt, or an extension of it, is the receipt of a call.
func (m *message) leads(receipt int64, settle *op) bool {
	for _, s := range m.settles {
		if receipt == receiptOf(settle) {
			return true
		}
		if s.call.Op == Extend && s.ok() && s.call.Was == receipt && s.from() < settle.from() {
			receipt = s.end.Receipt
		}
	}
	return receipt == receiptOf(settle)
}

// receiptOf returns the receipt that a call uses.
func receiptOf(settle *op) int64 {
	if settle.call.Op == Extend {
		return settle.call.Was
	}
	return settle.call.Receipt
}
