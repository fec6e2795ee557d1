package faults_test

import (
	"context"
	"time"
)

// machineFaults hit the machine of Redis.
var machineFaults = []fault{
	{"power cut", onRedis, cutPower, 100 * time.Millisecond, time.Second},
	{"disk full", onRedis, fillDisk, 200 * time.Millisecond, 2 * time.Second},
	{"clock 3m ahead", onRedis, setAhead, 100 * time.Millisecond, 500 * time.Millisecond},
	{"clock 3m behind", onRedis, setBehind, 500 * time.Millisecond, 2 * time.Second},
}

// jump is how far a clock is set ahead or behind.
const jump = 3 * time.Minute

// forgets is what a power cut may lose with appendfsync everysec: a second, and another one
// while the disk is busy (https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/).
const forgets = 2 * time.Second

// cutPower cuts the power. The heal restarts Redis.
func cutPower(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	if w.fsync == "everysec" {
		v.begun.Loss = forgets.Milliseconds()
	}
	_, err := w.machine.PowerCut(w.redis)
	return w.restartRedis, err
}

// fillDisk leaves no space for the append-only file.
func fillDisk(_ context.Context, w *world, _ *victim, _ time.Duration) (healing, error) {
	return func(ctx context.Context) error {
		if err := w.machine.FreeDisk(); err != nil {
			return err
		}
		select {
		case <-w.redis.Done(): // with appendfsync always Redis ends itself
			return w.restartRedis(ctx)
		default:
			return nil
		}
	}, w.machine.FillDisk()
}

// setAhead sets the clock ahead for good: if it were set back, messages scheduled meanwhile
// would wait for that long.
func setAhead(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	w.ahead += jump
	v.begun.Offset, v.healed.Offset = w.ahead.Milliseconds(), w.ahead.Milliseconds()
	return func(context.Context) error { return nil }, w.machine.SetClock(w.ahead)
}

// setBehind sets the clock behind. The heal sets it right.
func setBehind(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	v.begun.Offset, v.healed.Offset = (w.ahead - jump).Milliseconds(), w.ahead.Milliseconds()
	return func(context.Context) error { return w.machine.SetClock(w.ahead) }, w.machine.SetClock(w.ahead - jump)
}
