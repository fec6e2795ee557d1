package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A simulated is a shard whose Redis does in memory, and in the time of a synctest bubble, what the loop of a carrier relies on. Nothing
// takes longer than it says, so a test knows to the nanosecond when a call comes.
type simulated struct {
	trip  time.Duration // of a call, there and back
	lag   time.Duration // of what is published, behind the call
	swept func(store.Sweep) (store.Swept, error)

	mu     sync.Mutex
	began  time.Time
	holder string // of the lease
	token  string
	epoch  int64
	ends   time.Time // the lease
	hangs  bool      // no call is answered
	deaf   string    // what this carrier resigns is not heard: it was killed
	due    []time.Time
	old    int // schedules of older rules of zones, and then
	late   int // schedules that are to be settled
	full   bool
	notes  map[string]store.Standby
	noted  map[string]time.Time
	ears   []*ear
	calls  []called
	moved  []Carried // reported
}

// An ear is a subscription.
type ear struct {
	vacancies bool
	events    chan heard
}

type heard struct {
	store.Event
	at time.Time
}

// A called is a call that arrived, since the simulation began.
type called struct {
	at   time.Duration
	what string
}

// ahead is how far the clock of a simulated Redis is before that of its carriers.
const aheadOfHere = time.Hour

// simulate runs a test in a bubble.
func simulate(t *testing.T, test func(t *testing.T, s *simulated, a, b *Carrier), o Options) {
	t.Helper()
	db := storetest.At(t, "redis://127.0.0.1:1", "") // which nobody calls
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated()
		o.OnCarried = func(c Carried) { s.mu.Lock(); defer s.mu.Unlock(); s.moved = append(s.moved, c) }
		var both [2]*Carrier
		for i, name := range []string{"a", "b"} {
			o.Name = name
			c, err := New(db, o)
			storetest.Must(t, err)
			c.all()[0].redis = s.redis()
			both[i] = c
		}
		test(t, s, both[0], both[1])
	})
}

func newSimulated() *simulated {
	return &simulated{began: time.Now(), notes: map[string]store.Standby{}, noted: map[string]time.Time{}}
}

// start runs the carrier of one shard until stop is called or the test ends.
func start(t *testing.T, c *Carrier) (stop func()) { return storetest.Run(t, c.all()[0].run) }

func (s *simulated) redis() calls {
	return calls{
		elect: s.elect, carry: s.carry, sweep: s.sweep, resign: s.resign,
		withdraw: func(_ context.Context, name string) error {
			defer s.lock("withdraw")()
			delete(s.notes, name)
			return nil
		},
		fill: s.fill, renew: s.renewZones,
		schedules: func(context.Context, int, store.Mark) (store.SchedulePage, error) { return store.SchedulePage{}, nil },
		nudges:    func(ctx context.Context, on func(store.Event)) { s.hear(ctx, on, false) },
		vacant:    func(ctx context.Context, on func(store.Event)) { s.hear(ctx, on, true) },
		drop:      func(context.Context) ([]string, error) { return nil, nil },
		repair:    func(context.Context) error { return nil },
		adopt:     func(context.Context) error { return nil },
		rest:      func(until time.Time) { time.Sleep(time.Until(until)) },
	}
}

func (s *simulated) lock(what string) (unlock func()) {
	s.mu.Lock()
	s.calls = append(s.calls, called{time.Since(s.began), what})
	return s.mu.Unlock
}

// travel takes half the time of a call; for ever, where Redis hangs.
func (s *simulated) travel(ctx context.Context) error {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(s.trip / 2)
	return nil
}

// micros returns a time by Redis's clock.
func micros(at time.Time) int64 { return at.Add(aheadOfHere).UnixMicro() }

func (s *simulated) elect(ctx context.Context, name string, lease time.Duration, carries int) (store.Election, error) {
	if err := s.travel(ctx); err != nil {
		return store.Election{}, err
	}
	defer time.Sleep(s.trip / 2)
	defer s.lock("elect " + name)()
	if left := time.Until(s.ends); s.holder != "" && left > 0 {
		s.notes[name], s.noted[name] = store.Standby{Name: name, Carries: carries}, time.Now()
		return store.Election{Left: left}, nil
	}
	delete(s.notes, name)
	s.epoch++
	s.holder, s.token, s.ends = name, fmt.Sprint(s.epoch), time.Now().Add(lease)
	return store.Election{Won: true, Token: s.token, Epoch: s.epoch}, nil
}

func (s *simulated) carry(ctx context.Context, c store.Carry) (store.Carried, error) {
	if err := s.travel(ctx); err != nil {
		return store.Carried{}, err
	}
	defer time.Sleep(s.trip / 2)
	defer s.lock(kindOf(c))()
	now := time.Now()
	if err := s.deposes(c.Token); err != nil {
		return store.Carried{}, err
	}
	m := store.Carried{Now: micros(now), Next: record.Never, Earliest: record.Never}
	m.Settle = s.old+s.late > 0 && c.Settled != nil
	for !m.Settle && len(s.due) > 0 && !s.due[0].After(now) {
		m.Earliest = min(m.Earliest, micros(s.due[0]))
		m.Runs = append(m.Runs, store.Run{Due: micros(s.due[0]), N: 1})
		m.Moved++
		s.due = s.due[1:]
	}
	switch {
	case m.Settle:
		m.Next = 0
	case len(s.due) > 0:
		m.Next = micros(s.due[0])
	}
	if c.Beat {
		s.ends = now.Add(c.Lease)
		m.Standby = s.fewest(2 * time.Second)
		s.tell(store.Event{Kind: reach.Beat, Payload: fmt.Sprintf("%d %d", c.Epoch, micros(now)/1000)})
	}
	return m, nil
}

