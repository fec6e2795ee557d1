package snapshots

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

const serversEvery = 10 * time.Second

// A Server is a Redis server of the store.
type Server struct {
	Name    string // its address
	Replica bool   // of a Cluster
	Shards  []int  // that it holds, where there are several
	Trial   bool   // the Redis in memory of bellhop dev
	Version string
	Uptime  time.Duration
	reach.Memory
	Policy   string
	Clients  int64
	Replicas int64
	Appends  bool  // it keeps an append-only file
	Away     error // why nothing is known of it
}

// A serversKept is the servers of a store.
type serversKept struct {
	store   *notify.Store
	servers cache.Value[[]Server]
}

// Servers returns those of the store: masters first.
func (k *serversKept) Servers(ctx context.Context) ([]Server, error) {
	return k.servers.Get(ctx, cache.Keep{Age: serversEvery}, func(ctx context.Context) ([]Server, error) {
		found, err := k.store.Servers(ctx)
		if err != nil {
			return nil, err
		}
		all := make([]Server, len(found))
		var each sync.WaitGroup
		for i, one := range found {
			each.Go(func() {
				info, err := one.Info(ctx)
				all[i] = serverOf(one, info, k.store.MemoryOf(info), err)
			})
		}
		each.Wait()
		return all, k.place(ctx, all)
	})
}

// place notes which shards each server holds. Those of a shard that is away are unknown.
func (k *serversKept) place(ctx context.Context, all []Server) error {
	shards, err := k.store.Shards(ctx)
	if err != nil || len(shards) == 1 {
		return err
	}
	for _, shard := range shards {
		site, err := shard.Site(ctx)
		if i := slices.IndexFunc(all, func(one Server) bool { return one.Name == site.Server }); err == nil && i >= 0 {
			all[i].Shards = append(all[i].Shards, shard.Number())
		}
	}
	return nil
}

// serverOf reads the fields of INFO.
func serverOf(one reach.Server, info map[string]string, memory reach.Memory, err error) Server {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // zero if Redis does not report it
		return n
	}
	s := Server{
		Name: one.Address, Replica: one.IsReplica, Away: err, Trial: err == nil && info["redis_version"] == "",
		Version:  strings.TrimSpace(cmp.Or(info["server_name"], "Redis") + " " + cmp.Or(info["valkey_version"], info["redis_version"])),
		Uptime:   time.Duration(number("uptime_in_seconds")) * time.Second,
		Memory:   memory,
		Policy:   info["maxmemory_policy"],
		Clients:  number("connected_clients"),
		Replicas: number("connected_slaves"),
		Appends:  info["aof_enabled"] == "1",
	}
	return s
}

// ShardsText names the shards of a server.
func (s Server) ShardsText() string {
	texts := make([]string, len(s.Shards))
	for i, n := range s.Shards {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}
