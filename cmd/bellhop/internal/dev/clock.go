package dev

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// The clocks of Options.
const (
	Real   = "real"
	Manual = "manual"
)

// checkClock sets when a manual clock begins, if nothing else does. It returns a fault.Fault of a clock that the options do not permit.
func (o *Options) checkClock(shards int) error {
	switch {
	case o.Clock != "" && o.Clock != Real && o.Clock != Manual:
		return fault.New("clock", "clock %.100q: use %s or %s", o.Clock, Manual, Real)
	case o.Clock != Manual && !o.At.IsZero():
		return fault.New("at", "at: it is when a manual clock begins; add --clock %s, or leave it out", Manual)
	case o.Clock != Manual:
		return nil
	case shards > 1:
		return fault.New("shards", "shards %d: a manual clock is that of a Redis in memory, which holds one shard; leave one of the two out", shards)
	case o.Config.WaitReplicas > 0:
		return fault.New("wait_replicas", "BELLHOP_WAIT_REPLICAS %d: a manual clock is that of a Redis in memory, which has no replicas; leave one of the two out", o.Config.WaitReplicas)
	case o.At.IsZero():
		o.At = time.Now().Truncate(time.Second)
	case o.At.Before(time.Unix(0, 0)):
		return fault.New("at", "at %s: it is before 1970", o.At.Format(time.RFC3339))
	case o.At.After(memory.LastTime):
		return fault.New("at", "at %s: a manual clock shows times up to %s", o.At.Format(time.RFC3339), memory.LastTime.Format(time.RFC3339))
	}
	return nil
}

// standStill founds the store and has its clock stand still, if it is a manual one; else it returns nil.
func (o *Options) standStill(ctx context.Context, c daemon.Config, r redis) (*memory.Clock, error) {
	if o.Clock != Manual {
		return nil, nil
	}
	store, err := notify.Open(c.Notify())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if _, err := store.Home().Workers(ctx); err != nil { // any call founds it
		return nil, err
	}
	return r.(trial).StandStill(ctx, store.Keys(), o.At)
}
