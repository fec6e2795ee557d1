package faults_test

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A store of the version before is upgraded under load, beside programs of that version, which are shut out, and of this one.
func TestUpgradeUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	before := buildBefore(t)
	at := slices.IndexFunc(faults, func(f fault) bool { return f.name == upgradeFaults[0].name })
	var plans []plan
	for n, fsync := range []string{"always", "everysec"} {
		upgrade := step{Fault: at, Target: "redis", At: warm, For: time.Second}
		plans = append(plans, plan{Seed: *seedFlag + uint64(n), Fsync: fsync, Sharded: n == 1, Steps: []step{upgrade}, Before: before})
	}
	rounds(t, plans)
}

// upgradeFaults hit the programs of the version before. They have no targets among all faults, since one needs two versions.
var upgradeFaults = []fault{{"upgrade", nil, upgrade, 0, 0}}

const upgradeKind = "upgrade redis"

// upgrade gives a store the newest format, and ends all programs of the version before. The heal starts those of this version in their place.
func upgrade(ctx context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	var old []*member
	for _, m := range w.crew {
		if role := roleOf(m.name); (role == "daemon" || role == "command") && m.bellhop() == w.before {
			old = append(old, m)
		}
	}
	var err error
	if v.begun.Epochs, err = w.terms(ctx, old[0]); err != nil { // the daemon of them
		return nil, err
	}
	w.upgraded.Store(true)
	if err := w.run(ctx, bellhop, "upgrade", "--yes"); err != nil {
		return nil, err
	}
	for _, m := range old {
		if err := m.term(0); err != nil { // some have ended
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		for _, m := range old {
			if err := m.again(ctx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
