package notify

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
)

// A groupLine is a group in an export.
type groupLine struct {
	Kind string `json:"kind"`
	store.ExportedGroup
}

// groups exports the groups of the shard. They come last: until its line is restored, nothing comes that waits for a group.
func (e *exportPart) groups(ctx context.Context) error {
	err := e.shard.ExportGroups(ctx, func(g *store.ExportedGroup) error {
		if g.Check() != nil {
			e.leaveOut(1)
			return nil
		}
		return e.line(groupLine{store.KindGroup, *g}, &e.sum.Groups)
	})
	if err != nil {
		return fmt.Errorf("read the groups: %w", err)
	}
	return nil
}
