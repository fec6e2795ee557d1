package carrier

import (
	"context"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// hears takes note of the beat of a carrier, in this process or another.
func (c *Carrier) hears(e store.Event) {
	epoch := e.Epoch()
	if epoch == 0 { // it is no beat, or another program's
		return
	}
	select {
	case c.beats <- epoch:
	default: // one was heard already
	}
}

// patience is how long no beat is heard until that is told. Who is killed is
// replaced after one lease.
func (c *Carrier) patience() time.Duration { return max(2*c.o.Lease, store.Silence) }

// awaitBeats tells, until ctx ends, when no carrier is heard, and when one is again.
func (c *Carrier) awaitBeats(ctx context.Context) {
	defer c.heard(0)
	patience := time.NewTimer(c.patience())
	defer patience.Stop()
	silence := outage.New(c.o.Logger, slog.LevelWarn, "no carrier is heard: nothing becomes due", "a carrier is heard again")
	for {
		select {
		case <-ctx.Done():
			return
		case epoch := <-c.beats:
			c.heard(epoch)
			patience.Reset(c.patience())
			silence.End("epoch", epoch)
		case <-patience.C:
			c.heard(0)
			silence.Begin("for", c.patience().String())
		}
	}
}
