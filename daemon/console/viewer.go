package console

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// The rights of a token that pages ask for. Admin includes all others.
const (
	Publish = "publish"
	Consume = "consume"
	Listen  = "listen"
	Metrics = "metrics"
	Admin   = "admin"
)

// A Viewer is the holder of a token, and what the token permits.
type Viewer struct {
	Name        string
	Fingerprint string // of the token: another token of the name has another
	Rights      []string
	Patterns    []notify.Pattern
	Everything  bool            // also what patterns do not match: the topics of the system
	Valid       context.Context // ends when the token is taken away
	Pages       *atomic.Int64   // that the token has open at present
	Searches    *api.Searches   // of bodies by the token, over HTTP, too

	// Reserve waits for the token's memory for so many bytes of a request, and returns what frees it, also after an error.
	Reserve func(r *http.Request, bytes int64) (free func(), err error)
}

// May reports whether any of some rights is granted.
func (v *Viewer) May(rights ...string) bool {
	return slices.Contains(v.Rights, Admin) || slices.ContainsFunc(rights, func(r string) bool { return slices.Contains(v.Rights, r) })
}

// Sees reports whether a topic is granted, whatever the right.
func (v *Viewer) Sees(topic string) bool {
	return record.CheckAnyTopic(topic) == nil &&
		(v.Everything || slices.ContainsFunc(v.Patterns, func(own notify.Pattern) bool { return own.Match(topic) }))
}

// may returns what a search may look at; nil: all topics.
func (v *Viewer) may() func(topic string) bool {
	if v.Everything {
		return nil
	}
	return v.Sees
}

// SeesPattern reports whether all topics of a pattern are granted.
func (v *Viewer) SeesPattern(pattern string) bool {
	p, err := notify.ParsePattern(pattern)
	return err == nil && (v.Everything || slices.ContainsFunc(v.Patterns, func(own notify.Pattern) bool { return own.Covers(p) }))
}

// SeesAll reports whether all topics are granted.
func (v *Viewer) SeesAll() bool { return v.SeesPattern(">") }

// SeesStore reports whether a viewer may see what is of the whole store: its past, and Redis.
func (v *Viewer) SeesStore() bool { return v.SeesAll() && v.May(Admin) }
