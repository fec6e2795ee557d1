package reach_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// withShards returns a store that asks for a number of shards.
func withShards(t *testing.T, url, prefix string, n int) *notify.Store {
	t.Helper()
	return storetest.With(t, notify.Config{URL: url, Prefix: prefix, Shards: n})
}

// publishTo publishes a message to a topic.
func publishTo(t *testing.T, s *notify.Store, topic string) error {
	t.Helper()
	_, err := s.Of(topic).Publish(t.Context(), []store.Publish{{Topic: topic, Member: record.Member(topic, record.NewID()), Tail: "}\nx"}})
	return err
}

// formats returns the values of all format keys under a prefix.
func formats(t *testing.T, client redis.UniversalClient, prefix string) map[string]string {
	t.Helper()
	keys, err := client.Keys(t.Context(), prefix+":*format").Result()
	storetest.Must(t, err)
	values := make(map[string]string)
	for _, key := range keys {
		values[key] = client.Get(t.Context(), key).Val()
	}
	return values
}

// The shard of a topic is its CRC-32 modulo their number, and its branches are there, where deaths are told, too.
func TestShardOfTopic(t *testing.T) {
	t.Parallel()
	s := withShards(t, storetest.URL(), "test-"+record.NewID(), 8)
	for topic, want := range map[string]int{"orders": 6, "t": 0, "mails": 5, "order.timeout": 7} {
		storetest.Is(t, fmt.Sprintf("the table says %d for %s, whose sum is", want, topic), int(crc32.ChecksumIEEE([]byte(topic))%8), want)
		for _, name := range []string{topic, record.DeadPrefix + topic, topic + "@mail", record.DeadPrefix + topic + "@mail"} {
			if d, err := s.ShardOf(t.Context(), name); err != nil || d.Number() != want {
				t.Errorf("%s is in shard %d, %v; want %d", name, d.Number(), err, want)
			}
		}
	}
}

// A number of shards that cannot be is refused with a remedy.
func TestWrongNumberOfShards(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, -8, 3, 6, 255, 257, 512} {
		_, err := store.Open(reach.Config{Shards: n})
		var wrong *fault.Fault
		if !errors.As(err, &wrong) || wrong.Field != "shards" || !strings.Contains(err.Error(), "use a power of two, 1 to 256") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// A process that asks for other shards than the store has is refused, and changes nothing; one that asks for none takes what there is.
func TestOtherNumberOfShards(t *testing.T) {
	t.Parallel()
	for _, has := range []int{1, 8} {
		for _, asked := range []int{0, 1, 4, 8} {
			t.Run(fmt.Sprintf("%d of %d", asked, has), func(t *testing.T) {
				t.Parallel()
				prefix := "test-" + record.NewID()
				first := withShards(t, storetest.URL(), prefix, has)
				storetest.Found(t, first)
				before := formats(t, first.Client(), prefix)
				s := withShards(t, storetest.URL(), prefix, asked)
				err := publishTo(t, s, "orders")
				if asked == 0 || asked == has {
					shards, errShards := s.Shards(t.Context())
					if err != nil || errShards != nil || len(shards) != has {
						t.Errorf("%d shards, %v, %v", len(shards), err, errShards)
					}
					return
				}
				if !errors.Is(err, reach.ErrUnfit) || !strings.Contains(err.Error(), fmt.Sprintf("has %d shard", has)) || !strings.Contains(err.Error(), fmt.Sprintf("shards is %d; leave that out", asked)) {
					t.Errorf("a publish: %v", err)
				}
				storetest.Fails(t, "the check", s.Check(t.Context()), reach.ErrUnfit)
				if after := formats(t, first.Client(), prefix); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("%v became %v", before, after)
				}
			})
		}
	}
}

