package faults_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A fault is something that goes wrong.
type fault struct {
	name    string
	targets []string // what it may be made to

	begin beginning

	least, most time.Duration // how long it lasts
}

// A beginning makes a fault, which is planned to last for a while, and returns what heals it.
type beginning func(ctx context.Context, w *world, v victim, lasts time.Duration) (healing, error)

type healing func(context.Context) error

// A victim is what a fault is made to.
type victim struct {
	role   string  // carrier, worker-1, redis
	member *member // nil for Redis
	link   *link   // to Redis, or that of the bridge to NATS
	epoch  int64   // of the carrier
}

// id is how the history calls it.
func (v victim) id() string {
	if v.member == nil {
		return v.role
	}
	return v.member.id()
}

// Whom faults may hit. The bridge is the carrier's daemon with its way to NATS.
var (
	receivers = []string{"worker-1", "listener-1"}
	daemons   = []string{"carrier", "standby"}
	crew      = slices.Concat(daemons, receivers, []string{"publisher-1"})
	everybody = append([]string{"redis", "nats"}, crew...)
	linked    = append([]string{"bridge"}, crew...)
)

// faults are all that are made, in the order of the report.
var faults = slices.Concat(crewFaults, redisFaults)

// crewFaults are made to processes and links.
var crewFaults = []fault{
	{"kill -9", everybody, kill, 100 * time.Millisecond, 1500 * time.Millisecond},
	{"SIGSTOP", everybody, pause, 200 * time.Millisecond, 2500 * time.Millisecond},
	{"SIGTERM", crew, term, 100 * time.Millisecond, 1500 * time.Millisecond},
	{"cut", linked, cut, 200 * time.Millisecond, 4 * time.Second},
	{"requests cut", linked, cutRequests, 200 * time.Millisecond, 4 * time.Second},
	{"replies cut", linked, cutReplies, 200 * time.Millisecond, 4 * time.Second},
	{"200 ms each way", linked, slow, 500 * time.Millisecond, 2 * time.Second},
	{"reset in a reply", linked, breakReply, 50 * time.Millisecond, 500 * time.Millisecond},
}

// victim finds out who has a role at present.
func (w *world) victim(ctx context.Context, role string) (v victim, err error) {
	v.role = role
	switch role {
	case "redis":
	case "nats":
		v.member = w.nats
	case "carrier", "bridge":
		v.member, v.epoch, err = w.carrier(ctx)
	case "standby":
		carries, _, fault := w.carrier(ctx)
		v.member, err = w.crew[0], fault
		if v.member == carries {
			v.member = w.crew[1]
		}
	default:
		v.member = w.member(role)
	}
	switch {
	case err != nil, v.member == nil:
	case role == "bridge":
		v.link = v.member.nats
	default:
		v.link = v.member.redis
	}
	return v, err
}

// kill is kill -9, and a new start.
func kill(_ context.Context, w *world, v victim, _ time.Duration) (healing, error) {
	if v.member == nil {
		w.redis.Kill()
		return w.restartRedis, nil
	}
	v.member.kill(v.epoch)
	return v.member.again, nil
}

// restartRedis starts Redis again with its append-only file.
func (w *world) restartRedis(ctx context.Context) (err error) {
	w.redis, err = w.redis.Restart(ctx)
	return err
}

// term is SIGTERM, and a new start.
func term(_ context.Context, _ *world, v victim, _ time.Duration) (healing, error) {
	return v.member.again, v.member.term(v.epoch)
}

// pause stops a process, and lets it go on.
func pause(_ context.Context, w *world, v victim, _ time.Duration) (healing, error) {
	signal := w.redis.Signal
	if v.member != nil {
		signal = v.member.running().Signal
	}
	if err := signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop %s: %w", v.id(), err)
	}
	return func(context.Context) error { return signal(syscall.SIGCONT) }, nil
}

// whole makes a link whole again.
func (k *link) whole(context.Context) error {
	k.requests.open()
	k.replies.open()
	return nil
}

// cut cuts a link without a word. What was sent arrives when it is whole again.
func cut(_ context.Context, _ *world, v victim, _ time.Duration) (healing, error) {
	v.link.requests.hold()
	v.link.replies.hold()
	return v.link.whole, nil
}

func cutRequests(_ context.Context, _ *world, v victim, _ time.Duration) (healing, error) {
	v.link.requests.hold()
	return v.link.whole, nil
}

func cutReplies(_ context.Context, _ *world, v victim, _ time.Duration) (healing, error) {
	v.link.replies.hold()
	return v.link.whole, nil
}

func slow(_ context.Context, _ *world, v victim, _ time.Duration) (healing, error) {
	v.link.requests.slow(200 * time.Millisecond)
	v.link.replies.slow(200 * time.Millisecond)
	return v.link.whole, nil
}

// breakReply resets a connection in the middle of what the server sends.
func breakReply(_ context.Context, _ *world, v victim, lasts time.Duration) (healing, error) {
	v.link.replies.breakAfter(1 + int(lasts/time.Millisecond))
	return v.link.whole, nil
}
