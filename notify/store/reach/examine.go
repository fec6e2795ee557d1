package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// This file holds what the doctor reads beside the transitions. Each error is that
// of the connection.

// Prefix returns the prefix of all keys and channels.
func (s *Redis) Prefix() string { return s.prefix }

// InCluster reports whether the store is in a Redis Cluster.
func (s *Redis) InCluster() bool { return s.inCluster() }

// Founded reports whether Redis holds a store. It founds none.
func (s *Redis) Founded(ctx context.Context) (bool, error) {
	n, err := s.client.Exists(ctx, s.root.keys.Format()).Result()
	return n > 0, err
}

// A Site is where a shard is.
type Site struct {
	Tag    string // its hash tag
	Slot   int    // of the tag in a Cluster
	Server string // address of the server that holds it
}

// Site returns where a shard is. The error is that of the connection.
func (s Shard) Site(ctx context.Context) (Site, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return Site{}, err
	}
	return d.site(ctx)
}

func (d *shard) site(ctx context.Context) (Site, error) {
	site := Site{Tag: d.keys.Tag(), Slot: slotOf(d.keys.Tag()), Server: d.where}
	node, err := d.node(ctx)
	if err != nil {
		return site, d.explain(ctx, err)
	}
	if one, ok := node.(*redis.Client); ok && d.inCluster() {
		site.Server = one.Options().Addr
	}
	return site, nil
}

// A Root is the key that says which format and how many shards a store has.
type Root struct {
	Site
	Key    string
	Format string // FORMAT/SHARDS/EPOCH, or of one shard FORMAT; empty: there is no such key
}

// Root returns where the root is, and what it says. Errors: see [Redis.Learn].
func (s *Redis) Root(ctx context.Context) (Root, error) {
	site, err := s.root.site(ctx)
	if err != nil {
		return Root{Site: site}, err
	}
	text, err := s.root.formatText(ctx)
	if err != nil {
		return Root{Site: site}, err
	}
	format, _, _ := strings.Cut(text, " ")
	return Root{Site: site, Key: s.root.keys.Format(), Format: format}, nil
}

// CheckRoot returns an ErrUnfit if the root is lost: it is not there, and shards are.
func (s *Redis) CheckRoot(ctx context.Context) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	if founded, err := s.Founded(ctx); err != nil || founded {
		return err
	}
	if len(all) == 1 {
		return s.root.notOrphaned(ctx)
	}
	return s.each(ctx, func(d *shard) error {
		n, err := d.client.Exists(ctx, d.keys.Format()).Result()
		if err == nil && n > 0 {
			err = fmt.Errorf("%w at %s: the key %s is lost, which says that the store has %d shards", ErrUnfit, s.where, s.root.keys.Format(), len(all))
		}
		return err
	})
}

// A Server is a Redis server of the store.
type Server struct {
	Address   string
	IsReplica bool // of a Cluster

	node redis.UniversalClient
}

// Servers returns the masters, which may hold shards, and behind them the replicas of a
// Cluster, each by address. Outside of a Cluster there is one server.
func (s *Redis) Servers(ctx context.Context) (all []Server, err error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return []Server{{Address: s.where, node: s.client}}, nil
	}
	var one sync.Mutex
	add := func(isReplica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, node *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			all = append(all, Server{Address: node.Options().Addr, IsReplica: isReplica, node: node})
			return nil
		}
	}
	if err := errors.Join(cluster.ForEachMaster(ctx, add(false)), cluster.ForEachSlave(ctx, add(true))); err != nil {
		return nil, s.root.explain(ctx, err)
	}
	slices.SortFunc(all, func(a, b Server) int {
		if a.IsReplica != b.IsReplica {
			if b.IsReplica {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Address, b.Address)
	})
	return all, nil
}

// Info returns the fields of INFO: of the named sections, or of the default ones.
func (s Server) Info(ctx context.Context, sections ...string) (map[string]string, error) {
	return infoOf(ctx, s.node, sections...)
}

// BusInfo returns the fields of CLUSTER INFO, for a server of a Cluster. Not every user has
// the right to read it.
func (s Server) BusInfo(ctx context.Context) (map[string]string, error) {
	text, err := s.node.ClusterInfo(ctx).Result()
	return fieldsOf(text), err
}

// IsMoving reports whether the slot of the shard is being moved to another server of a
// Cluster, or to this one.
func (s Shard) IsMoving(ctx context.Context) (bool, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return false, err
	}
	nodes, err := onNode(ctx, d, func(node redis.UniversalClient) (string, error) { return node.ClusterNodes(ctx).Result() })
	if err != nil {
		return false, d.explain(ctx, err)
	}
	for line := range strings.Lines(nodes) {
		if strings.Contains(line, "myself") && strings.Contains(line, "["+strconv.Itoa(slotOf(d.keys.Tag()))+"-") {
			return true, nil
		}
	}
	return false, nil
}

