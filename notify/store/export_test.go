package store

import "strings"

// Leave closes all connections, as where they lead to no master any more.
func (s *Store) Leave() { s.lines.leave("") }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }
