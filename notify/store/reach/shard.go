package reach

import (
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Shard is what one hash tag holds of a store. Shards of one number are equal.
type Shard struct {
	redis  *Redis
	topic  string // names the shard; empty: the number does
	number int
}

// A shard is what is known of one.
type shard struct {
	*Redis
	number int
	layout layout
	keys   script.Keys
	head   atomic.Pointer[head]

	fit     atomic.Int32
	wasFit  atomic.Bool           // it was fit once
	check   *fitCheck             // the last one; nil before the first; guarded by background.mu
	trouble atomic.Pointer[error] // of the last call; nil: it was answered

	beaten atomic.Pointer[time.Time] // when a subscription received a beat last; nil: none did
}

// A head is the last argument of each call, for begin.lua, and the format in it.
type head struct {
	format int
	arg    any // a string
}

// Of returns the shard of a topic. It does not connect: while the number of shards is
// not known, the first call on the shard learns it.
func (s *Redis) Of(topic string) Shard {
	if all := s.laid.Load(); all != nil {
		return Shard{redis: s, number: numberOf(topic, len(*all))}
	}
	return Shard{redis: s, topic: topic}
}

// Home returns the shard of what a store has only once: its secret, the registry of
// named listeners, the workers, and the settings for all topics. It is the first one.
func (s *Redis) Home() Shard { return Shard{redis: s} }

// Shards returns all shards in the order of their numbers. Errors: see [Redis.Learn].
func (s *Redis) Shards(ctx context.Context) ([]Shard, error) {
	all, err := s.learned(ctx)
	if err != nil {
		return nil, err
	}
	handles := make([]Shard, len(all))
	for i := range all {
		handles[i] = Shard{redis: s, number: i}
	}
	return handles, nil
}

// ShardOf is Of, and learns the number of shards first: for about a second it tries that
// again while Redis cannot be reached. Errors: see [Redis.Learn].
func (s *Redis) ShardOf(ctx context.Context, topic string) (Shard, error) {
	if s.laid.Load() == nil {
		if _, err := retry(ctx, func() ([]*shard, error) { return s.learned(ctx) }); err != nil {
			return Shard{}, err
		}
	}
	return s.Of(topic), nil
}

// numberOf returns the number of a topic's shard: its CRC-32 (IEEE 802.3, as zlib has it)
// modulo the number of shards. The branches of a topic, and the broadcasts that tell of its deaths, are in its shard.
func numberOf(topic string, shards int) int {
	if shards == 1 {
		return 0
	}
	of, _ := record.SplitBranch(strings.TrimPrefix(topic, record.DeadPrefix))
	return int(crc32.ChecksumIEEE([]byte(of)) % uint32(shards))
}

// Number returns the number of a shard, from zero on. That of a topic's shard is zero while
// the number of shards is not known.
func (s Shard) Number() int {
	if all := s.redis.laid.Load(); s.topic != "" && all != nil {
		return numberOf(s.topic, len(*all))
	}
	return s.number
}

// Keys returns the names of the keys and channels of the shard. The number of shards must be
// known.
func (s Shard) Keys() script.Keys { return s.redis.known()[s.Number()].keys }

// Read calls f with a client of the server that holds a shard, and with the shard's keys. f
// reads by plain commands, or removes what may be removed twice: it may be called again. Read
// does not check first whether Redis is fit. The error is that of the connection.
func Read[T any](ctx context.Context, s Shard, f func(redis.UniversalClient, script.Keys) (T, error)) (T, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return *new(T), err
	}
	v, err := onNode(ctx, d, func(node redis.UniversalClient) (T, error) { return f(node, d.keys) })
	if err != nil {
		return *new(T), d.explain(ctx, err)
	}
	return v, nil
}

// String returns the number of a shard and how many there are, such as 3/8.
func (d *shard) String() string { return strconv.Itoa(d.number) + "/" + strconv.Itoa(d.layout.shards) }

