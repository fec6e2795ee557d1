package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	memoryInterval = 4 * time.Second
	muchMemory     = 32 << 20 // bytes that are worth returning
	memoryPause    = 100      // times the duration of a check, at least, between two checks
)

// freeMemory has the runtime return memory to the system, until ctx ends, while it
// has much more than its least so far. By itself an idle runtime would keep for minutes
// the memory that slow clients made it take.
func freeMemory(ctx context.Context) {
	next := time.NewTimer(memoryInterval)
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
		next.Reset(max(memoryInterval, memoryPause*time.Since(began)))
	}
}

// taken returns how many bytes the runtime has from the system.
func taken() uint64 {
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	return all[0].Value.Uint64() - all[1].Value.Uint64()
}
