package repair

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store"
)

// found is what the names of the keys show.
type found struct {
	topics map[string]bool          // topics that have a key
	places map[store.Place][]string // the topics that have each kind of place
	names  map[string]bool          // listeners that have a key
	empty  bool                     // there is no key
}

// keys reads the names of all keys of the shard, and reports foreign ones.
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

// note adds a key to what was found, or reports it.
func (r *run) note(f *found, key store.Key) {
	topic, perTopic := key.Topic()
	name, perListener := key.Listener()
	switch {
	case !key.IsOurs() || perTopic && store.CheckAnyTopic(topic) != nil:
		r.report(Finding{Fault: ForeignKey, Key: key.Short, Whole: key.Name})
	case !key.IsRight():
		r.report(Finding{Fault: WrongType, Key: key.Short, Whole: key.Name})
	case perTopic:
		f.topics[topic] = true
		if place := key.Place(); place != 0 {
			f.places[place] = append(f.places[place], topic)
		}
	case perListener:
		f.names[name] = true
	}
}
