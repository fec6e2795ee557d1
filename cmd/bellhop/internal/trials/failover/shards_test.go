package failover_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// allShards returns the shards of a store on the cluster.
func allShards(t *testing.T, s *notify.Store) []store.Shard {
	t.Helper()
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	return shards
}

// slotOf returns the slot of a shard.
func slotOf(t *testing.T, s *notify.Store, shard int) int {
	t.Helper()
	slot, err := s.Client().ClusterKeySlot(t.Context(), s.KeysOfAll()[shard].ScheduledTopics()).Result()
	storetest.Must(t, err)
	return int(slot)
}

// heldBy returns the numbers of the shards that a master held at first, and those of the others.
func (c *cluster) heldBy(t *testing.T, s *notify.Store, master *redisserver.Server) (its, others []int) {
	t.Helper()
	for k := range s.KeysOfAll() {
		if c.Masters[slotOf(t, s, k)*len(c.Masters)/16384] == master {
			its = append(its, k)
		} else {
			others = append(others, k)
		}
	}
	return its, others
}

// servers returns all servers of the cluster.
func (c *cluster) servers() []*redisserver.Server {
	return append(append([]*redisserver.Server(nil), c.Masters...), c.Replicas...)
}

// Ears record what a subscription to an inbox in all shards is told.
type ears struct {
	mu     sync.Mutex
	inbox  reach.Inbox
	counts map[reach.EventKind]map[int]int
}

// listenTo subscribes to an inbox in all shards, and waits until it is up.
func listenTo(t *testing.T, s *notify.Store) *ears {
	t.Helper()
	e := &ears{inbox: reach.NewInbox("ears", true), counts: make(map[reach.EventKind]map[int]int)}
	storetest.Run(t, func(ctx context.Context) error {
		s.Subscribe(ctx, func(one store.Event) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.counts[one.Kind] == nil {
				e.counts[one.Kind] = make(map[int]int)
			}
			e.counts[one.Kind][one.Shard().Number()]++
		}, s.Every().InboxChannel(e.inbox))
		return nil
	})
	storetest.Eventually(t, "all shards are heard", func() bool { return len(e.of(reach.Subscribed)) == len(s.KeysOfAll()) })
	return e
}

// of returns how many events of a kind each shard has had.
func (e *ears) of(kind reach.EventKind) map[int]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[int]int)
	for k, n := range e.counts[kind] {
		counts[k] = n
	}
	return counts
}

// hearAgain makes a change, and waits until its shards are heard again. The subscriptions to
// others go on, and afterwards the inbox is counted at the master of each shard, once.
func (e *ears) hearAgain(t *testing.T, s *notify.Store, what string, its, others []int, change func()) {
	t.Helper()
	before, broken := e.of(reach.Subscribed), e.of(reach.Broken)
	change()
	storetest.Eventually(t, "the shards are heard again after "+what, func() bool {
		now := e.of(reach.Subscribed)
		for _, k := range its {
			if now[k] == before[k] {
				return false
			}
		}
		return true
	})
	now := e.of(reach.Broken)
	for _, k := range others {
		if now[k] != broken[k] {
			t.Errorf("%s: the subscription to shard %d, of another master, broke", what, k)
		}
	}
	for _, shard := range allShards(t, s) {
		storetest.Eventually(t, "the inbox is counted at the master", func() bool {
			n, err := shard.Ping(t.Context(), e.inbox, "x")
			return err == nil && n == 1
		})
	}
}

// beats keeps a beat of each shard going, as carriers would.
func beats(t *testing.T, s *notify.Store) {
	t.Helper()
	for _, keys := range s.KeysOfAll() {
		storetest.Run(t, func(ctx context.Context) error {
			for ctx.Err() == nil {
				_ = s.Client().SPublish(ctx, keys.Beat(), "1 1 id 0,0").Err() // a master may be away
				select {
				case <-ctx.Done():
				case <-time.After(reach.Heartbeat / 2):
				}
			}
			return nil
		})
	}
}

