package subscribers

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// keepLeases extends leases each time that a third of the shortest one has
// passed, until ctx ends. While nothing is leased it waits.
func (e *engine[W]) keepLeases(ctx context.Context) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var due time.Time // of the next extension; zero: nothing was leased
	extending := outage.New(e.outages, slog.LevelError, "cannot extend leases; retrying", "extending leases again").Patient()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.shorter:
			if next := time.Now().Add(e.soonest()); due.IsZero() || next.Before(due) {
				due = next
			}
		case <-timer.C:
			err := e.extendAll(ctx)
			extending.Note(err)
			every := e.shortest(true)
			switch due = time.Now().Add(every); {
			case err != nil:
				due = time.Now().Add(every / 8)
			case every == 0:
				due = time.Time{}
			}
		}
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
	}
}

// shortest returns a third of the shortest lease that is known; zero: nothing is leased.
// If again is set it goes through the present leases first.
func (e *engine[W]) shortest(again bool) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if again {
		e.every = 0
		for j := range e.leased {
			if every := j.lease / 3; !j.isLast() && (e.every == 0 || every < e.every) {
				e.every = every
			}
		}
	}
	return e.every
}

// soonest returns in how long leases are to be extended, or a hand-over confirmed.
func (e *engine[W]) soonest() time.Duration {
	every := e.shortest(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.confirming {
		every, e.confirming = confirmAfter, false
	}
	return every
}

// shorten has leases extended often enough for that of a job. The mutex is held.
func (e *engine[W]) shorten(j *job[W]) {
	if every := j.lease / 3; !j.isLast() && (e.every == 0 || every < e.every) {
		e.every = every
		signal(e.shorter)
	}
}

// extendAll extends each lease of which a third has passed, by its own length, until a call
// fails, and gives up those that ended.
func (e *engine[W]) extendAll(ctx context.Context) error {
	e.receipts.Lock()
	defer e.receipts.Unlock()
	due := e.expiring()
	slices.SortFunc(due, func(a, b *job[W]) int { return cmp.Compare(a.next(), b.next()) })
	for len(due) > 0 {
		n := 1
		for n < min(len(due), record.MaxClaim) && due[n].next() == due[0].next() {
			n++
		}
		sent := time.Now()
		got, err := e.extend(ctx, works(due[:n]), due[0].next())
		if err != nil {
			return err
		}
		e.extended(due[:n], sent, got)
		due = due[n:]
	}
	return nil
}

// expiring returns the jobs whose leases are to be extended.
func (e *engine[W]) expiring() (due []*job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.leased {
		switch age := time.Since(j.sent); {
		case j.lost:
		case age >= j.lease:
			j.lose()
		case j.isLast(), j.stopped:
		case age >= j.lease/3 || j.confirm > 0 && !j.handled:
			due = append(due, j)
		}
	}
	return due
}

// extended notes an extension, for which a call was sent at a time.
func (e *engine[W]) extended(page []*job[W], sent time.Time, got extension[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range got.lost {
		page[i].lose()
	}
	for _, i := range got.stopped {
		page[i].stop()
	}
	for i, j := range page {
		if !j.lost && !slices.Contains(got.stopped, i) {
			got.renew(i, &j.work)
			j.renew(sent, j.next())
		}
	}
}

// extendOne makes a call of a handler that extends the lease of its work; zero is
// the lease that it has. A job has one such call at a time, and nothing settles it meanwhile, so calls for several go at once.
func (e *engine[W]) extendOne(j *job[W], lease time.Duration, call func(*W, time.Duration) error) error {
	e.receipts.RLock()
	defer e.receipts.RUnlock()
	lease, work, sent := cmp.Or(lease, j.next()), j.work, time.Now()
	err := call(&work, lease)
	e.noteEnd(j, err)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j.work = work
	j.renew(sent, lease)
	e.shorten(j)
	return nil
}
