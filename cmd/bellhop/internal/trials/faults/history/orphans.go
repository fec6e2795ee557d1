package history

import (
	"fmt"
	"slices"
	"strings"
)

// orphans finds keys and members that belong to no message.
func (c *checker) orphans() {
	f := &c.final
	records := setOf(f.Records)
	deaths := setOf(f.Deaths)
	for member, where := range c.places {
		if len(where) > 1 {
			c.violate(Orphan, fmt.Sprintf("%s is in several places: %s", member, strings.Join(where, ", ")))
		}
		if !records[member] {
			c.violate(Orphan, fmt.Sprintf("%s is %s and has no record", member, where[0]))
		}
		if dead := slices.Contains(where, "dead"); dead != deaths[member] {
			c.violate(Orphan, fmt.Sprintf("%s is %s; it has a reason of death: %v", member, where[0], deaths[member]))
		}
	}
	for member := range records {
		c.homeless("a record", member)
	}
	for member := range f.Attempts {
		if _, kept := f.Done[member]; !kept {
			c.homeless("attempts", member)
		}
	}
	for member := range f.Expiries {
		c.homeless("an expiry", member)
	}
	for _, member := range f.Grouped {
		c.homeless("a group", member)
	}
	for member := range deaths {
		c.homeless("a reason of death", member)
	}
	c.counters()
	for _, key := range f.Foreign {
		c.violate(Orphan, "the key "+key+" is not Bellhop's")
	}
}

func (c *checker) homeless(what, member string) {
	if len(c.places[member]) == 0 {
		c.violate(Orphan, fmt.Sprintf("%s has %s but is in no place", member, what))
	}
}

// counters compares counters and indexes with the messages.
func (c *checker) counters() {
	f := &c.final
	heads := make(map[string]int64)
	for topic, members := range f.Scheduled {
		for _, due := range members {
			if head, known := heads[topic]; !known || due < head {
				heads[topic] = due
			}
		}
	}
	c.equal("the head of the scheduled set", f.Heads, heads)
	c.readySet()
	c.equal("the counter leased", f.Leases, byTopic(f.Leased))
	c.equal("the counter broadcasts", f.Waiting, byTopic(f.Broadcasts))
}

// readySet finds topics in the index of ready topics that have no ready message, topics that
// are missing there, and topics with a score after their first ready message. A score before
// it is allowed.
func (c *checker) readySet() {
	ready, listed := make(map[string]int64), make(map[string]int64)
	for topic, members := range c.final.Ready {
		ready[topic] = int64(min(len(members), 1))
		for member, due := range members {
			if c.final.ReadySet[topic] > due {
				c.violate(Orphan, fmt.Sprintf("%s is in the index of ready topics with a score after %s", topic, member))
			}
		}
	}
	for topic := range c.final.ReadySet {
		listed[topic] = 1
	}
	c.equal("the entry in the index of ready topics", listed, ready)
}

// equal compares what Redis notes about each topic with the truth.
func (c *checker) equal(what string, noted, truth map[string]int64) {
	for topic, n := range noted {
		if truth[topic] != n {
			c.violate(Orphan, fmt.Sprintf("%s of %s is %d, want %d", what, topic, n, truth[topic]))
		}
	}
	for topic, n := range truth {
		if _, there := noted[topic]; !there && n != 0 {
			c.violate(Orphan, fmt.Sprintf("%s of %s is missing, want %d", what, topic, n))
		}
	}
}

// overdue finds messages that the carrier should have moved.
func (c *checker) overdue() {
	if c.final.Now == 0 || c.bounds.Late == 0 {
		return
	}
	limit := c.final.Now - c.bounds.Late.Milliseconds()
	check := func(where string, members map[string]int64) {
		for member, at := range members {
			if at < limit-c.stood(at*1000, c.final.Now*1000)/1000 {
				c.violate(Overdue, fmt.Sprintf("%s is still %s, %d ms after its time", member, where, c.final.Now-at))
			}
		}
	}
	for _, members := range c.final.Scheduled {
		check("scheduled", members)
	}
	check("leased", c.final.Leased)
	check("waiting to be sent", c.final.Broadcasts)
}

func setOf(all []string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, one := range all {
		set[one] = true
	}
	return set
}

func byTopic(members map[string]int64) map[string]int64 {
	counts := make(map[string]int64)
	for member := range members {
		topic, _, _ := strings.Cut(member, ":")
		counts[topic]++
	}
	return counts
}
