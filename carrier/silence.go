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
	case m.beats <- heardBeat{epoch, time.Until(time.UnixMilli(e.Ms()))}:
	default: // another beat is still there
	}
}

// A heardBeat is the epoch of a carrier that is heard, and how far Redis's clock is ahead of this host's.
type heardBeat struct {
	epoch int64
	ahead time.Duration
}

// patience is how long beats may be missing before that is logged. A carrier that
// was killed is replaced after one lease.
func (m *mover) patience() time.Duration { return max(2*m.o.Lease, reach.Silence) }

// awaitBeats logs, until ctx ends, when no carrier is heard, and when one is again; and when
// Redis's clock is off.
func (m *mover) awaitBeats(ctx context.Context) {
	defer m.setHeard(0)
	patience := time.NewTimer(m.patience())
	defer patience.Stop()
	silence := outage.New(m.log, slog.LevelWarn, "no carrier is heard; nothing becomes due", "a carrier is heard again")
	skew := newSkew(m.log)
	for {
		select {
		case <-ctx.Done():
			return
		case beat := <-m.beats:
			m.setHeard(beat.epoch)
			patience.Reset(m.patience())
			silence.End("epoch", beat.epoch)
			if !m.o.Still && skew.hear(beat.ahead) {
				m.setAhead(beat.ahead)
			}
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
