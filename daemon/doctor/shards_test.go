package doctor_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// report examines a store, and returns the findings as VERDICT CHECK FOUND.
func report(t *testing.T, c notify.Config, checks ...string) (lines []string) {
	t.Helper()
	_, err := doctor.Run(t.Context(), c, doctor.Options{Quick: len(checks) > 0}, func(f doctor.Finding) {
		if len(checks) == 0 || strings.Contains(" "+strings.Join(checks, " ")+" ", " "+f.Check+" ") {
			lines = append(lines, fmt.Sprintf("%v %s %s", f.Verdict, f.Check, f.Found))
		}
		if f.Verdict != doctor.OK && f.Remedy == "" {
			t.Errorf("%s is %v, and no remedy is named", f.Check, f.Verdict)
		}
	})
	storetest.Must(t, err)
	return lines
}

// A store of several shards on a Cluster is examined as one: what all masters have in common is said once.
func TestShardsOnACluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute)
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	c := notify.Config{URL: cluster.URL(), Shards: 8}
	db := storetest.With(t, c)
	carrying, err := carrier.New(db, carrier.Options{Name: "one", Lease: carrier.MaxLease})
	storetest.Must(t, err)
	stop := storetest.Run(t, carrying.Run)
	storetest.Eventually(t, "it carries all", func() bool {
		n := 0
		for _, s := range carrying.States() {
			if s.Carrying {
				n++
			}
		}
		return n == 8
	})
	lines := report(t, c)
	times := regexp.MustCompile(`[0-9.]+ (ms|MiB)|127\.0\.0\.1:\d+|of \d shards: \d`)
	for i := range lines {
		lines[i] = times.ReplaceAllString(lines[i], "X")
		for _, timed := range []string{"pub/sub round trip X", "clock the clocks"} { // a busy machine gets a warning
			lines[i] = strings.Replace(lines[i], "warn "+timed, "ok "+timed, 1)
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "warn clock Redis's clock is ") })
	memory := 0 // rows of it: one for each master, unless some use the same
	lines = slices.DeleteFunc(lines, func(line string) bool {
		isOf := strings.Contains(line, " memory ") && strings.HasSuffix(line, " in use, without a limit: when the machine runs out of memory, its kernel kills Redis")
		if isOf {
			memory++
		}
		return isOf
	})
	if memory == 0 {
		t.Errorf("no memory is reported: %q", lines)
	}
	want := []string{
		"ok reachable 3 servers answer; the slowest, X, in X", "ok version Redis 7.0.15", "ok shards 8 on 3 masters: 3, 3, 2",
		"warn shards while one master is away, all others refuse calls, too (cluster-require-full-coverage yes)",
		"fail persistence none: a restart of Redis loses all messages", "ok eviction noeviction, limit none",
		fmt.Sprintf("ok format %d, or nothing yet", reach.Newest().Number), "warn replicas 1 connected, but nothing waits for them: a failover loses what was acknowledged last",
		"ok rights published, carried, claimed, settled, requeued and cancelled a message, and broadcast one",
		"ok pub/sub round trip X, of the slowest X", "ok functions loaded", "ok clock the clocks of the servers are up to X apart",
		"ok carrier one has 8; their beats arrive", "ok nats off", "warn standby none: if the carrier's machine fails, no delayed message is delivered",
	}
	if len(lines) < len(want) {
		t.Fatalf("got %q", lines)
	}
	lines[1] = want[1] // whichever Redis it is
	if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stop()
	if got := report(t, c, "carrier"); len(got) != 1 || got[0] != "warn carrier shards 0, 1, 2, 3, 4, 5, 6, 7: none is elected" {
		t.Errorf("nobody carries: %q", got)
	}
	for _, master := range cluster.Masters {
		storetest.Must(t, nodeAt(t, master.Addr()).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	slotStuck(t, db, c)
	cluster.Masters[0].Kill()
	got := report(t, c, "reachable", "rights")
	if len(got) != 3 || !strings.HasPrefix(got[0], "fail reachable ") || !strings.HasPrefix(got[1], "ok reachable 2 servers answer; ") ||
		got[2] != "warn rights not tried while a server is away" {
		t.Errorf("a master is away: %q", got)
	}
}

// slotStuck marks the slot of a shard as being moved, expects that it is reported, and takes the mark back.
func slotStuck(t *testing.T, db *notify.Store, c notify.Config) {
	t.Helper()
	shards, err := db.Shards(t.Context())
	storetest.Must(t, err)
	from, err := shards[0].Site(t.Context())
	storetest.Must(t, err)
	to, err := shards[7].Site(t.Context())
	storetest.Must(t, err)
	source, target := nodeAt(t, from.Server), nodeAt(t, to.Server)
	id, err := target.ClusterMyID(t.Context()).Result()
	storetest.Must(t, err)
	set := func(args ...any) {
		t.Helper()
		storetest.Must(t, source.Do(t.Context(), append([]any{"CLUSTER", "SETSLOT", from.Slot}, args...)...).Err())
	}
	set("MIGRATING", id)
	got := report(t, c, "shards")
	if len(got) != 2 || got[1] != "fail shards shard 0: the slot has been migrating or importing for more than 10s; some calls are refused meanwhile" {
		t.Errorf("a slot is moved: %q", got)
	}
	set("STABLE")
	if got := report(t, c, "shards"); len(got) != 1 {
		t.Errorf("no slot is moved: %q", got)
	}
}

// The root is lost: with and without the number of shards that is a failure, and nothing founds a store of one shard in its place.
func TestRootIsLost(t *testing.T) {
	c := ownConfig()
	c.Shards = 0
	root := c.Prefix + ":{0}:format"
	with := c
	with.Shards = 8
	db := storetest.With(t, with)
	storetest.Found(t, db)
	if got := report(t, with, "shards"); len(got) != 1 || got[0] != "ok shards 8 on 1 master: 8" {
		t.Errorf("got %q", got)
	}
	storetest.Must(t, db.Client().Del(t.Context(), root).Err())
	for _, c := range []notify.Config{c, with} {
		if got := report(t, c, "shards"); len(got) == 0 || !strings.HasPrefix(got[0], "fail shards ") || !strings.Contains(got[0], root) {
			t.Errorf("got %q", got)
		}
	}
}

// BELLHOP_SHARDS names another number than the store has.
func TestOtherShards(t *testing.T) {
	c := ownConfig()
	c.Shards = 8
	db := storetest.With(t, c)
	storetest.Found(t, db)
	for _, shards := range []int{1, 4, 16} {
		c.Shards = shards
		findings := make(map[string]doctor.Finding)
		storetest.Must(t, storetest.ErrOf(doctor.Run(t.Context(), c, doctor.Options{Quick: true}, func(f doctor.Finding) { findings[f.Check] = f })))
		f := findings[doctor.Format]
		if f.Verdict != doctor.Fail || !strings.HasSuffix(f.Found, fmt.Sprintf("it has 8 shards, and shards is %d", shards)) || !strings.HasPrefix(f.Remedy, "leave that out, or start a store of ") {
			t.Errorf("%d: got %+v", shards, f)
		}
	}
}

// A user who lacks a right that only several shards need is told which.
func TestRightOfShardsIsMissing(t *testing.T) {
	for _, right := range []string{"+spublish", "+ssubscribe"} {
		args := bell(strings.ReplaceAll(rightsOf(8), right, ""))
		server := storetest.Server(t, args...)
		var rights doctor.Finding
		storetest.Must(t, storetest.ErrOf(doctor.Run(t.Context(), notify.Config{URL: as("bell", "pw")(server), Shards: 8}, doctor.Options{Quick: true}, func(f doctor.Finding) {
			if f.Check == "rights" {
				rights = f
			}
		})))
		if rights.Verdict != doctor.Fail || !strings.Contains(rights.Remedy, right) {
			t.Errorf("without %s: %+v", right, rights)
		}
	}
}

// A shard whose settings for all topics are not those of home is named.
func TestSettingsDiffer(t *testing.T) {
	c := ownConfig()
	c.Shards = 8
	db := storetest.With(t, c)
	storetest.Set(t, db, notify.AllTopics, notify.SettingsChange{Attempts: new(7)})
	if got := report(t, c, "settings"); len(got) != 1 || got[0] != "ok settings for all topics: attempts 7" {
		t.Errorf("got %q", got)
	}
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOfAll()[3].Topics(), "*:settings", " attempts=3").Err())
	if got := report(t, c, "settings"); len(got) != 1 || got[0] != "warn settings shard 3: the settings for all topics are not those of home" {
		t.Errorf("got %q", got)
	}
	storetest.Set(t, db, notify.AllTopics, notify.SettingsChange{Attempts: new(7)}) // the remedy, though home has that
	if got := report(t, c, "settings"); len(got) != 1 || got[0] != "ok settings for all topics: attempts 7" {
		t.Errorf("got %q", got)
	}
}

func rightsOf(shards int) string { return reach.Rights(script.DefaultPrefix, shards) }

// nodeAt returns a client of one server.
func nodeAt(t *testing.T, address string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { client.Close() })
	return client
}
