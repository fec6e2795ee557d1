package store

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// LibraryName returns the name of the library.
func LibraryName() string { return theLibrary().name }

// LoadAgain has all servers of the store asked at once again whether they take the library.
func (s *Store) LoadAgain() {
	s.ways.all.Range(func(_, w any) bool {
		w.(*way).refused.Store(nil)
		return true
	})
}

// Modules returns the names of the modules in their order, and Transitions those of the transitions.
func Modules() []string     { return modules }
func Transitions() []string { return slices.Sorted(maps.Keys(transitions)) }

// Abandon closes all connections, as where they lead to no master any more.
func (s *Store) Abandon() { s.connections.abandon("", time.Now()) }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }
