package reach

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Key is a key that [Shard.Walk] finds.
type Key struct {
	Name  string // the whole name
	Short string // without the beginning that all keys of the shard have
	Type  string // as Redis names it

	is script.Described
}

// IsOurs reports whether the table of keys describes the key.
func (k Key) IsOurs() bool { return k.is.Type != "" }

// IsRight reports whether the key has the type that it should have.
func (k Key) IsRight() bool { return k.Type == k.is.Type }

// Topic returns the topic of a key that each topic has, and whether it is one.
func (k Key) Topic() (topic string, ok bool) { return k.is.One, k.is.Of == "topic" }

// Listener returns the named listener of a key that each has, and whether it is one.
func (k Key) Listener() (name string, ok bool) { return k.is.One, k.is.Of == "listener" }

// Place returns the place that the key is, 0 if it is none.
func (k Key) Place() script.Place { return k.is.Place }

// walkPage is how many keys Redis looks at in one call of Walk; most may belong to
// other programs.
const walkPage = 500

// Walk calls on with all keys of the shard, each once, a page at a time. The error is
// that of the connection.
func (s Shard) Walk(ctx context.Context, on func([]Key)) error {
	d, err := s.resolve(ctx)
	if err != nil {
		return err
	}
	return d.walk(ctx, on)
}

// WalkRoot is [Shard.Walk] for the keys beside the root of a store of several shards, where
// nothing else belongs.
func (s *Redis) WalkRoot(ctx context.Context, on func([]Key)) error {
	return s.root.walk(ctx, func(keys []Key) {
		on(slices.DeleteFunc(keys, func(k Key) bool { return k.Name == s.root.keys.Format() }))
	})
}

func (d *shard) walk(ctx context.Context, on func([]Key)) error {
	node, err := d.node(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]bool) // a key may come twice
	for cursor := uint64(0); ; {
		var page, unseen []string
		if page, cursor, err = node.Scan(ctx, cursor, d.keys.Base()+"*", walkPage).Result(); err != nil {
			return err
		}
		for _, key := range page {
			if !seen[key] {
				seen[key] = true
				unseen = append(unseen, key)
			}
		}
		keys, err := d.described(ctx, node, unseen)
		if err != nil {
			return err
		}
		if on(keys); cursor == 0 {
			return nil
		}
	}
}

// described returns the keys of some names that still exist, with their types.
func (d *shard) described(ctx context.Context, node redis.UniversalClient, names []string) (keys []Key, err error) {
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
			short := strings.TrimPrefix(name, d.keys.Base())
			keys = append(keys, Key{Name: name, Short: short, Type: kind, is: script.Describe(short)})
		}
	}
	return keys, nil
}
