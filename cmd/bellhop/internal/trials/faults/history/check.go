package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Rule must hold for every history.
type Rule string

// The rules.
const (
	Lost        Rule = "lost"        // a message whose publish was acknowledged is settled, or still there
	Unpublished Rule = "unpublished" // only published messages are handed out, sent or there
	Early       Rule = "early"       // no message is handed out or sent before it is due
	Expired     Rule = "expired"     // no message is handed out after its time to live
	Cancelled   Rule = "cancelled"   // no message is handed out after its cancel was acknowledged
	Stopped     Rule = "stopped"     // no lease is extended after its message was to be cancelled, and what is not acknowledged then is gone
	Again       Rule = "again"       // no message is handed out after its acknowledgement was confirmed
	Double      Rule = "double"      // no message is handed out twice unless its lease expired or it was given back
	Attempts    Rule = "attempts"    // attempts count as documented
	Hands       Rule = "hands"       // nobody is handed more messages at a time than it asked for
	Receipts    Rule = "receipts"    // no stale or unknown receipt settles a message, and none is given twice
	Late        Rule = "late"        // no message is handed out later than stated
	Overdue     Rule = "overdue"     // at the end no message waits that should have been moved
	Order       Rule = "order"       // broadcasts are sent and received in order, and one worker handles messages in order
	Twice       Rule = "twice"       // a broadcast is sent once, and received once by a listener without a name
	Missed      Rule = "missed"      // every listener receives a broadcast, or is told of the gap, and so does the URL of a push
	FalseGap    Rule = "false gap"   // listeners are told of a gap only if broadcasts were removed
	Stored      Rule = "stored"      // a JetStream stream holds each broadcast once
	Mover       Rule = "mover"       // no carrier beats after a later one was elected
	Takeover    Rule = "takeover"    // the next carrier takes over in time
	Orphan      Rule = "orphan"      // no key holds anything that belongs to no message
	Replaced    Rule = "replaced"    // no body is handed out after a publish that replaced it was acknowledged
	Previous    Rule = "previous"    // a publish that replaces a message says when that was due
	Debounced   Rule = "debounced"   // a debounced message is due max_wait after its first publish at the latest
	Refused     Rule = "refused"     // a publish is refused, or another one kept, only while the id is in use
	Unique      Rule = "unique"      // no message has an id that is still taken
	Seat        Rule = "seat"        // of a key one message at a time is between its first handout and its end
	KeyOrder    Rule = "key order"   // the messages of a key are handed out in the order in which they are due
	Webhook     Rule = "webhook"     // each request of a push has a signature of the push, and the id of its message
	Limited     Rule = "limit"       // no more messages of a topic are leased at once than its concurrency
	Rate        Rule = "rate"        // no more messages of a topic are handed out in a time than its rate and its burst
	Successor   Rule = "successor"   // no successor is handed out while the message before it is in hand
	Dropped     Rule = "dropped"     // what was dropped is counted, and leaves no dead letter
	TooLate     Rule = "too late"    // what is claimed too late is marked, dropped or buried, as it asks
	Lease       Rule = "lease"       // a claim gives the lease that a message asks for, and no lease exceeds the timeout of its try
	Asked       Rule = "asked"       // a claim gets no more than it asked for, of the topics that it asked for
	Kept        Rule = "kept"        // what was acknowledged with a keep is there with its result, and nothing else is
	Awaited     Rule = "awaited"     // an await says how a message ended, and says so in time
	Archived    Rule = "archived"    // the archive holds each end once
	Died        Rule = "died"        // no message dies that handlers neither buried nor failed often enough
)

// promised are the operations that are confirmed only when replicas have them, if calls wait for replicas.
var promised = map[Op]bool{
	Publish: true, Broadcast: true, Cancel: true, CancelNext: true, Reschedule: true, Requeue: true, Ack: true, Nack: true, Snooze: true, Bury: true,
}

// A Violation is a rule that was broken.
type Violation struct {
	Rule    Rule
	Message string
	Records []Record // the evidence
}

// maxShown is how many records of a violation are printed.
const maxShown = 24

// String returns the violation and its records, each in a line.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Rule, v.Message)
	for i, r := range v.Records {
		if i == maxShown {
			fmt.Fprintf(&b, "\n\tand %d more", len(v.Records)-i)
			break
		}
		b.WriteString("\n\t" + r.String())
	}
	return b.String()
}