// Label returns the number of a shard and how many there are, such as 3/8. It is empty
// if there is one, or their number is not known.
func (s Shard) Label() string {
	if all := s.redis.laid.Load(); all != nil && len(*all) > 1 {
		return (*all)[s.Number()].String()
	}
	return ""
}

// Trouble is [Redis.Trouble] for one shard, which the error names. It is nil while the
// number of shards is not known.
func (s Shard) Trouble() error {
	all := s.redis.laid.Load()
	if all == nil {
		return nil
	}
	d := (*all)[s.Number()]
	if err := d.inTrouble(); err != nil {
		return d.errorOf(err)
	}
	return nil
}

// resolve returns what the store knows of a shard.
func (s Shard) resolve(ctx context.Context) (*shard, error) {
	all, err := s.redis.learned(ctx)
	if err != nil {
		return nil, err
	}
	return all[s.Number()], nil
}

// handle returns the Shard of d.
func (d *shard) handle() Shard { return Shard{redis: d.Redis, number: d.number} }

// isSharded reports whether the store has several shards: then the names of all channels
// carry the hash tag, and what is published there is heard at the shard's server alone.
func (d *shard) isSharded() bool { return d.layout.shards > 1 }

// mostAtOnce is how many shards a call on all of them works on at a time: so many that those
// of a master that hangs leave room for the others.
const mostAtOnce = 64

// AtOnce calls f with 0 to n-1, several at a time, and returns when all calls have.
func AtOnce(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var tasks sync.WaitGroup
	var next atomic.Int64
	for range min(n, mostAtOnce) {
		tasks.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	tasks.Wait()
}

// each calls f with each shard, several at a time. It returns the errors of those that
// answered; if none did, that of the first.
func (s *Redis) each(ctx context.Context, f func(*shard) error) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	if len(all) == 1 {
		return f(all[0])
	}
	errs := make([]error, len(all))
	AtOnce(len(all), func(i int) { errs[i] = f(all[i]) })
	if away := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !Retryable(err) }); len(away) == len(all) {
		return errs[0]
	}
	return errors.Join(slices.DeleteFunc(errs, Retryable)...)
}

// Run runs a transition once, and returns a cursor over its answer. It never repeats
// a call whose outcome is unknown. Errors: an ErrUnfit, a RightsError, an
// ErrUnreplicated if the transition is promised, or that of the connection.
func (s Shard) Run(ctx context.Context, t *script.Transition, args ...any) (*script.Reply, error) {
	if a, is := s.answered(ctx, Call{t, args}); is {
		return script.NewReply(t, a.values), a.err
	}
	return s.RunOn(ctx, t, nil, args...)
}

// Repeat is Run for a transition that may be carried out twice: for up to retryFor
// it repeats a call that Redis did not carry out.
func (s Shard) Repeat(ctx context.Context, t *script.Transition, args ...any) (*script.Reply, error) {
	return retry(ctx, func() (*script.Reply, error) { return s.Run(ctx, t, args...) })
}

// RunOn is Run for a transition that works on a key of the caller's choice.
func (s Shard) RunOn(ctx context.Context, t *script.Transition, key func(script.Keys) string, args ...any) (*script.Reply, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return d.run(ctx, t, key, args)
}

// run is Shard.RunOn. An Inbox among the arguments is sent as its channel.
func (d *shard) run(ctx context.Context, t *script.Transition, key func(script.Keys) string, args []any) (*script.Reply, error) {
	keys := append(make([]string, 0, 2), d.keys.Format())
	if key != nil {
		keys = append(keys, key(d.keys))
	}
	if d.inCluster() {
		keys = append(keys, d.keys.Given()...)
	}
	for i, arg := range args {
		if inbox, is := arg.(Inbox); is {
			args[i] = d.inbox(inbox)
		}
	}
	values, err := d.call(ctx, t, keys, append(args, nil)) // which becomes the head
	if err != nil {
		return nil, err
	}
	return script.NewReply(t, values), nil
}
