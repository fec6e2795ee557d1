package carrier

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// That Redis's clock is off is logged once, and once that it is no more. What a late beat tells counts for nothing.
func TestSkew(t *testing.T) {
	t.Parallel()
	const begun, over = "redis's clock is off this host's, and", "redis's clock is no longer off this host's"
	for name, test := range map[string]struct {
		ahead []time.Duration
		want  string // what is logged
	}{
		"none":        {[]time.Duration{0, -3 * time.Millisecond, 900 * time.Millisecond}, ""},
		"ahead":       {[]time.Duration{time.Hour, time.Hour, time.Hour}, begun},
		"behind":      {[]time.Duration{-time.Hour, -time.Hour + time.Millisecond}, begun},
		"set":         {[]time.Duration{0, 0, time.Hour, time.Hour, time.Hour, 0, 0}, begun + " " + over},
		"once late":   {[]time.Duration{0, 0, -2 * time.Second, 0, 0}, ""},
		"one at once": {[]time.Duration{0, -3 * time.Second, -2 * time.Second, -time.Second, 0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			s := newSkew(log.logger())
			for _, ahead := range test.ahead {
				s.hear(ahead)
			}
			var got []string
			for _, line := range log.lines {
				for _, message := range []string{begun, over} {
					if strings.Contains(line, message) {
						got = append(got, message)
					}
				}
			}
			if strings.Join(got, " ") != test.want || len(got) != len(log.lines) {
				t.Errorf("logged %q, want %q", log.lines, test.want)
			}
		})
	}
}

// Each daemon tells how far the clock of Redis is ahead, also one that stands by.
func TestSkewIsTold(t *testing.T) {
	t.Parallel()
	var log logged
	simulate(t, func(t *testing.T, s *simulated, a, b *Carrier) {
		start(t, a)
		start(t, b)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, c := range []*Carrier{a, b} {
			if got := c.States()[0].Ahead; (got - aheadOfHere).Abs() > time.Second {
				t.Errorf("Redis is ahead by %v, want %v", got, aheadOfHere)
			}
		}
		if n := log.count("redis's clock is off"); n != 2 {
			t.Errorf("logged %d times, by two carriers: %q", n, log.lines)
		}
	}, Options{Logger: log.logger()})
}

// A carrier that knows that Redis's clock stands still waits for a nudge, or its beat, and does not log that the clock is off.
func TestClockStandsStill(t *testing.T) {
	t.Parallel()
	var log logged
	simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
		start(t, a)
		synctest.Wait()
		s.mu.Lock()
		s.due = []time.Time{time.Now().Add(2500 * time.Millisecond)}
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.calls {
			if c.what == "call" && c.at > time.Second {
				t.Errorf("it calls beside its beats, after %v", c.at)
			}
		}
		if len(s.due) > 0 || log.count("redis's clock is off") > 0 {
			t.Errorf("due is %v, and it logged %q", s.due, log.lines)
		}
	}, Options{Logger: log.logger(), Still: true})
}
