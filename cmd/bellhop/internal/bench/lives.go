package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/subscribers"
)

// What is equal for each shard, so that runs with other numbers of shards compare: with
// fewer callers for each, batches would be smaller, and a life dearer.
const (
	shardTopics  = 3
	shardHands   = 8 // of each topic
	shardCallers = publishers
	shardDelay   = 300 * time.Millisecond
)

// measureShards takes whole lives, from publish to acknowledgement, over topics in all
// shards, and computes from the processor time of each server how many there could be.
func measureShards(ctx context.Context, s *stage) error {
	shards, err := s.store.Shards(ctx)
	if err != nil {
		return err
	}
	l := &lives{stage: s, topics: topicsOf(s.store, len(shards))}
	if _, err := l.live(ctx, 1, 0); err != nil { // scripts and connections are there then, and replicas are announced
		return err
	}
	if err := l.find(ctx, shards); err != nil {
		return err
	}
	for _, delay := range []time.Duration{0, shardDelay} {
		if err := l.measure(ctx, delay); err != nil {
			return err
		}
	}
	return nil
}

// topicsOf returns as many topics for each shard, by shard.
func topicsOf(db *notify.Store, shards int) [][]string {
	all := make([][]string, shards)
	for i, left := 0, shards*shardTopics; left > 0; i++ {
		name := fmt.Sprintf("%s.%d", topic, i)
		if n := db.Of(name).Number(); len(all[n]) < shardTopics {
			all[n] = append(all[n], name)
			left--
		}
	}
	return all
}

// lives measures lives.
type lives struct {
	*stage
	topics  [][]string // by shard
	servers []reach.Server
	held    []int // how many shards each server holds
}

