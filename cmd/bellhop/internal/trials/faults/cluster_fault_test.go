package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

// clustered is the role of the masters of a Cluster: one target for each pair.
const clustered = "cluster"

var onCluster = []string{"cluster-1", "cluster-2", "cluster-3"}

// clusterFaults hit a master of a Cluster, and with it some of the shards. Those that last
// longer than the timeout of nodes have its replica replace it.
var clusterFaults = []fault{
	{"kill -9", onCluster, onMaster(killNode), 200 * time.Millisecond, 5 * time.Second},
	{"SIGSTOP", onCluster, onMaster(stopNode), 200 * time.Millisecond, 4 * time.Second},
	{"failover", onCluster, onMaster(failOverNode), 100 * time.Millisecond, time.Second},
	{"CLIENT KILL pubsub", onCluster, onMaster(cutSubscribers), 50 * time.Millisecond, 500 * time.Millisecond},
	{"slot moved", onCluster, onMaster(moveSlot), 200 * time.Millisecond, 2 * time.Second},
}

// sharded reports whether a fault needs a Cluster.
func (s step) sharded() bool { return roleOf(s.Target) == clustered }

// besidesCluster reports whether a fault can hit the crew of a sharded world, which has no
// links to Redis.
func (s step) besidesCluster() bool {
	return s.besides() || s.Target == "nats" || s.sharded() || s.Target == "bridge" || s.Target == "courier-1" || s.Target == "web-1" || s.Target == hook || slices.Contains(packaged, s.Target)
}

// onMaster returns a fault of the master of a pair. When it is healed, the Cluster is settled.
func onMaster(begin func(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error)) beginning {
	return func(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
		if err := w.strike(ctx, v); err != nil {
			return nil, err
		}
		heal, err := begin(ctx, w, v, lasts)
		return func(ctx context.Context) error { return errors.Join(heal(ctx), w.cluster.settle(ctx)) }, err
	}
}

// strike finds the master of a pair and the shards that a fault of it concerns.
func (w *world) strike(ctx context.Context, v *victim) (err error) {
	number, err := strconv.Atoi(strings.TrimPrefix(v.role, clustered+"-"))
	if err != nil {
		return err
	}
	if v.node, v.replica, err = w.cluster.pair(ctx, number-1); err != nil {
		return err
	}
	if v.shards, err = w.cluster.shardsOn(ctx, v.node, w.store.KeysOfAll()); err != nil {
		return err
	}
	v.begun.Shards = list(v.shards)
	return nil
}

// list returns numbers with commas between.
func list(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// killNode is kill -9, healed by a restart.
func killNode(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	v.begun.Loss, v.begun.Waited = lags.Milliseconds(), true
	w.cluster.nodes[v.node].Kill()
	return func(ctx context.Context) (err error) {
		w.cluster.nodes[v.node], err = w.cluster.nodes[v.node].Restart(ctx)
		return err
	}, nil
}

// stopNode is SIGSTOP, healed by SIGCONT.
func stopNode(_ context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	v.begun.Loss, v.begun.Waited = lags.Milliseconds(), true
	node := w.cluster.nodes[v.node]
	return func(context.Context) error { return node.Signal(syscall.SIGCONT) }, node.Signal(syscall.SIGSTOP)
}

// failOverNode has the replica replace its master, and asks again if the replica gave up.
// Nothing is lost.
func failOverNode(ctx context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	replica := w.cluster.nodes[v.replica]
	err := until("the replica is the master", func() bool {
		var info string
		_ = w.cluster.on(replica, answerTimeout, func(node *redis.Client) (err error) {
			_ = node.ClusterFailover(ctx).Err() // an error if it is the master
			info, err = node.Info(ctx, "replication").Result()
			return err
		})
		return strings.Contains(info, "role:master")
	})
	return nothing, err
}

// nothing heals what heals by itself.
func nothing(context.Context) error { return nil }

// cutSubscribers breaks the connections of subscribers.
func cutSubscribers(ctx context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
	return nothing, w.cluster.on(w.cluster.nodes[v.node], patience, func(node *redis.Client) error {
		return node.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Err()
	})
}

// moveSlot moves the slot of a shard to the next master, key by key, as operators of Redis 7
// do. Meanwhile the shard refuses calls.
func moveSlot(ctx context.Context, w *world, v *victim, lasts time.Duration) (healing, error) {
	if len(v.shards) < 2 {
		return nothing, nil // a master without slots would become a replica
	}
	shard := v.shards[rand.New(rand.NewPCG(w.seed, uint64(lasts))).IntN(len(v.shards))]
	v.begun.Shards = strconv.Itoa(shard)
	slot, err := w.cluster.slotOf(ctx, w.store.KeysOfAll()[shard])
	if err != nil {
		return nil, err
	}
	to, _, err := w.cluster.pair(ctx, (v.node+1)%pairs)
	if err != nil {
		return nil, err
	}
	m := &move{cluster: w.cluster, slot: slot, from: v.node, to: to}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	return m.finish, nil
}

// A move is the way of a slot from one master to another.
type move struct {
	*cluster
	slot, from, to int
}

// set is CLUSTER SETSLOT on a node.
func (m *move) set(ctx context.Context, node int, what string, other int) error {
	var id string
	if err := m.on(m.nodes[other], patience, func(node *redis.Client) (err error) {
		id, err = node.ClusterMyID(ctx).Result()
		return err
	}); err != nil {
		return err
	}
	return m.on(m.nodes[node], patience, func(node *redis.Client) error {
		return node.Do(ctx, "CLUSTER", "SETSLOT", m.slot, what, id).Err()
	})
}

// begin announces the move, and moves the first keys.
func (m *move) begin(ctx context.Context) error {
	if err := m.set(ctx, m.to, "IMPORTING", m.from); err != nil {
		return err
	}
	if err := m.set(ctx, m.from, "MIGRATING", m.to); err != nil {
		return err
	}
	_, err := m.some(ctx, 5)
	return err
}

// some moves a number of keys, and reports whether there were any.
func (m *move) some(ctx context.Context, number int) (were bool, err error) {
	host, port, err := net.SplitHostPort(m.nodes[m.to].Addr())
	if err != nil {
		return false, err
	}
	err = m.on(m.nodes[m.from], patience, func(node *redis.Client) error {
		keys, err := node.ClusterGetKeysInSlot(ctx, m.slot, number).Result()
		if were = len(keys) > 0; err != nil || !were {
			return err
		}
		args := []any{"MIGRATE", host, port, "", 0, patience.Milliseconds(), "REPLACE", "KEYS"} // what the target has is a copy that was not confirmed
		for _, key := range keys {
			args = append(args, key)
		}
		return node.Do(ctx, args...).Err()
	})
	return were, err
}

// finish moves all other keys, and gives the slot to its new master, who must know first.
func (m *move) finish(ctx context.Context) error {
	var last error
	if late := until("all keys of the slot are moved", func() bool {
		were, err := m.some(ctx, 100)
		last = err
		return err == nil && !were
	}); late != nil {
		return fmt.Errorf("%w: %w", late, last)
	}
	return errors.Join(m.set(ctx, m.to, "NODE", m.to), m.set(ctx, m.from, "NODE", m.to), m.known(ctx))
}

// known waits until all nodes know the new master of the slot.
func (m *move) known(ctx context.Context) error {
	return until("all nodes know where the slot is", func() bool {
		return !slices.ContainsFunc(m.nodes, func(n *redisserver.Server) bool {
			at, err := m.ownerBy(ctx, n, m.slot)
			return err != nil || at != m.nodes[m.to].Addr()
		})
	})
}
