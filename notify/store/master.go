package store

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// node returns the client of the server that holds the shard. In a Cluster it
// is asked for itself: the client of the whole would repeat a call whose answer
// was lost, at the same node and then at others.
func (s *Store) node(ctx context.Context) (redis.UniversalClient, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.client, nil
	}
	node, err := cluster.MasterForKey(ctx, s.keys.Schedules())
	if err != nil {
		return nil, err
	}
	return node, nil
}

// onNode calls a function with the client of the server that holds the shard. In
// a Cluster it is called again, for about a second, where that is another server
// by now.
func onNode[T any](ctx context.Context, s *Store, call func(node redis.UniversalClient) (T, error)) (T, error) {
	once := func() (v T, err error) {
		node, err := s.node(ctx)
		if err != nil {
			return v, err
		}
		if v, err = call(node); err != nil {
			s.astray(ctx, node, err)
		}
		return v, err
	}
	if s.inCluster() {
		return retry(ctx, once)
	}
	return once()
}

// astray looks whether an error tells that a server is the master no more, or is
// gone. If so its connections are closed, those that listen among them, so that
// the master is looked for anew.
func (s *Store) astray(ctx context.Context, node redis.UniversalClient, err error) {
	_, moved := redis.IsMovedError(err)
	if moved || redis.IsReadOnlyError(err) {
		address := "" // of a server without a Cluster only a name may be known
		if one, ok := node.(*redis.Client); ok && s.inCluster() {
			address = one.Options().Addr
		}
		s.lines.leave(address)
	}
	var network net.Error
	if moved || errors.As(err, &network) || NotExecuted(err) {
		s.reload(ctx)
	}
}

// reload has the nodes of a Cluster asked anew which of them are masters.
func (s *Store) reload(ctx context.Context) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

func (s *Store) inCluster() bool {
	_, ok := s.client.(*redis.ClusterClient)
	return ok
}
