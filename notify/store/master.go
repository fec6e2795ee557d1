package store

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// node returns a client of the server that holds the shard. In a Cluster that is
// not d.client, which would repeat a call whose answer was lost: at the same node
// and then at others.
func (d *shard) node(ctx context.Context) (redis.UniversalClient, error) {
	cluster, ok := d.client.(*redis.ClusterClient)
	if !ok {
		return d.client, nil
	}
	node, err := cluster.MasterForKey(ctx, d.keys.Schedules())
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
		if v, err = call(node); err != nil {
			d.followMaster(ctx, node, err)
		}
		return v, err
	}
	if d.inCluster() {
		return retry(ctx, once)
	}
	return once()
}

// followMaster checks whether err says that a server is no longer the master, or is
// gone. If so it closes the connections to it, subscriptions included, and has the
// master looked up again. Where a Cluster holds several shards it closes none: the server
// may still have others, and ends the subscriptions to what it gave away.
func (s *Store) followMaster(ctx context.Context, node redis.UniversalClient, err error) {
	_, moved := redis.IsMovedError(err)
	if (moved || redis.IsReadOnlyError(err)) && !(s.inCluster() && s.known()[0].isSharded()) {
		address := "" // without a Cluster only the name of a server may be known
		if one, ok := node.(*redis.Client); ok && s.inCluster() {
			address = one.Options().Addr
		}
		s.connections.abandon(address)
	}
	var network net.Error
	if moved || errors.As(err, &network) || NotExecuted(err) {
		s.reload(ctx)
	}
}

// reload makes the client of a Cluster ask again which nodes are masters.
func (s *Store) reload(ctx context.Context) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

func (s *Store) inCluster() bool {
	_, ok := s.client.(*redis.ClusterClient)
	return ok
}
