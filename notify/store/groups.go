package store

import "errors"

// Errors of a message that cannot be in its group, or wait for one; nothing was changed.
var (
	ErrGroupComplete = errors.New("group is complete") // all of it ended, and what waited for that is due
	ErrGroupTaken    = errors.New("group has its callback")
)

// The headers of a message that waited for a group: its name, and how many of it ended by how. All but the name are empty in one that came by a time.
const (
	HeaderAfterGroup     = "Bellhop-After-Group"
	HeaderAfterAcked     = "Bellhop-After-Acked"
	HeaderAfterDead      = "Bellhop-After-Dead" // also those that were purged
	HeaderAfterDropped   = "Bellhop-After-Dropped"
	HeaderAfterCancelled = "Bellhop-After-Cancelled"
)
