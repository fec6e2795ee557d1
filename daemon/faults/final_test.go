package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/faults/history"
	"github.com/bellhopd/bellhop/daemon/repair"
	"github.com/bellhopd/bellhop/notify"
)

// examine looks for what the doctor would repair, at any time. Who was killed
// may stand in waiting lists until somebody rings.
func (w *world) examine(ctx context.Context) error {
	var found []string
	_, err := repair.Run(ctx, w.store, repair.Options{}, func(f repair.Finding) {
		if f.Fault != repair.Gone {
			found = append(found, f.String())
		}
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the doctor finds: %s", strings.Join(found, "; "))
	}
	return err
}

// final reads what Redis holds. Nobody may change it meanwhile.
func (w *world) final(ctx context.Context) (history.Final, error) {
	r := &reader{ctx: ctx, client: w.store.Client(), base: w.store.Keys().Base()}
	f := history.Final{
		Now: r.now(), Scheduled: map[string]map[string]int64{}, Ready: map[string]map[string]int64{}, Dead: map[string]map[string]int64{},
		Leases: map[string]int64{}, Waiting: map[string]int64{}, Streams: true,
	}
	for _, key := range r.keys() {
		name := strings.TrimPrefix(key, r.base)
		kind, topic, _ := strings.Cut(name, ":")
		switch kind {
		case "schedule":
			if topic == "" {
				f.Heads = r.sorted(name)
			} else {
				f.Scheduled[topic] = r.sorted(name)
			}
		case "ready":
			if topic == "" {
				f.ReadySet = r.set(name)
			} else {
				f.Ready[topic] = r.sorted(name)
			}
		case "dead":
			f.Dead[topic] = r.sorted(name)
		case "leased":
			f.Leased = r.sorted(name)
		case "broadcasts":
			f.Broadcasts = r.sorted(name)
		case "expiries":
			f.Expiries = r.sorted(name)
		case "messages":
			f.Records = r.fields(name)
		case "deaths":
			f.Deaths = r.fields(name)
		case "attempts":
			f.Attempts = r.numbers(name)
		case "topics":
			counters(&f, r.numbers(name))
		case "log":
			f.Logs = append(f.Logs, r.log(topic)...)
		case "carrier", "epoch", "waiting", "logs", "listeners", "places", "bridge", "secret", "room", "mark":
		default:
			f.Foreign = append(f.Foreign, name)
		}
	}
	return f, r.err
}

// counters sorts what the hash of topics counts.
func counters(f *history.Final, all map[string]int64) {
	for field, n := range all {
		switch topic, what, _ := strings.Cut(field, ":"); what {
		case "leased":
			f.Leases[topic] = n
		case "broadcasts":
			f.Waiting[topic] = n
		}
	}
}

// A reader reads keys, up to the first error.
type reader struct {
	ctx    context.Context
	client redis.UniversalClient
	base   string
	err    error
}

func got[T any](r *reader, value T, err error) T {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read what redis holds: %w", err)
	}
	return value
}

func (r *reader) now() int64 {
	t, err := r.client.Time(r.ctx).Result()
	return got(r, t, err).UnixMilli()
}

func (r *reader) keys() []string {
	keys, err := r.client.Keys(r.ctx, r.base+"*").Result()
	slices.Sort(keys)
	return got(r, keys, err)
}

func (r *reader) set(key string) []string {
	members, err := r.client.SMembers(r.ctx, r.base+key).Result()
	return got(r, members, err)
}

func (r *reader) fields(key string) []string {
	fields, err := r.client.HKeys(r.ctx, r.base+key).Result()
	return got(r, fields, err)
}

func (r *reader) numbers(key string) map[string]int64 {
	all, err := r.client.HGetAll(r.ctx, r.base+key).Result()
	numbers := make(map[string]int64)
	for field, text := range got(r, all, err) {
		n, err := strconv.ParseInt(text, 10, 64)
		numbers[field] = got(r, n, err)
	}
	return numbers
}

func (r *reader) sorted(key string) map[string]int64 {
	all, err := r.client.ZRangeWithScores(r.ctx, r.base+key, 0, -1).Result()
	members := make(map[string]int64)
	for _, z := range got(r, all, err) {
		members[z.Member.(string)] = int64(z.Score)
	}
	return members
}

// log reads the broadcasts that a topic's log keeps.
func (r *reader) log(topic string) (entries []history.Entry) {
	all, err := r.client.XRange(r.ctx, r.base+"log:"+topic, "-", "+").Result()
	for _, one := range got(r, all, err) {
		at, err := notify.ParsePosition(one.ID)
		id, _ := one.Values["id"].(string)
		entries = append(entries, history.Entry{Topic: topic, ID: id, Position: int64(got(r, at, err))})
	}
	return entries
}
