package faults_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The Cluster of a sharded world, and its store.
const (
	pairs       = 3 // of a master and its replica
	shards      = 8
	nodeTimeout = 1500 * time.Millisecond
)

// answerTimeout is how long a node may take to answer the harness where it may be stopped.
const answerTimeout = 500 * time.Millisecond

// The topics of a round are in most of the shards.
func TestTopicsAreSpread(t *testing.T) {
	db, err := notify.Open(notify.Config{Shards: shards})
	storetest.Must(t, err)
	t.Cleanup(func() { db.Close() })
	used := make(map[int][]string)
	for _, topic := range slices.Concat(handledTopics, claimedTopics, sharedTopics, broadcastTopics,
		[]string{webTopic, deliveredTopic, askedTopic, orderedTopic, slowTopic, onceTopic, keyedTopic, limitedTopic, packagedTopic}) {
		number := db.Of(topic).Number()
		used[number] = append(used[number], topic)
	}
	if len(used) < shards-2 {
		t.Errorf("the topics are in %d of %d shards: %v", len(used), shards, used)
	}
}

// A cluster is a Redis Cluster. The nodes of a pair, i and i+3, may have swapped roles.
type cluster struct{ nodes []*redisserver.Server }

// startCluster starts the nodes, with the user of the crew. They answer for their slots
// while another master is away.
func startCluster(ctx context.Context, dir, fsync string) (*cluster, error) {
	args := append([]string{"--appendonly", "yes", "--appendfsync", fsync, "--cluster-require-full-coverage", "no"}, userArguments(shards)...)
	c, err := redisserver.StartCluster(ctx, dir, pairs, nodeTimeout, args...)
	if err != nil {
		return nil, err
	}
	return &cluster{slices.Concat(c.Masters, c.Replicas)}, nil
}

// config returns the configuration for a user, empty for the one with all rights.
func (c *cluster) config(as string) notify.Config {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, "redis://"+as+n.Addr())
	}
	return notify.Config{URL: strings.Join(urls, ","), WaitReplicas: replicates, Shards: shards}
}

// on calls f with a client of a node that answers within a time.
func (c *cluster) on(n *redisserver.Server, within time.Duration, f func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1, DisableIdentity: true, ReadTimeout: within, DialTimeout: within})
	defer client.Close()
	return f(client)
}

// pair returns the indexes of the master and the replica of a pair. While both are the one or
// the other, or one does not answer, it fails.
func (c *cluster) pair(ctx context.Context, number int) (master, replica int, err error) {
	roles := make(map[string]int)
	for _, i := range []int{number, number + pairs} {
		if err := c.on(c.nodes[i], patience, func(node *redis.Client) error {
			info, err := node.Info(ctx, "replication").Result()
			_, behind, _ := strings.Cut(info, "role:")
			role, _, _ := strings.Cut(behind, "\r\n")
			roles[role] = i
			return err
		}); err != nil {
			return 0, 0, err
		}
	}
	master, isMaster := roles["master"]
	replica, isReplica := roles["slave"]
	if !isMaster || !isReplica {
		err = fmt.Errorf("pair %d has these roles: %v", number+1, roles)
	}
	return master, replica, err
}

// owner returns the address of the master of a slot, by the first node that answers.
func (c *cluster) owner(ctx context.Context, slot int) (addr string, err error) {
	for _, n := range c.nodes {
		if addr, err = c.ownerBy(ctx, n, slot); err == nil {
			return addr, nil
		}
	}
	return "", err
}

// ownerBy is owner by a node.
func (c *cluster) ownerBy(ctx context.Context, n *redisserver.Server, slot int) (addr string, err error) {
	err = c.on(n, answerTimeout, func(node *redis.Client) error {
		shards, err := node.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		for _, shard := range shards {
			holds := slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= int64(slot) && int64(slot) <= r.End })
			i := slices.IndexFunc(shard.Nodes, func(n redis.Node) bool { return n.Role == "master" && n.Health == "online" })
			if holds && i >= 0 {
				addr = net.JoinHostPort(shard.Nodes[i].IP, strconv.FormatInt(shard.Nodes[i].Port, 10))
				return nil
			}
		}
		return fmt.Errorf("slot %d has no master", slot)
	})
	return addr, err
}

// slotOf returns the slot of a shard.
func (c *cluster) slotOf(ctx context.Context, keys script.Keys) (slot int, err error) {
	for _, n := range c.nodes {
		if err = c.on(n, answerTimeout, func(node *redis.Client) error {
			found, err := node.ClusterKeySlot(ctx, keys.Base()).Result()
			slot = int(found)
			return err
		}); err == nil {
			return slot, nil
		}
	}
	return 0, err
}

// shardsOn returns the shards of which a node is the master, by their numbers.
func (c *cluster) shardsOn(ctx context.Context, node int, all []script.Keys) (some []int, err error) {
	for number, keys := range all {
		slot, err := c.slotOf(ctx, keys)
		if err != nil {
			return nil, err
		}
		master, err := c.owner(ctx, slot)
		if err != nil {
			return nil, err
		}
		if master == c.nodes[node].Addr() {
			some = append(some, number)
		}
	}
	return some, nil
}

// settle waits until each pair has a master and a replica of it, and all nodes know that.
func (c *cluster) settle(ctx context.Context) error {
	var last error
	if late := until("the cluster is settled", func() bool {
		for _, n := range c.nodes {
			if last = c.on(n, answerTimeout, func(node *redis.Client) error { return isSettled(ctx, node) }); last != nil {
				return false
			}
		}
		for number := range pairs {
			if _, _, last = c.pair(ctx, number); last != nil {
				return false
			}
		}
		return true
	}); late != nil {
		return fmt.Errorf("%w: %w", late, last)
	}
	return nil
}

// isSettled reports why a node does not serve, or lacks its master or its replica.
func isSettled(ctx context.Context, node *redis.Client) error {
	state, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	nodes, err := node.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	info, err := node.Info(ctx, "replication").Result()
	switch {
	case err != nil:
		return err
	case !strings.Contains(state, "cluster_state:ok") || strings.Contains(nodes, "fail"):
		return fmt.Errorf("a node does not see all others: %s", nodes)
	case !strings.Contains(info, "master_link_status:up") && !strings.Contains(info, "state=online"):
		return fmt.Errorf("a node has neither master nor replica: %s", info)
	}
	return nil
}

// examine returns an error if a node had a call for several slots, or one that goes to all
// nodes.
func (c *cluster) examine(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := c.on(n, patience, func(node *redis.Client) error {
			stats, err := node.InfoMap(ctx, "commandstats", "errorstats").Result()
			for _, what := range []string{"cmdstat_publish", "errorstat_CROSSSLOT"} {
				for _, section := range stats {
					if section[what] != "" && err == nil {
						err = fmt.Errorf("a node has %s: %s", what, section[what])
					}
				}
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// close ends the nodes.
func (c *cluster) close() {
	for _, n := range c.nodes {
		n.Kill()
	}
}

// hear subscribes to a channel of a shard at its master. close ends the subscription.
func (c *cluster) hear(ctx context.Context, keys script.Keys, channel string) (sub *redis.PubSub, end func(), err error) {
	slot, err := c.slotOf(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	master, err := c.owner(ctx, slot)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: master, MaxRetries: -1, DisableIdentity: true})
	sub = client.SSubscribe(ctx, channel)
	return sub, func() {
		sub.Close()
		client.Close()
	}, nil
}
