package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// neighbours is the database in which a neighbour's store is. Its publishers, workers and listeners
// have the topics, and the shared ids, of the others, and numbers of their own.
const neighbours = 1

// newNeighbour starts a daemon for a store in another database of a world's Redis. It meets the
// faults of that, and no others.
func newNeighbour(ctx context.Context, beside *world) (w *world, err error) {
	w = &world{
		dir: filepath.Join(beside.dir, "neighbour"), seed: beside.seed, fsync: beside.fsync, lease: beside.lease,
		redis: beside.redis, number: neighbours, ports: map[string]int{"redis": beside.ports["redis"]},
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return w, err
	}
	if w.log, err = history.Open(filepath.Join(w.dir, "harness"+history.Suffix), "neighbour"); err != nil {
		return w, err
	}
	if err := w.openStore(ctx); err != nil {
		return w, err
	}
	if err := w.place("daemon-8"); err != nil {
		return w, err
	}
	if err := w.enlist("daemon-8", daemonProgram); err != nil {
		return w, err
	}
	return w, until("the neighbour's carrier is elected", func() bool {
		n, err := w.store.Client().Exists(ctx, w.store.Keys().Carrier()).Result()
		return err == nil && n == 1
	})
}

// lodge starts the crew of a neighbour, and waits until it is ready.
func (w *world) lodge() error {
	for _, name := range []string{"worker-8", "listener-8", "publisher-8"} {
		if err := w.enlist(name, actorProgram); err != nil {
			return err
		}
		if err := w.member(name).ready(); err != nil {
			return err
		}
	}
	return nil
}

// check checks the history of a neighbour, with the faults of Redis. A body from beside is one that
// nobody published here.
func (w *world) check(ctx context.Context, beside *world, bounds history.Bounds) error {
	if err := raced(w.dir); err != nil {
		return err
	}
	records, err := history.ReadDir(w.dir)
	if err != nil {
		return err
	}
	faults, err := history.ReadFile(filepath.Join(beside.dir, "harness"+history.Suffix))
	if err != nil {
		return err
	}
	records = append(records, ofRedis(faults)...)
	slices.SortStableFunc(records, func(a, b history.Record) int { return int(a.At - b.At) })
	final, err := w.final(ctx)
	if err != nil {
		return err
	}
	bounds.PushedAll = nil
	report, err := history.Check(records, final, bounds)
	for i, v := range report.Violations {
		if i == maxViolations {
			break
		}
		err = fmt.Errorf("the neighbour: %v", v)
	}
	return err
}

// ofRedis returns the records of faults that hit Redis, without what they say of one store's carrier.
func ofRedis(records []history.Record) (some []history.Record) {
	number := make(map[int64]bool)
	for _, r := range records {
		if r.Op != history.Fault && r.Op != history.Heal {
			continue
		}
		if r.Target == "redis" || r.Kind == clockBack+" carrier" {
			number[r.N] = true
		}
		if number[r.N] {
			r.Target, r.Epoch = "redis", 0
			some = append(some, r)
		}
	}
	return some
}
