package carrier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// While nothing is due a carrier beats, three times within a short lease and else once a second, and each tenth beat looks at what
// changes slowly. It asks nothing else, however far away the next thing is.
func TestBeats(t *testing.T) {
	t.Parallel()
	for lease, every := range map[time.Duration]time.Duration{MinLease: MinLease / 3, DefaultLease: time.Second, MaxLease: time.Second} {
		for _, year := range []int{0, 2400, 3000, 6000, 9000, 9999} {
			t.Run(fmt.Sprint(lease, " ", year), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
					if year > 0 {
						s.due = append(s.due, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
					}
					want := []called{{0, "elect a"}, {0, "look"}, {0, "call"}} // since it hears nudges from then on
					for i := 1; i < 30; i++ {
						want = append(want, called{time.Duration(i) * every, map[bool]string{true: "look", false: "beat"}[i%beatsALook == 0]})
					}
					start(t, a)
					time.Sleep(30*every - 1)
					synctest.Wait()
					got := slices.DeleteFunc(s.calls, func(c called) bool { return c.what == "sweep" })
					storetest.Same(t, "calls", want, got, cmp.AllowUnexported(called{}))
				}, Options{Lease: lease, Sweep: MaxSweep})
			})
		}
	}
}

// However far away Redis is, what is due is moved when it is due by Redis's clock: one call comes in time, behind one that warms
// Redis up if it rested.
func TestSleepsUntilDue(t *testing.T) {
	t.Parallel()
	for _, trip := range []time.Duration{0, 100 * time.Microsecond, 2 * time.Millisecond, 30 * time.Millisecond} {
		for in, calls := range map[time.Duration]int{4 * time.Millisecond: 1, 500 * time.Millisecond: 2, 58500 * time.Millisecond: 2} {
			if in < trip {
				continue // it is due before a call arrives
			}
			t.Run(fmt.Sprint(trip, " ", in), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
					s.trip = trip
					start(t, a)
					time.Sleep(100 * time.Millisecond)
					s.take()
					s.publish(in, true)
					time.Sleep(in + 2*trip)
					got := s.reports()
					if len(got) != 1 || len(got[0].Lateness) != 1 || got[0].Lateness[0] != (Lateness{0, 1}) || got[0].Fallback {
						t.Errorf("moved %+v", got)
					}
					storetest.Is(t, "calls", len(s.take("call")), calls)
				}, Options{})
			})
		}
	}
}

// Whenever things are published, each is moved when it is due, and a nudge for what is due later than the next thing costs no call.
func TestNudges(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
		start(t, a)
		const n = 2000
		for range n {
			time.Sleep(rand.N(60 * time.Millisecond).Truncate(time.Microsecond))
			s.publish(rand.N(3*time.Second).Truncate(time.Millisecond)+time.Millisecond, true)
		}
		time.Sleep(4 * time.Second)
		moved := 0
		for _, c := range s.reports() {
			moved += c.Moved
			for _, l := range c.Lateness {
				if l.Late > time.Millisecond || c.Fallback { // a nudge says when in ms
					t.Errorf("moved %+v", c)
				}
			}
		}
		if moved != n {
			t.Errorf("%d of %d were moved", moved, n)
		}
		if calls := len(s.take("call")); calls > 2*n {
			t.Errorf("%d calls for %d things", calls, n)
		}
		s.publish(time.Hour, true)
		for range 100 {
			s.publish(2*time.Hour, true)
		}
		time.Sleep(time.Minute)
		if calls := s.take("call"); len(calls) > 0 {
			t.Errorf("calls at %v for nudges of what is due later", calls)
		}
		s.publish(0, false)
		s.renew()
		if got := s.reports(); len(got) != 1 || got[0].Lateness[0].Late > 0 || got[0].Fallback {
			t.Errorf("when the subscription was renewed it moved %+v", got)
		}
	}, Options{Sweep: MaxSweep})
}

