package console

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
)

// A listenerRow is a named listener.
type listenerRow struct{ notify.ListenerInfo }

// Sign returns the worst that is to be said of a listener, and Class its class of the style.
func (l listenerRow) Sign() string {
	switch {
	case l.HasGap:
		return "missed some"
	case l.AtRisk:
		return "at risk"
	case l.ListenerInfo.Behind > 0 && !l.Active:
		return "behind, and away"
	case l.ListenerInfo.Behind > 0:
		return "behind"
	case !l.Active:
		return "away"
	}
	return "ok"
}

func (l listenerRow) Class() string {
	switch {
	case l.HasGap:
		return "dead"
	case l.AtRisk, l.ListenerInfo.Behind > 0:
		return "late"
	case !l.Active:
		return "quiet"
	}
	return "ok"
}

// Remove returns the address of the page that asks whether to remove the name.
func (l listenerRow) Remove() string { return removePath(l.Name) }

// Listens returns who listens under the name now, and who holds how many broadcasts.
func (l listenerRow) Listens() string { return calls.WhoListens(l.ListenerInfo) }

// listeners returns the named listeners.
func (c *Console) listeners(ctx context.Context) ([]notify.ListenerInfo, error) {
	return c.caches.listeners.Get(ctx, relogged, func(ctx context.Context) ([]notify.ListenerInfo, error) {
		return c.inspector.Listeners(ctx)
	})
}
