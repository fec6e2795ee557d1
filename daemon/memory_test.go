package daemon_test

import (
	"context"
	"runtime/metrics"
	"testing"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// taken returns how many bytes the process has from the system.
func taken() int64 {
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	return int64(all[0].Value.Uint64()) - int64(all[1].Value.Uint64())
}

// An idle daemon returns memory that it no longer needs.
func TestMemoryIsGivenBack(t *testing.T) {
	c := config(t, storetest.URL())
	storetest.Run(t, func(ctx context.Context) error { return daemon.Run(ctx, c, daemon.Options{}) })
	elected(t, storetest.At(t, string(c.RedisURL), c.Prefix))
	before := taken()
	const bodies, size = 512, 512 << 10
	held := make([][]byte, bodies)
	for i := range held {
		held[i] = make([]byte, size)
	}
	if got := taken() - before; got < bodies*size/2 {
		t.Fatalf("%d MiB were taken", got>>20)
	}
	clear(held)
	storetest.Eventually(t, "the memory is returned", func() bool { return taken()-before < 64<<20 })
}
