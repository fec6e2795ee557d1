package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// publishTo publishes a message to each topic t0, t1 and so on of a store, but to those of a
// shard, and returns how many.
func publishTo(t testing.TB, db *notify.Store, topics, but int) (n int) {
	t.Helper()
	for i := range topics {
		topic := fmt.Sprintf("t%d", i)
		if shard, err := db.ShardOf(t.Context(), topic); err != nil || shard.Number() == but {
			continue
		}
		publish(t, db, topic, 1, 0)
		n++
	}
	return n
}

// Each of eight shards has series of its own, and their server has one.
func TestEightShards(t *testing.T) {
	db := storetest.Sharded(t, 8)
	m := newMetrics(t, db, metrics.Options{Topics: []string{"t5"}})
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MaxLease}) // it is elected once
	storetest.Must(t, err)
	m.ShowCarrier(c.States)
	storetest.Run(t, c.Run)
	const topics = 24
	publishTo(t, db, topics, -1)
	storetest.Eventually(t, "all shards are carried", func() bool {
		elected := 0
		for _, s := range c.States() {
			if s.Carrying && s.Heard != 0 {
				elected++
			}
		}
		return elected == 8
	})
	got := scrape(t, m)
	published := 0.0
	for i := range 8 {
		label := fmt.Sprintf(`{shard="%d"}`, i)
		want(t, got, map[string]float64{
			"bellhop_redis_up" + label: 1, "bellhop_carrier_elected" + label: 1, "bellhop_is_carrier" + label: 1,
			"bellhop_carrier_heard" + label: 1, "bellhop_carrier_epoch" + label: 1,
			fmt.Sprintf(`bellhop_fallbacks_total{part="ring",shard="%d"}`, i): 0,
		})
		published += got["bellhop_shard_published_total"+label]
	}
	if published != topics {
		t.Errorf("the shards published %v, want %d", published, topics)
	}
	want(t, got, map[string]float64{"bellhop_shards": 8, "bellhop_layout_epoch": 0, "bellhop_topics": topics, "bellhop_redis_subscriptions": 1})
	shard := db.Of("t5").Number()
	if _, is := got[fmt.Sprintf(`bellhop_oldest_overdue_seconds{shard="%d",topic="t5"}`, shard)]; !is {
		t.Error("what is overdue of t5 does not say in which shard it is")
	}
	servers := 0
	for name := range got {
		if strings.HasPrefix(name, "bellhop_redis_memory_used_bytes{server=") {
			servers++
		}
	}
	if servers != 1 {
		t.Errorf("there are %d servers", servers)
	}
}

// A store of one shard has no labels of shards.
func TestOneShardHasNoLabel(t *testing.T) {
	db := storetest.Sharded(t, 1)
	for name := range scrape(t, full(t, db)) {
		if strings.Contains(name, "shard=") || strings.Contains(name, "server=") || strings.HasPrefix(name, "bellhop_shard_published") {
			t.Errorf("there is %s", name)
		}
	}
	want(t, scrape(t, full(t, db)), map[string]float64{"bellhop_shards": 1, "bellhop_redis_up": 1})
}

// Of a shard that is away only that is shown, and the others are shown as they are.
func TestShardAway(t *testing.T) {
	db := storetest.ShardAway(t, 8, 3)
	m := newMetrics(t, db, metrics.Options{})
	there := publishTo(t, db, 24, 3)
	got := scrape(t, m)
	for i := range 8 {
		want(t, got, map[string]float64{fmt.Sprintf(`bellhop_redis_up{shard="%d"}`, i): map[bool]float64{true: 0, false: 1}[i == 3]})
	}
	want(t, got, map[string]float64{"bellhop_topics": float64(there), "bellhop_shards": 8})
	if _, shown := got[`bellhop_carrier_elected{shard="3"}`]; shown {
		t.Error("who carries a shard that is away is shown")
	}
}
