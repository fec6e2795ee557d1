package metrics

import (
	"sync"

	"github.com/bellhopd/bellhop/notify"
)

// other is the label of the topics that have none of their own.
const other = "other"

// topics are those that have a label of their own.
type topics struct {
	limit int

	mu   sync.Mutex
	seen map[string]bool
}

func newTopics(limit int) *topics { return &topics{limit: limit, seen: make(map[string]bool)} }

// label returns the label of a topic: its name if it was among the first.
func (t *topics) label(topic string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[topic] {
		return topic
	}
	if topic == other || len(t.seen) >= t.limit {
		return other
	}
	t.seen[topic] = true
	return topic
}

// byLabel adds up counts of topics, which come by name, under their labels, in
// the order in which each label comes first.
func (t *topics) byLabel(all []notify.Counts) []notify.Counts {
	var sums []notify.Counts
	at := make(map[string]int)
	for _, c := range all {
		c.Topic = t.label(c.Topic)
		i, ok := at[c.Topic]
		if !ok {
			at[c.Topic] = len(sums)
			sums = append(sums, c)
			continue
		}
		add(&sums[i], c)
	}
	return sums
}

// add adds the counts of a topic; the oldest and the latest are those of them all.
func add(sum *notify.Counts, c notify.Counts) {
	sum.Scheduled += c.Scheduled
	sum.Ready += c.Ready
	sum.Leased += c.Leased
	sum.Dead += c.Dead
	sum.Waiting += c.Waiting
	sum.Published += c.Published
	sum.Acked += c.Acked
	sum.Died += c.Died
	sum.Overdue = max(sum.Overdue, c.Overdue)
	sum.Lateness = max(sum.Lateness, c.Lateness)
	sum.Paused = sum.Paused || c.Paused
	sum.Broadcasts += c.Broadcasts
	sum.Sent += c.Sent
	sum.Log += c.Log
}