// Of two processes that found a store at once with different numbers one is refused, and nothing of its shards is there.
func TestFoundedAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		prefix := "test-" + record.NewID()
		errs := make(chan error, 2)
		numbers := []int{8, 4}
		for _, n := range numbers {
			s := withShards(t, storetest.URL(), prefix, n)
			go func() { errs <- publishTo(t, s, "orders") }()
		}
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), reach.ErrUnfit) {
			t.Fatalf("%v and %v", first, second)
		}
		marks := make(map[string]bool)
		for _, value := range formats(t, withShards(t, storetest.URL(), prefix, 0).Client(), prefix) {
			mark, _, _ := strings.Cut(value, " ")
			marks[mark] = true
		}
		if len(marks) != 1 {
			t.Fatalf("the formats are %v", marks)
		}
	}
}

// Where the key of the root is lost, a process that knows the number goes on, and one that does not is told until the key is made anew.
func TestRootLost(t *testing.T) {
	t.Parallel()
	prefix := "test-" + record.NewID()
	knows := withShards(t, storetest.URL(), prefix, 8)
	storetest.Found(t, knows)
	root := prefix + ":{0}:format"
	if n, err := knows.Client().Del(t.Context(), root).Result(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	storetest.Is(t, "a process that knows the number", publishTo(t, knows, "orders"), nil)
	asks := withShards(t, storetest.URL(), prefix, 0)
	if err := publishTo(t, asks, "orders"); !errors.Is(err, reach.ErrUnfit) || !strings.Contains(err.Error(), "set shards to 8") {
		t.Errorf("a process that asks: %v", err)
	}
	if n := knows.Client().Exists(t.Context(), root).Val(); n != 0 {
		t.Error("a store of one shard was founded")
	}
	storetest.Is(t, "a process that is told the number", publishTo(t, withShards(t, storetest.URL(), prefix, 8), "orders"), nil)
	storetest.Is(t, "a repair", knows.RepairRoot(t.Context()), nil)
	if got := knows.Client().Get(t.Context(), root).Val(); !strings.HasPrefix(got, fmt.Sprintf("%d/8/0 ", reach.Newest().Number)) {
		t.Errorf("the root made anew is %q", got)
	}
	storetest.Is(t, "a process that asks then", publishTo(t, withShards(t, storetest.URL(), prefix, 0), "orders"), nil)
}

// A shard that lost all is founded again with another id, and the others keep theirs.
func TestShardLost(t *testing.T) {
	t.Parallel()
	prefix := "test-" + record.NewID()
	s := withShards(t, storetest.URL(), prefix, 8)
	storetest.Found(t, s)
	before, lost := formats(t, s.Client(), prefix), s.KeysOf("orders")
	keys, err := s.Client().Keys(t.Context(), lost.Base()+"*").Result()
	storetest.Must(t, err)
	storetest.Must(t, s.Client().Del(t.Context(), keys...).Err())
	storetest.Must(t, publishTo(t, s, "orders"))
	for key, value := range formats(t, s.Client(), prefix) {
		if (value == before[key]) == (key == lost.Format()) {
			t.Errorf("%s was %s and is %s", key, before[key], value)
		}
	}
}

// A version that knows no shards reads the first two bytes of the format key, and refuses a store of several.
func TestOlderVersionRefuses(t *testing.T) {
	t.Parallel()
	prefix := "test-" + record.NewID()
	s := withShards(t, storetest.URL(), prefix, 8)
	storetest.Found(t, s)
	values := formats(t, s.Client(), prefix)
	if len(values) != 9 {
		t.Errorf("%d format keys", len(values))
	}
	for key, value := range values {
		if strings.HasPrefix(value, fmt.Sprintf("%d ", reach.Newest().Number)) || !strings.HasPrefix(value, fmt.Sprintf("%d/8/0 ", reach.Newest().Number)) {
			t.Errorf("%s is %s", key, value)
		}
	}
}

// A user who lacks a right for several shards is told which, and nothing is changed.
func TestRightsOfShards(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	admin := storetest.Unhurried(withShards(t, server.URL(), "admin", 1)).Client()
	for _, right := range []string{"spublish", "ssubscribe", "pubsub|shardnumsub"} {
		t.Run(right, func(t *testing.T) {
			prefix := "test-" + record.NewID()
			user := append([]any{"acl", "setuser", prefix, "reset", "on", ">secret"}, words(reach.Rights(prefix, 8))...)
			storetest.Must(t, admin.Do(t.Context(), append(user, "-"+right)...).Err())
			url := strings.Replace(server.URL(), "://", "://"+prefix+":secret@", 1)
			s := storetest.Unhurried(withShards(t, url, prefix, 8))
			err := publishTo(t, s, "orders")
			if right == "ssubscribe" { // a script cannot try that: the subscription is told
				h, _ := subscribe(t, s, s.Of("orders").NudgeChannel())
				h.wait(t, reach.Broken, 1, 1)
				err = h.first(reach.Broken).Err
			} else if found := formats(t, admin, prefix); len(found) != 0 {
				t.Errorf("there is %v", found)
			}
			var rights *reach.RightsError
			if !errors.As(err, &rights) || !strings.Contains(strings.ToLower(rights.Fault), strings.ReplaceAll(right, "|", " ")) && !strings.Contains(rights.Fault, right) || !strings.Contains(rights.Remedy, "+"+right) {
				t.Errorf("%v", err)
			}
		})
	}
}

func words(text string) (all []any) {
	for _, word := range strings.Fields(text) {
		all = append(all, word)
	}
	return all
}

// While the server of the root hangs or is away, processes that were told the number go on where the shards are founded, and so does one that has learned it; one that starts without it waits.
func TestRootAway(t *testing.T) {
	t.Parallel()
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour) // nobody takes over
	storetest.Must(t, err)
	t.Cleanup(c.Stop)
	told, learned := storetest.Unhurried(withShards(t, c.URL(), "root", 8)), storetest.Unhurried(withShards(t, c.URL(), "root", 0))
	storetest.Found(t, told)
	storetest.Must(t, learned.Learn(t.Context()))
	topic := "" // of a shard at another server than the root, whose slot is that of {0}: 13907
	slot, err := told.Client().ClusterKeySlot(t.Context(), "{0}").Result()
	storetest.Must(t, err)
	away := int(slot) * 3 / 16384
	for i := 0; topic == ""; i++ {
		name := fmt.Sprintf("t%d", i)
		if slot := told.Client().ClusterKeySlot(t.Context(), told.KeysOf(name).Format()).Val(); int(slot)*3/16384 != away {
			topic = name
		}
	}
	storetest.Must(t, publishTo(t, learned, topic))
	root := c.Masters[away]
	for _, fault := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		storetest.Must(t, root.Signal(fault))
		for who, s := range map[string]*notify.Store{"told the number": told, "learned it": learned, "told, and started now": withShards(t, c.URL(), "root", 8)} {
			storetest.Is(t, fmt.Sprintf("%v of the server: a process that was %s", fault, who), publishTo(t, s, topic), nil)
		}
		if err := publishTo(t, withShards(t, c.URL(), "root", 0), topic); !reach.Retryable(err) {
			t.Errorf("%v of the server: one that does not know the number: %v", fault, err)
		}
	}
}

// A store is in trouble while all shards that were called are, however many never were.
func TestTroubleOfShards(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := storetest.Unhurried(withShards(t, server.URL(), "test", 8))
	const one, other = "orders", "mail"
	if s.Of(one) == s.Of(other) {
		t.Fatal("both topics are in one shard")
	}
	if err := publishTo(t, s, one); err != nil || s.Trouble() != nil {
		t.Fatal(err, s.Trouble())
	}
	server.Stop()
	if err := publishTo(t, s, other); err == nil || s.Trouble() != nil {
		t.Errorf("one of two is away: %v, %v", err, s.Trouble())
	}
	if err := publishTo(t, s, one); err == nil || s.Trouble() == nil {
		t.Errorf("both are away: %v, %v", err, s.Trouble())
	}
}
