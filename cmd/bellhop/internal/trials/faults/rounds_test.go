package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Every fault hits each of its targets once.
func TestEachFault(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two")
	}
	rounds(t, slices.DeleteFunc(fixedPlans(), func(p plan) bool { return !storetest.InThird(int(p.Seed)) }))
}

// Random rounds, as many as -faults.rounds: see make faults.
func TestRandom(t *testing.T) {
	if *roundsFlag == 0 {
		t.Skip("make faults runs these")
	}
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64N(1_000_000_000)
	}
	choices := allSteps()
	if *shardedFlag {
		choices = filter(choices, step.besidesCluster)
	}
	if len(choices) == 0 {
		t.Fatalf("-faults.only %q: no fault has such a name; one is named kill -9 carrier", *onlyFlag)
	}
	plans := make([]plan, *roundsFlag)
	for i := range plans {
		plans[i] = newPlan(first+uint64(i), choices)
	}
	rounds(t, plans)
}

// rounds carries out plans, some in parallel, and prints the report.
func rounds(t *testing.T, plans []plan) {
	t.Helper()
	var all tally
	places := make(chan struct{}, *parallelFlag)
	t.Cleanup(func() { fmt.Println(all.String()) })
	for _, p := range plans {
		t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			all.add(p, round(t, p))
		})
	}
}

// round carries out a plan and checks its history.
func round(t *testing.T, p plan) history.Stats {
	t.Helper()
	t.Log(p)
	dir, watch := folder(t), standstill.Start(t)
	final, clerk, err := happen(t.Context(), dir, p, bounds(p, watch))
	if err != nil {
		t.Fatalf("%v\n%v\nhistories and logs are in %s", p, err, dir)
	}
	if err := raced(dir); err != nil {
		t.Fatalf("%v\n%v\nhistories and logs are in %s", p, err, dir)
	}
	records, err := history.ReadDir(dir)
	storetest.Must(t, err)
	report, err := history.Check(clerk.records(records), final, bounds(p, watch))
	if err != nil {
		t.Fatalf("%v\n%v\nhistories and logs are in %s", p, err, dir)
	}
	for i, v := range report.Violations {
		if i == maxViolations {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Errorf("%v\n%v\nhistories and logs are in %s", p, v, dir)
	}
	return report.Stats
}

// raced returns an error if the race detector found something in a process of a round.
func raced(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if _, race, found := strings.Cut(string(text), "WARNING: DATA RACE"); found {
			return fmt.Errorf("%s: data race%.4000s", filepath.Base(log), race)
		}
	}
	return nil
}

// maxViolations is how many violations of a round are printed.
const maxViolations = 10

// bounds returns the stated bounds of a round.
func bounds(p plan, watch *standstill.Watch) history.Bounds {
	slack := *standstill.Slack
	b := history.Bounds{
		Attempts:  store.DefaultAttempts,
		Stood:     watch.Within,
		Ordered:   []string{orderedTopic, webOrderedTopic, askedOrderedTopic, steadyBranch},
		Told:      []string{commandedTopic},
		Spares:    commandKinds(),
		Branches:  map[string][]string{branchedTopic: {steadyBranch, failingBranch}},
		Limited:   map[string]history.Limit{limitedTopic: limits},
		Bulk:      []string{byHandTopic, webOrderedTopic, askedOrderedTopic, steadyBranch}, // of one caller, whose lost answers the next waits for
		Pushed:    []string{hookedTopic},
		PushedAll: broadcastTopics,
		Late:      reach.Heartbeat + slack,
		Recovery:  reach.Silence + slack,
		After:     map[string]time.Duration{"master killed redis": failedOver + slack, "failover redis": failedOver + slack},
		Takeover: map[string]time.Duration{
			"kill -9 carrier": carrierLease + slack,
			"SIGTERM carrier": slack,
			"SIGSTOP carrier": carrierLease + slack,

			upgradeKind: carrierLease + slack, // of a carrier of the version before

			clockBack + " carrier": carrierLease + backoff.Max + slack, // those who stand by connect again first
		},
		Restarts: []string{clockBack + " carrier"},
		Parting:  []string{"SIGTERM carrier", "SIGTERM standby", upgradeKind},
	}
	if p.Sharded { // then both daemons carry
		b.Shards, b.Beside = shards, lateBeside+slack
		b.Apart = slices.Concat(handledTopics, claimedTopics, sharedHandled, []string{deliveredTopic, orderedTopic, slowTopic, commandedTopic, keyedTopic})
		for _, kind := range []string{"kill -9", "SIGTERM", "SIGSTOP"} {
			b.Takeover[kind+" standby"] = b.Takeover[kind+" carrier"]
		}
	}
	return b
}

