package store

import "strings"

// Abandon closes all connections, as where they lead to no master any more.
func (s *Store) Abandon() { s.connections.abandon("") }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }
