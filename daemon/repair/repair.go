package repair

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed common.lua
	common string

	//go:embed places.lua
	placesSource string
	placesScript = newScript("places", placesSource)

	//go:embed records.lua
	recordsSource string
	recordsScript = newScript("records", recordsSource)

	//go:embed leftovers.lua
	leftoversSource string
	leftoversScript = newScript("leftovers", leftoversSource)

	//go:embed topics.lua
	topicsSource string
	topicsScript = newScript("topics", topicsSource)

	//go:embed listeners.lua
	listenersSource string
	listenersScript = newScript("listeners", listenersSource)

	//go:embed counters.lua
	countersSource string
	countersScript = newScript("counters", countersSource)
)

func newScript(name, source string) *notify.Script {
	return notify.NewScript("repair-"+name, common+source)
}

// A step should take Redis no longer than slow; pages are halved above it and
// doubled below half of it.
const (
	slow      = time.Millisecond
	firstPage = 64
	maxPage   = 512
	names     = 100 // that one call looks at
)

// Options are the options of Run. The zero value looks, and changes nothing.
type Options struct {
	Apply bool // repair what is found
}

// run is one run.
type run struct {
	store *notify.Store
	o     Options
	on    func(Finding)
	page  int
	sum   Summary
}

// Run looks at all keys of a store, calls on with each finding as it is made, and
// repairs it if that is wanted. It is safe while the system works. The error is
// that of the connection, or that ctx ended: the summary is of what was done
// until then. A user of Redis needs the rights of notify.RepairRights.
func Run(ctx context.Context, store *notify.Store, o Options, on func(Finding)) (Summary, error) {
	r := &run{store: store, o: o, on: on, page: firstPage}
	if err := r.all(ctx); err != nil {
		return r.sum, fmt.Errorf("look for what is out of place: %w", err)
	}
	return r.sum, nil
}

