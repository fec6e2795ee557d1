package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Store is one Redis and one prefix in it, where messages are kept. It is safe
// for concurrent use; a process needs one.
type Store struct {
	client redis.UniversalClient
	prefix string
	where  string // the address, for errors
	at     string // what the names of channels begin with in Redis: see Heard
	wanted int    // shards that Config asks for; 0: as many as the store has

	database int                      // of Redis; a Cluster has only 0
	root     *shard                   // what holds the format key; of a store of one shard its only one
	laid     atomic.Pointer[[]*shard] // all shards; nil: their number is not known yet
	learning *fitCheck                // of that number; guarded by background.mu

	replicas    int // that must confirm a promised call
	share       int // of maxmemory, in percent: above it publishes are refused
	connections connections

	background background
	sentinels  sentinels
	wires      wires
	ways       ways
	renewal    renewal

	handedOver atomic.Int64 // by publishes
	clock      clock

	observe func(script string, took time.Duration, err error) // nil: nobody does
}

// What a Store knows about its Redis.
const (
	fitUnknown int32 = iota
	fitRedis         // Redis 7 or newer
	fitTrial         // the embedded trial server
)

// MinRedis is the oldest major version of Redis that Bellhop works with.
const MinRedis = 7

// ErrUnfit is the error of a Redis that cannot hold messages safely: too old,
// evicting keys, or with a store of another [Format].
var ErrUnfit = errors.New("unfit redis")

// Open returns the store that c describes. It does not connect: the first call
// fails if Redis cannot be reached. The error joins a Fault for each field that is
// wrong, or whose file cannot be read.
func Open(c Config) (*Store, error) {
	prefix := cmp.Or(c.Prefix, script.DefaultPrefix)
	errPrefix := script.CheckPrefix(prefix)
	var errShards error
	if c.Shards != 0 {
		errShards = CheckShards(c.Shards)
	}
	share, errShare := memoryShare(c.MemoryShare)
	errReplicas := fault.Within("wait_replicas", "number of replicas to wait for", c.WaitReplicas, 0, MaxWaitReplicas)
	o, errOptions := c.options()
	if err := errors.Join(errOptions, errReplicas, errPrefix, errShards, errShare); err != nil {
		return nil, err
	}
	s := &Store{prefix: prefix, wanted: c.Shards, where: RedactURLs(cmp.Or(c.URL, DefaultURL)), replicas: c.WaitReplicas, share: share}
	s.background.ctx, s.background.end = context.WithCancel(context.Background())
	s.connect(o)
	if !s.inCluster() {
		s.database, s.at = o.DB, sharedBy(o.DB)
	}
	s.root = s.newShard(0, layout{shards: 1}, "0")
	if c.Shards > 0 {
		s.lay(layout{shards: c.Shards})
	}
	return s, nil
}

// Close closes the connections. Calls that are still running on the store fail.
func (s *Store) Close() error {
	s.background.close()
	defer s.background.tasks.Wait()
	return s.client.Close()
}

// Client returns the connection to Redis. It never repeats a call by itself.
func (s *Store) Client() redis.UniversalClient { return s.client }

// Keys returns the names of the keys and channels of the first shard.
func (s *Store) Keys() script.Keys { return s.known()[0].keys }

// KeysOf returns the names of the keys and channels of a topic's shard. The number of
// shards must be known.
func (s *Store) KeysOf(topic string) script.Keys { return s.known()[s.Of(topic).number].keys }

// KeysOfAll returns the names of the keys and channels of each shard.
func (s *Store) KeysOfAll() (all []script.Keys) {
	for _, d := range s.known() {
		all = append(all, d.keys)
	}
	return all
}

// Observe sets f, which is called after each run of a script with its name, the
// time it took with the way to Redis and back, and its error. Call Observe before
// the store is used. f runs in the goroutine of the caller, so it must not block,
// and must be safe for concurrent use. f is not called if ctx was already done or
// the check of Redis failed.
func (s *Store) Observe(f func(script string, took time.Duration, err error)) { s.observe = f }

// HandedOver returns how many messages were handed over by publishes of this store,
// since it was opened: they were leased to a waiting subscriber and sent along, in
// place of a ring.
func (s *Store) HandedOver() int64 { return s.handedOver.Load() }

// Address returns the address of Redis without its password.
func (s *Store) Address() string { return s.where }

