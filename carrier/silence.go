package carrier

import (
	"context"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// noteBeat takes note of the beat of a carrier, in this process or another, and that the
// home is heard.
func (m *mover) noteBeat(e store.Event) {
	if e.Kind == reach.Subscribed && m.shard.Number() == 0 {
		m.shares.hearHome()
	}
	epoch := e.Epoch()
	if epoch == 0 { // no beat, or another program's
		return
	}
	select {
	case m.beats <- epoch:
	default: // another beat is still there
	}
}

// patience is how long beats may be missing before that is logged. A carrier that
// was killed is replaced after one lease.
func (m *mover) patience() time.Duration { return max(2*m.o.Lease, reach.Silence) }

// awaitBeats logs, until ctx ends, when no carrier is heard, and when one is again.
func (m *mover) awaitBeats(ctx context.Context) {
	defer m.setHeard(0)
	patience := time.NewTimer(m.patience())
	defer patience.Stop()
	silence := outage.New(m.log, slog.LevelWarn, "no carrier is heard; nothing becomes due", "a carrier is heard again")
	for {
		select {
		case <-ctx.Done():
			return
		case epoch := <-m.beats:
			m.setHeard(epoch)
			patience.Reset(m.patience())
			silence.End("epoch", epoch)
		case <-patience.C:
			m.setHeard(0)
			if m.shard.Trouble() != nil { // which is logged already
				patience.Reset(m.patience())
				continue
			}
			silence.Begin("for", m.patience().String())
		}
	}
}
