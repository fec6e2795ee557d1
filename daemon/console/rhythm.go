package console

import (
	"time"

	"github.com/bellhopd/bellhop/daemon/console/cache"
)

const (
	rhythm  = time.Second      // of streams, and how old a snapshot may be
	quiet   = 15 * time.Second // after which a stream says that it is alive, so that no proxy closes it
	silence = 40 * time.Second // after which a page takes its stream for lost

	relisted  = 3 * time.Second // how long lists of messages, schedules and pushes stand
	reordered = 5 * time.Second // how long an order of topics stands
)

// relogged is how long the lists of logs and of listeners stand.
var relogged = cache.Keep{Age: 5 * time.Second}
