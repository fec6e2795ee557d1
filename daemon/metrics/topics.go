package metrics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// other is the label of the topics without one of their own.
const other = "other"

// When a topic stands out.
const (
	longOverdue   = 5 * time.Second  // age of a due message from which on its topic is in trouble
	recentDeath   = 15 * time.Minute // age up to which a death is trouble
	trafficWindow = 5 * time.Minute  // time over which traffic is averaged, newer traffic weighing more
	keepFactor    = 2                // how many times its traffic another topic needs to take the label of a topic
)

// topics are those with a label of their own: the listed ones always, and of those that
// stand out as many as the limit allows. Each update chooses them anew. Updates must not
// run concurrently.
type topics struct {
	limit  int
	listed map[string]bool

	counted map[string]notify.Counts // at the last update
	traffic map[string]float64       // messages a second, of the counted topics
	at      time.Time                // of the last update, by Redis's clock; zero: there was none
	rest    rest

	mu      sync.Mutex
	named   map[string]bool
	claimed map[string]float64 // messages that this process handed out, by label
}

func newTopics(limit int, names []string) *topics {
	t := &topics{limit: limit, listed: make(map[string]bool), named: make(map[string]bool), claimed: make(map[string]float64)}
	for _, name := range names {
		t.listed[name], t.named[name] = true, true
	}
	return t
}

// places returns how many topics may have a label of their own.
func (t *topics) places() int { return t.limit + len(t.listed) }

// handedOut notes a message that this process handed out.
func (t *topics) handedOut(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.named[topic] {
		topic = other
	}
	t.claimed[topic]++
}

// handOuts returns how many messages were handed out, by label.
func (t *topics) handOuts() map[string]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.claimed)
}

// candidates returns the topics that may have a label of their own: those that
// have one, and those that stand out.
func (t *topics) candidates(s notify.Survey) []string {
	t.mu.Lock()
	names := slices.Sorted(maps.Keys(t.named))
	t.mu.Unlock()
	known := make(map[string]bool)
	for _, name := range names {
		known[name] = true
	}
	for _, list := range [][]notify.Notable{s.Busy, s.Overdue, s.Behind, s.Blocked, s.Deaths, s.Paused} {
		for _, n := range list {
			if !known[n.Topic] && n.Topic != other {
				known[n.Topic] = true
				names = append(names, n.Topic)
			}
		}
	}
	return names
}

// update notes a survey and the counts of its candidates, and decides which of them have
// a label from now on. It returns the counts to show, those of the rest included, and
// when the newest dead letters of each label died. A survey that is not whole lacks
// shards that are away.
func (t *topics) update(s notify.Survey, counts []notify.Counts, whole bool) (shown []notify.Counts, deaths map[string]time.Time) {
	t.measure(s.Now, counts)
	own := slices.DeleteFunc(t.byTraffic(counts), func(topic string) bool {
		return t.listed[topic] || t.counted[topic] == notify.Counts{Topic: topic} // Redis has forgotten the topic
	})
	named := choose(t.limit, t.trouble(s), own)
	maps.Copy(named, t.listed)
	shown = slices.DeleteFunc(slices.Clone(counts), func(c notify.Counts) bool { return !named[c.Topic] })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.named = named
	maps.DeleteFunc(t.claimed, func(label string, _ float64) bool { return label != other && !named[label] })
	return append(shown, t.rest.counts(s, shown, whole)), newestDeaths(s, named)
}

// newestDeaths returns when the newest dead letters died, by label.
func newestDeaths(s notify.Survey, named map[string]bool) map[string]time.Time {
	deaths := make(map[string]time.Time)
	for _, n := range s.Deaths { // the newest first
		label := n.Topic
		if !named[label] {
			label = other
		}
		if _, newer := deaths[label]; !newer {
			deaths[label] = n.Since
		}
	}
	return deaths
}

// oldestLeases returns for how long workers have had what they have had longest, by label.
func (t *topics) oldestLeases(hand store.InHand, now time.Time) map[string]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := make(map[string]time.Duration)
	for topic, lease := range hand.Oldest {
		if !t.named[topic] {
			topic = other
		}
		oldest[topic] = max(oldest[topic], now.Sub(lease.Since))
	}
	return oldest
}

// measure averages the traffic of the counted topics, and forgets all others.
func (t *topics) measure(now time.Time, counts []notify.Counts) {
	took := now.Sub(t.at)
	share := 1 - math.Exp(-took.Seconds()/trafficWindow.Seconds())
	counted, traffic := make(map[string]notify.Counts, len(counts)), make(map[string]float64, len(counts))
	for _, c := range counts {
		counted[c.Topic] = c
		before, known := t.counted[c.Topic]
		traffic[c.Topic] = t.traffic[c.Topic]
		if known && took > 0 {
			rate := float64(max(0, c.Published+c.Acked+c.Sent-before.Published-before.Acked-before.Sent)) / took.Seconds()
			traffic[c.Topic] += share * (rate - traffic[c.Topic])
		}
	}
	t.counted, t.traffic, t.at = counted, traffic, now
}

// byTraffic returns the names of topics, most traffic first. The traffic of a topic with
// a label weighs more; equal ones keep their order.
func (t *topics) byTraffic(counts []notify.Counts) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make([]string, len(counts))
	for i, c := range counts {
		names[i] = c.Topic
	}
	weight := func(topic string) float64 {
		if t.named[topic] {
			return keepFactor * t.traffic[topic]
		}
		return t.traffic[topic]
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(weight(b), weight(a)) })
	return names
}

// trouble returns the topics in trouble, a list for each kind of trouble, the worst
// first.
func (t *topics) trouble(s notify.Survey) [][]string {
	since := func(list []notify.Notable, is func(age time.Duration) bool) []string {
		var names []string
		for _, n := range list {
			if is(s.Now.Sub(n.Since)) && n.Topic != other && !t.listed[n.Topic] {
				names = append(names, n.Topic)
			}
		}
		return names
	}
	long := func(age time.Duration) bool { return age >= longOverdue }
	return [][]string{
		since(s.Overdue, long),
		since(s.Deaths, func(age time.Duration) bool { return age <= recentDeath }),
		since(s.Paused, func(time.Duration) bool { return true }),
		since(s.Behind, long),
		since(s.Blocked, long),
	}
}

// choose returns up to limit topics. Those in trouble come first, the worst of
// each kind in turn, so that no kind leaves the others out; a fifth of the places
// is for those with traffic, even if trouble would fill them all.
func choose(limit int, trouble [][]string, byTraffic []string) map[string]bool {
	chosen := make(map[string]bool)
	fill := func(topics []string, upTo int) {
		for _, topic := range topics {
			if len(chosen) >= upTo {
				return
			}
			chosen[topic] = true
		}
	}
	inTurn := interleave(trouble)
	fill(inTurn, limit-limit/5)
	fill(byTraffic, limit)
	fill(inTurn, limit)
	return chosen
}

// interleave returns the first of each list, then the second of each, and so on.
func interleave(lists [][]string) []string {
	var all []string
	for rank, more := 0, true; more; rank++ {
		more = false
		for _, list := range lists {
			if rank < len(list) {
				all, more = append(all, list[rank]), true
			}
		}
	}
	return all
}
