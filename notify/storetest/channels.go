package storetest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

// Subscribe returns a subscription to channels of a shard, which has begun, and ends with the test.
func Subscribe(t testing.TB, db *notify.Store, channels ...string) *redis.PubSub {
	t.Helper()
	subscribe := db.Client().Subscribe
	if len(db.KeysOfAll()) > 1 {
		subscribe = db.Client().SSubscribe
	}
	sub := subscribe(t.Context(), channels...)
	t.Cleanup(func() { sub.Close() })
	for range channels {
		Must(t, ErrOf(sub.ReceiveTimeout(t.Context(), Deadline)))
	}
	return sub
}

// Tell publishes a payload on a channel of a shard, and returns how many received it.
func Tell(ctx context.Context, db *notify.Store, channel, payload string) (heard int64, err error) {
	if len(db.KeysOfAll()) > 1 {
		return db.Client().SPublish(ctx, channel, payload).Result()
	}
	return db.Client().Publish(ctx, channel, payload).Result()
}
