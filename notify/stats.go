package notify

import (
	"sync/atomic"

	"github.com/bellhopd/bellhop/notify/store"
)

// PublisherStats are what a Publisher counted since it was made: its publishes by their
// outcome; one that was dropped, as Message.IfBusy says, had been created. A publish that
// failed otherwise, such as for a wrong field, is none of them.
type PublisherStats struct{ Created, Kept, Replaced, Moved, Refused int64 }

// outcomes counts publishes by their outcome.
type outcomes struct{ created, kept, replaced, moved, refused atomic.Int64 }

// note counts the outcomes of a batch.
func (o *outcomes) note(batch []*outgoing) {
	for _, out := range batch {
		switch out.result.Outcome {
		case Created, store.OutcomeDropped:
			o.created.Add(1)
		case Kept:
			o.kept.Add(1)
		case Replaced:
			o.replaced.Add(1)
		case Moved:
			o.moved.Add(1)
		case Refused:
			o.refused.Add(1)
		}
	}
}

// Stats returns what the publisher counted.
func (p *Publisher) Stats() PublisherStats {
	o := &p.outcomes
	return PublisherStats{Created: o.created.Load(), Kept: o.kept.Load(), Replaced: o.replaced.Load(), Moved: o.moved.Load(), Refused: o.refused.Load()}
}
