package calendar

import (
	"errors"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Limits of a Spec.
const (
	MinEvery = time.Second
	MaxEvery = 10 * 366 * 24 * time.Hour
	MaxAt    = 1000 // times in At
)

// A Spec is a rule as it is written. All times are whole seconds. The tags describe the fields that have a name over HTTP, over NATS and as flags.
type Spec struct {
	Cron  string        `field:"cron" maxLength:"512" example:"30 2 * * *" doc:"minute, hour, day of the month, month, day of the week, perhaps with the second before them; or @daily and the like. Give this, every, or at"`
	Every time.Duration `field:"every" shortest:"1s" example:"15m" doc:"a pause, counted from the time from, else from 1970"`
	At    []time.Time   `field:"at" maxItems:"1000" example:"2030-01-01T00:00:00Z" doc:"times at which it fires, in any order"`
	Zone  string        `field:"zone" example:"Europe/Berlin" doc:"time zone of cron; missing: UTC"`

	From  time.Time `field:"from" example:"2030-01-01T00:00:00Z" doc:"it does not fire before; missing: it may always"`
	Until time.Time `field:"until" example:"2031-01-01T00:00:00Z" doc:"it does not fire after; missing: it may always"`
}

// A Rule says when a schedule fires. Methods of one may be called at the same time.
type Rule struct {
	cron  *cron
	every int64   // seconds
	at    []int64 // sorted
	from  int64   // 0: it may always fire
	until int64   // lastTime: it may always fire
}

// Parse returns the rule. The error joins a Fault for each field that is wrong.
func (s Spec) Parse() (*Rule, error) {
	r := &Rule{every: int64(s.Every / time.Second), until: lastTime}
	var err error
	if !s.From.IsZero() {
		r.from, err = wholeSecond("from", s.From)
	}
	faults := []error{err, s.checkKind(), s.checkEvery(), r.readAt(s.At), r.readCron(s)}
	if !s.Until.IsZero() {
		r.until, err = wholeSecond("until", s.Until)
		if faults = append(faults, err); err == nil && r.until < r.from {
			faults = append(faults, fault.New("until", "until %s is before from %s; name a later time, or leave one of them out", s.Until.Format(time.RFC3339), s.From.Format(time.RFC3339)))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if _, ok := r.Next(time.Unix(-1, 0)); !ok {
		return nil, fault.New("until", "until: the rule does not fire between from and until; name a later time")
	}
	return r, nil
}

// checkKind refuses more than one kind of rule, and none.
func (s Spec) checkKind() error {
	n := 0
	for _, is := range []bool{s.Cron != "", s.Every != 0, len(s.At) > 0} {
		if is {
			n++
		}
	}
	switch {
	case n != 1:
		return fault.New("cron", "cron, every and at: there are %d of them; give one", n)
	case s.Zone != "" && s.Cron == "":
		return fault.New("zone", "zone %.64q: only cron goes by a wall clock; leave it out", s.Zone)
	}
	return nil
}

func (s Spec) checkEvery() error {
	if s.Every == 0 {
		return nil
	}
	if err := fault.Within("every", "every", s.Every, MinEvery, MaxEvery); err != nil {
		return err
	}
	if s.Every%time.Second != 0 {
		return fault.New("every", "every %s: an occurrence is at a whole second; use %s", s.Every, fault.Short(s.Every.Round(time.Second)))
	}
	return nil
}

func (r *Rule) readAt(times []time.Time) error {
	if len(times) > MaxAt {
		return fault.New("at", "at: there are %d times; give up to %d, or make several schedules", len(times), MaxAt)
	}
	for _, t := range times {
		at, err := wholeSecond("at", t)
		if err != nil {
			return err
		}
		r.at = append(r.at, at)
	}
	slices.Sort(r.at)
	r.at = slices.Compact(r.at)
	return nil
}

func (r *Rule) readCron(s Spec) (err error) {
	zone, err := Zone(s.Zone)
	if s.Cron == "" {
		return err
	}
	c, fault := parseCron(s.Cron)
	if err := errors.Join(fault, err); err != nil {
		return err
	}
	c.zone = zone
	r.cron = c
	return nil
}

// wholeSecond returns a time in Unix seconds. The error is a Fault: it is none, or not between 1970 and 9999.
func wholeSecond(field string, t time.Time) (int64, error) {
	if t.Nanosecond() != 0 || t.Unix() < 0 || t.Unix() > lastTime {
		return 0, fault.New(field, "%s %s: use a whole second of the years 1970 to 9999", field, t.Format(time.RFC3339Nano))
	}
	return t.Unix(), nil
}

// Next returns the first time after a time at which the rule fires, in UTC; false if there is none.
func (r *Rule) Next(after time.Time) (time.Time, bool) {
	at, ok := r.next(max(after.Unix(), r.from-1))
	if !ok || at > r.until {
		return time.Time{}, false
	}
	return time.Unix(at, 0).UTC(), true
}

func (r *Rule) next(after int64) (int64, bool) {
	switch {
	case r.cron != nil:
		return r.cron.next(after)
	case r.every > 0:
		return r.from + (after-r.from+r.every)/r.every*r.every, true // after is from-1 or later
	}
	i, found := slices.BinarySearch(r.at, after)
	if found {
		i++
	}
	if i == len(r.at) {
		return 0, false
	}
	return r.at[i], true
}

// Last returns the last time up to one at which the rule fires; false if there is none from 1970 on.
func (r *Rule) Last(upto time.Time) (time.Time, bool) {
	fires := func(after int64) bool {
		next, ok := r.Next(time.Unix(after, 0))
		return ok && !next.After(upto)
	}
	high := upto.Unix() // behind which it does not fire; it does behind low
	low, step := high-1, int64(1)
	for ; !fires(low); low -= step {
		if low < 0 {
			return time.Time{}, false
		}
		high, step = low, 2*step
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fires(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return r.Next(time.Unix(low, 0))
}

// End returns the last time at which the rule fires; false if it goes on for good.
func (r *Rule) End() (time.Time, bool) {
	last := r.until
	if n := len(r.at); n > 0 {
		last = min(last, r.at[n-1])
	}
	if last == lastTime {
		return time.Time{}, false
	}
	return r.Last(time.Unix(last, 0))
}

// Closest returns the shortest time between two of the times at which the rule fires, of cron by its wall clock; zero if there are not two.
func (r *Rule) Closest() (least time.Duration) {
	last, fires := r.Next(time.Unix(-1, 0))
	if _, again := r.Next(last); !fires || !again {
		return 0
	}
	switch {
	case r.cron != nil:
		return time.Duration(r.cron.closest()) * time.Second
	case r.every > 0:
		return time.Duration(r.every) * time.Second
	}
	for next, ok := r.Next(last); ok; next, ok = r.Next(last) {
		if least == 0 || next.Sub(last) < least {
			least = next.Sub(last)
		}
		last = next
	}
	return least
}
