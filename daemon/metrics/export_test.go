package metrics

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Choose chooses the topics that have a label of their own.
var Choose = choose

// Topics are those that have a label of their own.
type Topics struct{ *topics }

// NewTopics returns topics of a limit, beside those that are listed.
func NewTopics(limit int, listed ...string) Topics { return Topics{newTopics(limit, listed)} }

// Candidates returns the topics that are to be counted.
func (t Topics) Candidates(s notify.Survey) []string { return t.candidates(s) }

// Look decides which topics have a label, and returns what is shown, and the newest deaths.
func (t Topics) Look(s notify.Survey, counts []notify.Counts) ([]notify.Counts, map[string]time.Time) {
	return t.look(s, counts)
}
