package console

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Viewer is the holder of a token, and what the token permits.
type Viewer struct {
	*calls.Client                 // that the token has over HTTP, too
	Fingerprint   string          // of the token: another token of the name has another
	Valid         context.Context // ends when the token is taken away
	Pages         *atomic.Int64   // that the token has open at present

	// Reserve waits for the token's memory for so many bytes of a request, and returns what frees it, also after an error.
	Reserve func(r *http.Request, bytes int64) (free func(), err error)
}

// Sees reports whether a topic is granted, whatever the right.
func (v *Viewer) Sees(topic string) bool {
	may := v.May()
	return record.CheckAnyTopic(topic) == nil && (may == nil || may(topic))
}

// SeesPattern reports whether all topics of a pattern are granted.
func (v *Viewer) SeesPattern(pattern string) bool { return v.AllowTopic(pattern) == nil }

// SeesStore reports whether a viewer may see what is of the whole store: its past, and Redis.
func (v *Viewer) SeesStore() bool { return v.CoversAll() && v.Has(calls.MayAdmin) }
