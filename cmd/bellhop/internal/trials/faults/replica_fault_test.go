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

// replicaFaults are made to a master that has a replica, which takes its place.
var replicaFaults = []fault{
	{"master killed", onRedis, replace(killMaster), 500 * time.Millisecond, 4 * time.Second},
	{"failover", onRedis, replace(failOver), 100 * time.Millisecond, 2 * time.Second},
}

// beside are the faults that may be made to the crew of such a world, which
// reaches its Redis over no links.
var beside = []string{"kill -9", "SIGSTOP", "SIGTERM"}

// replicates is how many replicas a replicated world waits for.
const replicates = 1

// lags is what a replica may lack of what nobody waited for when it takes over.
const lags = 2 * time.Second

// downAfter is how long a master is silent until it is replaced: longer than a busy machine holds it up.
const downAfter = 2 * time.Second

// failedOver is how long a failover may be felt when the former master is a replica.
const failedOver = 12 * time.Second

// A watched is a master and its replica, whichever is which at present, and the
// sentinels that watch them.
type watched struct {
	fsync     string
	servers   []*redisserver.Server
	sentinels []*redisserver.Server
}

// masterName is how the sentinels call the master.
const masterName = "main"

// startWatched starts the servers, and returns when the sentinels know all.
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

// agree waits until a sentinel knows the others and the replica. An election
// that none of them won is soon held again.
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

// config is how the master is used.
func (d *watched) config() notify.Config {
	var urls []string
	for _, sentinel := range d.sentinels {
		urls = append(urls, sentinel.URL())
	}
	return notify.Config{URL: strings.Join(urls, ","), Master: masterName, WaitReplicas: replicates}
}

// told returns the address of the master that a sentinel tells of.
func told(ctx context.Context, sentinel *redisserver.Server) (string, error) {
	client := ask(sentinel)
	defer client.Close()
	at, err := client.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil {
		return "", fmt.Errorf("ask a sentinel for the master: %w", err)
	}
	return strings.Join(at, ":"), nil
}

// master returns which of the servers is the master: all sentinels must say so.
func (d *watched) master(ctx context.Context) (int, error) {
	all := make(map[string]bool)
	for _, sentinel := range d.sentinels {
		at, err := told(ctx, sentinel)
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

// mend waits until the replica has the place of a former master, which is
// started again if it was killed, and until that is a replica with its link up.
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

// replace makes a fault of what has the replica take the place of the master.
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

// killMaster is kill -9 of the master.
func killMaster(_ context.Context, d *watched, former int) error {
	d.servers[former].Kill()
	return nil
}

// failOver has a sentinel replace the master, which lives on. It is asked again
// where it gave up.
func failOver(ctx context.Context, d *watched, former int) error {
	client := ask(d.sentinels[0])
	defer client.Close()
	var refused error
	if late := until("a sentinel replaces the master", func() bool {
		at, err := told(ctx, d.sentinels[0])
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
