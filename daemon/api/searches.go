package api

import (
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/find"
)

// searchesLogged is the shortest time between two log lines about searches of bodies by one client.
const searchesLogged = time.Second

// Searches are the searches of bodies by one client. The zero value is ready to use.
type Searches struct {
	mu       sync.Mutex
	underWay int
	logged   time.Time
	unlogged int // since then
}

// Begin admits a question if it asks for no bodies, or if fewer than [find.MaxOfBodies]
// that do are under way. The caller calls done when it is answered. Those that ask for
// bodies are logged with what names the client, one in a second: its line has the number
// of those since the line before.
func (s *Searches) Begin(log *slog.Logger, q find.Query, client ...any) (done func(), admitted bool) {
	if !q.AsksBodies() {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay >= find.MaxOfBodies {
		return nil, false
	}
	s.underWay++
	if s.unlogged++; time.Since(s.logged) >= searchesLogged {
		log.Info("search of bodies", append(client, "question", q.String(), "searches", s.unlogged)...)
		s.logged, s.unlogged = time.Now(), 0
	}
	return s.end, true
}

func (s *Searches) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
}
