package storetest

import (
	"context"
	"net/url"
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// Sharded is Open for a store of so many shards, whatever the others have.
func Sharded(t testing.TB, shards int) *notify.Store {
	t.Helper()
	store := With(t, notify.Config{URL: server.URL(), Prefix: "test-" + notify.NewID(), Shards: shards})
	Found(t, store)
	return store
}

// ShardAway returns a store of so many shards of which one cannot be
// used: Redis refuses the user of the store all of its keys. It
// grants one of the first shard's, for which each new connection of the store asks its rights.
func ShardAway(t testing.TB, shards, away int) *notify.Store {
	t.Helper()
	all, name := Sharded(t, shards), "apart-"+notify.NewID()
	prefix := all.Keys().Prefix()
	rule := []any{"ACL", "SETUSER", name, "on", ">x", "+@all", "allchannels", "~" + prefix + ":{0}:*", "~" + all.KeysOfAll()[0].Mark()}
	for i, keys := range all.KeysOfAll() {
		if i != away {
			rule = append(rule, "~"+keys.Base()+"*")
		}
	}
	if err := all.Client().Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Client().Do(context.Background(), "ACL", "DELUSER", name).Err() })
	u, err := url.Parse(URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "x")
	store := With(t, notify.Config{URL: u.String(), Prefix: prefix, Shards: shards})
	awaitCalls(store)
	return store
}
