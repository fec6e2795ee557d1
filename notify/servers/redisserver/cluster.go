package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/servers/child"
)

const slots = 16384

// A Cluster is a Redis Cluster of masters with one replica each.
type Cluster struct {
	Masters, Replicas []*Server
}

// StartCluster starts a Redis Cluster of masters with one replica each, and waits
// until all nodes know each other. timeout is the cluster-node-timeout; args are more
// arguments of each node. The errors are those of Start.
func StartCluster(ctx context.Context, dir string, masters int, timeout time.Duration, args ...string) (*Cluster, error) {
	c := &Cluster{}
	for i := range 2 * masters {
		node := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(node, 0o700); err != nil {
			c.Stop()
			return nil, fmt.Errorf("make the folder of a cluster's node: %w", err)
		}
		s, err := startNode(ctx, node, timeout, args)
		if err != nil {
			c.Stop()
			return nil, err
		}
		if i < masters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.join(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("join the nodes of a cluster: %w", err)
	}
	return c, nil
}

// startNode starts a node that knows no other yet.
func startNode(ctx context.Context, dir string, timeout time.Duration, args []string) (*Server, error) {
	bus, err := child.HoldPort()
	if err != nil {
		return nil, err
	}
	return Start(ctx, Options{Dir: dir, bus: bus, Args: append([]string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10),
	}, args...)})
}

// Grow adds a master without slots and without a replica, and waits until all nodes know each other. What it takes and the errors are those of StartCluster.
func (c *Cluster) Grow(ctx context.Context, dir string, timeout time.Duration, args ...string) (*Server, error) {
	s, err := startNode(ctx, dir, timeout, args)
	if err != nil {
		return nil, err
	}
	c.Masters = append(c.Masters, s)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.meet(ctx, s); err != nil {
		return nil, fmt.Errorf("join a node to a cluster: %w", err)
	}
	for _, s := range c.all() {
		if err := c.complete(ctx, s); err != nil {
			return nil, fmt.Errorf("join a node to a cluster: %w", err)
		}
	}
	return s, nil
}

// meet has a node know those that the first master knows.
func (c *Cluster) meet(ctx context.Context, s *Server) error {
	host, port, err := net.SplitHostPort(c.Masters[0].Addr())
	if err != nil {
		return err
	}
	return ask(ctx, s, func(node *redis.Client) error {
		return node.Do(ctx, "cluster", "meet", host, port, c.Masters[0].o.bus).Err()
	})
}

// Stop stops all nodes.
func (c *Cluster) Stop() {
	for _, s := range c.all() {
		s.Kill() // a stop would wait for the replicas, and there is nothing to keep
	}
}

// URL returns the addresses in the form of notify.Config.URL.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.all() {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

func (c *Cluster) all() []*Server { return append(append([]*Server(nil), c.Masters...), c.Replicas...) }

// join joins the nodes to one cluster. Each has an epoch of its own: of two masters with the same one, one takes a greater one when it
// hears of the other, and so a master that was replaced and comes back empty could take its slots again.
func (c *Cluster) join(ctx context.Context) error {
	for i, s := range c.all() {
		err := ask(ctx, s, func(node *redis.Client) error {
			if err := node.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
				return err
			}
			if i < len(c.Masters) {
				from, to := i*slots/len(c.Masters), (i+1)*slots/len(c.Masters)-1
				return node.ClusterAddSlotsRange(ctx, from, to).Err()
			}
			return nil
		})
		if err == nil {
			err = c.meet(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	for i, s := range c.Replicas {
		if err := c.replicate(ctx, s, c.Masters[i]); err != nil {
			return err
		}
	}
	for _, s := range c.all() {
		if err := c.complete(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// replicate makes a node the replica of another, as soon as it knows that one.
func (c *Cluster) replicate(ctx context.Context, s, master *Server) error {
	var id string
	if err := ask(ctx, master, func(node *redis.Client) (err error) {
		id, err = node.ClusterMyID(ctx).Result()
		return err
	}); err != nil {
		return err
	}
	return s.Await(ctx, startTimeout, func(ctx context.Context) error {
		return ask(ctx, s, func(node *redis.Client) error { return node.ClusterReplicate(ctx, id).Err() })
	})
}

// complete waits until a node knows all slots and replicas, and a replica is connected.
func (c *Cluster) complete(ctx context.Context, s *Server) error {
	return s.Await(ctx, startTimeout, func(ctx context.Context) error {
		return ask(ctx, s, func(node *redis.Client) error {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			known, err := node.ClusterShards(ctx).Result()
			if err != nil {
				return err
			}
			copied, err := node.Info(ctx, "replication").Result()
			if err != nil {
				return err
			}
			nodes := 0
			for _, shard := range known {
				nodes += len(shard.Nodes)
			}
			if !strings.Contains(info, "cluster_state:ok") || nodes < len(c.all()) || strings.Contains(copied, "master_link_status:down") {
				return errors.New("it does not know all nodes")
			}
			return nil
		})
	})
}

// ask calls a function with a client of s.
func ask(ctx context.Context, s *Server, call func(*redis.Client) error) error {
	secure, err := s.o.TLS.config()
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true, TLSConfig: secure})
	defer client.Close()
	return call(client)
}
