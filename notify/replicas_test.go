package notify_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// pair starts a redis-server and a replica of it.
func pair(t testing.TB) (master, replica *redisserver.Server) {
	t.Helper()
	master = storetest.Server(t)
	replica, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir()})
	storetest.Must(t, err)
	t.Cleanup(replica.Stop)
	return master, replica
}

// confirmed returns a store that waits for a replica.
func confirmed(t testing.TB, url string) *notify.Store {
	t.Helper()
	return storetest.Unhurried(storetest.With(t, notify.Config{URL: url, WaitReplicas: 1, Shards: storetest.Shards()}))
}

// The replica has all that was answered.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	db, copied := confirmed(t, master.URL()), storetest.Unhurried(storetest.At(t, replica.URL(), ""))
	db.Client().AddHook(waitsLong{})
	pub := clientOf(t, db)
	there := func(id string) bool {
		t.Helper()
		found, err := copied.Client().HExists(t.Context(), copied.KeysOf(topic).Messages(), record.Member(topic, id)).Result()
		storetest.Must(t, err)
		return found
	}
	for i := range 200 {
		id := fmt.Sprintf("m%d", i)
		if i == 100 { // a script that is gone is loaded and run again
			storetest.Must(t, db.Client().ScriptFlush(t.Context()).Err())
		}
		m := message(id, past)
		m.IfExists = []notify.IfExists{notify.Refuse, notify.Keep, notify.Replace}[i%3]
		publish(t, pub, m)
		if !there(id) {
			t.Fatalf("%s is published, and the replica has it not", id)
		}
		if i%2 == 0 {
			storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, id)))
		} else if err := claim(t, db, 1)[0].Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if there(id) {
			t.Fatalf("%s is settled, and the replica has it still", id)
		}
	}
	c := message("c", future)
	c.UniqueFor = anHour
	for _, result := range pub.PublishMany(t.Context(), []notify.Message{message("a", past), message("b", future), c}) {
		if result.Err != nil || !there(result.ID) {
			t.Errorf("%s of a batch is not there: %v", result.ID, result.Err)
		}
	}
}

// A waitsLong has Redis wait long enough for replicas that a test can do something meanwhile, and that one answers that does not hang.
type waitsLong struct{}

func (waitsLong) DialHook(next redis.DialHook) redis.DialHook { return next }

func (waitsLong) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (waitsLong) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		for _, cmd := range all {
			if args := cmd.Args(); args[0] == "wait" {
				args[2] = (storetest.Deadline / 2).Milliseconds()
			}
		}
		return next(ctx, all)
	}
}

// A wait for replicas that Redis breaks off, as where the server is made a replica, is an ErrUnreplicated: the change is made.
func TestWaitIsBrokenOff(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	db := confirmed(t, master.URL())
	db.Client().AddHook(waitsLong{})
	pub := clientOf(t, db)
	publish(t, pub, message("before", future))
	storetest.Must(t, replica.Signal(syscall.SIGSTOP))
	published := make(chan error, 1)
	go func() {
		_, err := pub.Publish(t.Context(), message("m", future))
		published <- err
	}()
	other := storetest.Unhurried(storetest.At(t, master.URL(), "")).Client()
	waits := regexp.MustCompile(`(?m)^id=(\d+) .* flags=b .* cmd=wait `)
	storetest.Eventually(t, "the wait is broken off", func() bool {
		clients, err := other.ClientList(t.Context()).Result()
		storetest.Must(t, err)
		one := waits.FindStringSubmatch(clients)
		return one != nil && other.Do(t.Context(), "CLIENT", "UNBLOCK", one[1], "ERROR").Val() == int64(1)
	})
	if err := storetest.Receive(t, "the publish ends", published); !errors.Is(err, notify.ErrUnreplicated) || !notify.Retryable(err) {
		t.Errorf("got %v, want an ErrUnreplicated", err)
	}
	storetest.Must(t, replica.Signal(syscall.SIGCONT))
	storetest.Fails(t, "it", storetest.ErrOf(pub.Publish(t.Context(), message("m", future))), notify.ErrExists)
}

