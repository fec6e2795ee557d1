package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	lookAtMemory = 4 * time.Second
	muchMemory   = 32 << 20 // bytes that are worth giving back
	ofTheTime    = 100      // part of the time that looking for them may take
)

// giveBack has the runtime give memory back to the system, until ctx ends, while
// it has much more than it had at the least. By itself the runtime would keep for
// minutes what slow clients had it take, and as long as nothing else is asked of it.
func giveBack(ctx context.Context) {
	next := time.NewTimer(lookAtMemory)
	defer next.Stop()
	for least := taken(); ; {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		began := time.Now()
		if taken() > least+muchMemory {
			debug.FreeOSMemory()
		}
		least = min(least, taken())
		next.Reset(max(lookAtMemory, ofTheTime*time.Since(began)))
	}
}

// taken returns how many bytes the runtime has of the system.
func taken() uint64 {
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	return all[0].Value.Uint64() - all[1].Value.Uint64()
}
