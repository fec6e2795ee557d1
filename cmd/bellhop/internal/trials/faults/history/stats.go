package history

import (
	"slices"
	"time"
)

// Quiet is the kind of fault in Stats.Lateness of what met none.
const Quiet = ""

// Beside begins the kind in Stats.Lateness of what was in another shard than a fault.
const Beside = "beside "

// Stats are what was counted.
type Stats struct {
	Operations map[Op]map[Phase]int
	Lateness   map[string]Times // by the kinds of fault that it met, by Redis's clock
	Takeover   map[string]Times // by the kind of fault
}

// Times are durations, in order.
type Times []time.Duration

// Quantile returns that of a share, 0.5 for the median; zero if there are none.
func (t Times) Quantile(share float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(share*float64(len(t))), len(t)-1)]
}

func newStats() Stats {
	return Stats{make(map[Op]map[Phase]int), make(map[string]Times), make(map[string]Times)}
}

// Add adds what was counted elsewhere.
func (s *Stats) Add(other Stats) {
	for op, phases := range other.Operations {
		for phase, n := range phases {
			s.add(op, phase, n)
		}
	}
	for kind, times := range other.Lateness {
		s.Lateness[kind] = append(s.Lateness[kind], times...)
	}
	for kind, times := range other.Takeover {
		s.Takeover[kind] = append(s.Takeover[kind], times...)
	}
	s.sort()
}

func (s *Stats) add(op Op, phase Phase, n int) {
	if s.Operations == nil {
		*s = newStats()
	}
	if s.Operations[op] == nil {
		s.Operations[op] = make(map[Phase]int)
	}
	s.Operations[op][phase] += n
}

func (s *Stats) sort() {
	for _, times := range s.Lateness {
		slices.Sort(times)
	}
	for _, times := range s.Takeover {
		slices.Sort(times)
	}
}