// What nobody announced is found by the beat, and counts as found by it if it is over 50 ms late: once the beat is heard, behind which
// its nudge would be.
func TestLostNudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in, lag  time.Duration
		nudges   bool
		fallback bool
	}{
		"it is lost":                   {400 * time.Millisecond, 0, false, true},
		"it is lost, and beats lag":    {400 * time.Millisecond, 700 * time.Millisecond, false, true},
		"it is lost, and hardly late":  {960 * time.Millisecond, 0, false, false},
		"it comes later than the beat": {400 * time.Millisecond, 1200 * time.Millisecond, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
				s.lag = test.lag
				start(t, a)
				synctest.Wait()
				s.publish(test.in, test.nudges)
				time.Sleep(5 * time.Second)
				got := s.reports()
				want := Lateness{time.Second - test.in, 1}
				if len(got) != 1 || got[0].Lateness[0] != want || got[0].Fallback != test.fallback {
					t.Errorf("got %+v, want %v late, by the beat: %v", got, want.Late, test.fallback)
				}
				if n := a.States()[0].Fallbacks; (n == 1) != test.fallback {
					t.Errorf("%d were counted", n)
				}
			}, Options{})
		})
	}
}

// A standby looks when the lease may have ended, at least every five seconds, and takes nothing over while it is renewed; at once when
// the carrier steps down, and when the lease of one that was killed ends, not before.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{MinLease, DefaultLease, 20 * time.Second} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(lease, " ", killed), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *simulated, a, b *Carrier) {
					stop := start(t, a)
					synctest.Wait()
					start(t, b)
					time.Sleep(time.Minute)
					looks := s.take("elect b")[1:] // and another one when it hears vacancies
					for i, at := range looks[1:] {
						if gap := at - looks[i]; gap < min(lease*2/3, pollPause) || gap > min(lease, pollPause)+electJitter {
							t.Errorf("a look %v after the one before", gap)
						}
					}
					if who, epoch := s.who(); who != "a" || epoch != 1 {
						t.Errorf("%s is elected, for the %dth time", who, epoch)
					}
					var ends time.Time
					s.set(func() {
						ends = s.ends
						if killed {
							s.deaf = "a"
						}
					})
					stop()
					if killed {
						time.Sleep(time.Until(ends) - 1)
						if who, _ := s.who(); who != "a" {
							t.Errorf("%s is elected before the lease ends", who)
						}
						time.Sleep(electJitter + 1)
					}
					if who, epoch := s.who(); who != "b" || epoch != 2 {
						t.Errorf("%s is elected, for the %dth time", who, epoch)
					}
				}, Options{Lease: lease, Sweep: MaxSweep})
			})
		}
	}
}

// While Redis hangs the loop comes around within its bound, elected or standing by, and stops in time; the log says once that it
// hangs, and once that it is back.
func TestLoopComesAround(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"from the start", "elected", "standing by"} {
		t.Run(name, func(t *testing.T) {
			var log logged
			simulate(t, func(t *testing.T, s *simulated, a, b *Carrier) {
				if name == "standing by" {
					start(t, b)
					synctest.Wait()
				}
				s.set(func() { s.hangs = name == "from the start" })
				stop := start(t, a)
				time.Sleep(1500 * time.Millisecond)
				s.set(func() { s.hangs = true })
				for range 6000 {
					time.Sleep(100 * time.Millisecond)
					storetest.Must(t, a.Alive())
				}
				what := map[string]string{"elected": "cannot carry"}[name]
				if what == "" {
					what = "cannot stand for election"
				}
				if n := log.count(what); n == 0 || n > 2 {
					t.Errorf("%s is logged %d times", what, n)
				}
				s.set(func() { s.hangs = false })
				time.Sleep(30 * time.Second)
				if who, _ := s.who(); who == "" {
					t.Error("nobody is elected when Redis is back")
				}
				s.set(func() { s.hangs = true })
				began := time.Now()
				stop()
				if took := time.Since(began); took > reach.ResignWait+fine { // the last part of a sleep is not cut short
					t.Errorf("it stopped after %v", took)
				}
			}, Options{Logger: log.logger()})
		})
	}
}