// Check reports whether Redis can hold messages safely, and whether its user has
// the rights that scripts need. A store checks by itself before its first script,
// and again when Redis refused its user. The error is an ErrUnfit, a RightsError or
// that of the connection. A Redis that was fit before, and may evict messages now,
// is no error here: the scripts refuse publishes, and nothing else. Of several shards
// Check asks each: some that cannot be reached are no error while others can.
func (s *Store) Check(ctx context.Context) error {
	return s.each(ctx, func(d *shard) error { return d.checkServer(ctx) })
}

// checkServer is Check for one shard.
func (d *shard) checkServer(ctx context.Context) error {
	fields, err := d.info(ctx)
	if err != nil {
		return err
	}
	version, ok := fields["redis_version"]
	if !ok && d.replicas > 0 {
		return fmt.Errorf("%w at %s: the trial server has no replicas to wait for", ErrUnfit, d.where)
	}
	if !ok && d.isSharded() {
		return fmt.Errorf("%w at %s: the trial server holds one shard, and shards is %d; leave that out", ErrUnfit, d.where, d.layout.shards)
	}
	if !ok {
		return d.markFit(ctx, fitTrial)
	}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < MinRedis {
		return fmt.Errorf("%w at %s: its version is %s; use Redis %d.0 or newer, or Valkey", ErrUnfit, d.where, version, MinRedis)
	}
	if mayEvict(fields) && !d.wasFit.Load() {
		return d.evicts(fields["maxmemory_policy"])
	}
	if err := d.checkRights(ctx, d.commands(), d.rights()); err != nil {
		return err
	}
	return d.markFit(ctx, fitRedis)
}

// markFit records that Redis is fit, unless it holds a store of another format.
func (d *shard) markFit(ctx context.Context, as int32) error {
	if err := d.checkFormat(ctx); err != nil {
		return err
	}
	d.fit.Store(as)
	d.wasFit.Store(true)
	return nil
}

// Info returns the fields of INFO of the shard's server: of the named sections, or of the
// default ones. The error is that of the connection.
func (s Shard) Info(ctx context.Context, sections ...string) (map[string]string, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return d.info(ctx, sections...)
}

func (d *shard) info(ctx context.Context, sections ...string) (map[string]string, error) {
	ctx = context.WithValue(ctx, unrehearsed{}, true)
	info, err := onNode(ctx, d, func(node redis.UniversalClient) (string, error) { return node.Info(ctx, sections...).Result() })
	if err != nil {
		return nil, d.explain(ctx, err)
	}
	return fieldsOf(info), nil
}

// fieldsOf returns the fields of an INFO.
func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// listening returns how many connections are subscribed to a channel of the shard. The
// error is that of the connection.
func (d *shard) listening(ctx context.Context, channel string) (int64, error) {
	channel = d.Heard(channel)
	listening, err := onNode(ctx, d, func(node redis.UniversalClient) (map[string]int64, error) {
		if d.isSharded() {
			return node.PubSubShardNumSub(ctx, channel).Result()
		}
		return node.PubSubNumSub(ctx, channel).Result()
	})
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	return listening[channel], nil
}

// call runs a transition once, if Redis is fit for it.
func (d *shard) call(ctx context.Context, t *script.Transition, keys []string, args []any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.ensureFit(ctx); err != nil {
		return nil, err
	}
	if d.observe == nil {
		return d.onMaster(ctx, t, keys, args)
	}
	began := time.Now()
	reply, err := d.onMaster(ctx, t, keys, args)
	d.observe(t.Name, time.Since(began), err)
	return reply, err
}

// onMaster runs a transition on the server that holds the shard, and founds a store where there is none.
func (d *shard) onMaster(ctx context.Context, t *script.Transition, keys []string, args []any) (reply []any, err error) {
	reply, err = onNode(ctx, d, func(node redis.UniversalClient) ([]any, error) {
		reply, err := d.once(ctx, node, t, keys, args)
		missing, err := d.formatFault(err)
		if !missing {
			return reply, err
		}
		if err := d.found(ctx, node); err != nil {
			return nil, err
		}
		return d.once(ctx, node, t, keys, args)
	})
	if err = d.memoryError(err); errors.Is(err, ErrUnfit) {
		return nil, err
	}
	if err != nil {
		if Refused(err) {
			d.fit.Store(fitUnknown)
		}
		return nil, d.explain(ctx, err)
	}
	if d.trouble.Load() != nil {
		d.trouble.Store(nil)
	}
	return reply, nil
}

