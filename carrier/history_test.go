package carrier_test

import (
	"os"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// samples reads a ring of a shard.
func samples(t *testing.T, shard store.Shard, ring store.Ring, from, to int64) []store.Sample {
	t.Helper()
	all, err := shard.History(t.Context(), ring, from, to)
	storetest.Must(t, err)
	return all
}

// A carrier that takes over from one that was killed goes on with its minute: the seconds of
// each minute add up to it, whoever wrote them.
func TestHistoryOverAKill(t *testing.T) {
	t.Parallel()
	c := crew{t, eight(t, storetest.URL())}
	process, err := child.Start(child.Program{
		Path: os.Args[0], Name: "carrier", Output: os.Stderr,
		Env: append(os.Environ(), asCarrier+"="+c.db.Prefix(), atRedis+"="+storetest.URL()),
	})
	storetest.Must(t, err)
	t.Cleanup(process.Stop)
	c.shares("killed")
	shards, err := c.db.Shards(t.Context())
	storetest.Must(t, err)
	began := time.Now().Unix()
	publish := func(since int64) {
		for _, shard := range shards {
			storetest.Eventually(t, "there are samples since", func() bool {
				storetest.Publish(t, c.db, notify.Message{Topic: "a", Delay: time.Hour}, notify.Message{Topic: "b", Delay: time.Hour})
				return len(samples(t, shard, store.Seconds, since, since+100)) >= 2
			})
		}
	}
	publish(began)
	stop := run(t, c.db, carrier.Options{Name: "next"})
	process.Kill()
	killed := time.Now().Unix()
	c.carried("killed")
	publish(killed + 1)
	stop() // what is in the seconds is in the minutes then
	for _, shard := range shards {
		minutes := make(map[int64]store.Totals)
		for _, second := range samples(t, shard, store.Seconds, began-60, began+600) {
			sum := minutes[second.At-second.At%60]
			sum.Add(&second.Totals)
			minutes[second.At-second.At%60] = sum
		}
		for _, minute := range samples(t, shard, store.Minutes, began-120, began+600) {
			sum := minutes[minute.At]
			delete(minutes, minute.At)
			if sum.Published != minute.Published {
				t.Errorf("shard %d: a minute has %d published, and its seconds %d", shard.Number(), minute.Published, sum.Published)
			}
		}
		if len(minutes) > 0 {
			t.Errorf("shard %d: %d minutes are missing", shard.Number(), len(minutes))
		}
	}
}