// limits are those of the limited topic.
var limits = history.Limit{Concurrency: 3, PerSecond: 40, Burst: 4}

// lateBeside is how late messages may be while a fault hits the masters of other shards.
const lateBeside = 100 * time.Millisecond

// happen carries out a plan, and returns the contents of Redis at the end, and the clerk of the round.
func happen(ctx context.Context, dir string, p plan, bounds history.Bounds) (final history.Final, k *clerk, err error) {
	w, err := newWorld(ctx, dir, p, carrierLease)
	if err != nil {
		return final, nil, err
	}
	defer w.close()
	if err := w.selects(ctx); err != nil {
		return final, nil, err
	}
	if k, err = newClerk(ctx, w); err != nil {
		return final, nil, err
	}
	if err := w.startCrew(ctx); err != nil {
		return final, nil, err
	}
	if err := k.beside(ctx, func() error { return p.carryOut(ctx, w) }); err != nil {
		return final, nil, err
	}
	if w.neighbour != nil { // beside the load of the other one
		if err := w.neighbour.settle(ctx, p); err != nil {
			return final, nil, fmt.Errorf("the neighbour: %w", err)
		}
	}
	if err := errors.Join(w.settle(ctx, p), k.checkImport(ctx)); err != nil {
		return final, nil, err
	}
	if w.neighbour != nil {
		if err := w.neighbour.check(ctx, w, bounds); err != nil {
			return final, nil, err
		}
	}
	final, err = w.final(ctx)
	return final, k, err
}

// settle waits until all is handled, stops all, and reads what the processes left to read.
func (w *world) settle(ctx context.Context, p plan) error {
	halved := slices.ContainsFunc(p.Steps, step.refuses)
	if halved {
		if err := w.mend(ctx); err != nil {
			return err
		}
	}
	if err := w.examine(ctx); err != nil {
		return err
	}
	if err := w.endTicks(ctx, halved); err != nil {
		return err
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	for _, role := range []string{"worker", "listener", "web", "client", "courier", "command", "hook"} {
		if err := w.stop(role); err != nil {
			return err
		}
	}
	if err := w.readCommands(); err != nil {
		return err
	}
	if w.database != nil {
		if err := w.drainArchive(ctx); err != nil {
			return err
		}
	}
	if err := w.stop("daemon"); err != nil {
		return err
	}
	if err := w.examine(ctx); err != nil {
		return err
	}
	if w.cluster != nil {
		if err := w.cluster.examine(ctx); err != nil {
			return err
		}
	}
	if w.database != nil {
		return w.readArchive(ctx)
	}
	return nil
}

// folder returns a folder for the histories of a round. It is removed unless the round fails or -faults.keep is set.
func folder(t *testing.T) string {
	t.Helper()
	parent := *keepFlag
	if parent == "" {
		parent = os.TempDir()
	}
	storetest.Must(t, os.MkdirAll(parent, 0o755))
	dir, err := os.MkdirTemp(parent, "bellhop-round-")
	storetest.Must(t, err)
	t.Cleanup(func() {
		if *keepFlag == "" && !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	abs, err := filepath.Abs(dir)
	storetest.Must(t, err)
	return abs
}

func TestRaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"redis.log": "ready\n", "worker-1.1.log": "said: ready\n"} {
		storetest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	storetest.Should(t, raced(dir))
	race := "said: ready\n==================\nWARNING: DATA RACE\nRead at 0x00c0000b4018 by goroutine 7:\n"
	storetest.Must(t, os.WriteFile(filepath.Join(dir, "worker-1.2.log"), []byte(race), 0o600))
	if err := raced(dir); err == nil || !strings.Contains(err.Error(), "worker-1.2.log: data race") || !strings.Contains(err.Error(), "goroutine 7") {
		t.Errorf("got %v", err)
	}
}
