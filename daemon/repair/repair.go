package repair

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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

	// OnProgress is told after each step how much was looked at, of about how much
	// in all; that is 0 while it is unknown. It may be nil, and must not block.
	OnProgress func(looked, all int)
}

// run is one run.
type run struct {
	store *notify.Store
	o     Options
	on    func(Finding)
	page  int
	sum   Summary

	looked, whole int // for Options.OnProgress
}

// Run looks at all keys of a store, calls on with each finding as it is made, and
// repairs it if that is wanted. It is safe while the system works. The error is
// that of the connection, or that ctx ended: the summary is of what was done
// until then. A user of Redis needs the rights of notify.RepairRights: where one
// that scripts need is missing, nothing is done.
func Run(ctx context.Context, store *notify.Store, o Options, on func(Finding)) (Summary, error) {
	r := &run{store: store, o: o, on: on, page: firstPage}
	err := store.CheckRepair(ctx)
	if err == nil {
		err = r.all(ctx)
	}
	if err != nil {
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
	if found.empty {
		return nil // nothing is founded just to look at it
	}
	r.sum.Topics = len(found.topics())
	if r.whole, err = r.size(ctx); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return r.places(ctx, found) },
		func() error { return r.topics(ctx, found) },
		func() error { return r.records(ctx) },
		func() error { return r.leftovers(ctx) },
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

// size returns about how much there is to look at: each message has a record and stands in a place.
func (r *run) size(ctx context.Context) (int, error) {
	keys, pipe := r.store.Keys(), r.store.Client().Pipeline()
	messages, attempts, deaths, expiries := pipe.HLen(ctx, keys.Messages()), pipe.HLen(ctx, keys.Attempts()), pipe.HLen(ctx, keys.Deaths()), pipe.ZCard(ctx, keys.Expiries())
	var foreign redis.Error // of a key of another type, which is told of when it is looked at
	if _, err := pipe.Exec(ctx); err != nil && !errors.As(err, &foreign) {
		return 0, err
	}
	return int(2*messages.Val() + attempts.Val() + deaths.Val() + expiries.Val()), nil
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

// topics compares the topics that have a key or a counter, and those that are said to have something.
func (r *run) topics(ctx context.Context, found found) error {
	keys, client, topics := r.store.Keys(), r.store.Client(), found.topics()
	for _, key := range []string{keys.Schedules(), keys.ReadyTopics(), keys.PausedTopics(), keys.TopicNames()} {
		err := everything(func(c uint64) ([]string, uint64, error) {
			return client.ZScan(ctx, key, c, "", maxPage).Result()
		}, 2, topics)
		if err != nil {
			return err
		}
	}
	err := everything(func(c uint64) ([]string, uint64, error) {
		fields, next, err := client.HScan(ctx, keys.Topics(), c, "", maxPage).Result()
		for i, field := range fields {
			fields[i], _, _ = strings.Cut(field, ":")
		}
		return fields, next, err
	}, 2, topics)
	if err != nil {
		return err
	}
	return r.named(ctx, topicsScript, []string{
		keys.Logs(), keys.OldestDeaths(), keys.NewestDeaths(), keys.SeenTopics(), keys.TopicNames(), keys.PausedTopics(),
	}, topics)
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
		r.progress(n)
		if err != nil || next == "0" {
			return looked, err
		}
		cursor = next
	}
}

// progress tells that n more were looked at, or as many of them as there were at the beginning.
func (r *run) progress(n int) {
	r.looked = min(r.looked+n, r.whole)
	if r.o.OnProgress != nil {
		r.o.OnProgress(r.looked, r.whole)
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
