package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// crashFaults hit Redis and the carrier together, as on one machine.
var crashFaults = []fault{
	{clockBack, []string{"carrier"}, crash, 3 * time.Second, 4 * time.Second},
}

// clockBack lasts longer than a takeover may take, so that another carrier takes over while
// the clock is still behind.
const clockBack = "crash, clock behind"

// How far the clock is behind after a crash.
const (
	minBehind = 2 * time.Second
	maxBehind = time.Hour
)

// crash kills Redis and the carrier, and restarts both with a clock that is behind, like a
// restored virtual machine. The heal sets the clock right, since messages scheduled before
// would otherwise wait for that long.
func crash(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
	behind := between(rand.New(rand.NewPCG(w.seed, uint64(lasts))), minBehind, maxBehind)
	v.begun.Offset, v.healed.Offset = (w.ahead - behind).Milliseconds(), w.ahead.Milliseconds()
	w.redis.Kill()
	v.member.kill(v.epoch)
	return func(context.Context) error { return w.machine.SetClock(w.ahead) },
		errors.Join(w.machine.SetClock(w.ahead-behind), w.restartRedis(ctx), v.member.again(ctx))
}
