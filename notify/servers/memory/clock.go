package memory

import "time"

// Set sets the clock of the server, which stands still from then on.
func (s *Server) Set(now time.Time) { s.redis.SetTime(now) }
