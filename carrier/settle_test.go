package carrier

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// However far away Redis is, and however many schedules are late or made by older rules of zones, they are settled before what they made is
// carried: each time some of them, between beats that come in time.
func TestSettlesAtLength(t *testing.T) {
	t.Parallel()
	for _, trip := range []time.Duration{0, settleSlice - time.Millisecond, settleSlice + time.Millisecond, 20 * settleSlice} {
		for _, what := range []string{"renewed", "settled", "both"} {
			t.Run(fmt.Sprint(what, " ", trip), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
					s.trip = trip
					if what != "settled" {
						s.old = 200
					}
					if what != "renewed" {
						s.late = 200
					}
					s.due = []time.Time{time.Now()}
					start(t, a)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if s.old+s.late > 0 || s.epoch != 1 || len(s.due) > 0 {
						t.Errorf("%d of old zones and %d late ones are left, and %d messages, in term %d", s.old, s.late, len(s.due), s.epoch)
					}
					var last time.Duration
					for _, c := range slices.DeleteFunc(s.calls, func(c called) bool { return c.what != "beat" && c.what != "look" }) {
						if gap := c.at - last; gap > reach.Heartbeat+10*trip+settleSlice {
							t.Errorf("no beat between %v and %v", last, c.at)
						}
						last = c.at
					}
				}, Options{})
			})
		}
	}
}

// That schedules cannot be settled, as while Redis is full, is logged once, and once that they are again.
func TestUnsettledIsLogged(t *testing.T) {
	t.Parallel()
	var log logged
	simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
		s.full, s.late = true, 1
		start(t, a)
		logs := func(begun, over int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if log.count("cannot settle schedules") != begun || log.count("settling schedules again") != over {
				t.Errorf("want %d and %d lines, got %q", begun, over, log.lines)
			}
		}
		logs(1, 0)
		s.set(func() { s.full = false })
		logs(1, 1)
	}, Options{Logger: log.logger()})
}
