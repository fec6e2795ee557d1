package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// longLease is how long a message may be in hand that does not bound that with try_timeout. A worker that hangs goes on to
// extend its lease, and nothing else tells that.
const longLease = 15 * time.Minute

// leases reports messages that workers have had for long, as far as they told their names.
func (e *exam) leases(ctx context.Context, s service) {
	const check = "leases"
	if s.Now.IsZero() { // nothing was published yet
		e.report(check, OK, "none", "")
		return
	}
	hand, err := store.InHandOf(ctx, e.store)
	if err != nil {
		e.report(check, Warn, err.Error(), "see the check of rights above")
		return
	}
	var long []store.Holding
	for _, lease := range hand.Oldest {
		if s.Now.Sub(lease.Since) >= longLease && !e.ends(ctx, lease) {
			long = append(long, lease)
		}
	}
	slices.SortFunc(long, func(a, b store.Holding) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Topic, b.Topic)) })
	for _, l := range long[:min(len(long), named)] {
		e.mend(Finding{Check: check, Name: l.Topic, ID: l.ID, Act: Stop}, fmt.Sprintf("%s: %s has had %s for %s", l.Topic, l.Worker, l.ID, rough(s.Now.Sub(l.Since))),
			fmt.Sprintf("if it hangs: bellhop cancel %s %s --stop; publish with try_timeout, after which an attempt ends", l.Topic, l.ID))
	}
	e.reportRest(check, len(long), 0, "topic", "bellhop find state:leased",
		fmt.Sprintf("no worker has had a message without a try_timeout for more than %s", rough(longLease)))
}

// ends reports whether the attempt has an end, or has ended meanwhile.
func (e *exam) ends(ctx context.Context, l store.Holding) bool {
	info, err := e.inspector.Inspect(ctx, l.Topic, l.ID)
	return err != nil || info.State != notify.Leased || info.TryTimeout > 0
}