// A subscription hears again after each way in which a shard's server may change, and what other masters hold goes on.
func TestShardsAreHeardAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, notify.Config{URL: c.URL(), Shards: 8})
	storetest.Found(t, s)
	beats(t, s)
	e := listenTo(t, s)
	for i, master := range c.Masters {
		its, others := c.heldBy(t, s, master)
		e.hearAgain(t, s, fmt.Sprintf("CLIENT KILL at master %d", i), its, others, func() {
			storetest.Must(t, connect(t, master).Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		})
	}
	for i, master := range c.Masters {
		its, others := c.heldBy(t, s, master)
		to := c.Masters[(i+1)%len(c.Masters)]
		there, back := []int{its[0]}, append(append([]int(nil), its[1:]...), others...)
		e.hearAgain(t, s, fmt.Sprintf("a slot moved from master %d", i), there, back, func() { c.move(t, slotOf(t, s, its[0]), master, to) })
		e.hearAgain(t, s, fmt.Sprintf("it moved back to master %d", i), there, back, func() { c.move(t, slotOf(t, s, its[0]), to, master) })
	}
	for i, master := range c.Masters {
		its, others := c.heldBy(t, s, master)
		e.hearAgain(t, s, fmt.Sprintf("a failover of master %d", i), its, others, func() {
			// Without a vote: the masters may not agree yet on the epochs of the slots that were moved, and would refuse theirs.
			storetest.Must(t, connect(t, c.Replicas[i]).Do(t.Context(), "cluster", "failover", "takeover").Err())
			promoted(t, c.Replicas[i])
		})
	}
	its, others := c.heldBy(t, s, c.Masters[0])
	e.hearAgain(t, s, "kill -9", its, others, func() {
		c.Replicas[0].Kill() // it was promoted
		c.replaceLost(t, c.Replicas[0])
	})
}

// move moves a slot from one master to another.
func (c *cluster) move(t *testing.T, slot int, from, to *redisserver.Server) {
	t.Helper()
	ctx := t.Context()
	source, target := connect(t, from), connect(t, to)
	sourceID, targetID := source.ClusterMyID(ctx).Val(), target.ClusterMyID(ctx).Val()
	do := func(client *redis.Client, args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	do(target, "cluster", "setslot", slot, "importing", sourceID)
	do(source, "cluster", "setslot", slot, "migrating", targetID)
	host, port, _ := strings.Cut(to.Addr(), ":")
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		storetest.Must(t, err)
		if len(keys) == 0 {
			break
		}
		migrate := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			migrate = append(migrate, key)
		}
		do(source, migrate...)
	}
	for _, client := range []*redis.Client{target, source} {
		do(client, "cluster", "setslot", slot, "node", targetID)
	}
}

// A process listens to sixteen shards with one connection for each master.
func TestOneWireForEachMaster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, notify.Config{URL: c.URL(), Shards: 16})
	listenTo(t, s)
	listenTo(t, s)
	for i, server := range c.servers() {
		list, err := connect(t, server).Do(t.Context(), "client", "list", "type", "pubsub").Text()
		want := 0
		if i < len(c.Masters) {
			want = 1
		}
		if n := strings.Count(list, "\n"); err != nil || n != want {
			t.Errorf("server %d: %d connections listen, %v; want %d", i, n, err, want)
		}
	}
}

// Lives of messages of many topics in eight shards on three masters, carried and listened to: no call and no script meets a slot of another shard, and
// nothing is published to all nodes.
func TestEightShardsOnThreeMasters(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	s := open(t, notify.Config{URL: c.URL(), Shards: 8, WaitReplicas: 1})
	for _, shard := range allShards(t, s) {
		if f, err := shard.Functions(t.Context()); err != nil || f.Refused != nil { // loads them: a call that misses its function is an error
			t.Fatal(f, err)
		}
	}
	for _, server := range c.servers() {
		if err := connect(t, server).ConfigResetStat(t.Context()).Err(); err != nil { // nodes that meet answer with errors
			t.Fatal(err)
		}
	}
	l := carryShards(t, s)
	plain, named := hearAll(t, l, subscribers.ListenOptions{}), hearAll(t, l, subscribers.ListenOptions{Name: "named"})
	e := listenTo(t, s)
	topics := topicsOfAll(t, s, 3)
	live(t, s, e.inbox, topics)
	storetest.Eventually(t, "each shard rang", func() bool { return len(e.of(reach.Received)) == 8 })
	want := make(map[string]bool)
	for _, topic := range topics {
		want[topic] = true
	}
	for what, of := range map[string]<-chan string{"a broadcast": plain, "a broadcast under a name": named} {
		got := make(map[string]bool)
		for len(got) < len(want) {
			got[storetest.Receive(t, what, of)] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s came of %v, want %v", what, got, want)
		}
	}
	noOtherSlots(t, c)
}

// carryShards runs a carrier, and returns a listener.
func carryShards(t *testing.T, s *notify.Store) *subscribers.Listener {
	t.Helper()
	carriertest.Run(t, s, carrier.Options{Sweep: 10 * time.Millisecond})
	return subscriberstest.Listener(t, s)
}

