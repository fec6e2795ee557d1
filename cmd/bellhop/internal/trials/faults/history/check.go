package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Rule is what must hold of every history.
type Rule string

// The rules.
const (
	Lost        Rule = "lost"        // a message whose publish was acknowledged is settled, or still there
	Unpublished Rule = "unpublished" // nothing is handed out, sent or there that was not published
	Early       Rule = "early"       // nothing is handed out or sent before it is due
	Expired     Rule = "expired"     // nothing is handed out after its time to live
	Cancelled   Rule = "cancelled"   // nothing is handed out after its cancellation was acknowledged
	Again       Rule = "again"       // nothing is handed out after its acknowledgement was
	Double      Rule = "double"      // nothing is handed out twice unless its lease ended, or it was given back
	Attempts    Rule = "attempts"    // each of them counts as documented
	Receipts    Rule = "receipts"    // nothing is settled with a receipt that is stale or was never given, and none is given twice
	Late        Rule = "late"        // nothing is handed out later than stated
	Overdue     Rule = "overdue"     // at the end nothing waits that should have been moved
	Order       Rule = "order"       // broadcasts are sent and heard in order, and so is what one worker handles
	Twice       Rule = "twice"       // a broadcast is sent once, and heard once by who has no name
	Missed      Rule = "missed"      // a broadcast is heard by all who listen, or they are told of the gap
	FalseGap    Rule = "false gap"   // a gap is told only where broadcasts were removed
	Stored      Rule = "stored"      // a JetStream stream holds each broadcast once
	Mover       Rule = "mover"       // no carrier beats after a later one was elected
	Takeover    Rule = "takeover"    // the next carrier is there in time
	Orphan      Rule = "orphan"      // no key holds what belongs to nothing
)

// promised is what is answered only when replicas have it, where that is waited for.
var promised = map[Op]bool{
	Publish: true, Broadcast: true, Cancel: true, Reschedule: true, Requeue: true, Ack: true, Nack: true, Bury: true,
}

// A Violation is a rule that was broken.
type Violation struct {
	Rule    Rule
	Message string
	Records []Record // that show it
}

// mostShown is how many records of a violation are printed.
const mostShown = 24

// String returns the violation and its records, each in a line.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Rule, v.Message)
	for i, r := range v.Records {
		if i == mostShown {
			fmt.Fprintf(&b, "\n\tand %d more", len(v.Records)-i)
			break
		}
		b.WriteString("\n\t" + r.String())
	}
	return b.String()
}

// Bounds are what was stated. Zero is: not checked.
type Bounds struct {
	Attempts int           // default limit of attempts
	Ordered  []string      // topics that one worker handles, one message after the other
	Late     time.Duration // of what meets no fault

	// After a fault was healed, by its kind: what waits is handed out within that
	// and Late. A kind that is not named has Recovery.
	After    map[string]time.Duration
	Recovery time.Duration

	Takeover map[string]time.Duration // by the kind of a fault, or Kill and Stop: until the next carrier's first beat
}

// A Report is what was found.
type Report struct {
	Violations []Violation
	Stats      Stats
}

// checker holds a history while it is checked.
type checker struct {
	final  Final
	bounds Bounds

	messages map[string]*message
	kept     map[string]bool // topics of which others claim, unrecorded
	claims   []*op
	open     map[string][]*op // topic → claims whose outcome is unknown
	hearers  map[hearerKey]*hearer
	stored   []*op
	faults   []*op
	heals    map[key]*op
	ends     []*op // Kill, Stop
	beats    []*op
	drained  int64 // zero: never

	windows []window // in order
	clock   clock
	places  map[string][]string // of Final

	violations []Violation
	stats      Stats
}

// Check checks a history, in the order of ReadDir, and what was found in Redis
// at its end. The error is that of a history that makes no sense.
func Check(records []Record, final Final, bounds Bounds) (Report, error) {
	c := &checker{
		final: final, bounds: bounds, stats: newStats(),
		messages: make(map[string]*message), kept: make(map[string]bool), open: make(map[string][]*op),
		hearers: make(map[hearerKey]*hearer), heals: make(map[key]*op),
	}
	if err := c.index(records); err != nil {
		return Report{}, fmt.Errorf("history: %w", err)
	}
	c.relate()
	c.places = c.final.places()
	for _, m := range c.messages {
		c.checkMessage(m)
	}
	for member := range c.places {
		if c.messages[member] == nil {
			c.violate(Unpublished, member+" is there, and nobody published it")
		}
	}
	c.checkOrder()
	c.checkBroadcasts()
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
	if m.broadcast {
		return
	}
	c.again(m)
	c.handedOut(m)
	c.receipts(m)
	c.givenTwice(m)
	for i, h := range m.handouts {
		c.early(m, h)
		c.expired(m, h)
		c.late(m, i)
	}
}

// violate takes note of a violation.
func (c *checker) violate(rule Rule, message string, ops ...*op) {
	v := Violation{Rule: rule, Message: message}
	for _, o := range ops {
		v.Records = append(v.Records, o.records()...)
	}
	slices.SortStableFunc(v.Records, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	c.violations = append(c.violations, v)
}

// undone reports whether Redis may have forgotten what happened in a while.
func (c *checker) undone(from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return w.forgets(from, to) })
}

// promisedUndone reports the same of what is answered only when replicas have it.
func (c *checker) promisedUndone(from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return !w.waited() && w.forgets(from, to) })
}

// forgot reports whether Redis may have forgotten an operation.
func (c *checker) forgot(o *op) bool {
	if promised[o.call.Op] {
		return c.promisedUndone(o.from(), o.to())
	}
	return c.undone(o.from(), o.to())
}
