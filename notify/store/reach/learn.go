package reach

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// newShard returns a shard under a hash tag.
func (s *Redis) newShard(number int, l layout, tag string) *shard {
	d := &shard{Redis: s, number: number, layout: l, keys: script.NewKeys(s.prefix, tag)}
	d.speak(s.formats[len(s.formats)-1].Number)
	return d
}

// speak has all calls be of a format from now on.
func (d *shard) speak(format int) {
	d.head.Store(&head{format, strconv.Itoa(d.share) + "/" + d.at + "/" + d.layout.mark(format)})
}

// format returns the format of the shard, as far as that is known: that of a new store before.
func (d *shard) format() int { return d.head.Load().format }

// lay makes the shards of a layout. A store of one shard has the root as that.
func (s *Redis) lay(l layout) []*shard {
	all := []*shard{s.root}
	if l.shards > 1 {
		all = make([]*shard, l.shards)
		for k := range all {
			all[k] = s.newShard(k, l, tag(k, l.shards, l.epoch))
		}
	}
	s.laid.Store(&all)
	return all
}

// Learn learns how many shards the store has, unless its Config said so or it is known
// already. It founds none. Errors: an ErrUnfit, or that of the connection.
func (s *Redis) Learn(ctx context.Context) error {
	_, err := s.learned(ctx)
	return err
}

// learned returns the shards, and asks Redis for their number if it is not known.
func (s *Redis) learned(ctx context.Context) ([]*shard, error) {
	if all := s.laid.Load(); all != nil {
		return *all, nil
	}
	err := s.root.shared(ctx, &s.learning, func() bool { return s.laid.Load() != nil }, func(ctx context.Context) error {
		ctx = context.WithValue(ctx, unrehearsed{}, true) // the check of a shard finds what is missing
		text, err := s.root.formatText(ctx)
		if err != nil {
			return err
		}
		l, format, ok := layoutIn(text)
		if !ok || !s.knows(format) {
			l = layout{shards: 1} // which the first call refuses
		}
		for _, d := range append(s.lay(l), s.root) {
			if s.knows(format) {
				d.speak(format)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *s.laid.Load(), nil
}

// formatText returns the value of the format key: empty if there is none. The error is that of the connection.
func (d *shard) formatText(ctx context.Context) (string, error) {
	text, err := onNode(ctx, d, func(node redis.UniversalClient) (string, error) { return node.Get(ctx, d.keys.Format()).Result() })
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", d.explain(ctx, err)
	}
	return text, nil
}

// otherLayout returns the ErrUnfit for a store of this format that has other shards than
// the process works with.
func (s *Redis) otherLayout(there layout) error {
	has := fmt.Sprintf("%d shards", there.shards)
	if there.shards == 1 {
		has = "1 shard"
	}
	if s.wanted == 0 {
		return fmt.Errorf("%w at %s: under the prefix %s it has %s now, and had another number when this process began; start it again", ErrUnfit, s.where, s.prefix, has)
	}
	return &OtherShardsError{fmt.Errorf("%w at %s: under the prefix %s it has %s, and shards is %d; leave that out, or start a store of %d under another prefix, and publish an export of this one there",
		ErrUnfit, s.where, s.prefix, has, s.wanted, s.wanted)}
}

// known returns all shards, or the root while their number is not known.
func (s *Redis) known() []*shard {
	if all := s.laid.Load(); all != nil {
		return *all
	}
	return []*shard{s.root}
}