// all looks at everything. Records come after places, so that what was taken
// out of a wrong place is given its right one.
func (r *run) all(ctx context.Context) error {
	keys := r.store.Keys()
	found, err := r.keys(ctx)
	if err != nil {
		return err
	}
	r.sum.Topics = len(found.topics())
	for _, step := range []func() error{
		func() error { return r.places(ctx, found) },
		func() error { return r.topics(ctx, found) },
		func() error { return r.records(ctx) },
		func() error { return r.leftovers(ctx) },
		func() error { return r.waiting(ctx, found.waiting) },
		func() error { return r.listeners(ctx, found.names) },
		func() error { return r.counters(ctx, keys.Leased(), "leased") },
		func() error { return r.counters(ctx, keys.Broadcasts(), "broadcasts") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) places(ctx context.Context, found found) error {
	keys := r.store.Keys()
	for _, key := range []string{keys.Leased(), keys.Broadcasts()} {
		if _, err := r.scan(ctx, placesScript, []string{key}, ""); err != nil {
			return err
		}
	}
	for _, place := range []struct {
		topics []string
		key    func(topic string) string
	}{{found.ready, keys.Ready}, {found.scheduled, keys.Schedule}, {found.dead, keys.Dead}} {
		for _, topic := range place.topics {
			if _, err := r.scan(ctx, placesScript, []string{place.key(topic)}, topic); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) records(ctx context.Context) (err error) {
	r.sum.Messages, err = r.scan(ctx, recordsScript, nil)
	return err
}

// topics compares the topics that have a key, and those that are said to have something.
func (r *run) topics(ctx context.Context, found found) error {
	keys, client, topics := r.store.Keys(), r.store.Client(), found.topics()
	err := everything(func(c uint64) ([]string, uint64, error) {
		return client.ZScan(ctx, keys.Schedules(), c, "", maxPage).Result()
	}, 2, topics)
	if err != nil {
		return err
	}
	err = everything(func(c uint64) ([]string, uint64, error) {
		return client.SScan(ctx, keys.ReadyTopics(), c, "", maxPage).Result()
	}, 1, topics)
	if err != nil {
		return err
	}
	return r.named(ctx, topicsScript, []string{keys.Logs()}, topics)
}

func (r *run) leftovers(ctx context.Context) error {
	keys := r.store.Keys()
	for _, key := range []string{keys.Attempts(), keys.Expiries(), keys.Deaths()} {
		if _, err := r.scan(ctx, leftoversScript, []string{key}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) listeners(ctx context.Context, names map[string]bool) error {
	keys := r.store.Keys()
	err := everything(func(c uint64) ([]string, uint64, error) {
		return r.store.Client().ZScan(ctx, keys.Handed(), c, "", maxPage).Result()
	}, 2, names)
	if err != nil {
		return err
	}
	return r.named(ctx, listenersScript, []string{keys.Listeners(), keys.Handed()}, names)
}

func (r *run) counters(ctx context.Context, key, what string) error {
	looked, err := r.scan(ctx, countersScript, []string{key}, what)
	if err == nil && looked == 0 {
		r.sum.Uncounted = append(r.sum.Uncounted, what)
	}
	return err
}

// scan runs a script on all pages of a key, and returns how many were looked at.
func (r *run) scan(ctx context.Context, script *notify.Script, keys []string, args ...any) (looked int, err error) {
	for cursor := "0"; ; {
		next, n, err := r.step(ctx, script, keys, cursor, args...)
		looked += n
		if err != nil || next == "0" {
			return looked, err
		}
		cursor = next
	}
}

// named runs a script on names, some at a time.
func (r *run) named(ctx context.Context, script *notify.Script, keys []string, of map[string]bool) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(of)), names) {
		args := make([]any, len(some))
		for i, name := range some {
			args[i] = name
		}
		if _, _, err := r.step(ctx, script, keys, "0", args...); err != nil {
			return err
		}
	}
	return nil
}

// step runs a script once, tells what it found, and pauses for as long as it took.
func (r *run) step(ctx context.Context, script *notify.Script, keys []string, cursor string, args ...any) (next string, looked int, err error) {
	apply := 0
	if r.o.Apply {
		apply = 1
	}
	began := time.Now()
	reply, err := r.store.Run(ctx, script, keys, append([]any{r.store.Keys().Base(), apply, cursor, r.page}, args...)...)
	if err != nil {
		return "", 0, err
	}
	next, _ = reply[0].(string)
	n, _ := reply[1].(int64)
	us, _ := reply[2].(int64)
	findings, _ := reply[3].([]any)
	for _, one := range findings {
		if err := r.read(one); err != nil {
			return "", 0, err
		}
	}
	took := time.Duration(us) * time.Microsecond
	if took == 0 { // Redis 7.2 and newer stop the clock inside a script
		took = time.Since(began)
	}
	r.adapt(took)
	select {
	case <-ctx.Done():
		return "", 0, ctx.Err()
	case <-time.After(took):
	}
	return next, int(n), nil
}

// adapt keeps a step short for everybody else who calls Redis.
func (r *run) adapt(took time.Duration) {
	switch {
	case took > slow:
		r.page = max(r.page/2, 1)
	case took < slow/2:
		r.page = min(r.page*2, maxPage)
	}
}

// read tells a finding of a script.
func (r *run) read(reply any) error {
	fields, _ := reply.([]any)
	if len(fields) != 4 {
		return fmt.Errorf("a finding of %d fields", len(fields))
	}
	var texts [4]string
	for i, field := range fields {
		texts[i], _ = field.(string)
	}
	fault, err := faultOf(texts[0])
	if err != nil {
		return err
	}
	r.tell(Finding{Fault: fault, Name: texts[1], Key: texts[2], Remedy: texts[3]})
	return nil
}

// tell counts a finding and passes it on.
func (r *run) tell(f Finding) {
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
