package repair

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// found is what the names of the keys show.
type found struct {
	topics map[string]bool           // topics that have a key
	places map[script.Place][]string // the topics that have each kind of place
	keyed  map[string]bool           // topics that have messages with keys
	recurs map[string]bool           // topics that have schedules
	groups map[string]bool           // topics that have groups
	names  map[string]bool           // listeners that have a key
	empty  bool                      // there is no key
}

// keys reads the names of all keys of the shard, and reports foreign ones.
func (r *run) keys(ctx context.Context) (found, error) {
	f := found{topics: make(map[string]bool), places: make(map[script.Place][]string), keyed: make(map[string]bool), recurs: make(map[string]bool), groups: make(map[string]bool), names: make(map[string]bool)}
	seen := 0
	err := r.shard.Walk(ctx, func(keys []reach.Key) {
		seen += len(keys)
		if r.o.OnProgress != nil {
			r.o.OnProgress(seen, 0)
		}
		for _, key := range keys {
			r.note(&f, key)
		}
	})
	f.empty = seen == 0
	return f, err
}

// note adds a key to what was found, or reports it.
func (r *run) note(f *found, key reach.Key) {
	topic, perTopic := key.Topic()
	name, perListener := key.Listener()
	switch {
	case perTopic && key.IsOurs() && r.belongsElsewhere(topic):
		r.report(Finding{Fault: WrongShard, Name: topic, Key: r.short(key.Short), Whole: key.Name})
	case !key.IsOurs() || perTopic && record.CheckAnyTopic(topic) != nil:
		r.report(Finding{Fault: ForeignKey, Key: r.short(key.Short), Whole: key.Name})
	case !key.IsRight():
		r.report(Finding{Fault: WrongType, Key: r.short(key.Short), Whole: key.Name})
	case perTopic:
		f.topics[topic] = true
		for _, ofKeys := range []func(script.Keys, string) string{script.Keys.KeysOf, script.Keys.Seats, script.Keys.Line, script.Keys.Heads} {
			if key.Name == ofKeys(r.shard.Keys(), topic) {
				f.keyed[topic] = true
			}
		}
		if keys := r.shard.Keys(); key.Name == keys.SchedulesOf(topic) || key.Name == keys.Rules(topic) {
			f.recurs[topic] = true
		} else if key.Name == keys.Grouped(topic) || key.Name == keys.GroupsOf(topic) {
			f.groups[topic] = true
		}
		if place := key.Place(); place != 0 {
			f.places[place] = append(f.places[place], topic)
		}
	case perListener:
		f.names[name] = true
	}
}

// belongsElsewhere reports whether a topic belongs in another shard than this.
func (r *run) belongsElsewhere(topic string) bool {
	return record.CheckAnyTopic(topic) == nil && r.store.Of(topic).Number() != r.shard.Number()
}

// short returns the name of a key of this shard as findings name it: in a store of several
// with the hash tag.
func (r *run) short(name string) string {
	if r.tag == "" {
		return name
	}
	return "{" + r.tag + "}:" + name
}

// root examines the root of a store of several shards, and what is beside it.
func (r *run) root(ctx context.Context) error {
	err := r.store.WalkRoot(ctx, func(keys []reach.Key) {
		for _, key := range keys {
			r.report(Finding{Fault: ForeignKey, Key: "{0}:" + key.Short, Whole: key.Name})
		}
	})
	if err != nil {
		return err
	}
	root, err := r.store.Root(ctx)
	if err != nil || root.Format != "" {
		return err
	}
	if r.o.Apply {
		if err := r.store.RepairRoot(ctx); err != nil {
			return err
		}
	}
	r.report(Finding{Fault: LostRoot, Key: "{0}:format", Remedy: "written again", Whole: root.Key})
	return nil
}
