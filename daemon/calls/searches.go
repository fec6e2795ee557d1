package calls

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/outage"
)

// searchesLogged is the shortest time between two log lines about searches of bodies by one client.
const searchesLogged = time.Second

// Searches are the searches of bodies by one client. The zero value is ready to use.
type Searches struct {
	underWay atomic.Int64
	log      outage.Throttle
}

// Begin admits a question if it asks for no bodies, or if fewer than [find.MaxOfBodies]
// that do are under way. The caller calls done when it is answered. Those that ask for
// bodies are logged with what names the client, one in a second: its line has the number
// of those since the line before.
func (s *Searches) Begin(log *slog.Logger, q find.Query, client ...any) (done func(), admitted bool) {
	if !q.AsksBodies() {
		return func() {}, true
	}
	if s.underWay.Add(1) > find.MaxOfBodies {
		s.end()
		return nil, false
	}
	if n := s.log.ToLog(searchesLogged); n > 0 {
		log.Info("search of bodies", append(client, "question", q.String(), "searches", n)...)
	}
	return s.end, true
}

func (s *Searches) end() { s.underWay.Add(-1) }