// One whose calls failed for longer than its lease was deposed meanwhile: it moves nothing any more, and stands by.
func TestDeposed(t *testing.T) {
	t.Parallel()
	var log logged
	simulate(t, func(t *testing.T, s *simulated, a, b *Carrier) {
		start(t, a)
		time.Sleep(100 * time.Millisecond)
		s.set(func() { s.holder, s.token, s.epoch, s.ends = "usurper", "9", 9, time.Now().Add(time.Hour) })
		s.publish(100*time.Millisecond, true)
		time.Sleep(time.Minute)
		if got, st := s.reports(), a.States()[0]; len(got) > 0 || st.Carrying || st.Epoch != 1 {
			t.Errorf("moved %+v, and is %+v", got, st)
		}
		if log.count("another carrier has the lease; standing by") != 1 {
			t.Error("the log does not say so")
		}
		s.set(func() { s.holder = "" })
		time.Sleep(pollPause + electJitter)
		if got, st := s.reports(), a.States()[0]; len(got) != 1 || !st.Carrying || st.Epoch != 10 {
			t.Errorf("moved %+v, and is %+v", got, st)
		}
	}, Options{Logger: log.logger()})
}

// Steps of the housekeeping are Sweep apart, sooner while there is more to do or to check, or one failed; the first comes within ten
// seconds.
func TestSweepTimes(t *testing.T) {
	t.Parallel()
	steps := []struct {
		swept store.Swept
		err   error
		rest  time.Duration // behind it
	}{
		{store.Swept{Soon: true, More: true}, nil, sweepSoon},
		{store.Swept{Soon: true}, nil, sweepSoon},
		{store.Swept{More: true}, nil, sweepOn},
		{store.Swept{}, errAway, sweepOn},
		{store.Swept{}, errAway, sweepOn},
		{store.Swept{Forgotten: 5, Whole: true}, nil, DefaultSweep},
		{store.Swept{}, nil, DefaultSweep},
	}
	var log logged
	simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
		n, want := 0, []time.Duration{sweepOn}
		s.swept = func(store.Sweep) (store.Swept, error) { n++; return steps[n-1].swept, steps[n-1].err }
		for _, step := range steps[:len(steps)-1] {
			want = append(want, want[len(want)-1]+step.rest)
		}
		start(t, a)
		time.Sleep(want[len(want)-1] + time.Second)
		storetest.Same(t, "steps", want, s.take("sweep"))
		for _, part := range []string{"cannot keep house; retrying", "keeping house again", "forgotten=5"} {
			if log.count(part) != 1 {
				t.Errorf("the log has %q %d times", part, log.count(part))
			}
		}
	}, Options{Logger: log.logger()})
}

// A step goes on where the one before ended, also behind a round over all topics that have dead letters.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
		var asked []store.Sweep
		s.swept = func(w store.Sweep) (store.Swept, error) {
			asked = append(asked, store.Sweep{Old: w.Old, Done: w.Done, Seat: w.Seat, Group: w.Group})
			return store.Swept{Old: 20, Done: 50, Seat: "1 2 3", Group: "4 5 6", Soon: true, Whole: true}, nil
		}
		start(t, a)
		time.Sleep(sweepOn + sweepSoon + time.Millisecond)
		s.set(func() {
			storetest.Same(t, "asked", []store.Sweep{{}, {Old: 20, Done: 50, Seat: "1 2 3", Group: "4 5 6"}}, asked)
		})
	}, Options{})
}

// The log says once that no carrier is heard for twice the lease, and once that one is again; the state shows both.
func TestSilenceIsLogged(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{MinLease, DefaultLease, 10 * time.Second} {
		patience := max(2*lease, reach.Silence)
		var log logged
		simulate(t, func(t *testing.T, s *simulated, a, _ *Carrier) {
			heard := func(want int64, silences, ends int) {
				t.Helper()
				synctest.Wait()
				if got := a.States()[0].Heard; got != want || log.count("no carrier is heard") != silences || log.count("a carrier is heard again") != ends {
					t.Errorf("carrier %d is heard, want %d; the log has %q", got, want, log.lines)
				}
			}
			start(t, a)
			time.Sleep(time.Minute)
			heard(1, 0, 0)
			s.set(func() { s.holder, s.token, s.ends = "silent", "9", time.Now().Add(time.Hour) })
			time.Sleep(patience - time.Second)
			heard(1, 0, 0)
			time.Sleep(time.Second)
			heard(0, 1, 0)
			time.Sleep(time.Minute)
			heard(0, 1, 0)
			s.set(func() { s.ends = time.Now() })
			time.Sleep(pollPause + time.Second)
			heard(2, 1, 1)
		}, Options{Lease: lease, Logger: log.logger()})
	}
}

