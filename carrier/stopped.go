package carrier

import (
	"context"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	setBack      = -time.Second     // by how much Redis's clock is set at the most, or schedules may have been filled by times to come
	stoppedPage  = 100              // schedules that one call looks at
	stoppedAgain = 10 * time.Second // between two looks while schedules are stopped
)

// watchStopped looks for schedules that make nothing, since they were filled while Redis's clock was ahead: when the term begins, and each
// time that the clock was set back, until there are none. It logs when there are some, and when there are none any more.
func (t *term) watchStopped(ctx context.Context) {
	stopped := outage.New(t.log, slog.LevelWarn, "redis's clock was ahead when schedules were filled, and until then they make nothing; bellhop doctor names them, and bellhop schedule resume starts one anew",
		"all schedules go on that a clock that was ahead had stopped")
	for {
		n, first, err := t.stopped(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		switch {
		case err != nil: // the loop of the carrier logs what lasts
			again = time.After(stoppedAgain)
		case n > 0:
			t.setStopped(n)
			stopped.Begin("schedules", n, "first", first)
			again = time.After(stoppedAgain)
		default:
			t.setStopped(0)
			stopped.End()
		}
		select {
		case <-ctx.Done():
			return
		case <-t.back:
		case <-again:
		}
	}
}

// stopped returns how many schedules make nothing until a time to come, and the name of the first.
func (t *term) stopped(ctx context.Context) (n int, first string, err error) {
	for after := (store.Mark{}); ; {
		var page store.SchedulePage
		_, err := store.Paced(ctx, func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			page, err = t.redis.schedules(ctx, stoppedPage, after)
			return err
		})
		if err != nil {
			return n, first, err
		}
		for i := range page.Schedules {
			one := &page.Schedules[i]
			if one.Err != nil || one.Schedule.Swallowed(&one.State, page.Now).IsZero() {
				continue
			}
			if n++; n == 1 {
				first = record.Member(one.Schedule.Topic, one.Schedule.Name)
			}
		}
		if after = page.Next; after == (store.Mark{}) {
			return n, first, nil
		}
	}
}
