package reach

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is known about a server.
const (
	fitUnknown int32 = iota
	fitRedis         // Redis 7 or newer
	fitTrial         // the embedded trial server
)

// MinRedis is the oldest major version of Redis that Bellhop works with.
const MinRedis = 7

// ensureFit checks a Redis that was not checked yet, once for all callers at a time.
// While a right is missing it returns an error, and nothing is sent.
func (d *shard) ensureFit(ctx context.Context) error {
	isFit := func() bool { return d.fit.Load() != fitUnknown }
	if isFit() {
		return nil
	}
	return d.shared(ctx, &d.check, isFit, d.checkServer)
}

// shared makes a check, unless it is done, and waits for its end. Callers share the one
// that runs.
func (d *shard) shared(ctx context.Context, last **fitCheck, isDone func() bool, run func(context.Context) error) error {
	check := d.startCheck(last, isDone, run)
	if check == nil {
		return nil
	}
	select {
	case <-check.done:
		return check.err
	case <-ctx.Done():
		return d.explain(ctx, ctx.Err())
	}
}

// startCheck returns the check that holds for its caller, or starts one. It returns
// nil if it is done.
func (d *shard) startCheck(last **fitCheck, isDone func() bool, run func(context.Context) error) *fitCheck {
	b := &d.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if isDone() {
		return nil
	}
	if *last != nil && (*last).holds() {
		return *last
	}
	check := &fitCheck{done: make(chan struct{}), err: d.errorOf(redis.ErrClosed)}
	if b.ctx.Err() != nil {
		close(check.done)
		return check
	}
	*last = check
	b.run(func(ctx context.Context) {
		defer close(check.done)
		if err := run(ctx); b.ctx.Err() == nil {
			check.err = err
		}
		check.ended = time.Now()
	})
	return check
}

// prepare sets up a connection for later calls. go-redis dials in the background, but
// sets a connection up within the deadline of the call that uses it first: if no call
// has enough time for that, none would ever get through.
func (d *shard) prepare() {
	b := &d.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.preparing || time.Now().Before(b.prepareFrom) || d.fit.Load() == fitUnknown || b.ctx.Err() != nil { // a check sets one up, too
		return
	}
	b.preparing = true
	b.run(func(ctx context.Context) {
		wasSetUp := false
		ctx = context.WithValue(ctx, noteSetUp{}, &wasSetUp)
		_, err := onNode(ctx, d, func(node redis.UniversalClient) (time.Time, error) { return node.Time(ctx).Result() })
		b.mu.Lock()
		defer b.mu.Unlock()
		b.preparing = false
		if err != nil || !wasSetUp { // it would only keep a connection from others
			b.prepareFrom = time.Now().Add(prepareAgain)
		}
	})
}

// noteSetUp is the key of a *bool in the context of a call, which becomes true when
// a connection is set up for it.
type noteSetUp struct{}

// Check reports whether Redis can hold messages safely, and whether its user has
// the rights that scripts need. A store checks by itself before its first script,
// and again when Redis refused its user. The error is an ErrUnfit, a RightsError or
// that of the connection. A Redis that was fit before, and may evict messages now,
// is no error here: the scripts refuse publishes, and nothing else. Of several shards
// Check asks each: some that cannot be reached are no error while others can.
func (s *Redis) Check(ctx context.Context) error {
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

// mayEvict reports whether a Redis with these fields of INFO may evict messages.
func mayEvict(info map[string]string) bool {
	policy := info["maxmemory_policy"]
	return info["maxmemory"] != "0" && policy != "noeviction" && policy != ""
}

// evicts returns the ErrUnfit for a policy that lets Redis evict messages.
func (d *shard) evicts(policy string) error {
	return fmt.Errorf("%w at %s: it may evict messages (maxmemory-policy %s); run CONFIG SET maxmemory-policy noeviction", ErrUnfit, d.place(), policy)
}
