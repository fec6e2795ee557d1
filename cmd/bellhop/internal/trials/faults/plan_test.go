package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// A plan is the part of a round that a seed fixes.
type plan struct {
	Seed  uint64
	Fsync string // always or everysec
	Steps []step

	Replicated bool // Redis is a master with a replica
	Sharded    bool // Redis is a Cluster, and the store has several shards
	Archived   bool // there is an archive

	Neighbour bool // there is another store, in another database of this Redis

	Before string // program of the version before, which works beside; empty: none does

	Ahead time.Duration // of Redis's clock from the beginning, so that those of all other hosts are behind; negative: behind
}

// A step is one fault.
type step struct {
	Fault  int // index in faults
	Target string
	At     time.Duration // after the load began
	For    time.Duration
}

// String returns the plan as it is printed.
func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "SEED=%d appendfsync %s", p.Seed, p.Fsync)
	if p.Replicated {
		b.WriteString(", replicated")
	}
	if p.Sharded {
		b.WriteString(", sharded")
	}
	if p.Archived {
		b.WriteString(", archived")
	}
	if p.Neighbour {
		b.WriteString(", with a neighbour")
	}
	if p.Before != "" {
		b.WriteString(", beside the version before")
	}
	if p.Ahead != 0 {
		fmt.Fprintf(&b, ", clock %v ahead", p.Ahead)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "; %s at %v for %v", s.kind(), s.At, s.For)
	}
	return b.String()
}

// kind returns the name of a fault in the history and the report.
func (s step) kind() string { return faults[s.Fault].name + " " + roleOf(s.Target) }

// roleOf returns the role of a target: worker for worker-1.
func roleOf(target string) string {
	role, _, _ := strings.Cut(target, "-")
	return role
}

const (
	warm = 400 * time.Millisecond // of load before the first fault
	cool = 300 * time.Millisecond // and after the last one
)

// maxSteps is how many faults a random plan makes at most.
const maxSteps = 3

// allSteps returns every fault with each of its targets, as far as -faults.only allows.
func allSteps() (all []step) {
	for i, f := range faults {
		for _, target := range f.targets {
			if s := (step{Fault: i, Target: target, For: (f.least + f.most) / 2}); strings.Contains(s.kind(), *onlyFlag) {
				all = append(all, s)
			}
		}
	}
	return all
}

// replicated reports whether a fault needs a Redis with a replica.
func (s step) replicated() bool {
	return !s.sharded() && !s.archives() && slices.ContainsFunc(replicaFaults, func(f fault) bool { return f.name == faults[s.Fault].name })
}

// withRedis reports whether a fault hits Redis together with its target.
func (s step) withRedis() bool {
	return slices.ContainsFunc(crashFaults, func(f fault) bool { return f.name == faults[s.Fault].name })
}

// refuses reports whether a fault makes Redis refuse commands of a script.
func (s step) refuses() bool {
	return slices.ContainsFunc(rightsFaults, func(f fault) bool { return f.name == faults[s.Fault].name })
}

// besides reports whether a fault can hit the crew of a replicated world.
func (s step) besides() bool {
	return slices.Contains(beside, faults[s.Fault].name) && slices.Contains(crew, s.Target)
}

// filter returns the steps for which a condition holds.
func filter(steps []step, holds func(step) bool) (some []step) {
	for _, s := range steps {
		if holds(s) {
			some = append(some, s)
		}
	}
	return some
}

// How many plans there are for each with a replicated Redis, or with a Cluster, with an archive, and
// with a store in another database.
const (
	replicatedShare = 12
	archivedShare   = 3
	neighbourShare  = 4
)

// clocks are how far Redis's clock is ahead of those of the other hosts.
var clocks = []time.Duration{time.Hour, 0, -time.Hour}

// newPlan makes the plan of a seed from some faults, mostly for a Redis without a replica.
func newPlan(seed uint64, choices []step) plan {
	rnd := rand.New(rand.NewPCG(seed, 1)) // another one than in randomPlan
	archived := rnd.IntN(archivedShare) == 0
	if without := filter(choices, func(s step) bool { return !s.archives() }); !archived && len(without) > 0 {
		choices = without
	}
	alone := filter(choices, func(s step) bool { return !s.replicated() && !s.sharded() })
	takeovers, onNodes := filter(choices, step.replicated), filter(choices, step.sharded)
	share := rnd.IntN(replicatedShare)
	switch {
	case len(onNodes) > 0 && (share == 1 || *shardedFlag || len(alone)+len(takeovers) == 0):
		p := planAround(rnd, seed, onNodes, choices, step.besidesCluster)
		p.Sharded, p.Archived = true, archived
		return p
	case len(takeovers) > 0 && (share == 0 || len(alone) == 0):
		p := planAround(rnd, seed, takeovers, alone, step.besides)
		p.Replicated, p.Archived = true, archived
		return p
	}
	p := randomPlan(seed, alone)
	p.Ahead, p.Neighbour = clocks[rnd.IntN(len(clocks))], rnd.IntN(neighbourShare) == 0
	p.Archived = archived || slices.ContainsFunc(p.Steps, step.archives)
	return p
}

