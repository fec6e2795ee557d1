package carrier

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed sweep.lua
	sweepSource string
	sweepScript = notify.NewScript("sweep", sweepSource)
)

const (
	sweepSoon  = 100 * time.Millisecond // between two steps where there is more to do
	sweptNames = 10                     // topics that the log names
)

// A round is one look at all topics that have dead letters: what was removed meanwhile.
type round struct {
	rank      int64 // in the set of oldest deaths
	dead      int64
	topics    []string // whose dead letters those were
	forgotten int64    // topics
}

// sweep keeps house until ctx ends or the lease is another's: a small step each
// time, so that nobody waits for it.
func (t *term) sweep(ctx context.Context) {
	var r round
	failed := false
	for pause := t.o.Sweep; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		mine, soon, err := t.step(ctx, &r)
		switch {
		case err != nil && ctx.Err() == nil:
			if !failed {
				t.o.Logger.Warn("cannot keep house, trying on", "error", err)
			}
		case err != nil || !mine:
			return
		}
		failed = err != nil
		pause = t.o.Sweep
		if soon {
			pause = min(pause, sweepSoon)
		}
	}
}

// step calls the script once. mine is false if the lease is another's; soon
// says that there is more to do.
func (t *term) step(ctx context.Context, r *round) (mine, soon bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := t.store.Keys()
	reply, err := t.store.Run(ctx, sweepScript,
		[]string{keys.Carrier(), keys.Logs(), keys.Listeners(), keys.OldestDeaths(), keys.KeptDeaths(), keys.SeenTopics()},
		t.token, keys.Base(), r.rank, t.o.KeepDeadCount, t.o.KeepDeadAge.Milliseconds(), max(t.o.KeepTopics, t.o.KeepAge).Milliseconds())
	if err != nil || reply[0] != int64(1) {
		return false, false, err
	}
	r.rank, _ = reply[1].(int64)
	forgotten, _ := reply[4].(int64)
	dead, _ := reply[5].(int64)
	for i := 6; i+1 < len(reply); i += 2 {
		topic, _ := reply[i].(string)
		n, _ := reply[i+1].(int64)
		dead += n
		if !slices.Contains(r.topics, topic) && len(r.topics) <= sweptNames {
			r.topics = append(r.topics, topic)
		}
	}
	r.dead, r.forgotten = r.dead+dead, r.forgotten+forgotten
	t.swept(dead, forgotten)
	if reply[3] == int64(1) {
		t.tellRound(r)
	}
	return true, reply[2] == int64(1), nil
}

// tellRound logs what a round removed; the next one begins.
func (t *term) tellRound(r *round) {
	if r.dead > 0 {
		names := strings.Join(r.topics[:min(len(r.topics), sweptNames)], " ")
		if len(r.topics) > sweptNames {
			names += " and others"
		}
		t.o.Logger.Info("dead letters removed: too old, or more than are kept", "removed", r.dead, "topics", names)
	}
	if r.forgotten > 0 {
		t.o.Logger.Info("topics forgotten: nothing was left of them", "forgotten", r.forgotten)
	}
	*r = round{}
}
