package failover_test

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// resumed is the bound from the sentinels' announcement of a new master until messages are delivered.
const resumed = 2 * time.Second

// never is how long a server may stand still on a busy machine, and soon how long after its loss, once a test has made it.
const (
	never = 10 * time.Minute
	soon  = time.Second
)

// A watched is a master and its replicas, watched by three sentinels.
type watched struct {
	master    *redisserver.Server
	replicas  []*redisserver.Server
	sentinels []*redisserver.Server
	password  string          // of the sentinels; empty: none
	switched  <-chan struct{} // a sentinel has announced a new master
}

// watch starts a master, replicas and sentinels.
func watch(t *testing.T, replicas int, args ...string) *watched {
	t.Helper()
	return guard(t, "", replicas, args...)
}

// guard is watch with sentinels that require a password.
func guard(t *testing.T, password string, replicas int, args ...string) *watched {
	t.Helper()
	w := &watched{password: password, master: storetest.Server(t, append(args, "--appendonly", "yes")...)}
	for range replicas {
		replica, err := w.master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir(), Args: append(args, "--appendonly", "yes")})
		storetest.Must(t, err)
		t.Cleanup(replica.Stop)
		w.replicas = append(w.replicas, replica)
	}
	for range 3 {
		sentinel, err := redisserver.Sentinel(t.Context(), redisserver.Options{Dir: t.TempDir(), Args: []string{"--requirepass", password}}, redisserver.Watch{
			Name: "main", Master: w.master, Quorum: 2, DownAfter: never,
		})
		storetest.Must(t, err)
		t.Cleanup(sentinel.Stop)
		w.sentinels = append(w.sentinels, sentinel)
	}
	w.agree(t)
	return w
}

// ask returns a client of a sentinel.
func (w *watched) ask(t *testing.T, sentinel *redisserver.Server) *redis.SentinelClient {
	t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr(), Password: w.password, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// agree waits until all sentinels know each other and all replicas, and subscribes to them.
func (w *watched) agree(t *testing.T) {
	t.Helper()
	switched := make(chan struct{}, 3)
	for _, sentinel := range w.sentinels {
		client := w.ask(t, sentinel)
		storetest.Eventually(t, "the sentinels know all", func() bool {
			others, err := client.Sentinels(t.Context(), "main").Result()
			if err != nil || len(others) != 2 {
				return false
			}
			known, err := client.Replicas(t.Context(), "main").Result()
			return err == nil && len(known) == len(w.replicas)
		})
		sub := client.Subscribe(t.Context(), "+switch-master")
		storetest.Run(t, func(ctx context.Context) error {
			defer sub.Close()
			defer context.AfterFunc(ctx, func() { sub.Close() })() // a call that waits does not heed the end of its context
			if _, err := sub.ReceiveMessage(ctx); err == nil {
				switched <- struct{}{}
			}
			return nil
		})
	}
	w.switched = switched
}

// config returns the configuration for the master.
func (w *watched) config(prefix string, replicas int) notify.Config {
	var urls []string
	for _, sentinel := range w.sentinels {
		urls = append(urls, sentinel.URL())
	}
	return notify.Config{URL: strings.Join(urls, ","), Master: "main", Prefix: prefix, WaitReplicas: replicas}
}

// replaceLost lets the sentinels replace a lost master soon.
func (w *watched) replaceLost(t *testing.T) {
	t.Helper()
	for _, sentinel := range w.sentinels {
		storetest.Must(t, w.ask(t, sentinel).Set(t.Context(), "main", "down-after-milliseconds", strconv.FormatInt(soon.Milliseconds(), 10)).Err())
	}
}

// endure runs everything with a configuration while replace replaces the master, and calls
// mend when messages are delivered again. It checks that no acknowledged message is lost, and
// how long the replacement takes.
func (w *watched) endure(t *testing.T, c notify.Config, replace, mend func()) {
	t.Helper()
	l := newLedger()
	stop := play(t, c, l)
	wake := rest(t, c)
	watch := standstill.Start(t)
	replace()
	storetest.Receive(t, "a sentinel announces a new master", w.switched)
	l.mark()
	l.after(t, watch, resumed)
	mend()
	before := l.promises()
	storetest.Eventually(t, "publishes are acknowledged again", func() bool { return l.promises() > before+500 })
	wake()
	stop()
	l.check(t)
}

// The master is killed.
func TestSentinelKillMaster(t *testing.T) {
	t.Parallel()
	w := watch(t, 2)
	w.endure(t, w.config("", 1), func() {
		w.master.Kill()
		w.replaceLost(t)
	}, func() {})
}

// An operator replaces the master by its only replica.
func TestSentinelPlannedFailover(t *testing.T) {
	t.Parallel()
	w := watch(t, 1)
	w.endure(t, w.config("", 1), func() {
		storetest.Must(t, w.ask(t, w.sentinels[0]).Failover(t.Context(), "main").Err())
	}, func() {})
}

// The master hangs, is replaced, and comes back: for a moment there are two. Its writes that
// the new master does not have are lost, but none of them was acknowledged.
func TestSentinelSplitBrain(t *testing.T) {
	t.Parallel()
	w := watch(t, 2, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
	w.endure(t, w.config("", 1), func() {
		storetest.Must(t, w.master.Signal(syscall.SIGSTOP))
		w.replaceLost(t)
	}, func() {
		storetest.Must(t, w.master.Signal(syscall.SIGCONT))
		client := connect(t, w.master)
		storetest.Eventually(t, "the former master is a replica of the new one", func() bool {
			info, err := client.Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
		})
	})
}
