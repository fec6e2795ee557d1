package repair

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// A step should take Redis no longer than slow; pages are halved above it and
// doubled below half of it.
const (
	slow      = time.Millisecond
	firstPage = 64
	maxPage   = 512
	names     = 100 // topics or listeners that one step examines
)

// Options are the options of Run. The zero value only examines.
type Options struct {
	Apply bool // repair what is found

	// OnProgress, if not nil, is called after each step with the number of items
	// examined and about how many there are in all, or 0 while that is unknown. It
	// must not block.
	OnProgress func(examined, all int)
}

// run is one run.
type run struct {
	store *notify.Store
	shard store.Shard // the one at work
	tag   string      // of that, in a store of several
	o     Options
	on    func(Finding)
	page  int
	sum   Summary

	examined, total int // for Options.OnProgress
}

// Run examines all keys of a store, calls on with each finding at once, and repairs
// it if o.Apply is set. Carriers and subscribers may work meanwhile. The error is
// that of Redis or of ctx; the summary then covers what was done so far. The Redis
// user needs the rights of store.RepairRights: if a right that the scripts need is
// missing, Run does nothing.
func Run(ctx context.Context, s *notify.Store, o Options, on func(Finding)) (Summary, error) {
	r := &run{store: s, o: o, on: on, page: firstPage}
	if err := r.all(ctx); err != nil {
		return r.sum, fmt.Errorf("examine the store: %w", err)
	}
	return r.sum, nil
}

// all examines all shards, first the names of their keys. A shard that is away is left out.
func (r *run) all(ctx context.Context) error {
	shards, err := r.store.Shards(ctx)
	if err == nil {
		err = r.store.CheckRepair(ctx)
	}
	if err != nil {
		return err
	}
	missing := &store.MissingError{}
	look := make(map[store.Shard]found)
	for _, shard := range shards {
		r.at(shard, len(shards))
		found, err := r.look(ctx)
		switch {
		case err != nil && (len(shards) == 1 || !reach.Retryable(err) || reach.Refused(err) || ctx.Err() != nil):
			return err
		case err != nil:
			missing.Add(shard, err)
		case !found.empty: // to examine an empty shard must not found it
			look[shard] = found
		}
	}
	if len(shards) > 1 && len(look) > 0 {
		if err := r.root(ctx); err != nil {
			return err
		}
	}
	for _, shard := range shards {
		if found, there := look[shard]; there {
			r.at(shard, len(shards))
			if err := r.contents(ctx, found); err != nil {
				return err
			}
		}
	}
	if missing.Err != nil {
		return missing
	}
	return nil
}

// at begins with a shard of some.
func (r *run) at(shard store.Shard, of int) {
	if r.shard = shard; of > 1 {
		r.tag = r.store.KeysOfAll()[shard.Number()].Tag()
	}
}

// look reads the names of all keys of the shard, and how much there is to examine.
func (r *run) look(ctx context.Context) (found, error) {
	found, err := r.keys(ctx)
	if err != nil || found.empty {
		return found, err
	}
	r.sum.Topics += len(found.topics)
	size, err := r.shard.RepairSize(ctx)
	r.total += size
	return found, err
}

