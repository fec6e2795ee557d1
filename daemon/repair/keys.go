package repair

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

const keysPage = 500 // keys that one call passes, most of which may be another program's

// found is what the names of keys tell.
type found struct {
	scheduled, ready, waiting, dead, logs []string // topics that have such a key
	names                                 map[string]bool
	empty                                 bool // there is no key at all
}

// topics returns those that have a key by which they are carried or listened to.
func (f found) topics() map[string]bool {
	all := make(map[string]bool)
	for _, topics := range [][]string{f.scheduled, f.ready, f.waiting, f.dead, f.logs} {
		for _, topic := range topics {
			all[topic] = true
		}
	}
	return all
}

// types are those of the keys of which there is one, by their names.
var types = map[string]string{
	"schedule": "zset", "leased": "zset", "expiries": "zset", "messages": "hash", "attempts": "hash", "ready": "zset",
	"deaths": "hash", "topics": "hash", "broadcasts": "zset", "logs": "zset", "listeners": "hash", "handed": "zset",
	"deaths-oldest": "zset", "deaths-newest": "zset", "deaths-kept": "hash", "topics-seen": "zset",
	"topics-names": "zset", "topics-busy": "zset", "topics-paused": "zset",
	"format": "string", "bridge": "string", "secret": "string", "carrier": "string", "epoch": "string", "mark": "string",
}

// families are those of the keys of which there are many, by how their names begin.
var families = map[string]string{
	"schedule": "zset", "ready": "zset", "waiting": "zset", "dead": "zset", "log": "stream",
	"places": "hash", "held": "zset", "tries": "hash", "extended": "string", "room": "string",
}

// keys reads the names of all keys of the store, and tells of those that are foreign.
func (r *run) keys(ctx context.Context) (found, error) {
	f := found{names: make(map[string]bool)}
	base := r.store.Keys().Base()
	node, err := r.node(ctx)
	if err != nil {
		return f, err
	}
	seen := make(map[string]bool) // a key may come twice
	for cursor := uint64(0); ; {
		var page []string
		if page, cursor, err = node.Scan(ctx, cursor, base+"*", keysPage).Result(); err != nil {
			return f, err
		}
		var fresh []string
		for _, key := range page {
			if !seen[key] {
				seen[key] = true
				fresh = append(fresh, key)
			}
		}
		if r.o.OnProgress != nil {
			r.o.OnProgress(len(seen), 0)
		}
		if err := r.sort(ctx, node, &f, base, fresh); err != nil || cursor == 0 {
			f.empty = len(seen) == 0
			return f, err
		}
	}
}

// node returns the server that holds the keys: in a Cluster the master of their slot.
func (r *run) node(ctx context.Context) (redis.Cmdable, error) {
	if cluster, ok := r.store.Client().(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, r.store.Keys().Messages())
	}
	return r.store.Client(), nil
}

// sort sorts keys by what they are.
func (r *run) sort(ctx context.Context, node redis.Cmdable, f *found, base string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	kinds := make([]*redis.StatusCmd, len(keys))
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			kinds[i] = p.Type(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		if kind := kinds[i].Val(); kind != "none" { // it is gone meanwhile
			r.note(f, strings.TrimPrefix(key, base), kind)
		}
	}
	return nil
}

// note takes note of a key, without what all begin with, and its type.
func (r *run) note(f *found, key, kind string) {
	family, name, many := strings.Cut(key, ":")
	want := types[key]
	if many {
		want = families[family]
	}
	perTopic := map[string]*[]string{"schedule": &f.scheduled, "ready": &f.ready, "waiting": &f.waiting, "dead": &f.dead, "log": &f.logs}[family]
	switch {
	case want == "" || many && perTopic != nil && notify.CheckTopic(name) != nil:
		r.tell(Finding{Fault: ForeignKey, Key: key})
	case want != kind:
		r.tell(Finding{Fault: WrongType, Key: key})
	case !many:
	case perTopic != nil:
		*perTopic = append(*perTopic, name)
	case family == "places" || family == "held" || family == "tries":
		f.names[name] = true
	}
}

// everything puts into a set what all pages of a scan hold: every first of so
// many. A key that is foreign, which is told elsewhere, holds nothing.
func everything(page func(cursor uint64) ([]string, uint64, error), of int, into map[string]bool) error {
	for cursor := uint64(0); ; {
		names, next, err := page(cursor)
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(names); i += of {
			into[names[i]] = true
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
