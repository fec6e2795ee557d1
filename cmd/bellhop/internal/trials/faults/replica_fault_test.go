package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

// replicaFaults replace a master by its replica.
var replicaFaults = []fault{
	{"master killed", onRedis, replace(killMaster), 500 * time.Millisecond, 4 * time.Second},
	{"failover", onRedis, replace(failOver), 100 * time.Millisecond, 2 * time.Second},
}

// beside are the faults that may hit the crew of such a world, which has no links to Redis.
var beside = []string{"kill -9", "SIGSTOP", "SIGTERM"}

// replicates is how many replicas a replicated world waits for.
const replicates = 1

// lags is how much a replica may lack, of what no call waited for, when it takes over.
const lags = 2 * time.Second

// downAfter is how long a master is silent before it is replaced: longer than a busy machine delays it.
const downAfter = 2 * time.Second

// failedOver is how long a failover may have effects after the former master is a replica.
const failedOver = 12 * time.Second

// A watched is a master and its replica, which may have swapped roles, and their sentinels.
type watched struct {
	fsync     string
	servers   []*redisserver.Server
	sentinels []*redisserver.Server
}

// masterName is the sentinels' name of the master.
const masterName = "main"

// startWatched starts the servers, and returns when the sentinels know all of them.
func startWatched(ctx context.Context, dir, fsync string) (*watched, error) {
	d := &watched{fsync: fsync}
	for _, name := range []string{"redis-1", "redis-2", "sentinel-1", "sentinel-2", "sentinel-3"} {
		if err := d.start(ctx, filepath.Join(dir, name)); err != nil {
			return d, err
		}
	}
	for _, sentinel := range d.sentinels {
		if err := agree(ctx, sentinel); err != nil {
			return d, err
		}
	}
	return d, nil
}

// start starts the next server: the master, its replica, or a sentinel.
func (d *watched) start(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	o := redisserver.Options{Dir: dir}
	if len(d.servers) == 2 {
		sentinel, err := redisserver.Sentinel(ctx, o, redisserver.Watch{Name: masterName, Master: d.servers[0], Quorum: 2, DownAfter: downAfter})
		if err == nil {
			d.sentinels = append(d.sentinels, sentinel)
		}
		return err
	}
	start := redisserver.Start
	if len(d.servers) == 1 {
		start = d.servers[0].Replica
	}
	o.Args = []string{"--appendonly", "yes", "--appendfsync", d.fsync}
	server, err := start(ctx, o)
	if err == nil {
		d.servers = append(d.servers, server)
	}
	return err
}

// agree waits until a sentinel knows the others and the replica. It shortens the time until a
// failed election of sentinels is repeated.
func agree(ctx context.Context, sentinel *redisserver.Server) error {
	client := ask(sentinel)
	defer client.Close()
	if err := until("a sentinel knows all", func() bool {
		others, err := client.Sentinels(ctx, masterName).Result()
		replicas, missing := client.Replicas(ctx, masterName).Result()
		return errors.Join(err, missing) == nil && len(others) == 2 && len(replicas) == 1
	}); err != nil {
		return err
	}
	return client.Set(ctx, masterName, "failover-timeout", "5000").Err()
}

// ask returns a client of a sentinel.
func ask(sentinel *redisserver.Server) *redis.SentinelClient {
	return redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr(), MaxRetries: -1, DisableIdentity: true})
}

// config returns the configuration for the master.
func (d *watched) config() notify.Config {
	var urls []string
	for _, sentinel := range d.sentinels {
		urls = append(urls, sentinel.URL())
	}
	return notify.Config{URL: strings.Join(urls, ","), Master: masterName, WaitReplicas: replicates}
}

// masterBy returns the address of the master by a sentinel.
func masterBy(ctx context.Context, sentinel *redisserver.Server) (string, error) {
	client := ask(sentinel)
	defer client.Close()
	at, err := client.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil {
		return "", fmt.Errorf("ask a sentinel for the master: %w", err)
	}
	return strings.Join(at, ":"), nil
}

// master returns the index of the server that is the master by all sentinels.
func (d *watched) master(ctx context.Context) (int, error) {
	all := make(map[string]bool)
	for _, sentinel := range d.sentinels {
		at, err := masterBy(ctx, sentinel)
		if err != nil {
			return 0, err
		}
		all[at] = true
	}
	i := slices.IndexFunc(d.servers, func(s *redisserver.Server) bool { return all[s.Addr()] })
	if i < 0 || len(all) > 1 {
		return 0, fmt.Errorf("the sentinels do not agree on the master: %v", all)
	}
	return i, nil
}

// mend waits until the replica is the master, restarts the former master if it was killed,
// and waits until that is a replica with its link up.
func (d *watched) mend(former int) healing {
	return func(ctx context.Context) (err error) {
		if err := until("the replica is the master", func() bool {
			i, err := d.master(ctx)
			return err == nil && i != former
		}); err != nil {
			return err
		}
		select {
		case <-d.servers[former].Done():
			if d.servers[former], err = d.servers[former].Restart(ctx); err != nil {
				return err
			}
		default:
		}
		client := redis.NewClient(&redis.Options{Addr: d.servers[former].Addr(), MaxRetries: -1, DisableIdentity: true})
		defer client.Close()
		return until("the former master is a replica", func() bool {
			info, err := client.Info(ctx, "replication").Result()
			return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
		})
	}
}

// close ends the servers.
func (d *watched) close() {
	for _, s := range slices.Concat(d.sentinels, d.servers) {
		s.Kill()
	}
}

// replace returns a fault from a function that makes the replica replace the master.
func replace(how func(ctx context.Context, d *watched, former int) error) beginning {
	return func(ctx context.Context, w *world, v *victim, _ time.Duration) (healing, error) {
		former, err := w.watched.master(ctx)
		if err != nil {
			return nil, err
		}
		v.begun.Loss, v.begun.Waited = lags.Milliseconds(), true
		return w.watched.mend(former), how(ctx, w.watched, former)
	}
}

// killMaster kills the master by kill -9.
func killMaster(_ context.Context, d *watched, former int) error {
	d.servers[former].Kill()
	return nil
}

// failOver makes a sentinel replace the running master, and asks again if it gave up.
func failOver(ctx context.Context, d *watched, former int) error {
	client := ask(d.sentinels[0])
	defer client.Close()
	var refused error
	if late := until("a sentinel replaces the master", func() bool {
		at, err := masterBy(ctx, d.sentinels[0])
		if err == nil && at == d.servers[former].Addr() {
			refused = client.Failover(ctx, masterName).Err()
			return false
		}
		return err == nil
	}); late != nil {
		return fmt.Errorf("%w: %w", late, refused)
	}
	return nil
}