func (s *simulated) renewZones(ctx context.Context, token, _, cursor string) (string, error) {
	if err := s.travel(ctx); err != nil {
		return cursor, err
	}
	defer time.Sleep(s.trip / 2)
	defer s.lock("renew")()
	if err := s.deposes(token); err != nil || s.old == 0 {
		return cursor, err
	}
	if s.old--; s.old == 0 {
		return "", nil
	}
	return fmt.Sprint(s.old), nil
}

func (s *simulated) fill(ctx context.Context, token string, settle bool, fills []store.Fill) (store.Filled, error) {
	if err := s.travel(ctx); err != nil {
		return store.Filled{}, err
	}
	defer time.Sleep(s.trip / 2)
	defer s.lock("fill")()
	if err := s.deposes(token); err != nil || !settle {
		return store.Filled{Whole: true}, err
	}
	if s.full {
		return store.Filled{}, reach.ErrFull
	}
	s.late -= len(fills)
	f := store.Filled{Now: time.UnixMicro(micros(time.Now())), Made: slices.Repeat([]string{"made"}, len(fills)), Whole: s.late == 0}
	if s.late > 0 {
		f.Due = make([]store.DueSchedule, 1)
	}
	return f, nil
}

func kindOf(c store.Carry) string {
	switch {
	case c.Look:
		return "look"
	case c.Beat:
		return "beat"
	}
	return "call"
}

// deposes returns an error unless a token is that of the lease.
func (s *simulated) deposes(token string) error {
	if vacant := s.holder == "" || !time.Now().Before(s.ends); vacant || token != s.token {
		return &store.DeposedError{Vacant: vacant, By: s.holder}
	}
	return nil
}

// fewest returns the standby that carries the fewest shards of those that said so lately.
func (s *simulated) fewest(lately time.Duration) (least *store.Standby) {
	for name, one := range s.notes {
		if time.Since(s.noted[name]) <= lately && (least == nil || one.Carries < least.Carries || one.Carries == least.Carries && name < least.Name) {
			least = &one
		}
	}
	return least
}

func (s *simulated) resign(ctx context.Context, token, to string, _ int) (bool, error) {
	if err := s.travel(ctx); err != nil {
		return false, err
	}
	defer s.lock("resign")()
	if s.deposes(token) != nil || s.holder == s.deaf {
		return false, nil
	}
	s.holder = ""
	s.tell(store.Event{Kind: reach.Received, Payload: to})
	return true, nil
}

func (s *simulated) sweep(ctx context.Context, w store.Sweep) (store.Swept, error) {
	if err := s.travel(ctx); err != nil {
		return store.Swept{}, err
	}
	defer s.lock("sweep")()
	if err := s.deposes(w.Token); err != nil || s.swept == nil {
		return store.Swept{}, err
	}
	return s.swept(w)
}

func (s *simulated) hear(ctx context.Context, on func(store.Event), vacancies bool) {
	e := &ear{vacancies, make(chan heard, 1000)}
	e.events <- heard{store.Event{Kind: reach.Subscribed}, time.Now()}
	s.mu.Lock()
	s.ears = append(s.ears, e)
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ears = slices.DeleteFunc(s.ears, func(one *ear) bool { return one == e })
			return
		case h := <-e.events:
			time.Sleep(time.Until(h.at))
			on(h.Event)
		}
	}
}

// tell publishes a beat to all, and what was received to those that hear vacancies.
func (s *simulated) tell(e store.Event) {
	for _, one := range s.ears {
		if e.Kind == reach.Beat || one.vacancies {
			one.events <- heard{e, time.Now().Add(s.lag)}
		}
	}
}

// publish schedules something, and nudges the carrier unless the nudge is lost.
func (s *simulated) publish(in time.Duration, nudges bool) {
	defer s.lock("publish")()
	due := time.Now().Add(in)
	s.due = append(s.due, due)
	slices.SortFunc(s.due, time.Time.Compare)
	for _, one := range s.ears {
		if nudges && !one.vacancies {
			one.events <- heard{store.Event{Kind: reach.Received, Payload: fmt.Sprint(micros(due) / 1000)}, time.Now().Add(s.lag)}
		}
	}
}

// renew makes the subscriptions anew.
func (s *simulated) renew() {
	defer s.lock("renew")()
	for _, one := range s.ears {
		one.events <- heard{store.Event{Kind: reach.Subscribed}, time.Now()}
	}
}

// set changes the simulation.
func (s *simulated) set(change func()) { s.mu.Lock(); defer s.mu.Unlock(); change() }

// take returns when calls of some kinds came, since the last take.
func (s *simulated) take(kinds ...string) (at []time.Duration) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(c.what, kind) }) {
			at = append(at, c.at)
		}
	}
	s.calls = nil
	return at
}

// reports returns what was reported as moved since the last call.
func (s *simulated) reports() []Carried {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.moved
	s.moved = nil
	return all
}

// who returns the elected carrier, and the number of its election.
func (s *simulated) who() (string, int64) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.ends) {
		return "", s.epoch
	}
	return s.holder, s.epoch
}

// A logged keeps what is logged. It is safe for concurrent use.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines have a part.
func (l *logged) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

var errAway = errors.New("away")
