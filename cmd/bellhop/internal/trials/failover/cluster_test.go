package failover_test

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A cluster is a Redis Cluster of three masters with a replica each.
type cluster struct{ *redisserver.Cluster }

// startCluster starts one whose nodes may stand still on a busy machine.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, never)
	storetest.Must(t, err)
	t.Cleanup(c.Stop)
	return &cluster{c}
}

// replaceLost lets the nodes that are left replace a lost master soon.
func (c *cluster) replaceLost(t *testing.T, lost *redisserver.Server) { c.timeOut(t, soon, lost) }

// timeOut sets the timeout of all nodes but one that is lost.
func (c *cluster) timeOut(t *testing.T, after time.Duration, lost *redisserver.Server) {
	t.Helper()
	for _, s := range c.servers() {
		if s == lost {
			continue
		}
		storetest.Must(t, connect(t, s).ConfigSet(t.Context(), "cluster-node-timeout", strconv.FormatInt(after.Milliseconds(), 10)).Err())
	}
}

// shard returns the master of the shard, and its replica.
func (c *cluster) shard(t *testing.T, keys script.Keys) (master, replica *redisserver.Server) {
	t.Helper()
	slot, err := connect(t, c.Masters[0]).ClusterKeySlot(t.Context(), keys.ScheduledTopics()).Result()
	storetest.Must(t, err)
	i := int(slot) * len(c.Masters) / 16384
	return c.Masters[i], c.Replicas[i]
}

// connect returns a client of a server.
func connect(t *testing.T, s *redisserver.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// promoted waits until a replica is a master.
func promoted(t *testing.T, replica *redisserver.Server) {
	t.Helper()
	client := connect(t, replica)
	storetest.Eventually(t, "the replica is the master", func() bool { return isMaster(client) })
}

// isMaster reports whether a server answers that it is a master.
func isMaster(client *redis.Client) bool {
	info, err := client.Info(context.Background(), "replication").Result()
	return err == nil && strings.Contains(info, "role:master")
}

// takesOver has a replica take the place of its master, and waits for that. Redis gives up one that takes more than five
// seconds, without a word: https://redis.io/docs/latest/commands/cluster-failover. Then the replica begins no other, and the
// masters vote in none, before some node timeouts have passed (clusterHandleSlaveFailover and clusterSendFailoverAuthIfNeeded
// of its cluster.c), so these are short from then on.
func (c *cluster) takesOver(t *testing.T, replica *redisserver.Server) {
	t.Helper()
	client, asked := connect(t, replica), time.Time{}
	storetest.Eventually(t, "the replica takes over", func() bool {
		info, err := client.Info(t.Context(), "replication").Result()
		if err != nil || strings.Contains(info, "role:master") {
			return err == nil
		}
		if time.Since(asked) > 10*time.Second {
			if !asked.IsZero() {
				c.timeOut(t, soon, nil)
			}
			asked = time.Now()
			storetest.Must(t, client.ClusterFailover(t.Context()).Err())
		}
		return false
	})
}

// In a Cluster everything works, and the doctor finds no fault.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	config := notify.Config{URL: c.URL(), WaitReplicas: 1}
	l := newLedger()
	stop := play(t, config, l)
	stop()
	l.check(t)
	examine(t, config)

	var found doctor.Finding
	if _, err := doctor.Run(t.Context(), notify.Config{URL: c.Masters[0].URL()}, doctor.Options{}, func(f doctor.Finding) {
		if f.Check == "cluster" {
			found = f
		}
	}); err != nil || found.Verdict != doctor.Fail {
		t.Errorf("a node alone: %+v, %v", found, err)
	}
}

// examine runs the doctor, which may only report what the tests leave out: persistence, a
// spare replica, a limit of memory, and the right to repair.
func examine(t *testing.T, c notify.Config) {
	t.Helper()
	checks := 0
	_, err := doctor.Run(t.Context(), c, doctor.Options{}, func(f doctor.Finding) {
		checks++
		if f.Verdict == doctor.Warn && slices.Contains([]string{"pub/sub round trip", "clock"}, f.Check) { // which measure how busy the machine is
			t.Logf("the doctor says of %s: %s", f.Check, f.Found)
			return
		}
		if f.Verdict != doctor.OK && !slices.Contains([]string{"persistence", "replicas", "memory", "contents"}, f.Check) {
			t.Errorf("the doctor says of %s: %v, %s", f.Check, f.Verdict, f.Found)
		}
	})
	if err != nil || checks < 8 {
		t.Errorf("the doctor made %d checks: %v", checks, err)
	}
}

// endure runs everything while replace replaces the master of the shard, and calls mend when
// messages are delivered again.
func (c *cluster) endure(t *testing.T, replace, mend func(master, replica *redisserver.Server)) {
	t.Helper()
	config := notify.Config{URL: c.URL(), WaitReplicas: 1}
	master, replica := c.shard(t, open(t, config).Keys())
	l := newLedger()
	stop := play(t, config, l)
	wake := rest(t, config)
	watch := standstill.Start(t)
	replace(master, replica)
	promoted(t, replica)
	l.mark()
	l.after(t, watch, resumed)
	before := l.promises()
	mend(master, replica)
	storetest.Eventually(t, "publishes are acknowledged again", func() bool { return l.promises() > before+500 })
	wake()
	stop()
	if !isMaster(connect(t, replica)) {
		t.Log("the server that was promoted is no master any more: if messages are missing, another may hold the shard without its data")
	}
	l.check(t)
}

// The master of the shard is killed. Publishes are acknowledged again when it is back as a
// replica of its former replica.
func TestClusterKillMaster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.endure(t, func(master, _ *redisserver.Server) {
		master.Kill()
		c.replaceLost(t, master)
	}, func(master, _ *redisserver.Server) {
		again, err := master.Restart(t.Context())
		storetest.Must(t, err)
		t.Cleanup(again.Kill)
	})
}

// An operator replaces the master of the shard, which stays as a replica.
func TestClusterPlannedFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.endure(t, func(_, replica *redisserver.Server) { c.takesOver(t, replica) }, func(*redisserver.Server, *redisserver.Server) {})
}

// A cluster gets a fourth master, and redis-cli moves shards to it while everything runs, that of a topic with traffic among them: nothing that was
// acknowledged is lost.
func TestClusterGrows(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	config := notify.Config{URL: c.URL(), Shards: 16}
	l := newLedger()
	stop := play(t, config, l)
	added, err := c.Grow(t.Context(), t.TempDir(), never)
	storetest.Must(t, err)
	out, err := exec.CommandContext(t.Context(), "redis-cli", "--cluster", "rebalance", c.Masters[0].Addr(), "--cluster-use-empty-masters").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := open(t, config)
	if n, err := connect(t, added).Exists(t.Context(), s.KeysOf(mails).Topics()).Result(); err != nil || n != 1 {
		t.Errorf("the new master does not hold the shard of %s: %v", mails, err)
	}
	before := l.promises()
	storetest.Eventually(t, "publishes are acknowledged", func() bool { return l.promises() > before+500 })
	stop()
	l.check(t)
}