// PublicChannels returns the channels that tell of a topic, by their names in Redis.
func (s *Redis) PublicChannels(topic string) []script.PublicChannel {
	all := s.KeysOf(topic).PublicChannels(topic)
	for i := range all {
		all[i].Channel = s.Heard(all[i].Channel)
	}
	return all
}

// ServerConfig returns the configuration of the shard's server. Not every user has the
// right to read it.
func (s Shard) ServerConfig(ctx context.Context) (map[string]string, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return onNode(ctx, d, func(node redis.UniversalClient) (map[string]string, error) { return node.ConfigGet(ctx, "*").Result() })
}

// CheckPatterns subscribes for a moment to the patterns that the bridge to NATS
// uses, since Redis grants the right to each pattern by itself. It waits no longer
// than wait. A store of several shards uses none.
func (s *Redis) CheckPatterns(ctx context.Context, wait time.Duration) error {
	if err := s.Learn(ctx); err != nil || len(s.known()) > 1 {
		return err
	}
	sub := s.client.PSubscribe(ctx, s.Heard(s.root.keys.Wake("*")), s.Heard(s.root.keys.Death("*")))
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, wait)
	return err
}

// Clear removes all keys of a store that was used for one topic, one named listener
// and no settle token. It names each key, since not every user may SCAN.
func (s *Redis) Clear(ctx context.Context, topic, listener string) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	of := map[string]string{"topic": topic, "listener": listener, "share": strconv.Itoa(s.share)}
	for _, d := range all {
		keys := append(d.keys.OfOne(of), d.keys.Room(enough))
		if err := s.client.Del(ctx, keys...).Err(); err != nil {
			return err
		}
	}
	return s.client.Del(ctx, s.root.keys.Format()).Err()
}

// DeathsSince returns how many dead letters of a topic died at or after a time.
func (s Shard) DeathsSince(ctx context.Context, topic string, since time.Time) (int64, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return 0, err
	}
	died, err := d.client.ZCount(ctx, d.keys.Dead(topic), strconv.FormatInt(since.UnixMilli(), 10), "+inf").Result()
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	return died, nil
}

// Ring rings one subscriber for a topic.
func (s Shard) Ring(ctx context.Context, inbox Inbox, topic string) error {
	d, err := s.resolve(ctx)
	if err != nil {
		return err
	}
	_, err = d.publish(ctx, d.inbox(inbox), topic)
	return err
}

// Time returns the time by the clock of the shard's server.
func (s Shard) Time(ctx context.Context) (time.Time, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now, err := onNode(ctx, d, func(node redis.UniversalClient) (time.Time, error) { return node.Time(ctx).Result() })
	if err != nil {
		return time.Time{}, d.explain(ctx, err)
	}
	return now, nil
}

// ClockOffset returns by how much the clock of the shard's server is ahead of this host's:
// of up to 20 answers the one that came fastest, less half of the time that it took. One that is wrong by no more than enough is the last.
func (s Shard) ClockOffset(ctx context.Context, enough time.Duration) (time.Duration, error) {
	best, offset := time.Hour, time.Duration(0)
	for i := 0; i < 20 && best/2 > enough; i++ {
		sent := time.Now()
		there, err := s.Time(ctx)
		if err != nil {
			return 0, fmt.Errorf("ask for the time: %w", err)
		}
		if took := time.Since(sent); took < best {
			best, offset = took, there.Sub(sent.Add(took/2))
		}
	}
	return offset, nil
}

// wipePage is how many keys Redis looks at in one call of Wipe; most may belong to
// other programs.
const wipePage = 1000

// Wipe removes all keys of a store.
func (s *Redis) Wipe(ctx context.Context) error {
	if err := s.each(ctx, func(d *shard) error { return d.wipe(ctx) }); err != nil {
		return err
	}
	return s.root.wipe(ctx)
}

func (d *shard) wipe(ctx context.Context) error {
	node, err := d.node(ctx)
	if err != nil {
		return err
	}
	scan := node.Scan(ctx, 0, d.keys.Base()+"*", wipePage).Iterator()
	for scan.Next(ctx) {
		if err := node.Unlink(ctx, scan.Val()).Err(); err != nil {
			return err
		}
	}
	return scan.Err()
}

// RepairRoot writes the root of a store of several shards again, if that is lost. Errors: an
// ErrUnfit, or that of the connection.
func (s *Redis) RepairRoot(ctx context.Context) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	if err := all[0].foundRoot(ctx); err != nil {
		return s.root.explain(ctx, err)
	}
	return nil
}
