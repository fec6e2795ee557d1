package store

import "strings"

// Abandon closes all connections, as where they lead to no master any more.
func (s *Store) Abandon() { s.connections.abandon("") }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }

// IDs makes ids like NewID, as another process would.
type IDs = ids

// Next returns the next id at a time in Unix milliseconds.
func (s *ids) Next(now int64) string { return s.next(now) }

// Exhaust leaves no random number above that of the last id.
func (s *ids) Exhaust() { s.random = randoms - 1 }