// Trouble returns why Redis cannot be used at the moment: the error of the last
// call, if Redis could not be reached, did not answer, took no calls, or did not
// let its user in. It is nil if the last script was answered, and before the first. Of
// several shards all that were called are in trouble, or it is nil.
func (s *Store) Trouble() (err error) {
	all := s.laid.Load()
	if all == nil {
		return s.root.inTrouble()
	}
	for _, d := range *all {
		trouble := d.inTrouble()
		if trouble == nil && d.wasFit.Load() {
			return nil
		}
		err = cmp.Or(err, trouble)
	}
	return err
}

// inTrouble is Trouble for one shard.
func (d *shard) inTrouble() error {
	if err := d.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// PoolStats returns how many connections to Redis there are, and how they are used.
func (s *Store) PoolStats() *redis.PoolStats {
	stats := s.client.PoolStats()
	stats.PubSubStats.Active += s.wires.connected()
	return stats
}

// explain adds to an error of the connection the address of Redis, the remedy for
// a missing right, and the error of ctx if that is the cause: the client reports
// only a timeout then.
func (d *shard) explain(ctx context.Context, err error) error {
	var known *ServerError
	if errors.As(err, &known) || errors.Is(err, ErrUnfit) {
		return err // of a call that explained it
	}
	err = d.refused(noRedis(err))
	cause := endOf(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		d.prepare()
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if Retryable(err) || LockedOut(err) {
		d.trouble.Store(&err)
	}
	return &ServerError{Where: d.place(), Err: err, shard: d}
}

// place returns the address of Redis, and which of several shards.
func (d *shard) place() string {
	if d.isSharded() {
		return d.where + ", shard " + d.String()
	}
	return d.where
}

// endOf returns the error of ctx. A connection may notice the deadline first: then
// endOf waits until ctx has ended, so that all who ask know why a call failed.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err()
}

// A ServerError is the error of a call to Redis, with the address.
type ServerError struct {
	Where string // the address, without a password, and which shard, if there are several
	Err   error  // of the connection, or the error that Redis answered

	shard *shard // nil: any
}

// Error returns the address and the error.
func (e *ServerError) Error() string { return fmt.Sprintf("redis at %s: %v", e.Where, e.Err) }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// ErrNoRedis is the error where another program answers at the address of Redis.
var ErrNoRedis = errors.New("what answers there is no Redis")

// noRedis returns an ErrNoRedis for an error with which go-redis rejects an answer
// that is not in Redis's protocol, and any other error as it is.
func noRedis(err error) error {
	var known redis.Error
	text := err.Error()
	if errors.As(err, &known) || !strings.HasPrefix(text, "redis: can't parse") && !strings.HasPrefix(text, "redis: invalid reply") {
		return err
	}
	if from, to := strings.Index(text, `"`), strings.LastIndex(text, `"`); from < to {
		return fmt.Errorf("%w: it says %s", ErrNoRedis, text[from:to+1])
	}
	return ErrNoRedis
}

// NotExecuted reports whether err says that Redis did not carry out the call, so
// that it may be repeated: it could not be reached, or is loading, busy,
// read-only, failing over, or unable to write its data to disk.
func NotExecuted(err error) bool {
	for _, sign := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MASTERDOWN", "MOVED", "ASK", "BUSY", "MISCONF", "max number of clients"} {
		if redis.HasErrorPrefix(err, sign) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Retryable reports whether err says that Redis cannot be reached, does not answer, is
// another program, lacks replicas, or refuses its user a right, so that the call may
// succeed later.
func Retryable(err error) bool {
	var op *net.OpError
	var name *net.DNSError
	return NotExecuted(err) || Refused(err) || errors.Is(err, ErrUnreplicated) || errors.Is(err, ErrNoRedis) || errors.Is(err, errAbandoned) || errors.As(err, &op) || errors.As(err, &name) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || // of an idle connection, which go-redis looks at first
		errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout)
}

// LockedOut reports whether err says that Redis does not let its user in, such as
// after the password was changed. It is not Retryable: a program that starts must fail
// with it.
func LockedOut(err error) bool { return refusal(err, []string{"NOAUTH", "WRONGPASS"}) }
