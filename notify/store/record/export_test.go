package record

// IDs makes ids like NewID, as another process would.
type IDs = ids

// Next returns the next id at a time in Unix milliseconds.
func (s *ids) Next(now int64) string { return s.next(now) }

// Exhaust leaves no random number above that of the last id.
func (s *ids) Exhaust() { s.random = randoms - 1 }
