package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// sharded returns a shell for a new store of some shards, and that store.
func sharded(t *testing.T, url string, shards int) (*shell, *notify.Store) {
	t.Helper()
	s := newShell(t, "BELLHOP_REDIS_URL="+url)
	db := storetest.With(t, notify.Config{URL: url, Prefix: s.setting("BELLHOP_PREFIX"), Shards: shards})
	storetest.Found(t, db)
	return s, db
}

// topicsIn returns a topic in each shard, in their order.
func topicsIn(t *testing.T, db *notify.Store) []string {
	t.Helper()
	shards, err := db.Shards(t.Context())
	storetest.Must(t, err)
	topics := make([]string, len(shards))
	for i, left := 0, len(shards); left > 0; i++ {
		topic := fmt.Sprintf("t%d", i)
		if n := db.Of(topic).Number(); topics[n] == "" {
			topics[n], left = topic, left-1
		}
	}
	return topics
}

func TestShards(t *testing.T) {
	t.Parallel()
	s, db := sharded(t, storetest.URL(), 8)
	topics := topicsIn(t, db)
	for _, topic := range topics {
		s.call("publish", topic, "--body", "x")
	}
	out := s.call("shards")
	for k, topic := range topics {
		site, err := db.Of(topic).Site(t.Context())
		storetest.Must(t, err)
		contains(t, out, fmt.Sprintf("\n%d      %s", k, site.Tag))
	}
	contains(t, out, "8 shards on 1 server, home is shard 0; 8 messages kept; the root, "+s.setting("BELLHOP_PREFIX")+":{0}:format on "+storetest.URL()+fmt.Sprintf(", says %d/8/0\n", reach.Newest().Number))
	var shown shownShards
	if err := json.Unmarshal([]byte(s.call("shards", "--json")), &shown); err != nil || len(shown.Shards) != 8 {
		t.Fatalf("%+v, %v", shown, err)
	}
	for k, row := range shown.Shards {
		if row.Shard != k || row.Kept != 1 || row.Published != 1 || row.Slot != nil || row.Error != "" {
			t.Errorf("%+v", row)
		}
	}
	rows := strings.Split(strings.TrimSpace(s.feed("", "carrier").out), "\n")
	if len(rows) != 9 || !strings.HasPrefix(rows[8], "7      none     -") {
		t.Errorf("got %q", rows)
	}
}

// The command says where a topic is, and the channels that it names are those that tell of the topic.
func TestShardOfATopic(t *testing.T) {
	t.Parallel()
	s, db := sharded(t, storetest.URL(), 8)
	topic := topicsIn(t, db)[3]
	out, prefix := s.call("topics", "--shard", topic), s.setting("BELLHOP_PREFIX")
	contains(t, out, topic+" is in shard 3 of 8, tag 3/8.23, on "+storetest.URL(), "SSUBSCRIBE",
		"  "+prefix+":{3/8.23}:wakes\n", "  "+prefix+":{3/8.23}:deaths\n", "  "+prefix+":{3/8.23}:broadcast:"+topic+"\n", "  "+prefix+":{3/8.23}:beat\n")
	var shown topicShard
	if err := json.Unmarshal([]byte(s.call("topics", "--shard", topic, "--json")), &shown); err != nil || shown.Shards != 8 || len(shown.Channels) != 4 {
		t.Fatalf("%+v, %v", shown, err)
	}
	wakes := db.Client().SSubscribe(t.Context(), shown.Channels[0].Channel)
	defer wakes.Close()
	storetest.Must(t, storetest.ErrOf(wakes.Receive(t.Context())))
	s.call("publish", topic, "--body", "x")
	if m := storetest.Receive(t, "a wake", wakes.Channel()); m.Payload != topic+" 1" {
		t.Errorf("got %q", m.Payload)
	}
	contains(t, s.fails(exitUsage, "topics", "x", "--shard", topic), "--shard names the topic")
	contains(t, s.fails(exitUsage, "topics", "--shard", topic, "--bad"), "shard")
	contains(t, s.fails(exitUsage, "topics", "--shard", "a b"), "topic")
	one := newShell(t, "BELLHOP_SHARDS=1")
	contains(t, one.call("topics", "--shard", "orders"), ":wake:orders\n", ":dead:orders\n")
}

// While a master is away its shards have rows that say so; what the others have is shown, and the exit code is 1.
func TestAShardIsAway(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute)
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	s, db := sharded(t, cluster.URL(), 8)
	topics := topicsIn(t, db)
	var away []int
	gone := cluster.Masters[0] // the root is on another
	for k, topic := range topics {
		s.call("publish", topic, "--body", "x")
		s.call("schedule", "put", topic, "daily", "--every", "24h", "--body", "x")
		site, err := db.Of(topic).Site(t.Context())
		storetest.Must(t, err)
		if site.Server == gone.Addr() {
			away = append(away, k)
		}
	}
	contains(t, s.call("shards"), "8 shards on 3 servers")
	gone.Kill()
	r := s.feed("", "shards")
	if r.code != exitFailed || strings.Count(r.out, "away: ") != len(away) || len(away) < 2 {
		t.Errorf("away are %v, got %+v", away, r)
	}
	contains(t, r.err, fmt.Sprintf("bellhop: shards %v are missing: ", away), "; see bellhop shards\n")
	for k, row := range strings.Split(r.out, "\n")[1:9] {
		if strings.Contains(row, "away: ") != slices.Contains(away, k) {
			t.Errorf("shard %d: %s", k, row)
		}
	}
	for _, list := range []string{"carrier", "schedule list", "find state:ready"} {
		r = s.feed("", strings.Fields(list)...)
		if r.code != exitFailed || strings.Count(r.out, "\n") != 9-len(away) || !strings.Contains(r.err, "are missing: ") {
			t.Errorf("%s: got %+v", list, r)
		}
	}
	var found calls.Found
	r = s.feed("", "find", "state:ready", "--json")
	if err := json.Unmarshal([]byte(r.out), &found); err != nil || r.code != exitFailed || len(found.Messages) != 8-len(away) || !slices.Equal(found.Missing.Missing, away) {
		t.Errorf("%v, got %+v", err, r)
	}
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	if r = s.feed("", "dead", "export", topics[away[0]], "--output", file); r.code != exitFailed || !strings.Contains(r.err, file+" was not written") {
		t.Errorf("got %+v", r)
	}
}

// A store of other shards is refused by each command, as wrong configuration, with what to do.
func TestOtherShards(t *testing.T) {
	t.Parallel()
	s, _ := sharded(t, storetest.URL(), 8)
	s.env = append(s.env, "BELLHOP_SHARDS=4")
	for _, args := range []string{"topics", "serve", "publish t --body x", "work t", "shards", "carrier", "export -"} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), "it has 8 shards, and shards is 4; leave that out, or start a store of 4 under another prefix")
	}
	s.env = append(s.env, "BELLHOP_SHARDS=3")
	contains(t, s.fails(exitUsage, "topics"), "BELLHOP_SHARDS")
	s.env = append(s.env, "BELLHOP_SHARDS=8")
	s.call("publish", "t", "--body", "x")
}