// While a replica hangs, a call that it does not confirm is an ErrUnreplicated, and so
// is its repetition, until the replica is back.
func TestUnreplicated(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	publish(t, clientOf(t, storetest.Unhurried(storetest.At(t, master.URL(), ""))), message("before", future)) // which need not be confirmed
	db := confirmed(t, master.URL())
	pub := clientOf(t, db)
	storetest.Must(t, replica.Signal(syscall.SIGSTOP))
	unconfirmed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, notify.ErrUnreplicated) || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Errorf("%s: %v; want ErrUnreplicated with the number of replicas", what, err)
		}
	}
	for _, what := range []string{"publish", "publish again"} {
		_, err := pub.Publish(t.Context(), message("m", future))
		unconfirmed(what, err)
	}
	as := message("as", future)
	as.IfExists = notify.Keep
	for _, what := range []string{"publish as", "publish as again"} {
		_, err := pub.Publish(t.Context(), as)
		unconfirmed(what, err)
	}
	for _, what := range []string{"cancel", "cancel again"} {
		_, err := pub.Cancel(t.Context(), topic, "before")
		unconfirmed(what, err)
	}
	storetest.Must(t, replica.Signal(syscall.SIGCONT))
	db.Client().AddHook(waitsLong{})
	storetest.Eventually(t, "the publish is confirmed", func() bool {
		_, err := pub.Publish(t.Context(), message("m", future))
		return errors.Is(err, notify.ErrExists)
	})
	if p, err := pub.Publish(t.Context(), as); err != nil || p.Outcome != notify.Kept {
		t.Errorf("once it is confirmed it is %+v, %v", p, err)
	}
	storetest.Fails(t, "cancel of what was cancelled", storetest.ErrOf(pub.Cancel(t.Context(), topic, "before")), notify.ErrNotFound)
}

// If Redis is out of memory, the answer of a call that changes nothing is confirmed,
// too.
func TestWaitReplicasOutOfMemory(t *testing.T) {
	t.Parallel()
	master, _ := pair(t)
	db := confirmed(t, master.URL())
	db.Client().AddHook(waitsLong{})
	client := db.Client()
	storetest.Must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	pub := clientOf(t, db)
	storetest.Fails(t, "it", storetest.ErrOf(pub.Cancel(t.Context(), topic, "none")), notify.ErrNotFound)
	if n, err := client.Exists(t.Context(), db.KeysOf(topic).Mark()).Result(); err != nil || n != 1 {
		t.Errorf("the mark is not written: %d, %v", n, err)
	}
}

func TestWaitReplicasOutOfRange(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, reach.MaxWaitReplicas + 1} {
		if _, err := notify.Open(notify.Config{WaitReplicas: n}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "0 to 16") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func BenchmarkPublishReplicated(b *testing.B) {
	master, _ := pair(b)
	db := confirmed(b, master.URL())
	pub := clientOf(b, db)
	body := []byte(strings.Repeat("x", 100))
	b.Run("single from 16", func(b *testing.B) {
		var failed atomic.Pointer[error]
		b.SetParallelism(8)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := pub.Publish(b.Context(), notify.Message{Topic: topic, Body: body, Delay: time.Hour}); err != nil {
					failed.Store(&err)
				}
			}
		})
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "publishes/s")
	})
	b.Run("batches of 500", func(b *testing.B) {
		batch := make([]notify.Message, 500)
		for i := range batch {
			batch[i] = notify.Message{Topic: topic, Body: body, Delay: time.Hour}
		}
		for b.Loop() {
			storetest.Must(b, pub.PublishMany(b.Context(), batch)[0].Err)
		}
		b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "publishes/s")
	})
}
