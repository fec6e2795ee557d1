package store

import (
	"context"
	"strconv"
	"time"
)

// This file holds what the doctor reads beside the transitions. Each error is that
// of the connection.

// Prefix returns the prefix of all keys and channels.
func (s *Store) Prefix() string { return s.keys.prefix }

// InCluster reports whether the store is in a Redis Cluster.
func (s *Store) InCluster() bool { return s.inCluster() }

// Founded reports whether Redis holds a store. It founds none.
func (s *Store) Founded(ctx context.Context) (bool, error) {
	n, err := s.client.Exists(ctx, s.keys.Format()).Result()
	return n > 0, err
}

// ServerConfig returns the configuration of the server. Not every user has the
// right to read it.
func (s *Store) ServerConfig(ctx context.Context) (map[string]string, error) {
	return s.client.ConfigGet(ctx, "*").Result()
}

// CheckPatterns subscribes for a moment to the patterns that the bridge to NATS
// uses, since Redis grants the right to each pattern by itself. It waits no longer
// than wait.
func (s *Store) CheckPatterns(ctx context.Context, wait time.Duration) error {
	sub := s.client.PSubscribe(ctx, s.keys.Wake("*"), s.keys.Death("*"))
	defer sub.Close()
	_, err := sub.ReceiveTimeout(ctx, wait)
	return err
}

// Clear removes all keys of a store that was used for one topic, one named listener
// and no settle token. It names each key, since not every user may SCAN.
func (s *Store) Clear(ctx context.Context, topic, listener string) error {
	of := map[string]string{"topic": topic, "listener": listener, "share": strconv.Itoa(s.share)}
	keys := []string{s.keys.Room(enough)}
	for _, r := range table {
		if one, many := of[r.of]; r.kind != kindChannel && (many || r.of == "") {
			keys = append(keys, s.keys.name(r, one))
		}
	}
	return s.client.Del(ctx, keys...).Err()
}

// DeathsSince returns how many dead letters of a topic died at or after a time.
func (s Shard) DeathsSince(ctx context.Context, topic string, since time.Time) (int64, error) {
	return s.store.client.ZCount(ctx, s.store.keys.Dead(topic), strconv.FormatInt(since.UnixMilli(), 10), "+inf").Result()
}

// WakeChannel returns the channel that wakes programs of any language for a topic.
// The payload is how many messages were made ready.
func (s Shard) WakeChannel(topic string) string { return s.store.keys.Wake(topic) }

// Ring rings one subscriber for a topic.
func (s Shard) Ring(ctx context.Context, id, topic string) error {
	return s.store.client.Publish(ctx, s.store.keys.Inbox(id), topic).Err()
}

// Time returns the time by Redis's clock.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() }

// wipePage is how many keys Redis looks at in one call of Wipe; most may belong to
// other programs.
const wipePage = 1000

// Wipe removes all keys of the shard.
func (s Shard) Wipe(ctx context.Context) error {
	node, err := s.store.node(ctx)
	if err != nil {
		return err
	}
	scan := node.Scan(ctx, 0, s.store.keys.base+"*", wipePage).Iterator()
	for scan.Next(ctx) {
		if err := node.Unlink(ctx, scan.Val()).Err(); err != nil {
			return err
		}
	}
	return scan.Err()
}
