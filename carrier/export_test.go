package carrier

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// SweepOn is the pause of the housekeeping while there are more topics to check.
const SweepOn = sweepOn

// A Beater is an elected carrier of one shard whose beats and steps a test makes one by one.
type Beater struct {
	t *term
	r *round
}

// Elect elects a carrier of a shard, for the longest lease.
func Elect(t *testing.T, shard store.Shard, o Options) Beater {
	t.Helper()
	o.Lease = MaxLease
	c, err := New(shard.Store(), o)
	storetest.Must(t, err)
	tm, _, err := newMover(shard, c.o, c.o.Logger, newShares(storetest.Shards())).elect(t.Context())
	if err != nil || tm == nil {
		t.Fatalf("elected: %v, %v", tm, err)
	}
	return Beater{tm, new(round)}
}

// Beat makes a call with a beat.
func (b Beater) Beat(t *testing.T) {
	t.Helper()
	b.t.beaten = b.t.beaten.Add(-b.t.beat)
	b.t.carryOnce(t)
}

// State returns the state of the carrier.
func (b Beater) State() State { return b.t.now() }

// Step makes a step of the housekeeping that forgets topics after some time, and returns how long the next one may wait.
func (b Beater) Step(t *testing.T, keep time.Duration) (most time.Duration) {
	t.Helper()
	b.t.o.KeepTopics, b.t.o.KeepAge = keep, keep
	most, err := b.t.step(t.Context(), b.r)
	storetest.Must(t, err)
	return most
}

// Fill makes what is due of schedules.
func (b Beater) Fill(t *testing.T) {
	t.Helper()
	if whole, err := b.t.fill(t.Context(), false, time.Time{}); err != nil || !whole {
		t.Fatal(whole, err)
	}
}
