package store

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Place is where members stand.
type Place int

// The places, in the order in which a repair looks at them.
const (
	PlaceLeased Place = iota + 1
	PlaceBroadcasts
	PlaceReady    // of a topic
	PlaceSchedule // of a topic
	PlaceDead     // of a topic
)

// row returns the row of the table that describes a place.
func (p Place) row() row {
	return table[slices.IndexFunc(table, func(r row) bool { return r.place == p })]
}

// String returns the name of a place, such as "leased".
func (p Place) String() string { return strings.TrimSuffix(p.row().name, ":") }

// A Key is a key that [Shard.Walk] finds.
type Key struct {
	Name  string // whole
	Short string // without what all keys of the shard begin with
	Type  string // as Redis names it

	row row    // that describes it; zero: none does
	one string // the topic or the like that it is of
}

// IsOurs reports whether the table of keys has it.
func (k Key) IsOurs() bool { return k.row.kind != "" }

// IsRight reports whether it has the type that it should have.
func (k Key) IsRight() bool { return k.Type == k.row.kind }

// Topic returns the topic that it is of, if there is one key of each topic.
func (k Key) Topic() (topic string, ok bool) { return k.one, k.row.of == "topic" }

// Listener returns the named listener that it is of, if there is one key of each.
func (k Key) Listener() (name string, ok bool) { return k.one, k.row.of == "listener" }

// Place returns which place it is, 0 if it is none.
func (k Key) Place() Place { return k.row.place }

// describe returns a key with what the table says of it.
func describe(short string) Key {
	name, one, many := strings.Cut(short, ":")
	if many {
		name += ":"
	}
	for _, r := range table {
		if r.kind != kindChannel && r.name == name {
			return Key{Short: short, row: r, one: one}
		}
	}
	return Key{Short: short}
}

// walkPage is how many keys a call of a walk looks at, most of which may be another program's.
const walkPage = 500

// Walk calls on with all keys of the shard, each once, some at a time. The error
// is that of the connection.
func (s Shard) Walk(ctx context.Context, on func([]Key)) error {
	node, err := s.store.node(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]bool) // a key may come twice
	for cursor := uint64(0); ; {
		var page, fresh []string
		if page, cursor, err = node.Scan(ctx, cursor, s.store.keys.base+"*", walkPage).Result(); err != nil {
			return err
		}
		for _, key := range page {
			if !seen[key] {
				seen[key] = true
				fresh = append(fresh, key)
			}
		}
		keys, err := s.described(ctx, node, fresh)
		if err != nil {
			return err
		}
		if on(keys); cursor == 0 {
			return nil
		}
	}
}

// described returns those of some keys that are there still, with their types.
func (s Shard) described(ctx context.Context, node redis.UniversalClient, names []string) (keys []Key, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	types := make([]*redis.StatusCmd, len(names))
	_, err = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			types[i] = p.Type(ctx, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if kind := types[i].Val(); kind != "none" {
			key := describe(strings.TrimPrefix(name, s.store.keys.base))
			key.Name, key.Type = name, kind
			keys = append(keys, key)
		}
	}
	return keys, nil
}
