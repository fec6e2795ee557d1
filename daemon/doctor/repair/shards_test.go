package repair_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// sharded returns a store of 8 shards with two messages due in an hour in each, and its topics by shard.
func sharded(t *testing.T, url string) (*notify.Store, []string) {
	t.Helper()
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: url, Prefix: "test-" + notify.NewID(), Shards: 8}))
	topics := make([]string, 8)
	for i := 0; slices.Contains(topics, ""); i++ {
		topic := fmt.Sprintf("t%d", i)
		if n := db.Of(topic).Number(); topics[n] == "" {
			topics[n] = topic
			for _, id := range []string{"a", "b"} {
				storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Body: []byte("x"), Delay: time.Hour})
			}
		}
	}
	return db, topics
}

// Damage is found and repaired in each shard, and progress counts the entries of all.
func TestEachShard(t *testing.T) {
	db, topics := sharded(t, storetest.URL())
	client := db.Client()
	var want []string
	for k, keys := range db.KeysOfAll() {
		must(t, client.Del(t.Context(), keys.Scheduled(topics[k])).Err())
		for _, id := range []string{"a", "b"} {
			want = append(want, fmt.Sprintf("no place %s:%s {%s}:messages", topics[k], id, keys.Tag()))
		}
		want = append(want, fmt.Sprintf("index %s {%s}:scheduled", topics[k], keys.Tag()))
	}
	slices.Sort(want)
	if got, sum := run(t, db, false); !slices.Equal(got, want) || sum.Messages != 16 || sum.Repairable != 24 {
		t.Errorf("%+v (-want +got):\n%s", sum, gocmp.Diff(want, got))
	}
	examined, all := 0, 0
	sum, err := repair.Run(t.Context(), db, repair.Options{Apply: true, OnProgress: func(n, of int) {
		if of > 0 && (n < examined || n > of || all > 0 && of != all) {
			t.Errorf("%d of %d follows on %d of %d", n, of, examined, all)
		}
		if of > 0 {
			examined, all = n, of
		}
	}}, func(repair.Finding) {})
	if err != nil || sum.Repaired != 24 || all != 32 {
		t.Errorf("%+v, %d in all, %v", sum, all, err)
	}
	if got, sum := run(t, db, false); len(got) > 0 || sum.Topics != 8 {
		t.Errorf("left is %v, %+v", got, sum)
	}
}

// A topic in a shard where it does not belong, keys beside the root, and a lost root.
func TestWrongShardAndRoot(t *testing.T) {
	db, topics := sharded(t, storetest.URL())
	client, prefix := db.Client(), db.Prefix()
	from, to := db.KeysOf(topics[1]), db.KeysOf(topics[2])
	must(t, client.Rename(t.Context(), from.Scheduled(topics[1]), to.Scheduled(topics[1])).Err())
	must(t, client.Set(t.Context(), prefix+":{0}:messages", "x", 0).Err())
	got, _ := run(t, db, false)
	for _, want := range []string{
		"foreign key  {0}:messages", fmt.Sprintf("wrong shard %s {%s}:scheduled:%s", topics[1], to.Tag(), topics[1]),
		fmt.Sprintf("no place %s:a {%s}:messages", topics[1], from.Tag()),
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	must(t, client.Del(t.Context(), to.Scheduled(topics[1]), prefix+":{0}:messages").Err())
	run(t, db, true)
	if got, _ := run(t, db, false); len(got) > 0 {
		t.Errorf("left is %v", got)
	}

	must(t, client.Del(t.Context(), prefix+":{0}:format").Err())
	if got, sum := run(t, db, true); !slices.Equal(got, []string{"lost root  {0}:format"}) || sum.Repaired != 1 {
		t.Errorf("found %q, %+v", got, sum)
	}
	root, err := db.Root(t.Context())
	if got, _ := run(t, db, false); err != nil || root.Format != fmt.Sprintf("%d/8/0", reach.Newest().Number) || len(got) > 0 {
		t.Errorf("the root is %+v, %v, left is %v", root, err, got)
	}
}

// What the other shards hold is examined while a master is away, and the error names the shards that are not.
func TestAMasterIsAway(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute)
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	db, topics := sharded(t, cluster.URL())
	var away []int
	for k, topic := range topics {
		site, err := db.Of(topic).Site(t.Context())
		if must(t, err); site.Server == cluster.Masters[0].Addr() { // the root is on another
			away = append(away, k)
		}
	}
	there := db.KeysOf(topics[7])
	must(t, db.Client().Del(t.Context(), there.Scheduled(topics[7])).Err())
	cluster.Masters[0].Kill()
	found := 0
	sum, err := repair.Run(t.Context(), db, repair.Options{}, func(repair.Finding) { found++ })
	if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("examine the store: shards %v are missing: ", away)) || found != 3 || sum.Messages != 2*(8-len(away)) {
		t.Errorf("found %d, %+v, %v", found, sum, err)
	}
}

// A user with the rights that a store of several shards needs repairs it.
func TestRightsOfShards(t *testing.T) {
	db, topics := sharded(t, storetest.URL())
	must(t, db.Client().Del(t.Context(), db.KeysOf(topics[3]).Scheduled(topics[3])).Err())
	limited := limitedTo(t, db, reach.RepairRights(db.Prefix(), 8))
	if got, _ := run(t, limited, true); len(got) != 3 {
		t.Errorf("found %v", got)
	}
	if got, _ := run(t, db, false); len(got) > 0 {
		t.Errorf("left is %v", got)
	}
}
