package store_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A broadcast that dies while a listener is told of deaths takes nothing with it that is due in the same moment: the others are sent, and
// its death is told.
func TestDeathBesideBroadcasts(t *testing.T) {
	storetest.OneShard(t, "both are carried by one call")
	t.Parallel()
	for range 20 { // most of them carry in the ms in which the broadcasts are due
		k := openKeyed(t, storetest.Open(t), "good", 0)
		_, _, err := k.shard.Register(t.Context(), "mourner", store.Registration{Pattern: "$dead.>", From: "now"})
		k.must(err)
		keys := k.db.KeysOf(k.topic)
		storetest.Publish(t, k.db, all("bad", "x"), all("good", "y"))
		k.must(k.db.Client().Set(t.Context(), keys.Log("bad"), "foreign", 0).Err())
		k.must(k.db.Client().Eval(t.Context(), `
			local now = redis.call('TIME')
			local ms = now[1] * 1000 + math.floor(now[2] / 1000)
			return redis.call('ZADD', KEYS[1], 'XX', ms, 'bad:x', ms, 'good:y')`, []string{keys.Broadcasts()}).Err())
		_, err = k.shard.Carry(t.Context(), store.Carry{Token: k.token, Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0"})
		k.must(err)
		k.carries()
		for topic, want := range map[string]notify.Counts{"good": {Sent: 1}, "bad": {Dead: 1}, "$dead.bad": {Sent: 1}} {
			c, err := storetest.Count(k.db, topic)
			k.must(err)
			if c.Sent != want.Sent || c.Dead != want.Dead || c.Broadcasts != 0 {
				t.Fatalf("%s: got %+v", topic, c)
			}
		}
	}
}

// all is a broadcast.
func all(topic, id string) notify.Message {
	return notify.Message{Topic: topic, ID: id, Broadcast: true}
}