// Bounds are the stated bounds. A bound of zero is not checked.
type Bounds struct {
	Attempts int           // default limit of attempts
	Ordered  []string      // topics with one worker of concurrency 1
	Late     time.Duration // lateness without a fault

	// Within After (by the kind of fault, or else Recovery) and Late from the heal of a
	// fault, waiting messages are handed out.
	After    map[string]time.Duration
	Recovery time.Duration

	Takeover map[string]time.Duration // by the kind of fault, or Kill or Stop: time until the next carrier's first beat
	Restarts []string                 // kinds of faults that restart Redis, too: that time counts from when they are made

	// Stood is for how long the machine stood still in a period, which each bound of time is stretched by; nil: never.
	Stood func(from, to time.Time) time.Duration

	Shards int           // of the store; zero: one
	Beside time.Duration // lateness of topics of Apart while a fault hits other shards
	Apart  []string      // topics of which messages are claimed by claims of no other topic

	Told      []string         // topics of which each handout without a fault is recorded, also those by others
	Limited   map[string]Limit // topics that have limits: how late their messages are is not checked
	Bulk      []string         // topics of which many messages are due at once, and wait for hands: the same
	Pushed    []string         // topics of which each handout is a request to a URL, which may have to wait until its endpoint works: the same
	PushedAll []string         // topics of which each broadcast is pushed to a URL

	Spares []string // kinds of faults that give back no message that a handler has, and use up no attempt
}

// A Report is the result of Check.
type Report struct {
	Violations []Violation
	Stats      Stats
}

// checker holds a history while it is checked.
type checker struct {
	final  Final
	bounds Bounds

	messages  map[string]*message
	ids       map[string]*identity     // by member, of those that were published with versions
	keys      map[[2]string][]*message // that have a key, by topic and key
	kept      map[string]bool          // topics with unrecorded claims of others
	claims    []*op
	open      map[string][]*op // topic → claims whose outcome is unknown
	taking    map[string][]*op // topic → those of them that acknowledge
	listeners map[listenerKey]*listener
	stored    []*op
	faults    []*op
	heals     map[key]*op
	ends      []*op         // Kill, Stop
	beats     map[int][]*op // by shard
	drained   int64         // zero: never
	last      int64         // At of the last record

	windows []window // in order
	clock   clock
	places  map[string][]string // of Final

	violations []Violation
	stats      Stats
}

// Check checks a history, in the order of ReadDir, with the contents of Redis at its end. It
// fails if the history makes no sense.
func Check(records []Record, final Final, bounds Bounds) (Report, error) {
	c := &checker{
		final: final, bounds: bounds, stats: newStats(),
		messages: make(map[string]*message), kept: make(map[string]bool), open: make(map[string][]*op),
		keys: make(map[[2]string][]*message), ids: make(map[string]*identity), taking: make(map[string][]*op),
		listeners: make(map[listenerKey]*listener), heals: make(map[key]*op), beats: make(map[int][]*op),
	}
	if len(records) > 0 {
		c.last = records[len(records)-1].At
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
	c.checkHands()
	c.checkAsked()
	c.dropped()
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

// stood returns for how long the machine stood still in a period, in µs.
func (c *checker) stood(from, to int64) int64 {
	if c.bounds.Stood == nil {
		return 0
	}
	return c.bounds.Stood(time.UnixMicro(from), time.UnixMicro(to)).Microseconds()
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

// violate records a violation.
func (c *checker) violate(rule Rule, message string, ops ...*op) {
	v := Violation{Rule: rule, Message: message}
	for _, o := range ops {
		v.Records = append(v.Records, o.records()...)
	}
	slices.SortStableFunc(v.Records, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	c.violations = append(c.violations, v)
}

// undone reports whether Redis may have forgotten what happened to a topic in a period. An
// empty one stands for any.
func (c *checker) undone(topic string, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return c.concerns(w, topic) && w.forgets(from, to) })
}

// undoneIn is undone for a shard.
func (c *checker) undoneIn(shard int, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return w.hits(shard) && w.forgets(from, to) })
}

// promisedUndone is undone for promised operations.
func (c *checker) promisedUndone(topic string, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return !w.waited() && c.concerns(w, topic) && w.forgets(from, to) })
}

// forgot reports whether Redis may have forgotten an operation.
func (c *checker) forgot(o *op) bool {
	if promised[o.call.Op] {
		return c.promisedUndone(o.call.Topic, o.from(), o.to())
	}
	return c.undone(o.call.Topic, o.from(), o.to())
}
