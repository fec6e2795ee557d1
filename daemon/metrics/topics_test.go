package metrics_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
)

// words returns names of topics, one by one.
func words(text string) []string { return strings.Fields(text) }

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name    string
		limit   int
		trouble []string // one for each kind of trouble
		traffic string
		want    string
	}{
		{"nothing", 5, nil, "", ""},
		{"only traffic", 3, nil, "a b c d", "a b c"},
		{"trouble first", 5, []string{"x y"}, "a b c d", "x y a b c"},
		{"each kind in turn", 4, []string{"o1 o2 o3 o4 o5", "d1 d2 d3", "", "p1"}, "a b", "o1 d1 p1 o2"},
		{"a fifth for traffic", 10, []string{"1 2 3 4 5 6 7 8 9 10 11 12"}, "a b c", "1 2 3 4 5 6 7 8 a b"},
		{"a place that traffic leaves", 10, []string{"1 2 3 4 5 6 7 8 9 10 11 12"}, "a", "1 2 3 4 5 6 7 8 9 a"},
		{"the same twice", 3, []string{"a b", "a"}, "b a c d", "a b c"},
		{"one place", 1, []string{"x"}, "a", "x"},
	} {
		var lists [][]string
		for _, kind := range test.trouble {
			lists = append(lists, words(kind))
		}
		got := slices.Sorted(maps.Keys(metrics.Choose(test.limit, lists, words(test.traffic))))
		if diff := cmp.Diff(slices.Sorted(slices.Values(words(test.want))), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A world simulates the counts of a store.
type world struct {
	t      *testing.T
	now    time.Time
	topics metrics.Topics
	counts map[string]notify.Counts
	survey notify.Survey
}

func newWorld(t *testing.T, limit int, listed ...string) *world {
	return &world{t: t, now: time.UnixMilli(1_800_000_000_000), topics: metrics.NewTopics(limit, listed...), counts: make(map[string]notify.Counts)}
}

// publish counts published messages of a topic, and makes it busy.
func (w *world) publish(topic string, n int64) {
	c := w.counts[topic]
	c.Topic = topic
	c.Published += n
	c.Ready += n
	w.counts[topic] = c
	w.survey.Published += n
	w.survey.Messages += n
	w.survey.Busy = slices.DeleteFunc(w.survey.Busy, func(b notify.Notable) bool { return b.Topic == topic })
	w.survey.Busy = slices.Insert(w.survey.Busy, 0, notify.Notable{Topic: topic, Since: w.now})
}

// notable returns a notable topic of some age.
func (w *world) notable(topic string, age time.Duration) notify.Notable {
	if _, known := w.counts[topic]; !known {
		w.counts[topic] = notify.Counts{Topic: topic, Published: 1}
	}
	return notify.Notable{Topic: topic, Since: w.now.Add(-age)}
}

// pause is the time from one update to the next.
const pause = 15 * time.Second

// look updates the topics, a pause later, and returns the shown counts by label.
func (w *world) look() map[string]notify.Counts {
	w.now = w.now.Add(pause)
	w.survey.Now = w.now
	var counts []notify.Counts
	for _, topic := range w.topics.Candidates(w.survey) {
		c := w.counts[topic]
		c.Topic = topic
		counts = append(counts, c)
	}
	shown := make(map[string]notify.Counts)
	all, _ := w.topics.Update(w.survey, counts)
	for _, c := range all {
		if _, twice := shown[c.Topic]; twice {
			w.t.Errorf("%s is shown twice", c.Topic)
		}
		shown[c.Topic] = c
	}
	return shown
}

// named returns the topics that an update shows, except other.
func (w *world) named() string {
	shown := w.look()
	delete(shown, "other")
	return strings.Join(slices.Sorted(maps.Keys(shown)), " ")
}

func (w *world) want(names string) {
	w.t.Helper()
	if got := w.named(); got != names {
		w.t.Errorf("named are %q, want %q", got, names)
	}
}

// Topics with similar traffic do not take each other's label, in whatever order they are found.
func TestNamesDoNotFlap(t *testing.T) {
	w := newWorld(t, 10)
	var first string
	for round := range 100 {
		for _, i := range rand.Perm(30) {
			w.publish(fmt.Sprint("topic-", i), 50+rand.Int64N(50))
		}
		if named := w.named(); round == 0 {
			first = named
		} else if named != first {
			t.Fatalf("after %d looks: %s, at first %s", round, named, first)
		}
	}
}

// A topic with much more traffic gets a label within a few minutes: that of the topic with the least.
func TestTrafficTakesAPlace(t *testing.T) {
	w := newWorld(t, 2)
	rounds := func(rates map[string]int64) {
		for range 20 {
			for _, topic := range slices.Sorted(maps.Keys(rates)) {
				w.publish(topic, rates[topic])
			}
			w.look()
		}
	}
	rounds(map[string]int64{"a": 100, "b": 50})
	rounds(map[string]int64{"a": 100, "b": 50, "c": 70})
	w.want("a b")
	rounds(map[string]int64{"a": 100, "b": 50, "c": 500})
	w.want("a c")
}

// A topic in trouble is shown however much traffic, or trouble of other kinds, others have; a listed one always is.
func TestTroubleIsNamedBehindNoise(t *testing.T) {
	w := newWorld(t, 10, "vip", "never.used")
	for i := range 500 {
		w.publish(fmt.Sprint("noise-", i), 1000)
	}
	w.look()
	w.survey.Overdue = []notify.Notable{w.notable("late", 30*time.Minute)}
	w.survey.Paused = []notify.Notable{w.notable("held", 24*time.Hour)}
	w.survey.Behind = []notify.Notable{w.notable("behind", time.Minute)}
	w.survey.Deaths = []notify.Notable{w.notable("dying", time.Minute)}
	for i := range 400 {
		w.survey.Overdue = append(w.survey.Overdue, w.notable(fmt.Sprint("noise-", i), 10*time.Minute))
		w.survey.Deaths = append(w.survey.Deaths, w.notable(fmt.Sprint("noise-", 499-i), 2*time.Minute))
	}
	for range 3 {
		shown := w.look()
		for _, topic := range words("late held behind dying vip never.used other") {
			if _, ok := shown[topic]; !ok {
				t.Errorf("%s is not shown among %v", topic, slices.Sorted(maps.Keys(shown)))
			}
		}
		if len(shown) != 10+2+1 {
			t.Errorf("%d labels", len(shown))
		}
	}
}

// Messages about to be handled are no trouble, nor is an old death. A topic that had trouble keeps its label below the limit.
func TestTroubleThatIsNone(t *testing.T) {
	w := newWorld(t, 3)
	for _, topic := range words("a b c") {
		w.publish(topic, 10)
	}
	w.survey.Overdue = []notify.Notable{w.notable("soon", time.Second-pause)}
	w.survey.Deaths = []notify.Notable{w.notable("once", time.Hour)}
	w.want("a b c")
	w.survey.Overdue = []notify.Notable{w.notable("late", time.Minute)}
	w.want("a b late")
	w.survey.Overdue = nil
	for _, topic := range words("a b c") {
		w.publish(topic, 10)
	}
	w.want("a b c")

	w = newWorld(t, 3)
	w.survey.Overdue = []notify.Notable{w.notable("late", time.Minute)}
	w.want("late")
	w.survey.Overdue = nil
	w.want("late")
	w.counts["late"] = notify.Counts{Topic: "late"} // forgotten
	w.want("")
}

// Other counts all that is shown nowhere else, and never goes down, while labels come and
// go, counts are of a moment later than the totals, and Redis loses its data.
func TestOtherNeverGoesDown(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, 5, "topic-0")
		before, grown, published := w.look(), int64(0), int64(0)
		for round := range 200 {
			for range r.IntN(50) {
				n := r.Int64N(100)
				w.publish(fmt.Sprint("topic-", r.IntN(20)), n)
				published += n
			}
			w.survey.Overdue = nil
			for _, i := range r.Perm(20)[:r.IntN(4)] {
				w.survey.Overdue = append(w.survey.Overdue, w.notable(fmt.Sprint("topic-", i), time.Minute))
			}
			if round == 150 {
				clear(w.counts)
				w.survey.Published, w.survey.Messages = 0, 0
			}
			early := r.Int64N(30) // published, but not yet in the totals
			w.survey.Published -= early
			now := w.look()
			w.survey.Published += early
			if now["other"].Published < before["other"].Published || now["other"].Scheduled < 0 {
				t.Fatalf("seed %d: other went from %+v to %+v", seed, before["other"], now["other"])
			}
			for topic, c := range now {
				if last, stayed := before[topic]; stayed {
					grown += max(0, c.Published-last.Published)
				}
			}
			before = now
			if round == 149 && (grown > published+100 || grown < published-100) {
				t.Errorf("seed %d: %d were published, and the series grew by %d", seed, published, grown)
			}
		}
	}
}

// Other shows the rest of the totals, and the worst topic of each index.
func TestOther(t *testing.T) {
	w := newWorld(t, 1, "listed")
	w.counts["a"] = notify.Counts{Topic: "a", Published: 10, Ready: 4, Scheduled: 3, Leased: 2, Dead: 1, Broadcasts: 5}
	w.survey = notify.Survey{
		Messages: 100, Leased: 10, Dead: 20, Broadcasts: 30, Published: 500,
		Overdue: []notify.Notable{w.notable("a", 2*time.Hour), w.notable("b", time.Hour), w.notable("c", time.Minute)},
		Deaths:  []notify.Notable{w.notable("b", time.Minute), w.notable("c", time.Hour)},
	}
	w.counts["b"] = notify.Counts{Topic: "b", Published: 1}
	shown := w.look()
	want := notify.Counts{Topic: "other", Scheduled: 40 - 7, Leased: 8, Dead: 19, Broadcasts: 25, Overdue: time.Hour + pause}
	if diff := cmp.Diff(want, shown["other"]); diff != "" || len(shown) != 3 {
		t.Errorf("of %d labels (-want +got):\n%s", len(shown), diff)
	}
}
