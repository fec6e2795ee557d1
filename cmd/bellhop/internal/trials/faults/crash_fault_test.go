package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// crashFaults hit Redis and the carrier together, as where one machine has both.
var crashFaults = []fault{
	{clockBack, []string{"carrier"}, crash, 3 * time.Second, 4 * time.Second},
}

// clockBack lasts longer than another carrier may take, since that is there
// while the clock is still behind.
const clockBack = "crash, clock behind"

// How far the clock is behind after a crash.
const (
	leastBehind = 2 * time.Second
	mostBehind  = time.Hour
)

// crash kills Redis and the carrier, and starts both again with a clock that is
// behind that of before, as a virtual machine has that was restored. The clock
// is set right again afterwards, or what was scheduled before would wait for as long.
func crash(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
	behind := between(rand.New(rand.NewPCG(w.seed, uint64(lasts))), leastBehind, mostBehind)
	v.begun.Offset, v.healed.Offset = (w.ahead - behind).Milliseconds(), w.ahead.Milliseconds()
	w.redis.Kill()
	v.member.kill(v.epoch)
	return func(context.Context) error { return w.machine.SetClock(w.ahead) },
		errors.Join(w.machine.SetClock(w.ahead-behind), w.restartRedis(ctx), v.member.again(ctx))
}
