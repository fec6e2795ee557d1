package subscribers

import (
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
)

// ear logs what becomes of a connection that listens, once for each change.
type ear struct {
	log          *slog.Logger
	deaf, broken bool
}

func (e *ear) note(event notify.Event) {
	switch event.Kind {
	case notify.Subscribed:
		if e.broken {
			e.log.Info("listening again")
		}
		e.broken = false
	case notify.Beat:
		if e.deaf {
			e.log.Info("a carrier is heard again")
		}
		e.deaf = false
	case notify.Silent:
		if !e.deaf {
			e.log.Warn("no carrier is heard: what is not due yet will not be delivered; is bellhop serve running?", "for", notify.Silence)
		}
		e.deaf = true
	case notify.Broken:
		if !e.broken {
			e.log.Error("cannot listen to redis, trying on", "error", event.Err)
		}
		e.broken = true
	}
}
