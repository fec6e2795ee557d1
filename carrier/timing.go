package carrier

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// bound returns how long the loop takes at most to come around, elected or standing by,
// and whatever becomes of Redis. It is one call to Redis, which is given up after
// callTimeout, the longest sleep between two calls (pollPause and electJitter), the
// last call of a term (reach.ResignWait), and a second for a busy machine. It does not
// depend on the lease.
func bound() time.Duration { return callTimeout + pollPause + reach.ResignWait + time.Second }

const (
	callTimeout = 8 * time.Second       // for one call: to connect, 2 s, write and read, 3 s each
	pollPause   = 5 * time.Second       // longest wait of a standby between two attempts to be elected
	electJitter = 50 * time.Millisecond // spreads these attempts
)
