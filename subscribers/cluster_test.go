package subscribers_test

import (
	"context"
	"errors"
	"fmt"
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
	if err != nil {
		t.Fatal(err)
	}
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

// Shards that do not answer lose their own leases alone: those of the others are extended meanwhile.
func TestLeasesOfShardsBesideThoseThatHang(t *testing.T) {
	t.Parallel()
	const shards, lease = 32, 20 * time.Second                                 // longer than a machine stands still, and shorter than all that hang one after the other
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour) // nobody takes over
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	db := shardsAt(t, c.URL(), "", shards)
	carry(t, db)
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
	pub := storetest.Publisher(t, db)
	for _, topic := range topics {
		storetest.Eventually(t, "it is published, though a server may be slow to take a connection", func() bool {
			_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: "x", Broadcast: true})
			return err == nil || errors.Is(err, notify.ErrExists)
		})
	}
	for range topics {
		storetest.Receive(t, "a broadcast", begun)
	}
	if err := c.Masters[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const hang = shards / 3 // or one more, on the first of three masters
	for range hang {
		topic := storetest.Receive(t, "the end of a lease", lost)
		if number := db.Of(topic).Number(); number > hang {
			t.Errorf("shard %d, which answers, lost its lease", number)
		}
	}
	if err := c.Masters[0].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	close(finish)
}
