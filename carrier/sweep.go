package carrier

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

const (
	sweepSoon  = 100 * time.Millisecond // at most between two steps while there is more to do
	sweepOn    = 10 * time.Second       // at most between two steps while there is more to check
	sweptNames = 10                     // topics that the log names
	dropEvery  = time.Hour              // between two looks for libraries of functions that nobody uses
)

// A round is one pass over all topics that have dead letters, and what was removed
// meanwhile.
type round struct {
	rank, old int64    // in the set of oldest deaths, and in the logs that are old, for the next step
	done      int64    // as rank, in the set of topics that keep what succeeded
	seat      string   // as rank, among the seats of keys
	group     string   // as rank, among groups
	dead      int64    // dead letters
	topics    []string // topics of these
	tooMany   int64    // messages that succeeded, removed before their time
	forgotten int64    // topics
}

// sweep keeps house in small steps, so that no other call waits long, until ctx ends
// or another carrier has the lease.
func (t *term) sweep(ctx context.Context) {
	var r round
	var dropped time.Time // when it last looked for libraries
	keeping := outage.New(t.log, slog.LevelWarn, "cannot keep house; retrying", "keeping house again").Patient()
	for pause := min(t.o.Sweep, sweepOn); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		most, err := t.step(ctx, &r)
		if err == nil && time.Since(dropped) > dropEvery {
			dropped = time.Now()
			err = t.dropLibraries(ctx)
		}
		var deposed *store.DeposedError
		if err != nil && ctx.Err() != nil || errors.As(err, &deposed) {
			return
		}
		keeping.Note(err)
		pause = min(t.o.Sweep, most)
	}
}

// step does one step of the housekeeping. It returns how long the next one may wait.
func (t *term) step(ctx context.Context, r *round) (most time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := t.redis.sweep(ctx, store.Sweep{
		Token: t.token, Rank: r.rank, Old: r.old, Done: r.done, Seat: r.seat, Group: r.group,
		KeepDeadCount: t.o.KeepDeadCount, KeepDeadAge: t.o.KeepDeadAge, KeepTopics: max(t.o.KeepTopics, t.o.KeepAge), KeepAge: t.o.KeepAge,
		KeepDoneCount: t.o.KeepDoneCount, KeepDoneAge: t.o.KeepDoneAge,
	})
	if err != nil {
		return sweepOn, err
	}
	r.rank, r.old, r.done, r.seat, r.group = m.Rank, m.Old, m.Done, m.Seat, m.Group
	if m.Unarchived > 0 {
		t.o.Logger.Warn("removed what the archive had not stored yet, since its stream of endings is full", "removed", m.Unarchived)
	}
	dead := m.ByDeaths
	for _, one := range m.Removed {
		dead += one.N
		if !slices.Contains(r.topics, one.Topic) && len(r.topics) <= sweptNames {
			r.topics = append(r.topics, one.Topic)
		}
	}
	r.dead, r.forgotten, r.tooMany = r.dead+dead, r.forgotten+m.Forgotten, r.tooMany+m.TooMany
	t.addSwept(dead, m.Forgotten)
	if m.Whole {
		t.logRound(r)
	}
	switch {
	case m.Soon:
		return sweepSoon, nil
	case m.More && t.redis.stirred == nil: // else it would go on for as long as there are keys, through all the time that a test passes
		return sweepOn, nil
	default:
		return max(t.o.Sweep, MaxSweep), nil
	}
}

// dropLibraries deletes the libraries of functions that nobody uses, and warns of one that is foreign.
func (t *term) dropLibraries(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	dropped, err := t.redis.drop(ctx)
	if len(dropped) > 0 {
		t.o.Logger.Info("deleted functions of other versions that nobody used for three days", "libraries", strings.Join(dropped, " "))
	}
	var foreign *reach.LibraryError
	if errors.As(err, &foreign) {
		t.o.Logger.Error("a library of functions was replaced; calls run as scripts", "library", foreign.Name, "remedy", foreign.Remedy())
		return nil
	}
	return err
}

// logRound logs what a round removed; the next one begins.
func (t *term) logRound(r *round) {
	if r.dead > 0 {
		names := strings.Join(r.topics[:min(len(r.topics), sweptNames)], " ")
		if len(r.topics) > sweptNames {
			names += " and others"
		}
		t.o.Logger.Info("removed dead letters that were too old or too many", "removed", r.dead, "topics", names)
	}
	if r.forgotten > 0 {
		t.o.Logger.Info("forgot topics of which nothing was left", "forgotten", r.forgotten)
	}
	if r.tooMany > 0 {
		t.o.Logger.Info("removed messages that succeeded before their time, since topics kept too many", "removed", r.tooMany, "keeps", t.o.KeepDoneCount)
	}
	*r = round{old: r.old, done: r.done, seat: r.seat, group: r.group}
}
