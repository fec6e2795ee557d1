package subscribers

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed take.lua
	takeSource string
	takeScript = notify.NewScript("take", logsPrelude+takeSource)

	//go:embed hold.lua
	holdSource string
	holdScript = notify.NewScript("hold", holdSource)
)

// ackTurns acknowledges broadcasts; that counts though their lease was lost.
func (n *named) ackTurns(ctx context.Context, done []turn) ([]turn, error) {
	for page := range slices.Chunk(done, MaxClaim) {
		if _, err := n.take(ctx, n.at.Load(), 0, nil, page, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// releaseTurns gives broadcasts back. Whoever listens under the name is rung by that.
func (n *named) releaseTurns(ctx context.Context, back []*job[turn], _ bool) error {
	for page := range slices.Chunk(back, MaxClaim) {
		at := n.at.Load()
		got, err := n.take(ctx, at, 0, nil, nil, page)
		if err != nil {
			return err
		}
		if got.gone {
			n.goAstray(at, page)
		}
	}
	return nil
}

// goAstray notes what was given back when the registration was gone. Nobody has
// it, so that a gap has to begin before.
func (n *named) goAstray(at *registration, back []*job[turn]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, j := range back {
		if n.at.Load() == at && (n.astray == 0 || j.work.Position < n.astray) {
			n.astray = j.work.Position
		}
	}
}

// extendTurns extends the leases of broadcasts.
func (n *named) extendTurns(ctx context.Context, all []turn) (renew func(*turn), lost []any, err error) {
	keys := n.store.Keys()
	args := append([]any{n.name, n.o.Lease.Milliseconds()}, heldAs(all)...)
	reply, err := n.store.Run(ctx, holdScript, []string{keys.Held(n.name), keys.Handed()}, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("extend leases: %w", err)
	}
	receipt, _ := reply[0].(int64)
	return func(t *turn) { t.receipt = receipt }, reply[1:], nil
}

// taken is what take.lua answers.
type taken struct {
	gone  bool   // the registration is, and nothing was done
	store string // whose registration it would be
	turns []turn
	gaps  []Gap
	more  []string // topics of which there may be more
}

// take takes up to free broadcasts under a registration, acknowledges some and gives some back.
func (n *named) take(ctx context.Context, at *registration, free int, topics []string, done []turn, back []*job[turn]) (got taken, err error) {
	keys := n.store.Keys()
	names := []string{keys.Logs(), keys.Listeners(), keys.Handed(), keys.Places(n.name), keys.Held(n.name), keys.Tries(n.name)}
	args := []any{n.name, at.text, n.o.Lease.Milliseconds(), free, keys.Base(), len(done), len(back)}
	for i := range done {
		args = append(args, done[i].member())
	}
	args = append(args, heldAs(works(back))...)
	for _, j := range back {
		args = append(args, max(j.tries-1, 0)) // attempts that failed
	}
	for _, topic := range topics {
		names = append(names, keys.Log(topic))
		args = append(args, topic)
	}
	reply, err := n.store.Run(ctx, takeScript, names, args...)
	switch {
	case err != nil:
		return taken{}, fmt.Errorf("take broadcasts as %s: %w", n.name, err)
	case len(reply) < 4:
		return taken{gone: true, store: storeID(reply[0])}, nil
	}
	all := reply[1].([]any)
	got.turns = make([]turn, 0, len(all))
	for _, one := range all {
		got.turns = append(got.turns, n.turnOf(reply[0].(int64), one.([]any)))
	}
	for _, gap := range reply[2].([]any) {
		fields := gap.([]any)
		topic, _ := fields[0].(string)
		got.gaps = append(got.gaps, Gap{topic, position(fields[1]), position(fields[2])})
	}
	for _, topic := range reply[3].([]any) {
		got.more = append(got.more, topic.(string))
	}
	return got, nil
}

// heldAs returns the members of broadcasts in hand, then their receipts.
func heldAs(all []turn) (args []any) {
	for i := range all {
		args = append(args, all[i].member())
	}
	for i := range all {
		args = append(args, all[i].receipt)
	}
	return args
}

// turnOf reads what take.lua answers of a broadcast: topic, attempt and entry.
func (n *named) turnOf(receipt int64, fields []any) turn {
	topic, _ := fields[0].(string)
	attempt, _ := fields[1].(int64)
	found := n.hub.decode(topic, fields[2])
	if found.broadcast == nil {
		found.broadcast = &Broadcast{Topic: topic, Position: found.position}
	}
	return turn{Broadcast: found.broadcast, attempt: int(attempt), receipt: receipt}
}
