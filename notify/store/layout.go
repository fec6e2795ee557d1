package store

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// MaxShards is the largest number of shards of a store.
const MaxShards = 256

// A layout is how many shards a store has, and which of their names they have by now: an
// epoch. The format key of a store of one shard does not name a layout.
type layout struct {
	shards int
	epoch  int64
}

// mark returns the beginning of the value of the format key: "FORMAT ", or for several
// shards "FORMAT/SHARDS/EPOCH ". A version that knows no shards refuses the latter.
func (l layout) mark() string {
	if l.shards == 1 {
		return formatMark
	}
	return fmt.Sprintf("%d/%d/%d ", Format, l.shards, l.epoch)
}

// layoutIn returns the layout that the value of a format key names, and whether the
// value is of this format. An empty one is that of a new store, of one shard.
func layoutIn(text string) (l layout, ok bool) {
	mark, _, _ := strings.Cut(text, " ")
	fields := strings.Split(mark, "/")
	if text == "" || len(fields) == 1 {
		return layout{shards: 1}, text == "" || strings.HasPrefix(text, formatMark)
	}
	if len(fields) != 3 || fields[0] != strconv.Itoa(Format) {
		return l, false
	}
	shards, errShards := strconv.Atoi(fields[1])
	epoch, errEpoch := strconv.ParseInt(fields[2], 10, 64)
	return layout{shards, epoch}, errShards == nil && errEpoch == nil && shards > 1 && epoch >= 0 && CheckShards(shards) == nil
}

// CheckShards returns a Fault unless a store may have n shards: a power of two up to
// MaxShards.
func CheckShards(n int) error {
	if n < 1 || n > MaxShards || bits.OnesCount(uint(n)) != 1 {
		return fault.New("shards", "shards %d: use a power of two, 1 to %d; or leave it out, for as many as the store has", n, MaxShards)
	}
	return nil
}

// slots is how many slots a Redis Cluster has.
const slots = 16384

// tag returns the hash tag of shard k of n in an epoch: k/n, or with .1, .2 and so on
// behind it. It is the first whose slot is in the middle half of the k-th of n equal parts
// of all slots, so that a Cluster spreads the shards evenly over its masters; in an odd
// epoch it is the second one, so that two layouts in a row share no key.
func tag(k, n int, epoch int64) string {
	if n == 1 {
		return "0"
	}
	part := slots / n
	least, most := k*part+part/4, (k+1)*part-part/4
	for x, pass := 0, epoch%2; ; x++ {
		name := fmt.Sprintf("%d/%d", k, n)
		if x > 0 {
			name += "." + strconv.Itoa(x)
		}
		if slot := slotOf(name); slot < least || slot >= most {
			continue
		}
		if pass == 0 {
			return name
		}
		pass--
	}
}

// slotOf returns the slot of a hash tag: its CRC-16 (XMODEM) modulo the number of slots, as
// the specification of Redis Cluster says.
func slotOf(tag string) int {
	var crc uint16
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// lay makes the shards of a layout. A store of one shard has the root as that.
func (s *Store) lay(l layout) []*shard {
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
func (s *Store) Learn(ctx context.Context) error {
	_, err := s.learned(ctx)
	return err
}

// learned returns the shards, and asks Redis for their number if it is not known.
func (s *Store) learned(ctx context.Context) ([]*shard, error) {
	if all := s.laid.Load(); all != nil {
		return *all, nil
	}
	err := s.root.shared(ctx, &s.learning, func() bool { return s.laid.Load() != nil }, func(ctx context.Context) error {
		ctx = context.WithValue(ctx, unrehearsed{}, true) // the check of a shard finds what is missing
		text, err := s.rootText(ctx)
		if err != nil {
			return err
		}
		l, ok := layoutIn(text)
		if !ok {
			l = layout{shards: 1} // of another format, which the first call refuses
		}
		s.lay(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *s.laid.Load(), nil
}

// rootText returns the value of the root's format key: empty if there is none. The error is
// that of the connection.
func (s *Store) rootText(ctx context.Context) (string, error) {
	text, err := onNode(ctx, s.root, func(node redis.UniversalClient) (string, error) {
		return node.Get(ctx, s.root.keys.Format()).Result()
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.root.explain(ctx, err)
	}
	return text, nil
}

// otherLayout returns the ErrUnfit for a store of this format that has other shards than
// the process works with.
func (s *Store) otherLayout(there layout) error {
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

// An OtherShardsError is the ErrUnfit for a store that has another number of shards than its
// Config asks for: a fault of the configuration.
type OtherShardsError struct{ err error }

// Error names both numbers, and the remedy.
func (e *OtherShardsError) Error() string { return e.err.Error() }

// Unwrap returns an ErrUnfit.
func (e *OtherShardsError) Unwrap() error { return e.err }
