package carrier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// How much one call makes at the most, or one schedule more.
const (
	fillOccurrences = 64
	fillBytes       = 1 << 20 // of bodies
)

// settleSlice is for how long schedules are settled until other topics are carried.
const settleSlice = 10 * time.Millisecond

// fillWhenDue makes occurrences of schedules each time a call of the carrier says that it is time, until ctx ends or another carrier has
// the lease. A call that fails is repeated as the carrier's calls say so again, a second later.
func (t *term) fillWhenDue(ctx context.Context) {
	filling := outage.New(t.log, slog.LevelWarn, "cannot fill schedules; retrying", "filling schedules again").Patient()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.fills:
		}
		_, err := t.fill(ctx, false, time.Time{})
		var deposed *store.DeposedError
		if err != nil && ctx.Err() != nil || errors.As(err, &deposed) {
			return
		}
		filling.Note(err)
	}
}

// noteSchedules does what a call of the carrier says of schedules. What is late is settled, some at a time, before more of topics with schedules is
// carried; the beats, and other topics, go on. If that fails it is carried as it was made.
func (t *term) noteSchedules(ctx context.Context, m store.Carried) {
	if m.Fill {
		select {
		case t.fills <- struct{}{}:
		default:
		}
	}
	if !m.Settle {
		if t.settled != nil {
			t.unsettled.End()
		}
		t.settled = &lateLater
		return
	}
	whole, err := t.fill(ctx, true, time.Now().Add(settleSlice))
	switch {
	case err != nil:
		t.unsettled.Begin("error", err)
		t.settled = nil
	case whole:
		t.settled = &lateLater
	default:
		t.settled = &lateNow
	}
}

// What a term gives for [store.Carry.Settled]: at first, and later.
var lateNow, lateLater = time.Duration(0), time.Duration(lateFills)

// fill makes what is to be made of schedules now, until a time, if there is one, but something in any case: a call alone may take that
// long. It reports whether that is all.
func (t *term) fill(ctx context.Context, settle bool, until time.Time) (whole bool, err error) {
	isOver := func() bool { return !until.IsZero() && time.Now().After(until) }
	for !whole {
		if whole, err = t.renewSome(ctx); err != nil || !whole && isOver() {
			return false, err
		}
	}
	var fills []store.Fill
	for {
		f, err := t.fillOnce(ctx, settle, fills)
		if err != nil || f.Whole {
			return f.Whole, err
		}
		for i, became := range f.Made {
			if of := &fills[i].Of.Schedule; became == "foreign" {
				t.log.Error("cannot make occurrences, since a key of their topic is foreign; run bellhop doctor", "topic", of.Topic, "schedule", of.Name)
			}
		}
		if len(fills) > 0 && isOver() {
			return false, nil
		}
		fills = t.plans(f)
	}
}

// renewSome has some schedules made anew, once in a term, whose occurrences an older version of the rules of time zones made. It reports
// whether all are.
func (t *term) renewSome(ctx context.Context) (all bool, err error) {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.renewed {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t.cursor, err = t.redis.renew(ctx, t.token, calendar.Version(), t.cursor)
	t.renewed = err == nil && t.cursor == ""
	return t.renewed, err
}

func (t *term) fillOnce(ctx context.Context, settle bool, fills []store.Fill) (store.Filled, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return t.redis.fill(ctx, t.token, settle, fills)
}

// plans returns what to make of some of the schedules that are due.
func (t *term) plans(f store.Filled) (fills []store.Fill) {
	n, size := 0, 0
	for _, of := range f.Due {
		one := planOf(of, f.Now)
		if one.Fault != nil {
			t.log.Error("cannot read a schedule; put it again, or update this daemon", "topic", of.Schedule.Topic, "schedule", of.Schedule.Name, "error", one.Fault)
		}
		if one.Missed > 0 {
			t.log.Warn("occurrences were missed", "topic", of.Schedule.Topic, "schedule", of.Schedule.Name, "missed", one.Missed)
		}
		fills = append(fills, one)
		n, size = n+len(one.Occurrences), size+len(one.Occurrences)*len(of.Schedule.Message.Body)
		if n >= fillOccurrences || size >= fillBytes {
			break
		}
	}
	return fills
}
