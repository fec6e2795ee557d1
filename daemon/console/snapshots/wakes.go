package snapshots

import (
	"time"

	"github.com/bellhopd/bellhop/daemon/console/river"
)

// The past of topics is what their counts said while somebody looked: the store notes that of all topics together.
const (
	wakeMinutes = 61              // that are kept: an hour, and the present minute
	wakeFor     = 5 * time.Minute // it is kept when nobody looks
	mostWakes   = 1000            // topics that have one
)

// A wake is what was acknowledged of a topic in each minute in which somebody looked at it.
type wake struct {
	acked   int64     // ever, when it was counted last
	at      time.Time // of that
	minutes [wakeMinutes]struct{ minute, acked int64 }
}

// add takes what was ever acknowledged until now. What was while nobody looked is left out.
func (w *wake) add(acked int64, now time.Time) {
	if gap := now.Sub(w.at); gap >= 0 && gap <= awayAfter && acked >= w.acked { // less: the topic was forgotten meanwhile
		minute := now.Unix() / 60
		m := &w.minutes[minute%wakeMinutes]
		if m.minute != minute {
			m.minute, m.acked = minute, 0
		}
		m.acked += acked - w.acked
	}
	w.acked, w.at = acked, now
}

// wakes are those of the topics that somebody looks at, or did lately.
type wakes map[string]*wake

// add takes what was ever acknowledged of a topic.
func (all wakes) add(topic string, acked int64, now time.Time) {
	w := all[topic]
	if w == nil && len(all) < mostWakes {
		w = &wake{}
		all[topic] = w
	}
	if w != nil {
		w.add(acked, now)
	}
}

// forget drops those of topics that nobody looked at for long.
func (all wakes) forget(now time.Time) {
	for topic, w := range all {
		if now.Sub(w.at) > wakeFor {
			delete(all, topic)
		}
	}
}

// seen adds what was acknowledged of topics to bars of a minute.
func (all wakes) seen(topics []string, bars []river.Bar) {
	first, last := bars[0].At.Unix()/60, int64(len(bars)-1)
	for _, topic := range topics {
		if w := all[topic]; w != nil {
			for _, m := range w.minutes {
				if i := m.minute - first; i >= 0 {
					bars[min(i, last)].AddPast(m.acked)
				}
			}
		}
	}
}
