package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// call runs a transition once, if Redis is fit for it.
func (d *shard) call(ctx context.Context, t *script.Transition, keys []string, args []any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.ensureFit(ctx); err != nil && (!t.Looks || isAway(err)) {
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

// onMaster runs a transition on the server that holds the shard. It founds a store where there is none, and learns the format of one
// that was upgraded.
func (d *shard) onMaster(ctx context.Context, t *script.Transition, keys []string, args []any) (reply []any, err error) {
	reply, err = onNode(ctx, d, func(node redis.UniversalClient) (reply []any, err error) {
		for range 3 {
			args[len(args)-1] = d.head.Load().arg
			reply, err = d.once(ctx, node, t, keys, args)
			if t.Looks && redis.HasErrorPrefix(err, signNoStore) {
				return nil, d.checkFormat(ctx)
			}
			if again, fault := d.cure(ctx, node, err); !again {
				return reply, fault
			}
		}
		return nil, err
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
	if d.stirred != nil && t.Name != "carry" && !t.Looks {
		Signal(d.stirred)
	}
	return reply, nil
}

// once calls a transition once, and waits for replicas if its answer is promised. A call that a
// server without the library refused is made again once that is loaded: nothing of it was done.
func (d *shard) once(ctx context.Context, node redis.UniversalClient, t *script.Transition, keys []string, args []any) ([]any, error) {
	if d.fit.Load() != fitTrial {
		w := d.wayTo(node)
		for range 2 {
			looks, err := d.look(ctx, node, w)
			if err != nil {
				return nil, err
			}
			if w.refusal() != nil {
				break
			}
			reply, err := d.send(context.WithValue(ctx, asFunction{}, true), node, t, func(ctx context.Context, c redis.Cmdable) *redis.Cmd {
				return c.FCall(ctx, t.Function(), keys, args...)
			})
			switch {
			case refuses(err, "'fcall'"), isUnknown(err), isForeign(err):
				w.refuse(err)
			case refusal(err, []string{"Function not found"}):
				w.doubt(looks)
			default:
				return reply, err
			}
		}
	}
	return d.runScript(ctx, node, t, keys, args)
}

// runScript calls a transition as a script.
func (d *shard) runScript(ctx context.Context, node redis.UniversalClient, t *script.Transition, keys []string, args []any) ([]any, error) {
	one, name := t.Script(d.fit.Load() == fitTrial)
	args = append(slices.Clip(args), name)
	reply, err := d.send(ctx, node, t, func(ctx context.Context, c redis.Cmdable) *redis.Cmd { return one.EvalSha(ctx, c, keys, args...) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return d.send(ctx, node, t, func(ctx context.Context, c redis.Cmdable) *redis.Cmd { return one.Eval(ctx, c, keys, args...) })
	}
	return reply, err
}

// send sends a call, and waits for replicas if its answer is promised.
func (d *shard) send(ctx context.Context, node redis.UniversalClient, t *script.Transition, call sender) (reply []any, err error) {
	if t.Promised && d.replicas > 0 {
		reply, err = d.confirm(ctx, node, call)
	} else {
		reply, err = call(ctx, node).Slice()
	}
	return reply, script.Located(err)
}

// sender sends a call of a transition on a connection or a pipeline.
type sender func(context.Context, redis.Cmdable) *redis.Cmd

// wayTo returns how a server runs transitions.
func (d *shard) wayTo(node redis.UniversalClient) *way {
	if one, ok := node.(*redis.Client); ok && d.inCluster() {
		return d.ways.to(one.Options().Addr)
	}
	return d.ways.to("")
}

// ReplicaWait is how long replicas may take to confirm a call. Only a test binary changes it,
// before it uses a store: there a machine that stands still must not fail a call.
var ReplicaWait = time.Second

// SettleFor is how long calls that settle are tried when the grace of a stop is over. Only a test binary changes it, as ReplicaWait.
var SettleFor = 2 * time.Second

// ResignWait is how long a carrier that stops, or steps down for another one, tries to give up its lease. Only a test binary changes it, as
// ReplicaWait.
var ResignWait = time.Second

// writeMark is short enough to be sent each time.
const writeMark = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '')"

// confirm makes a call, and waits until the replicas have all that its answer
// rests on. The answer of a call that changes nothing, such as ErrExists, may
// rest on another connection's write, which the replicas may not have yet; but
// Redis 7.2 and newer wait only for writes of the same connection. So confirm writes
// a mark behind the call, even when Redis is out of memory.
func (d *shard) confirm(ctx context.Context, node redis.UniversalClient, call sender) ([]any, error) {
	reply, confirmed, err := d.callAndWait(ctx, node, call)
	if err != nil {
		return nil, err
	}
	if confirmed < d.replicas {
		return nil, fmt.Errorf("%w: %d of %d replicas confirmed it within %v, the outcome is unknown; make the call again",
			ErrUnreplicated, confirmed, d.replicas, ReplicaWait)
	}
	return reply, nil
}

// callAndWait sends a call, the mark and the wait on one connection. It returns the
// reply to the call, and how many replicas confirmed it.
func (d *shard) callAndWait(ctx context.Context, node redis.UniversalClient, call sender) (reply []any, confirmed int, err error) {
	pipe := node.Pipeline()
	called := call(ctx, pipe)
	pipe.Eval(ctx, writeMark, []string{d.keys.Mark()})
	wait := pipe.Do(ctx, "wait", d.replicas, ReplicaWait.Milliseconds())
	_, _ = pipe.Exec(ctx) // the error is that of one of the calls
	if reply, err = called.Slice(); err != nil {
		return nil, 0, err
	}
	confirmed, err = wait.Int()
	if redis.HasErrorPrefix(err, "UNBLOCKED") { // the server became a replica itself
		err = fmt.Errorf("%w: the wait for replicas ended (%w), the outcome is unknown; make the call again", ErrUnreplicated, err)
	}
	return reply, confirmed, err
}

// memoryError returns an ErrFull if Redis or a script answered that memory is full,
// an ErrUnfit if a script answered that Redis may evict messages, and any other
// error as it is.
func (d *shard) memoryError(err error) error {
	switch {
	case redis.HasErrorPrefix(err, "FULL"), redis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case redis.HasErrorPrefix(err, "EVICTS"):
		return d.evicts(strings.TrimPrefix(err.Error(), "EVICTS "))
	}
	return err
}

// Observe sets f, which is called after each run of a script with its name, the
// time it took with the way to Redis and back, and its error. Call Observe before
// the store is used. f runs in the goroutine of the caller, so it must not block,
// and must be safe for concurrent use. f is not called if ctx was already done or
// the check of Redis failed.
func (s *Redis) Observe(f func(script string, took time.Duration, err error)) { s.observe = f }
