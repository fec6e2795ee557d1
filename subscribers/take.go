package subscribers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// ackTurns acknowledges broadcasts; that counts though their lease was lost.
func (n *named) ackTurns(ctx context.Context, done []turn) ([]turn, error) {
	for page := range slices.Chunk(done, store.MaxClaim) {
		at := n.at.Load()
		got, err := n.take(ctx, at, 0, nil, page, nil)
		if err != nil {
			return nil, err
		}
		if got.Gone {
			n.goAstray(at, nil)
		}
	}
	return nil, nil
}

// releaseTurns gives broadcasts back. Whoever listens under the name is rung by that.
func (n *named) releaseTurns(ctx context.Context, back []*job[turn], _ bool) error {
	for page := range slices.Chunk(back, store.MaxClaim) {
		at := n.at.Load()
		got, err := n.take(ctx, at, 0, nil, nil, page)
		if err != nil {
			return err
		}
		if got.Gone {
			n.goAstray(at, page)
		}
	}
	return nil
}

// goAstray notes what was given back when a registration was gone. Nobody has
// it, so that a gap has to begin before.
func (n *named) goAstray(at *registration, back []*job[turn]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at.Load() != at {
		return
	}
	n.adrift = true
	for _, j := range back {
		if n.astray == 0 || j.work.Position < n.astray {
			n.astray = j.work.Position
		}
	}
}

// extendTurns extends the leases of broadcasts.
func (n *named) extendTurns(ctx context.Context, all []turn, lease time.Duration) (renew func(*turn), lost []int, err error) {
	leases := make([]store.Lease, len(all))
	for i := range all {
		leases[i] = all[i].lease()
	}
	until, lost, err := n.store.Home().Hold(ctx, n.name, leases, lease)
	if err != nil {
		return nil, nil, fmt.Errorf("extend leases: %w", err)
	}
	return func(t *turn) { t.receipt = until }, lost, nil
}

// take takes up to free broadcasts under a registration, acknowledges some and gives some back.
func (n *named) take(ctx context.Context, at *registration, free int, topics []string, done []turn, back []*job[turn]) (store.Taken, error) {
	asked := store.Take{Name: n.name, Registration: at.Text, Lease: n.o.Lease, Max: free, Topics: topics}
	for i := range done {
		asked.Acked = append(asked.Acked, done[i].member())
	}
	for _, j := range back {
		asked.Back = append(asked.Back, store.Unhandled{Lease: j.work.lease(), Failed: max(j.tries-1, 0)})
	}
	got, err := n.store.Home().Take(ctx, asked)
	if err != nil {
		return store.Taken{}, fmt.Errorf("take broadcasts as %s: %w", n.name, err)
	}
	return got, nil
}

// turnsOf returns the broadcasts that were taken. One that is foreign has no ID.
func (n *named) turnsOf(got store.Taken) []turn {
	turns := make([]turn, len(got.Broadcasts))
	for i, one := range got.Broadcasts {
		b := n.hub.itemOf(one.Topic, one.Entry).broadcast
		if b == nil {
			b = &Broadcast{Topic: one.Topic, Position: one.Position}
		}
		turns[i] = turn{Broadcast: b, attempt: one.Attempt, receipt: got.Until}
	}
	return turns
}
