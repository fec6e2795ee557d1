package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Store is one Redis and one prefix in it: where messages wait. It is safe
// for concurrent use and shared by everything in a process.
type Store struct {
	client redis.UniversalClient
	keys   Keys
	where  string // the address, for errors

	replicas int // that must have what was promised
	share    int // of maxmemory in percent, from which on publishes are refused
	lines    lines
	fit      atomic.Int32

	sentinels sentinels

	observe func(script string, took time.Duration, err error) // nil: nobody does
}

// What a Store knows of its Redis.
const (
	fitUnknown int32 = iota
	fitRedis         // Redis 7 or newer
	fitTrial         // the embedded trial server
)

// MinRedis is the oldest major version of Redis that Bellhop works with.
const MinRedis = 7

// ErrUnfit is the error of a Redis that cannot hold messages safely: too old, or evicting keys.
var ErrUnfit = errors.New("unfit redis")

// Open returns the store that c describes. It does not connect yet: a Redis
// that is away is found by the first call. An error is an ErrInvalid, or says
// which file cannot be read.
func Open(c Config) (*Store, error) {
	keys, err := newKeys(c.Prefix)
	if err != nil {
		return nil, err
	}
	share, err := memoryShare(c.MemoryShare)
	if err != nil {
		return nil, err
	}
	where := c.URL
	if where == "" {
		where = DefaultURL
	}
	if c.WaitReplicas < 0 || c.WaitReplicas > MaxWaitReplicas {
		return nil, fmt.Errorf("%w number of replicas to wait for %d: use 0 to %d", ErrInvalid, c.WaitReplicas, MaxWaitReplicas)
	}
	s := &Store{keys: keys, where: RedactURLs(where), replicas: c.WaitReplicas, share: share}
	if err := s.connect(c); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the connections. What is still running on the store fails.
func (s *Store) Close() error { return s.client.Close() }

// Client returns the connection to Redis. It never repeats a call by itself.
func (s *Store) Client() redis.UniversalClient { return s.client }

// Keys returns the names of the keys and channels.
func (s *Store) Keys() Keys { return s.keys }

// Observe has f called after each run of a script: its name, what it took with
// the way to Redis and back, and its error. It is called before the store is
// used; f is called by whoever runs the script, so it must not block, and must be
// safe for concurrent use. A context that had ended before, and a Redis that
// could not be asked whether it is fit, are no run.
func (s *Store) Observe(f func(script string, took time.Duration, err error)) { s.observe = f }

// Where returns the address of Redis without its password.
func (s *Store) Where() string { return s.where }

// Check asks Redis whether it can hold messages safely. It is asked once by
// itself before the first script; the error is an ErrUnfit or that of the connection.
func (s *Store) Check(ctx context.Context) error {
	fields, err := s.Info(ctx)
	if err != nil {
		return err
	}
	version, ok := fields["redis_version"]
	if !ok && s.replicas > 0 {
		return fmt.Errorf("%w at %s: the trial server has no replicas to wait for", ErrUnfit, s.where)
	}
	if !ok {
		s.fit.Store(fitTrial)
		return nil
	}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < MinRedis {
		return fmt.Errorf("%w at %s: its version is %s; use Redis %d.0 or newer, or Valkey", ErrUnfit, s.where, version, MinRedis)
	}
	policy := fields["maxmemory_policy"]
	if fields["maxmemory"] != "0" && policy != "noeviction" && policy != "" {
		return fmt.Errorf("%w at %s: it may evict messages (maxmemory-policy %s); run CONFIG SET maxmemory-policy noeviction", ErrUnfit, s.where, policy)
	}
	s.fit.Store(fitRedis)
	return nil
}

// Info returns the fields of Redis's INFO, of some sections or of the usual
// ones. The error is that of the connection.
func (s *Store) Info(ctx context.Context, sections ...string) (map[string]string, error) {
	info, err := onNode(ctx, s, func(node redis.UniversalClient) (string, error) { return node.Info(ctx, sections...).Result() })
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Listening returns how many connections listen on each of some channels of the
// shard: in a Cluster only the server that holds it knows. The error is that of
// the connection.
func (s *Store) Listening(ctx context.Context, channels ...string) (map[string]int64, error) {
	listening, err := onNode(ctx, s, func(node redis.UniversalClient) (map[string]int64, error) {
		return node.PubSubNumSub(ctx, channels...).Result()
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return listening, nil
}

// Run runs a script once on the shard's keys followed by keys, with args after
// the two arguments that prelude.lua reads. It never repeats a call whose
// outcome is unknown. Errors: an ErrUnfit, an ErrUnreplicated of a script that is
// Promised, or that of the connection.
func (s *Store) Run(ctx context.Context, script *Script, keys []string, args ...any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.fit.Load() == fitUnknown {
		if err := s.Check(ctx); err != nil {
			return nil, err
		}
	}
	argv := make([]any, 0, len(args)+3)
	argv = append(append(argv, s.keys.prefix+":", s.keys.Head()), args...)
	if script.grows {
		keys, argv = append(slices.Clip(keys), s.keys.Room(s.share)), append(argv, s.share)
	}
	if s.observe == nil {
		return s.run(ctx, script, keys, argv)
	}
	began := time.Now()
	reply, err := s.run(ctx, script, keys, argv)
	s.observe(script.name, time.Since(began), err)
	return reply, err
}

func (s *Store) run(ctx context.Context, script *Script, keys []string, argv []any) (reply []any, err error) {
	one := script.flagged
	if s.fit.Load() == fitTrial {
		one = script.plain
	}
	keys = s.keys.Shard(keys...)
	reply, err = onNode(ctx, s, func(node redis.UniversalClient) ([]any, error) {
		if script.promised && s.replicas > 0 {
			return s.confirm(ctx, node, one, keys, argv)
		}
		return one.Run(ctx, node, keys, argv...).Slice()
	})
	if err != nil {
		return nil, s.explain(ctx, full(err))
	}
	return reply, nil
}

// explain adds to an error of the connection which Redis it was, and that the
// context ended where that is why: the client tells of it as of a timeout.
func (s *Store) explain(ctx context.Context, err error) error {
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && cause == nil && !time.Now().Before(deadline) {
		cause = context.DeadlineExceeded
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("redis at %s: %w", s.where, err)
}

// Untouched reports whether err says that Redis did not carry out the call, so
// that it may be repeated: it could not be reached, or is loading, busy,
// read-only, failing over, or unable to write its data to disk.
func Untouched(err error) bool {
	for _, sign := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MASTERDOWN", "MOVED", "ASK", "BUSY", "MISCONF", "max number of clients"} {
		if redis.HasErrorPrefix(err, sign) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Away reports whether err says that Redis cannot be reached, does not answer,
// or lacks replicas, as opposed to refusing what was asked.
func Away(err error) bool {
	var op *net.OpError
	var name *net.DNSError
	return Untouched(err) || errors.Is(err, ErrUnreplicated) || errors.As(err, &op) || errors.As(err, &name) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || // of an idle connection, which go-redis looks at first
		errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout)
}
