package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// In a Cluster, too, a named listener is shown as active by whichever server is asked, as long as somebody listens.
func TestActiveInACluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Minute) // longer than a busy machine keeps a server from answering
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	db := storetest.Unhurried(storetest.At(t, cluster.URL(), "")) // no carrier beats: the subscription would be made anew every few seconds
	l := newListener(t, db)
	looks := func(want bool) func() bool {
		return func() bool {
			names, err := storetest.Inspector(t, db).Listeners(t.Context())
			return err == nil && len(names) == 1 && names[0].Active == want
		}
	}
	_, stop := listen(t, l, "news", subscribers.ListenOptions{Name: "n"})
	storetest.Eventually(t, "it is active", looks(true))
	for range 30 {
		if looks(false)() {
			t.Fatal("it is not active while it listens")
		}
	}
	stop()
	storetest.Eventually(t, "it is not active", looks(false))
}

// clusterOf starts a cluster of three masters, whose shards nobody takes over, and opens a store in it.
func clusterOf(t *testing.T, shards int) (*redisserver.Cluster, *notify.Store) {
	t.Helper()
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour)
	storetest.Must(t, err)
	t.Cleanup(c.Stop)
	db := shardsAt(t, c.URL(), "", shards)
	carry(t, db)
	return c, db
}

// insist publishes broadcasts, though a server may be slow to take a connection.
func insist(t *testing.T, db *notify.Store, topics []string, ids ...string) {
	t.Helper()
	pub := storetest.Publisher(t, db)
	for _, id := range ids {
		for _, topic := range topics {
			storetest.Eventually(t, id+" is published", func() bool {
				_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: id, Broadcast: true})
				return err == nil || errors.Is(err, notify.ErrExists)
			})
		}
	}
}

// Shards that do not answer delay no other: listeners that listen by then, and those that begin, get what is sent in the others, with
// one hand, too. They get the rest when those answer again.
func TestShardsThatHangDelayNoOther(t *testing.T) {
	t.Parallel()
	c, db := clusterOf(t, 8)
	var topics, answer []string // one of each shard, and of those that answer
	for i := 0; len(topics) < 8; i++ {
		topic := fmt.Sprintf("t%d", i)
		number := db.Of(topic).Number()
		if slices.ContainsFunc(topics, func(other string) bool { return db.Of(other).Number() == number }) {
			continue
		}
		if topics = append(topics, topic); number < 5 {
			answer = append(answer, topic)
		}
	}
	perTopic := func(h *received, of []string) map[string][]string {
		h.mu.Lock()
		defer h.mu.Unlock()
		got := make(map[string][]string)
		for _, b := range h.all {
			if slices.Contains(of, b.Topic) {
				got[b.Topic] = append(got[b.Topic], b.ID)
			}
		}
		return got
	}
	all := make(map[string]*received)
	want := func(of []string, ids ...string) {
		t.Helper()
		for who, h := range all {
			storetest.Eventually(t, fmt.Sprintf("%s has %v of each of %v", who, ids, of), func() bool {
				got := perTopic(h, of)
				for _, topic := range of {
					if !slices.Equal(got[topic], ids) {
						return false
					}
				}
				return true
			})
		}
	}
	for _, name := range []string{"", "n"} {
		all["early "+name], _ = listen(t, newListener(t, db), ">", subscribers.ListenOptions{Name: name})
	}
	first, second, third := numbers("a", 3), numbers("b", 3), numbers("c", 3)
	insist(t, db, topics, first...)
	want(topics, first...)
	send(t, c.Masters[2], syscall.SIGSTOP)
	for _, name := range []string{"", "late"} {
		all["late "+name], _ = listen(t, newListener(t, db), ">", subscribers.ListenOptions{Name: name, From: subscribers.FromBeginning()})
	}
	insist(t, db, answer, second...)
	want(answer, slices.Concat(first, second)...)
	send(t, c.Masters[2], syscall.SIGCONT)
	insist(t, db, topics, third...)
	want(answer, slices.Concat(first, second, third)...)
	others := slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return slices.Contains(answer, topic) })
	want(others, slices.Concat(first, third)...)
}

// Shards that do not answer lose their own leases alone: those of the others are extended meanwhile.
func TestLeasesOfShardsBesideThoseThatHang(t *testing.T) {
	t.Parallel()
	const shards, lease = 32, 20 * time.Second // longer than a machine stands still, and shorter than all that hang one after the other
	c, db := clusterOf(t, shards)
	topics := make(map[int]string) // of each shard
	for i := 0; len(topics) < shards; i++ {
		topic := fmt.Sprintf("t%d", i)
		topics[db.Of(topic).Number()] = topic
	}
	begun, lost, finish := make(chan string, shards), make(chan string, shards), make(chan struct{})
	started := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return newListener(t, db).Listen(ctx, ">", func(ctx context.Context, b *subscribers.Broadcast) error {
			if b.Attempt > 1 {
				return nil
			}
			begun <- b.Topic
			select {
			case <-finish:
			case <-ctx.Done():
				lost <- b.Topic
			}
			return nil
		}, subscribers.ListenOptions{Name: "n", Concurrency: 2 * shards, Lease: lease, OnStart: func(subscribers.Bookmark) { close(started) }})
	})
	storetest.Receive(t, "the listener starts", started)
	insist(t, db, slices.Collect(maps.Values(topics)), "x")
	for range topics {
		storetest.Receive(t, "a broadcast", begun)
	}
	send(t, c.Masters[0], syscall.SIGSTOP)
	const hang = shards / 3 // or one more, on the first of three masters
	for range hang {
		topic := storetest.Receive(t, "the end of a lease", lost)
		if number := db.Of(topic).Number(); number > hang {
			t.Errorf("shard %d, which answers, lost its lease", number)
		}
	}
	send(t, c.Masters[0], syscall.SIGCONT)
	close(finish)
}

// A shard that does not answer keeps no caller from what is sent in another, also while nobody knows yet that it is away.
func TestClaimBesideAShardThatHangs(t *testing.T) {
	t.Parallel()
	c, db := clusterOf(t, 8)
	var there, away string
	for i := 0; there == "" || away == ""; i++ {
		if topic := fmt.Sprintf("t%d", i); db.Of(topic).Number() < 5 {
			there = topic
		} else {
			away = topic
		}
	}
	patient := storetest.Unhurried(storetest.With(t, notify.Config{URL: c.URL(), Shards: 8}))
	var failed atomic.Int64
	patient.Observe(func(_ string, _ time.Duration, err error) {
		if err != nil {
			failed.Add(1)
		}
	})
	p, _ := runClaimer(t, patient)
	storetest.Eventually(t, "all shards answer", func() bool { return p.Ping(t.Context()) == nil })
	send(t, c.Masters[2], syscall.SIGSTOP)
	defer send(t, c.Masters[2], syscall.SIGCONT)
	for _, id := range []string{"1", "2"} { // each shard is the first to be asked
		answer := claimAnyLater(t.Context(), t, p, []string{away, there}, long())
		waitsIn(t, db, []string{there}, 1)
		storetest.Publish(t, db, of(there, id))
		want(t, "what the other shard has", answer, id)
	}
	if n := failed.Load(); n > 0 {
		t.Errorf("the claims waited until %d calls had failed", n)
	}
}
