package carrier

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store"
)

// mostSeconds is the most that one sample covers. After a longer time without a beat, and
// when the clock was set, the history begins anew.
const mostSeconds = 60

// A sampler makes the samples of a shard's history from the totals that beats return. It
// begins with its term: what happened between the terms is in no sample.
type sampler struct {
	at     int64                      // Unix second of the totals
	totals *store.Totals              // nil: none yet
	minute store.Sample               // the sum of the minute
	known  bool                       // minute is what the shard has of it, or it began after the totals
	next   *[store.Rings]store.Sample // for the next beat; nil: none
}

// note takes the totals of a beat, by Redis's clock in us. old returns what the shard
// has of a minute already.
func (s *sampler) note(now int64, totals *store.Totals, old func(minute int64) store.Sample) {
	at := now / 1_000_000
	seconds := at - s.at
	if s.totals != nil && seconds == 0 { // beats may be more frequent than samples
		s.next = nil
		return
	}
	before := s.totals
	s.at, s.totals, s.next = at, totals, nil
	if before == nil || seconds < 0 || seconds > mostSeconds {
		s.known = false
		return
	}
	since, ok := totals.Since(before)
	if !ok { // Redis lost some
		return
	}
	s.add(store.Sample{At: at - 1, Seconds: int(seconds), Totals: since}, old)
}

// add adds a sample to its minute, and hands both to the next beat.
func (s *sampler) add(second store.Sample, old func(minute int64) store.Sample) {
	minute := second.At - second.At%store.Minutes.Unit()
	switch {
	case !s.known:
		s.minute = old(minute)
	case s.minute.At != minute:
		s.minute = store.Sample{At: minute}
	}
	s.known = true
	s.minute.Seconds += second.Seconds
	s.minute.Add(&second.Totals)
	s.next = &[store.Rings]store.Sample{second, s.minute}
}

// noteTotals takes the totals of a beat, if it had some. A carrier that takes over goes on
// with the minute that another began.
func (t *term) noteTotals(ctx context.Context, m store.Carried) {
	if m.Totals == nil {
		return
	}
	t.sampler.note(m.Now, m.Totals, func(minute int64) store.Sample {
		found, err := t.shard.History(ctx, store.Minutes, minute, minute+1)
		if err != nil || len(found) == 0 { // it is a minute of a plot: not worth a retry
			return store.Sample{At: minute}
		}
		return found[0]
	})
}

// forgetHistory removes what carriers noted that keep a history.
func (t *term) forgetHistory(ctx context.Context) {
	if !t.o.NoHistory {
		return
	}
	if err := t.shard.ForgetHistory(ctx); err != nil && ctx.Err() == nil {
		t.log.Warn("cannot remove the history", "error", err)
	}
}
