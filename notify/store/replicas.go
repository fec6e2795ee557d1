package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxWaitReplicas is the largest Config.WaitReplicas.
const MaxWaitReplicas = 16

// replicaWait is how long replicas may take to confirm a call.
const replicaWait = time.Second

// writeMark is short enough to be sent each time.
const writeMark = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '')"

// ErrUnreplicated is the error of a call that Redis carried out, but fewer replicas
// than Config.WaitReplicas confirmed in time. The outcome is unknown: the call
// holds if the master survives, and may be lost if a replica takes its place.
// Repeating the call is safe: a publish with the same id returns ErrExists if the
// first one holds, and that answer is confirmed, too.
var ErrUnreplicated = errors.New("not replicated")

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
			ErrUnreplicated, confirmed, d.replicas, replicaWait)
	}
	return reply, nil
}

// callAndWait sends a call, the mark and the wait on one connection. It returns the
// reply to the call, and how many replicas confirmed it.
func (d *shard) callAndWait(ctx context.Context, node redis.UniversalClient, call sender) (reply []any, confirmed int, err error) {
	pipe := node.Pipeline()
	called := call(ctx, pipe)
	pipe.Eval(ctx, writeMark, []string{d.keys.Mark()})
	wait := pipe.Do(ctx, "wait", d.replicas, replicaWait.Milliseconds())
	_, _ = pipe.Exec(ctx) // the error is that of one of the calls
	if reply, err = called.Slice(); err != nil {
		return nil, 0, err
	}
	confirmed, err = wait.Int()
	return reply, confirmed, err
}
