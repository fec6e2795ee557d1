package metrics

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Choose chooses the topics with a label of their own.
var Choose = choose

// Topics are the topics with a label of their own.
type Topics struct{ *topics }

// NewTopics returns topics with a limit, beside the listed ones.
func NewTopics(limit int, listed ...string) Topics { return Topics{newTopics(limit, listed)} }

// Candidates returns the topics to count.
func (t Topics) Candidates(s notify.Survey) []string { return t.candidates(s) }

// Update decides which topics have a label, and returns the counts to show, and the newest deaths.
func (t Topics) Update(s notify.Survey, counts []notify.Counts) ([]notify.Counts, map[string]time.Time) {
	return t.update(s, counts, true)
}