// A simulatedCrew is the carriers of a simulated store of several shards.
type simulatedCrew struct {
	t      *testing.T
	c      *Carrier // whose options all have
	shards []*simulated
}

// join runs one more carrier until stop is called or the test ends.
func (c simulatedCrew) join(name string) (stop func()) {
	c.t.Helper()
	of, o := newShares(len(c.shards)), c.c.o
	o.Name = name
	return storetest.Run(c.t, func(ctx context.Context) error {
		done := make(chan error)
		for _, s := range c.shards {
			m := newMover(c.c.store.Home(), o, o.Logger, of)
			m.redis = s.redis()
			go func() { done <- m.run(ctx) }()
		}
		for range c.shards {
			if err := <-done; err != nil {
				return err
			}
		}
		return nil
	})
}

// carry returns how many shards each carries.
func (c simulatedCrew) carry() (of map[string]int) {
	of = map[string]int{}
	for _, s := range c.shards {
		if who, _ := s.who(); who != "" {
			of[who]++
		}
	}
	return of
}

// Carriers share shards out evenly, one a second. Those of one that stops are carried within the time that is left to the named heir,
// those of one that was killed when its leases have ended. At rest each shard has a beat a second, whoever carries it, and a standby's
// look when its lease may have ended; nothing is handed over.
func TestCrewAtRest(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, _ *simulated, a, _ *Carrier) {
		crew := simulatedCrew{t, a, nil}
		for range 8 {
			crew.shards = append(crew.shards, newSimulated())
		}
		shares := func(when string, want map[string]int) {
			t.Helper()
			storetest.Same(t, when, want, crew.carry())
		}
		crew.join("a")
		shares("alone", map[string]int{"a": 8})
		crew.join("b")
		time.Sleep(10 * time.Second)
		shares("of two", map[string]int{"a": 4, "b": 4})
		stop := crew.join("c")
		time.Sleep(20 * time.Second) // and the first steps of the housekeeping are over
		three := crew.carry()
		if len(three) != 3 || three["a"]+three["b"]+three["c"] != 8 || three["a"] > 3 || three["b"] > 3 || three["c"] > 3 {
			t.Errorf("of three: %v", three)
		}
		atRest(t, crew, 2)
		stop()
		for i, s := range crew.shards {
			s.set(func() {
				if _, stands := s.notes["c"]; stands {
					t.Errorf("shard %d: one is gone, and stands by", i)
				}
			})
		}
		time.Sleep(2*turn + spread)
		if of := crew.carry(); of["a"]+of["b"] != 8 {
			t.Errorf("after one stopped: %v", of)
		}
		time.Sleep(20 * time.Second)
		shares("of two again", map[string]int{"a": 4, "b": 4})
		atRest(t, crew, 1)
	}, Options{Sweep: MaxSweep})
}

// atRest checks the calls of a minute.
func atRest(t *testing.T, c simulatedCrew, standbys int) {
	t.Helper()
	for _, s := range c.shards {
		s.take()
	}
	time.Sleep(time.Minute)
	for i, s := range c.shards {
		var beats, looks, others int
		synctest.Wait()
		for _, call := range s.calls {
			switch call.what {
			case "beat", "look":
				beats++
			case "elect a", "elect b", "elect c":
				looks++
			default:
				others++
			}
		}
		if beats != 60 || looks < 18*standbys || looks > 31*standbys || others > 0 {
			t.Errorf("shard %d: %d beats, %d looks, %d other calls in a minute", i, beats, looks, others)
		}
	}
}
