package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// failedLately is how long ago an attempt failed whose failure may still have its cause: as long as messages wait at the most by default.
const failedLately = store.DefaultBackoffMax

// failing reports topics of which attempt after attempt of a message fails, before it is dead.
func (e *exam) failing(ctx context.Context, s service) {
	const check = "failing"
	if s.Now.IsZero() { // nothing was published yet
		e.report(check, OK, "none", "")
		return
	}
	each, err := store.GatherFrom(ctx, e.shards, failingIn)
	if there(err) != nil {
		e.report(check, Warn, err.Error(), "fix what Redis reports")
		return
	}
	rows := 0
	for _, all := range each {
		for _, f := range all {
			if rows++; rows <= named {
				e.mend(Finding{Check: check, Name: f.Topic, ID: f.ID}, failed(&f.Failing, f.ago), "mend its worker, and it comes again by itself: bellhop inspect "+f.Topic+" "+f.ID)
			}
		}
	}
	e.reportRest(check, rows, 0, "topic", "bellhop topics", "no message that falls due next has failed several times")
}

// A failure is one that is not long ago.
type failure struct {
	store.Failing
	ago time.Duration
}

// failingIn returns what failed lately in a shard.
func failingIn(ctx context.Context, shard store.Shard) (all []failure, err error) {
	failing, now, err := shard.Failing(ctx)
	for _, f := range failing {
		if ago := now.Sub(f.Ended); ago < failedLately {
			all = append(all, failure{f, ago})
		}
	}
	return all, err
}

// failed says which attempts of a message failed, and why.
func failed(f *store.Failing, ago time.Duration) string {
	by, others := "", ""
	if f.Worker != "" {
		by = " by " + f.Worker
	}
	if f.Messages > 1 {
		others = "; others fail so, too"
	}
	return fmt.Sprintf("%s: the last %d attempts of %s failed, the newest %s ago%s: %.200s%s", f.Topic, f.Attempts, f.ID, rough(max(ago, 0)), by, f.Reason, others)
}
