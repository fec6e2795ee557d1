package subscribers

import (
	"context"
	"log/slog"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// pause is the pause of a loop after calls to Redis that failed. It logs when
// they begin to fail and when they are well again.
type pause struct {
	log *slog.Logger
	backoff.Pause
}

func (p *pause) after(ctx context.Context, err error) {
	switch {
	case err == nil && p.Waited():
		p.log.Info("calls to redis succeed again")
		p.Reset()
	case err != nil && ctx.Err() == nil:
		if !p.Waited() {
			p.log.Error("call to redis failed, trying on", "error", err)
		}
		p.Wait(ctx)
	}
}

// signal leaves a mark in a channel that holds one. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
