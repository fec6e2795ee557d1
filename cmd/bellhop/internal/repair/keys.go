package repair

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store"
)

// found is what the names of keys tell.
type found struct {
	topics map[string]bool          // that have a key
	places map[store.Place][]string // topics that have such a one
	names  map[string]bool          // of listeners of which something is kept
	empty  bool                     // there is no key at all
}

// keys reads the names of all keys of the shard, and tells of those that are foreign.
func (r *run) keys(ctx context.Context) (found, error) {
	f := found{topics: make(map[string]bool), places: make(map[store.Place][]string), names: make(map[string]bool)}
	seen := 0
	err := r.shard.Walk(ctx, func(keys []store.Key) {
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

// note takes note of a key.
func (r *run) note(f *found, key store.Key) {
	topic, perTopic := key.Topic()
	name, perListener := key.Listener()
	switch {
	case !key.IsOurs() || perTopic && store.CheckTopic(topic) != nil:
		r.tell(Finding{Fault: ForeignKey, Key: key.Short, Whole: key.Name})
	case !key.IsRight():
		r.tell(Finding{Fault: WrongType, Key: key.Short, Whole: key.Name})
	case perTopic:
		f.topics[topic] = true
		if place := key.Place(); place != 0 {
			f.places[place] = append(f.places[place], topic)
		}
	case perListener:
		f.names[name] = true
	}
}
