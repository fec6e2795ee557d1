package store_test

import (
	"testing"

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
		_, _, err := k.Shard.Register(t.Context(), "mourner", store.Registration{Pattern: "$dead.>", From: "now"})
		k.must(err)
		keys := k.Store.KeysOf(k.Topic)
		storetest.Publish(t, k.Store, all("bad", "x"), all("good", "y"))
		k.must(k.Store.Client().Set(t.Context(), keys.Log("bad"), "foreign", 0).Err())
		k.must(k.Store.Client().Eval(t.Context(), `
			local now = redis.call('TIME')
			local ms = now[1] * 1000 + math.floor(now[2] / 1000)
			return redis.call('ZADD', KEYS[1], 'XX', ms, 'bad:x', ms, 'good:y')`, []string{keys.Broadcasts()}).Err())
		k.Carry(false)
		k.Play("pass 2ms")
		k.Carry(false)
		for topic, want := range map[string]notify.Counts{"good": {Sent: 1}, "bad": {Dead: 1}, "$dead.bad": {Sent: 1}} {
			c, err := storetest.Count(k.Store, topic)
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