// contents examines what the keys of the shard hold. Records come after places, so that a
// message taken out of a wrong place is put into the right one.
func (r *run) contents(ctx context.Context, found found) error {
	for _, pass := range []func() error{
		func() error { return r.beginGroups(ctx, found.groups) },
		func() error { return r.lines(ctx, found.keyed) },
		func() error { return r.places(ctx, found) },
		func() error { return r.topics(ctx, found) },
		func() error { return r.records(ctx) },
		func() error { return r.seats(ctx, found.keyed) },
		func() error { return r.endGroups(ctx, found.groups) },
		func() error { return r.schedules(ctx, found.recurs) },
		func() error { return r.leftovers(ctx) },
		func() error { return r.listeners(ctx, found.names) },
		func() error { return r.counters(ctx, script.PlaceLeased) },
		func() error { return r.counters(ctx, script.PlaceBroadcasts) },
	} {
		if err := pass(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) places(ctx context.Context, found found) error {
	for _, place := range []script.Place{script.PlaceLeased, script.PlaceBroadcasts} {
		if err := r.place(ctx, place, ""); err != nil {
			return err
		}
	}
	for _, place := range []script.Place{script.PlaceReady, script.PlaceScheduled, script.PlaceDead, script.PlaceDone} {
		for _, topic := range found.places[place] {
			if err := r.place(ctx, place, topic); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) place(ctx context.Context, place script.Place, topic string) error {
	_, err := r.scan(ctx, func(ctx context.Context, step store.RepairStep) (store.Repaired, error) {
		return r.shard.RepairPlace(ctx, place, topic, step)
	})
	return err
}

func (r *run) records(ctx context.Context) error {
	examined, err := r.scan(ctx, r.shard.RepairRecords)
	r.sum.Messages += examined
	return err
}

// topics examines the topics that have a key, a counter or an entry in an index.
func (r *run) topics(ctx context.Context, found found) error {
	topics := maps.Clone(found.topics)
	if err := r.shard.IndexedTopics(ctx, func(topic string) { topics[topic] = true }); err != nil {
		return err
	}
	return r.named(ctx, topics, r.shard.RepairTopics)
}

// lines examines the lines of topics whose messages have keys, before anything is called up from there.
func (r *run) lines(ctx context.Context, keyed map[string]bool) error {
	return r.ofKeys(ctx, keyed, script.Keys.Line)
}

// seats examines the keys and seats of topics, also of those of which the records showed that they have some.
func (r *run) seats(ctx context.Context, keyed map[string]bool) error {
	err := r.shard.KeyedTopics(ctx, func(topic string) {
		if record.CheckAnyTopic(topic) == nil {
			keyed[topic] = true
		}
	})
	if err != nil {
		return err
	}
	return r.ofKeys(ctx, keyed, script.Keys.KeysOf, script.Keys.Seats)
}

// ofKeys examines some of what topics keep of messages that have keys.
func (r *run) ofKeys(ctx context.Context, keyed map[string]bool, all ...func(script.Keys, string) string) error {
	for _, topic := range slices.Sorted(maps.Keys(keyed)) {
		for _, of := range all {
			_, err := r.scan(ctx, func(ctx context.Context, step store.RepairStep) (store.Repaired, error) {
				return r.shard.RepairSeats(ctx, of, topic, step)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// schedules examines the index of all schedules, then those of each topic.
func (r *run) schedules(ctx context.Context, recurs map[string]bool) error {
	of := func(key func(script.Keys, string) string, topic string) error {
		_, err := r.scan(ctx, func(ctx context.Context, step store.RepairStep) (store.Repaired, error) {
			return r.shard.RepairSchedules(ctx, key, topic, step)
		})
		return err
	}
	err := of(func(k script.Keys, _ string) string { return k.Schedules() }, "")
	for _, topic := range slices.Sorted(maps.Keys(recurs)) {
		for _, key := range []func(script.Keys, string) string{script.Keys.Rules, script.Keys.SchedulesOf} {
			if err == nil {
				err = of(key, topic)
			}
		}
	}
	return err
}

func (r *run) leftovers(ctx context.Context) error {
	for _, repair := range []pageRepair{
		r.shard.RepairAttempts, r.shard.RepairExpiries, r.shard.RepairExtras, r.shard.RepairTaken, r.shard.RepairReasons,
		r.shard.RepairClaims, r.shard.RepairWorkers, r.shard.RepairRelayed,
	} {
		if _, err := r.scan(ctx, repair); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) listeners(ctx context.Context, names map[string]bool) error {
	if err := r.shard.HandedListeners(ctx, func(name string) { names[name] = true }); err != nil {
		return err
	}
	if err := r.named(ctx, names, r.shard.RepairListeners); err != nil {
		return err
	}
	_, err := r.scan(ctx, r.shard.RepairHooks)
	return err
}

// counters examines the counters of a place that all topics share.
func (r *run) counters(ctx context.Context, of script.Place) error {
	examined, err := r.scan(ctx, func(ctx context.Context, step store.RepairStep) (store.Repaired, error) {
		return r.shard.RepairCounters(ctx, of, step)
	})
	if err == nil && examined == 0 {
		r.sum.Uncounted = append(r.sum.Uncounted, r.short(of.String()))
	}
	return err
}

// pageRepair examines a page of a key.
type pageRepair func(context.Context, store.RepairStep) (store.Repaired, error)

// scan makes a step for each page of a key, and returns how many items it examined.
func (r *run) scan(ctx context.Context, repair pageRepair) (examined int, err error) {
	for cursor := ""; ; {
		done, err := r.step(ctx, func() (store.Repaired, error) {
			return repair(ctx, store.RepairStep{Apply: r.o.Apply, Cursor: cursor, Size: r.page})
		})
		examined += done.Checked
		r.progress(done.Checked)
		if err != nil || done.Next == "" {
			return examined, err
		}
		cursor = done.Next
	}
}

// progress reports that n more were examined. It stops at the number of the beginning.
func (r *run) progress(n int) {
	r.examined = min(r.examined+n, r.total)
	if r.o.OnProgress != nil {
		r.o.OnProgress(r.examined, r.total)
	}
}

// named makes steps for sorted names, some at a time.
func (r *run) named(ctx context.Context, of map[string]bool, repair func(context.Context, bool, []string) (store.Repaired, error)) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(of)), names) {
		if _, err := r.step(ctx, func() (store.Repaired, error) { return repair(ctx, r.o.Apply, some) }); err != nil {
			return err
		}
	}
	return nil
}

// step makes a step, reports what it found, and pauses for as long as it took.
func (r *run) step(ctx context.Context, repair func() (store.Repaired, error)) (store.Repaired, error) {
	began := time.Now()
	done, err := repair()
	if err != nil {
		return store.Repaired{}, err
	}
	for _, f := range done.Findings {
		fault := Fault(f.What)
		if words[fault] == "" {
			return store.Repaired{}, fmt.Errorf("unknown fault %q", fault)
		}
		r.report(Finding{Fault: fault, Name: f.Name, Key: r.short(f.Short), Remedy: f.Remedy, Whole: f.Key})
	}
	took := done.Took
	if took == 0 { // Redis 7.2 and newer stop the clock inside a script
		took = time.Since(began)
	}
	r.adapt(took)
	return done, store.Pause(ctx, took)
}

// adapt keeps steps short, so that other calls to Redis do not wait for long.
func (r *run) adapt(took time.Duration) {
	switch {
	case took > slow:
		r.page = max(r.page/2, 1)
	case took < slow/2:
		r.page = min(r.page*2, maxPage)
	}
}

// report counts a finding and passes it on.
func (r *run) report(f Finding) {
	f.Repaired = r.o.Apply && f.Remedy != ""
	if !f.Harmless() {
		r.sum.Found++
	}
	if f.Remedy != "" {
		r.sum.Repairable++
	}
	if f.Repaired {
		r.sum.Repaired++
	}
	r.on(f)
}