// planAround makes the plan of a seed that begins with one of some faults, and goes on with
// choices that can happen beside it.
func planAround(rnd *rand.Rand, seed uint64, some, choices []step, besides func(step) bool) plan {
	first := some[rnd.IntN(len(some))]
	first.At, first.For = warm, between(rnd, faults[first.Fault].least, faults[first.Fault].most)
	p := randomPlan(seed, append(filter(choices, besides), first))
	p.Steps = append([]step{first}, filter(p.Steps[1:], besides)...)
	return p
}

// randomPlan makes the plan of a seed from faults that one world can have.
func randomPlan(seed uint64, choices []step) plan {
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := plan{Seed: seed, Fsync: []string{"always", "everysec"}[rnd.IntN(2)]}
	at := warm
	busy := make(map[string]time.Duration) // target → end of its fault
	for range 1 + rnd.IntN(maxSteps) {
		s := choices[rnd.IntN(len(choices))]
		s.For = between(rnd, faults[s.Fault].least, faults[s.Fault].most)
		s.At = max(at, busy[s.Target])
		busy[s.Target] = s.At + s.For + cool
		p.Steps = append(p.Steps, s)
		at = s.At + between(rnd, 0, s.For+cool) // faults may overlap
	}
	return p
}

// fixedPlans returns rounds that make every fault on each of its targets once, and a few of a
// Cluster. Those of a replicated Redis, which take half a minute, need -faults.replicated, and
// all those of a Cluster -faults.sharded.
func fixedPlans() (plans []plan) {
	steps := filter(allSteps(), func(s step) bool { return !s.replicated() && !s.sharded() && !s.commands() })
	rand.New(rand.NewPCG(0, 0)).Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(order(a), order(b)) })
	for some := range slices.Chunk(steps, *togetherFlag) {
		plans = append(plans, fixedPlan(len(plans), some))
	}
	for some := range slices.Chunk(filter(allSteps(), step.commands), *togetherFlag) { // beside which there is no other fault
		plans = append(plans, fixedPlan(len(plans), some))
	}
	onNodes := filter(allSteps(), step.sharded)
	if !*shardedFlag {
		onNodes = filter(onNodes, step.isQuick)
	}
	for some := range slices.Chunk(onNodes, *togetherFlag) {
		p := fixedPlan(len(plans), some)
		p.Sharded = true
		plans = append(plans, p)
	}
	if !*replicatedFlag {
		return plans
	}
	for some := range slices.Chunk(filter(allSteps(), step.replicated), *togetherFlag) {
		p := fixedPlan(len(plans), some)
		p.Replicated = true
		plans = append(plans, p)
	}
	return plans
}

// isQuick reports whether a fault of a Cluster is one of those that are always made: on one
// master each.
func (s step) isQuick() bool {
	return slices.Contains([]string{"failover cluster-1", "slot moved cluster-2", "CLIENT KILL pubsub cluster-3"}, faults[s.Fault].name+" "+s.Target)
}

// order puts faults that need an archive last, so that few rounds have one, and some beside
// them that might lose rows.
func order(s step) int {
	switch s.kind() {
	case "kill -9 carrier", "SIGSTOP carrier", "kill -9 redis", "power cut redis":
		return 1
	}
	if s.archives() {
		return 1
	}
	return 0
}

// fixedPlan returns a round of faults, one after the other.
func fixedPlan(number int, some []step) plan {
	p := plan{Seed: uint64(number), Fsync: []string{"always", "everysec"}[number%2], Steps: some}
	p.Archived = slices.ContainsFunc(some, step.archives)
	if !some[0].sharded() && !some[0].replicated() {
		p.Ahead = clocks[number/3%len(clocks)]                    // each in each third of the rounds
		p.Neighbour = number/3%neighbourShare == 0 && !p.Archived // one in each third
	}
	at := warm
	for i := range some {
		some[i].At = at
		at += some[i].For + cool
	}
	return p
}

func between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(rnd.Int64N(int64(most-least)+1))).Round(time.Millisecond)
}

// carryOut makes all faults and heals them.
func (p plan) carryOut(ctx context.Context, w *world) error {
	begun := time.Now()
	var all sync.WaitGroup
	errs := make(chan error, len(p.Steps))
	for _, s := range p.Steps {
		all.Go(func() {
			rest(ctx, time.Until(begun.Add(s.At)))
			if err := s.carryOut(ctx, w); err != nil {
				errs <- fmt.Errorf("%s: %w", s.kind(), err)
			}
		})
	}
	all.Wait()
	rest(ctx, cool)
	close(errs)
	return <-errs
}

// carryOut makes one fault and heals it.
func (s step) carryOut(ctx context.Context, w *world) error {
	if s.withRedis() {
		_, free, err := w.seize(ctx, "redis")
		if err != nil {
			return err
		}
		defer free()
	}
	v, free, err := w.seize(ctx, s.Target)
	if err != nil {
		return err
	}
	defer free()
	op := w.log.Call(history.Record{Op: history.Fault, Kind: s.kind(), Target: v.id(), Epoch: v.epoch})
	heal, err := faults[s.Fault].begin(ctx, w, &v, s.For)
	if err != nil {
		return err
	}
	op.End(history.OK, v.begun)
	rest(ctx, s.For)
	healing := op.Heal()
	if err := heal(ctx); err != nil {
		return err
	}
	healing.End(history.OK, v.healed)
	return nil
}
