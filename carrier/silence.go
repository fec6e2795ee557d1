package carrier

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// hears takes note of the beat of a carrier, in this process or another.
func (c *Carrier) hears(e notify.Event) {
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
func (c *Carrier) patience() time.Duration { return max(2*c.o.Lease, notify.Silence) }

// awaitBeats tells, until ctx ends, when no carrier is heard, and when one is again.
func (c *Carrier) awaitBeats(ctx context.Context) {
	defer c.heard(0)
	patience := time.NewTimer(c.patience())
	defer patience.Stop()
	for silent := false; ; {
		select {
		case <-ctx.Done():
			return
		case epoch := <-c.beats:
			c.heard(epoch)
			patience.Reset(c.patience())
			if silent {
				c.o.Logger.Info("a carrier is heard again", "epoch", epoch)
			}
			silent = false
		case <-patience.C:
			c.heard(0)
			silent = true
			c.o.Logger.Warn("no carrier is heard, so nothing becomes due; see bellhop doctor", "for", c.patience().String())
		}
	}
}