// find finds which server holds how many shards.
func (l *lives) find(ctx context.Context, shards []store.Shard) (err error) {
	if err := l.findServers(ctx); err != nil {
		return err
	}
	l.held = make([]int, len(l.servers))
	for _, shard := range shards {
		site, err := shard.Site(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(l.servers, func(s reach.Server) bool { return s.Address == site.Server })
		if i < 0 {
			return fmt.Errorf("find the servers: shard %s is on %s, which has come since; run the benchmark again", shard.Label(), site.Server)
		}
		l.held[i]++
	}
	return nil
}

// announced is how long the replicas of a new Cluster may take until its masters name them.
const announced = 15 * time.Second

// findServers finds the servers. Those of a Cluster name a replica once they heard of what it
// copied.
func (l *lives) findServers(ctx context.Context) (err error) {
	for end := time.Now().Add(announced); ; {
		if l.servers, err = l.store.Servers(ctx); err != nil {
			return err
		}
		connected, known := 0.0, 0.0
		for _, server := range l.servers {
			info, err := server.Info(ctx, "replication")
			if err != nil {
				return err
			}
			if connected += toNumber(info["connected_slaves"]); server.IsReplica {
				known++
			}
		}
		if !l.store.InCluster() || known >= connected || time.Now().After(end) {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// measure measures lives of messages that are due at once, or later.
func (l *lives) measure(ctx context.Context, delay time.Duration) error {
	name := "at once"
	if delay > 0 {
		name = fmt.Sprintf("after %v", delay)
	}
	calls := max(l.Messages/(len(l.topics)*shardCallers*l.Batch), 1)
	perShard := calls * shardCallers * l.Batch
	before, err := l.spend(ctx)
	if err != nil {
		return err
	}
	took, err := l.live(ctx, calls, delay)
	if err != nil {
		return err
	}
	after, err := l.spend(ctx)
	if err != nil {
		return err
	}
	l.account(name, perShard, before, after)
	l.rateOf(name+", by the clock, bounded by this machine", perShard*len(l.topics), took)
	return nil
}

// live has each caller publish so many calls, and returns how long it took until all their
// messages were acknowledged.
func (l *lives) live(ctx context.Context, calls int, delay time.Duration) (took time.Duration, err error) {
	topics := slices.Concat(l.topics...)
	done := newCountdown(calls * shardCallers * l.Batch * len(l.topics))
	sub, err := l.subscriber(shardHands, func(*subscribers.Delivery) { done.one() }, topics...)
	if err != nil {
		return 0, err
	}
	err = l.whileRunning(ctx, func() error {
		if err := l.awaitEach(ctx, topics, l.isAwaited); err != nil {
			return err
		}
		began := time.Now()
		if err := l.publish(ctx, calls, delay); err != nil {
			return err
		}
		if err := done.wait(ctx); err != nil {
			return err
		}
		err := l.awaitEach(ctx, topics, l.isDone)
		took = time.Since(began)
		return err
	}, sub)
	return took, err
}

// awaitEach is await for several topics.
func (l *lives) awaitEach(ctx context.Context, topics []string, condition func(notify.Counts) bool) error {
	for _, topic := range topics {
		if err := l.await(ctx, topic, condition); err != nil {
			return err
		}
	}
	return nil
}

// rateOf adds how many of n lives there were in a second.
func (l *lives) rateOf(name string, n int, took time.Duration) {
	l.report(name, float64(n)/took.Seconds(), "lives/s", n)
}

// publish publishes from all callers, each with a publisher of its own: a call then has as
// many messages as are asked for, and never those of others.
func (l *lives) publish(ctx context.Context, calls int, delay time.Duration) error {
	body := l.body()
	return each(shardCallers*len(l.topics), func(caller int) error {
		pub, err := notify.NewPublisher(l.store)
		if err != nil {
			return err
		}
		topics := l.topics[caller%len(l.topics)]
		batch := make([]notify.Message, l.Batch)
		for n := range calls {
			for i := range batch {
				batch[i] = notify.Message{Topic: topics[(caller/len(l.topics)+n)%len(topics)], Body: body, Delay: delay}
			}
			for _, result := range pub.PublishMany(ctx, batch) {
				if result.Err != nil {
					return result.Err
				}
			}
		}
		return nil
	})
}

// spent is what a server has spent until now.
type spent struct {
	cpu                                 float64 // us, of the process
	scripts, spublish, publish, message float64 // calls, and messages on the bus that carry what is published
}

func (s spent) since(before spent) spent {
	return spent{s.cpu - before.cpu, s.scripts - before.scripts, s.spublish - before.spublish, s.publish - before.publish, s.message - before.message}
}

func (s spent) plus(other spent) spent {
	return spent{s.cpu + other.cpu, s.scripts + other.scripts, s.spublish + other.spublish, s.publish + other.publish, s.message + other.message}
}

// spend returns what each server has spent.
func (l *lives) spend(ctx context.Context) ([]spent, error) {
	all := make([]spent, len(l.servers))
	for i, server := range l.servers {
		info, err := server.Info(ctx, "cpu", "commandstats")
		if err != nil {
			return nil, err
		}
		all[i] = spent{
			cpu:     1e6 * (toNumber(info["used_cpu_sys"]) + toNumber(info["used_cpu_user"])),
			scripts: callsOf(info["cmdstat_fcall"]),
			publish: callsOf(info["cmdstat_publish"]), spublish: callsOf(info["cmdstat_spublish"]),
		}
		if l.store.InCluster() {
			bus, err := server.BusInfo(ctx)
			if err != nil {
				return nil, fmt.Errorf("read how much is on the bus: %w", err)
			}
			all[i].message = toNumber(bus["cluster_stats_messages_publish_sent"]) + toNumber(bus["cluster_stats_messages_publishshard_sent"])
		}
	}
	return all, nil
}

// account reports what a life costs each master, and all of them, and how many lives there
// could be if each had a processor of its own.
func (l *lives) account(name string, perShard int, before, after []spent) {
	var masters, replicas spent
	busiest, most, n := 0.0, 0, 0 // us of a life on the server that spent the most; the most shards on a server
	spentMost, total := 0.0, perShard*len(l.topics)
	for i, server := range l.servers {
		used := after[i].since(before[i])
		if server.IsReplica {
			replicas = replicas.plus(used)
			continue
		}
		n++
		masters = masters.plus(used)
		lives := perShard * l.held[i]
		l.report(fmt.Sprintf("%s, server %d, share of lives", name, n), 100*float64(lives)/float64(total), "%", total)
		if lives == 0 {
			continue
		}
		l.reportSpent(fmt.Sprintf("%s, server %d", name, n), used, lives)
		if most = max(most, l.held[i]); used.cpu > spentMost {
			busiest, spentMost = used.cpu/float64(lives), used.cpu
		}
	}
	l.reportSpent(name+", all servers", masters, total)
	l.report(name+", all servers, PUBLISH", masters.publish/float64(total), "a life", total)
	if replicas.cpu > 0 {
		l.report(name+", replicas, CPU", replicas.cpu/float64(total), "us a life", total)
	}
	skew := float64(most) * float64(n) / float64(len(l.topics))
	l.report(name+", skew: most lives of a server, to the mean", skew, "times", total)
	l.report(name+", capacity, computed", float64(n)*1e6/busiest/skew, "lives/s", total)
}

// reportSpent reports what lives cost.
func (l *lives) reportSpent(name string, used spent, lives int) {
	l.report(name+", CPU", used.cpu/float64(lives), "us a life", lives)
	l.report(name+", scripts", used.scripts/float64(lives), "a life", lives)
	l.report(name+", SPUBLISH", used.spublish/float64(lives), "a life", lives)
	if l.store.InCluster() {
		l.report(name+", messages on the bus", used.message/float64(lives), "a life", lives)
	}
}

// A countdown waits until so many happened.
type countdown struct {
	left atomic.Int64
	none chan struct{} // closed then
}

func newCountdown(n int) *countdown {
	c := &countdown{none: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) one() {
	if c.left.Add(-1) == 0 {
		close(c.none)
	}
}

func (c *countdown) wait(ctx context.Context) error {
	select {
	case <-c.none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
