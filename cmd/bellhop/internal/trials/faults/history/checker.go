package history

import (
	"cmp"
	"slices"
)

// A checker holds a history while it is checked. The index files the records; faults, leases,
// ends and the sent broadcasts tell what else may have happened. Each check stands on these,
// in a file of its own, and knows no other check. Check calls all.
type checker struct {
	final  Final
	bounds Bounds

	messages  map[string]*message
	ids       map[string]*identity     // by member, of those that were published with versions
	keys      map[[2]string][]*message // that have a key, by topic and key
	given     map[taker][]*handout     // in order
	full      map[string][]span        // by topic: in which no taker had a hand free
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

// newChecker returns a checker that has filed nothing yet.
func newChecker(final Final, bounds Bounds) *checker {
	return &checker{
		final: final, bounds: bounds, places: final.places(), stats: newStats(),
		messages: make(map[string]*message), kept: make(map[string]bool), open: make(map[string][]*op),
		keys: make(map[[2]string][]*message), ids: make(map[string]*identity), taking: make(map[string][]*op),
		given: make(map[taker][]*handout), full: make(map[string][]span),
		listeners: make(map[listenerKey]*listener), heals: make(map[key]*op), beats: make(map[int][]*op),
	}
}

type key struct {
	process string
	n       int64
	heal    bool
}

type listenerKey struct{ process, listener string }

// violate records a violation.
func (c *checker) violate(rule Rule, message string, ops ...*op) {
	v := Violation{Rule: rule, Message: message}
	for _, o := range ops {
		v.Records = append(v.Records, o.records()...)
	}
	slices.SortStableFunc(v.Records, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	c.violations = append(c.violations, v)
}
