package reach

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// node returns a client of the server that holds the shard. In a Cluster that is
// not d.client, which would repeat a call whose answer was lost: at the same node
// and then at others.
func (d *shard) node(ctx context.Context) (redis.UniversalClient, error) {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		return d.client, nil
	}
	node, err := cluster.MasterForKey(ctx, d.keys.ScheduledTopics())
	if err != nil {
		return nil, err
	}
	return node, nil
}

// onNode calls a function with the client of the server that holds the shard. In a
// Cluster, if another server holds it by now, onNode calls again for about a second.
func onNode[T any](ctx context.Context, d *shard, call func(node redis.UniversalClient) (T, error)) (T, error) {
	once := func() (v T, err error) {
		node, err := d.node(ctx)
		if err != nil {
			return v, err
		}
		began := time.Now()
		if v, err = call(node); err != nil {
			d.followMaster(ctx, node, began, err)
		}
		return v, err
	}
	if d.inCluster() {
		return retry(ctx, once)
	}
	return once()
}

// followMaster checks whether err, of a call that began at a time, says that a server is no
// longer the master, or is gone. If so it closes the connections to it from before that
// call, subscriptions included, and has the master looked up again. Where a Cluster holds several shards it closes none: the server
// may still have others, and ends the subscriptions to what it gave away.
func (s *Redis) followMaster(ctx context.Context, node redis.UniversalClient, began time.Time, err error) {
	_, moved := redis.IsMovedError(err)
	if (moved || redis.IsReadOnlyError(err)) && !(s.inCluster() && s.known()[0].isSharded()) {
		address := "" // without a Cluster only the name of a server may be known
		if one, ok := node.(*redis.Client); ok && s.inCluster() {
			address = one.Options().Addr
		}
		s.connections.abandon(address, began)
	}
	var network net.Error
	if moved || errors.As(err, &network) || NotExecuted(err) {
		s.reload(ctx)
	}
}

// reload makes the client of a Cluster ask again which nodes are masters.
func (s *Redis) reload(ctx context.Context) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// A renewal looks up the masters for subscriptions that lost theirs.
type renewal struct {
	mu   sync.Mutex
	last time.Time // guarded by mu
}

// renewalPatience is how long a look-up of the masters may hold up a subscription.
const renewalPatience = 100 * time.Millisecond

// reloadNow is reload, and waits a moment for the answer. go-redis reloads five times a
// second at most, and the node that it asks may not know yet what another has told.
func (s *Redis) reloadNow(ctx context.Context) {
	s.reload(ctx)
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return
	}
	s.renewal.mu.Lock()
	defer s.renewal.mu.Unlock()
	if time.Since(s.renewal.last) < backoff.Min/2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewalPatience)
	defer cancel()
	_ = cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }) // it loads the masters first
	s.renewal.last = time.Now()
}

func (s *Redis) inCluster() bool {
	_, ok := s.client.(*redis.ClusterClient)
	return ok
}