// hearAll returns the topics of all broadcasts, from its return on.
func hearAll(t *testing.T, l *subscribers.Listener, o subscribers.ListenOptions) <-chan string {
	t.Helper()
	heard, started := make(chan string, 100), make(chan struct{})
	o.OnStart = func(subscribers.Bookmark) { close(started) }
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, ">", func(_ context.Context, b *subscribers.Broadcast) error {
			heard <- b.Topic
			return nil
		}, o)
	})
	storetest.Receive(t, "the listener starts", started)
	return heard
}

// noOtherSlots checks what all servers counted: each master published within slots, nothing was published to all nodes, and no call or script met another slot.
func noOtherSlots(t *testing.T, c *cluster) {
	t.Helper()
	spublish := 0
	for _, server := range c.servers() {
		info, err := connect(t, server).Info(t.Context(), "errorstats", "commandstats").Result()
		storetest.Must(t, err)
		counted := make(map[string]string)
		for line := range strings.Lines(info) {
			name, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
			counted[name] = counts
		}
		_, unknown, _ := strings.Cut(counted["cmdstat_xinfo|stream"], "failed_calls=") // of logs that are not there
		_, others, _ := strings.Cut(counted["errorstat_ERR"], "count=")                // such as: ERR Script attempted to access a non local key
		if published := counted["cmdstat_publish"]; published != "" || counted["errorstat_CROSSSLOT"] != "" || others != unknown {
			t.Errorf("%s published to all nodes: %q, and says\n%s", server.Addr(), published, info)
		}
		if counted["cmdstat_spublish"] != "" {
			spublish++
		}
	}
	if spublish != len(c.Masters) {
		t.Errorf("%d servers published within slots", spublish)
	}
}

// topicsOfAll returns n topics of each shard.
func topicsOfAll(t *testing.T, s *notify.Store, n int) (topics []string) {
	t.Helper()
	for _, shard := range allShards(t, s) {
		for i, of := 0, 0; of < n; i++ {
			if name := fmt.Sprintf("t%d", i); s.Of(name).Number() == shard.Number() {
				topics = append(topics, name)
				of++
			}
		}
	}
	return topics
}

// live runs the lives of messages of topics, for which an inbox waits: one at once, one after a delay, one that is buried, one cancelled, one that
// expires and one broadcast.
func live(t *testing.T, s *notify.Store, inbox reach.Inbox, topics []string) {
	t.Helper()
	ctx := t.Context()
	var messages []notify.Message
	for _, topic := range topics {
		if _, err := s.Of(topic).Claim(ctx, store.Claim{Topic: topic, Max: 1, Lease: time.Minute, Inbox: inbox}); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		messages = append(messages, notify.Message{Topic: topic, ID: "now"}, notify.Message{Topic: topic, ID: "buried"}, notify.Message{Topic: topic, ID: "soon", Delay: 50 * time.Millisecond},
			notify.Message{Topic: topic, ID: "later", Delay: time.Hour}, notify.Message{Topic: topic, ID: "heard", Broadcast: true})
	}
	storetest.Publish(t, s, messages...)
	claimer, pub := subscriberstest.Claimer(t, s), storetest.Publisher(t, s)
	storetest.Run(t, claimer.Run)
	var expire []notify.Message
	for _, topic := range topics {
		if _, err := pub.Cancel(ctx, topic, "later"); err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		for left := 3; left > 0; {
			claimed, err := claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 3, Wait: storetest.Deadline})
			if err != nil || len(claimed) == 0 {
				t.Fatalf("%s: claimed %d, %v", topic, len(claimed), err)
			}
			left -= len(claimed)
			for _, d := range claimed {
				settle(t, d)
			}
		}
		expire = append(expire, notify.Message{Topic: topic, ID: "expires", TTL: 10 * time.Millisecond})
	}
	storetest.Publish(t, s, expire...)
	for _, topic := range topics {
		storetest.Eventually(t, "two are dead", func() bool {
			c, err := storetest.Count(s, topic)
			return err == nil && c.Dead == 2 && c.Acked == 2
		})
	}
}

// settle buries the message that is to be, and acknowledges any other.
func settle(t *testing.T, d subscribers.Delivery) {
	t.Helper()
	var err error
	if d.ID == "buried" {
		_, err = d.Bury(t.Context(), "test")
	} else {
		err = d.Ack(t.Context())
	}
	if err != nil {
		t.Errorf("%s:%s: %v", d.Topic, d.ID, err)
	}
}
