package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bellhopd/bellhop/daemon/outbox"
)

const outboxCheck = "outbox"

// outboxes reports of each outbox in the configuration whether a relay can work there, whether one does, and what waits.
func (e *exam) outboxes(ctx context.Context) {
	for _, o := range e.o.Outboxes {
		b, err := outbox.New(e.store, o)
		if err != nil {
			e.report(outboxCheck, Fail, err.Error(), "check BELLHOP_OUTBOX_URL and BELLHOP_OUTBOX_PASSWORD_FILE")
			continue
		}
		e.outbox(ctx, b, o.MaxBody)
		b.Close()
	}
}

// outbox reports on one.
func (e *exam) outbox(ctx context.Context, b *outbox.Outbox, maxBody int) {
	s, err := b.Examine(ctx)
	switch {
	case errors.Is(err, outbox.ErrNotInstalled):
		e.report(outboxCheck, Fail, b.Address()+" has no outbox", b.Installing())
	case err != nil:
		e.report(outboxCheck, Fail, fmt.Sprintf("away: %v", err), cmp.Or(Remedy(err), "have the database work again")+": what is published there waits in it")
	case len(s.Lacks) > 0:
		e.report(outboxCheck, Fail, b.Address()+": the relay lacks "+strings.Join(s.Lacks, ", "), b.Installing())
	case s.Version > outbox.Version:
		e.report(outboxCheck, Fail, fmt.Sprintf("%s has an outbox of a newer version, %d, of which nothing is relayed; this program has %d", b.Address(), s.Version, outbox.Version), "update the daemons")
	default:
		e.outboxWorks(b, s, maxBody)
	}
}

// outboxWorks reports what is wrong with an outbox that can be relayed, or that nothing is.
func (e *exam) outboxWorks(b *outbox.Outbox, s outbox.State, maxBody int) {
	holds, fine := outboxHolds(s.Backlog), true
	for _, wrong := range []struct {
		is            bool
		found, remedy string
	}{
		{s.Version < outbox.Version, fmt.Sprintf("has an outbox of an older version, %d", s.Version), b.Installing()},
		{s.MaxBody > maxBody, fmt.Sprintf("takes bodies of up to %d bytes, and the relay refuses those above %d", s.MaxBody, maxBody), fmt.Sprintf("set BELLHOP_MAX_BODY=%d, or have it take less: %s --max-body %d", s.MaxBody, b.Installing(), maxBody)},
		{s.Pooled, "is behind a pool of connections, so the relay looks into it again and again", "name the server itself in BELLHOP_OUTBOX_URL"},
		{s.Relays == 0 && !s.Pooled, "has no relay: " + holds, "start a daemon with BELLHOP_OUTBOX_URL: bellhop serve. Its log says what hinders it"},
		{(s.Relays > 0 || s.Pooled) && s.Oldest > tooLate, "is behind: " + holds, "see the log of the elected daemon, and the checks of the carrier and of memory above"},
		{s.Refused > 0, "holds what cannot be published: " + holds, "see why, and then publish it again or delete it: bellhop outbox refused"},
	} {
		if wrong.is {
			e.report(outboxCheck, Warn, b.Address()+" "+wrong.found, wrong.remedy)
			fine = false
		}
	}
	if fine {
		e.report(outboxCheck, OK, b.Address()+" is relayed: "+holds, "")
	}
}

// outboxHolds describes what an outbox holds.
func outboxHolds(l outbox.Backlog) string {
	text := counted(l.Waiting) + " wait"
	if l.Waiting > 0 {
		text += ", the oldest for " + rough(l.Oldest)
	}
	if l.Refused > 0 {
		text += "; " + counted(l.Refused) + " refused"
	}
	return text
}

// counted returns a number of rows, of which no more are counted than there can be.
func counted(n int) string {
	if n == outbox.MostCounted {
		return fmt.Sprintf("over %d", n-1)
	}
	return fmt.Sprint(n)
}
