package subscribers

import (
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
)

// ear logs what becomes of a connection that listens, once for each change.
type ear struct{ redis, carrier *outage.Notice }

func newEar(log *slog.Logger) ear {
	return ear{
		redis:   outage.New(log, slog.LevelError, "cannot listen to redis; retrying", "listening again"),
		carrier: outage.New(log, slog.LevelWarn, "no carrier is heard: nothing becomes due; is one running?", "a carrier is heard again"),
	}
}

func (e ear) note(event notify.Event) {
	switch event.Kind {
	case notify.Subscribed:
		e.redis.End()
	case notify.Beat:
		e.carrier.End()
	case notify.Silent:
		e.carrier.Begin("for", notify.Silence)
	case notify.Broken:
		e.redis.Note(event.Err)
	}
}
