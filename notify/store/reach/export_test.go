package reach

import (
	"strings"
	"time"
)

// LoadAgain has all servers of the store asked at once again whether they take the library.
func (s *Redis) LoadAgain() {
	s.ways.all.Range(func(_, w any) bool {
		w.(*way).refused.Store(nil)
		return true
	})
}

// Abandon closes all connections, as where they lead to no master any more.
func (s *Redis) Abandon() { s.connections.abandon("", time.Now()) }

// Rehearsed returns the commands that are rehearsed because scripts call them, those of repair among them.
func Rehearsed() []string { return strings.Fields(called + " " + calledByRepair) }

// Next has the store work with the next format, too, as a later version does.
func (s *Redis) Next() {
	newest := s.newest()
	s.formats = append(s.formats[:len(s.formats):len(s.formats)], Format{Number: newest.Number + 1, Adds: "more"})
	for _, d := range append(s.known(), s.root) {
		d.speak(newest.Number + 1)
	}
}

// NewestOf returns the newest format that the version of a library works with.
func NewestOf(text string) int { return newestOf(text) }
