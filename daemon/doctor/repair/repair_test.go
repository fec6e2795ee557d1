package repair_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// Many tests lose a hand-over, and wait for the end of its lease.
func TestMain(m *testing.M) { storetest.MainInTime(m) }

// open is storetest.Open for tests of what is found in one shard, which name its keys; what is
// found in several is tested by those that begin with sharded.
func open(t testing.TB) *notify.Store {
	t.Helper()
	storetest.OneShard(t, "the keys that are damaged are those of one; see TestEachShard")
	return storetest.Open(t)
}

// openAt is open for a store elsewhere.
func openAt(t testing.TB, url, prefix string) *notify.Store {
	t.Helper()
	storetest.OneShard(t, "the keys that are damaged are those of one; see TestEachShard")
	return storetest.Unhurried(storetest.At(t, url, prefix))
}

// do runs a command on a key, given without its beginning.
func do(t testing.TB, store *notify.Store, command, key string, args ...any) {
	t.Helper()
	all := append([]any{command, store.Keys().Base() + key}, args...)
	if err := store.Client().Do(t.Context(), all...).Err(); err != nil {
		t.Fatalf("%v: %v", all, err)
	}
}

// run runs a repair, and returns what it found as "FAULT NAME KEY", sorted.
func run(t testing.TB, store *notify.Store, apply bool) ([]string, repair.Summary) {
	t.Helper()
	var found []string
	sum, err := repair.Run(t.Context(), store, repair.Options{Apply: apply}, func(f repair.Finding) {
		found = append(found, fmt.Sprintf("%v %s %s", f.Fault, strings.TrimPrefix(f.Name, store.Keys().Base()), f.Key))
		if f.Repaired != (apply && f.Remedy != "") {
			t.Errorf("%+v", f)
		}
	})
	storetest.Must(t, err)
	slices.Sort(found)
	return found, sum
}

// contents returns all that the keys of a store hold, except keys that expire.
func contents(t *testing.T, store *notify.Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	keys, err := store.Client().Keys(t.Context(), store.Keys().Base()+"*").Result()
	storetest.Must(t, err)
	for _, key := range keys {
		if strings.Contains(key, "}:room:") {
			continue
		}
		if all[key], err = store.Client().Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// fill puts a message into each place, with all that belongs to it. All are due in a moment.
func fill(t *testing.T, store *notify.Store) {
	t.Helper()
	const soon = 100 * time.Millisecond
	claimer := subscriberstest.Claimer(t, store)
	hand := func(id string, m notify.Message) *subscribers.Delivery {
		m.Topic, m.ID, m.Body = "orders", id, []byte(id)
		storetest.Publish(t, store, m)
		got, err := claimer.Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1, Lease: soon})
		if err != nil || len(got) != 1 || got[0].ID != id {
			t.Fatalf("claimed %v, %v", got, err)
		}
		return &got[0]
	}
	hand("leased", notify.Message{})
	storetest.Must(t, storetest.ErrOf(hand("dead", notify.Message{}).Bury(t.Context(), "no such order")))
	again := hand("again", notify.Message{TTL: time.Hour})
	storetest.Publish(
		t, store,
		notify.Message{Topic: "orders", ID: "scheduled", Body: []byte("scheduled"), Delay: soon},
		notify.Message{Topic: "orders", ID: "ready", Body: []byte("ready")},
		notify.Message{Topic: "orders", ID: "all", Body: []byte("all"), Delay: soon, Broadcast: true},
		notify.Message{Topic: "ledger", ID: "holds", Body: []byte("holds"), Key: "k"},
	)
	if _, err := again.Nack(t.Context(), soon, "not yet"); err != nil { // once it is due, others of its topic are scheduled behind it
		t.Fatal(err)
	}
	if got, err := claimer.Claim(t.Context(), "ledger", subscribers.ClaimOptions{Max: 1, Lease: soon}); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	storetest.Publish(t, store, notify.Message{Topic: "ledger", ID: "behind", Body: []byte("behind"), Key: "k"})
}

// everything is what fill publishes: messages for workers, then broadcasts.
var everything = []string{"again", "behind", "dead", "holds", "leased", "ready", "scheduled", "broadcast all"}

func without(ids ...string) []string {
	return slices.DeleteFunc(slices.Clone(everything), func(id string) bool { return slices.Contains(ids, id) })
}

// wantDelivered requeues dead letters, runs a carrier, and checks that each wanted
// message is delivered once and nothing is left.
func wantDelivered(t *testing.T, store *notify.Store, want []string) {
	t.Helper()
	for _, topic := range []string{"orders", "mail", "ledger"} {
		storetest.Must(t, storetest.ErrOf(storetest.Inspector(t, store).Requeue(t.Context(), topic, storetest.Dead(t, store, topic)...)))
	}
	storetest.RingAlone(t, store, "orders", "mail", "ledger") // a hand-over that ends comes twice
	var mu sync.Mutex
	var got []string
	stop := carriertest.Run(t, store, carrier.Options{Lease: carrier.MinLease})
	defer stop()
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	for _, topic := range []string{"orders", "mail", "ledger"} {
		err := sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, d.ID)
			return nil
		}, subscribers.HandleOptions{})
		storetest.Must(t, err)
	}
	defer storetest.Run(t, sub.Run)()
	storetest.Eventually(t, "all are handled", func() bool {
		n, err := store.Client().HLen(t.Context(), store.Keys().Messages()).Result()
		return err == nil && n == 0
	})
	log, err := store.Client().XRange(t.Context(), store.Keys().Log("orders"), "-", "+").Result()
	storetest.Must(t, err)
	mu.Lock()
	defer mu.Unlock()
	for _, entry := range log {
		got = append(got, "broadcast "+entry.Values["id"].(string))
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	storetest.Same(t, "delivered", want, got)
	storetest.Empty(t, store)
}

// lostRecord is the record of a message, for any topic and id.
const lostRecord = "1700000000000\nlost"

var damages = []struct {
	name   string
	damage func(t *testing.T, store *notify.Store)
	found  []string // FAULT NAME KEY
	want   []string // the messages delivered; nil: everything
}{
	{"none", func(*testing.T, *notify.Store) {}, nil, nil},
	{"a record without a place", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "messages", "mail:lost", lostRecord)
	}, []string{"no place mail:lost messages"}, append(without(), "lost")},
	{"a broadcast without a place", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZREM", "broadcasts", "orders:all")
	}, []string{"no place orders:all messages", "count orders topics"}, nil},
	{"the scheduled set is lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "scheduled:orders")
	}, []string{"no place orders:scheduled messages", "no place orders:again messages", "index orders scheduled"}, nil},
	{"the index of scheduled sets is lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "scheduled")
	}, []string{"index orders scheduled"}, nil},
	{"a scheduled set begins elsewhere", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "scheduled", 9e12, "orders")
	}, []string{"index orders scheduled"}, nil},
	{"a topic without a scheduled set", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "scheduled", 1, "ghost", 9e12, "no topic")
	}, []string{"index ghost scheduled", "index no topic scheduled"}, nil},
	{"a member among the scheduled sets", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "messages", "mail:old", lostRecord)
		do(t, store, "ZADD", "scheduled", 1700000000000, "mail:old")
	}, []string{"no place mail:old messages", "index mail:old scheduled"}, append(without(), "old")},
	{"a member among the scheduled sets that has its place", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "scheduled", 1, "orders:ready", 9e12, "orders:leased")
	}, []string{"index orders:leased scheduled", "index orders:ready scheduled"}, nil},
	{"the ready set is lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "ready:orders")
	}, []string{"no place orders:ready messages", "index orders ready"}, nil},
	{"the index of ready topics is lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "ready")
	}, []string{"index orders ready"}, nil},
	{"a topic without anything ready", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready", 1, "ghost", 1, "no topic")
	}, []string{"index ghost ready", "index no topic ready"}, nil},
	{"the leases are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "leased")
	}, []string{"no place orders:leased messages", "no place ledger:holds messages", "count orders topics", "count ledger topics"}, nil},
	{"the dead letters are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "dead:orders")
	}, []string{"no place orders:dead messages", "of nothing orders:dead deaths"}, nil},
	{"all records are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "messages")
	}, []string{
		"no record orders:all broadcasts", "no record orders:leased leased", "no record orders:ready ready:orders",
		"no record orders:scheduled scheduled:orders", "no record orders:again scheduled:orders", "no record orders:dead dead:orders",
		"of nothing orders:again attempts", "of nothing orders:again expiries", "of nothing orders:dead attempts",
		"no record ledger:holds leased", "of nothing ledger:holds keys:ledger", "of nothing ledger:behind keys:ledger", "no record ledger:behind line:ledger",
	}, []string{}},
	{"members without a record", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "scheduled:orders", 1, "orders:ghost")
		do(t, store, "ZADD", "scheduled", 1, "orders")
		do(t, store, "ZADD", "ready:mail", 1, "mail:ghost")
		do(t, store, "ZADD", "ready", 1, "mail")
		do(t, store, "ZADD", "dead:_", 1, "no topic")
		do(t, store, "ZADD", "deaths-oldest", 1, "_")
		do(t, store, "ZADD", "deaths-newest", 1, "_")
		do(t, store, "HSET", "deaths", "no topic", "member without a topic")
	}, []string{"no record orders:ghost scheduled:orders", "no record mail:ghost ready:mail", "no record no topic dead:_"}, nil},
	{"a lease without a record", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "leased", 9e12, "mail:ghost")
		do(t, store, "HSET", "topics", "mail:leased", 1)
	}, []string{"no record mail:ghost leased"}, nil},
	{"members of another topic", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "messages", "mail:stray", lostRecord)
		do(t, store, "ZADD", "ready:orders", 1, "mail:stray")
		do(t, store, "ZADD", "ready", 1, "orders")
	}, []string{"other topic mail:stray ready:orders", "no place mail:stray messages"}, append(without(), "stray")},
	{"leased and ready", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready:orders", 1, "orders:leased")
		do(t, store, "ZADD", "ready", 1, "orders")
	}, []string{"two places orders:leased ready:orders"}, nil},
	{"ready and scheduled", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "scheduled:orders", 9e12, "orders:ready")
	}, []string{"two places orders:ready scheduled:orders"}, nil},
	{"scheduled and dead", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "dead:orders", 1, "orders:scheduled")
		do(t, store, "ZADD", "deaths-oldest", 1, "orders")
		do(t, store, "HSET", "deaths", "orders:scheduled", "expired")
	}, []string{"two places orders:scheduled dead:orders"}, nil},
	{"a broadcast that is ready", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready:orders", 1, "orders:all")
		do(t, store, "ZADD", "ready", 1, "orders")
	}, []string{"two places orders:all ready:orders"}, nil},
	{"a message among the broadcasts", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "broadcasts", 1, "orders:ready")
		do(t, store, "HSET", "topics", "orders:broadcasts", 2)
	}, []string{"two places orders:ready broadcasts"}, nil},
	{"the keys are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "keys:ledger")
	}, []string{"index ledger:holds keys:ledger", "index ledger:behind keys:ledger", "no place ledger:behind messages", "no record ledger:behind line:ledger"}, nil},
	{"the seats are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "seats:ledger")
	}, []string{"seat ledger:holds seats:ledger"}, nil},
	{"the seat of nobody", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "seats:ledger", "k", "gone", "other", "gone !gone")
	}, []string{"seat ledger:gone seats:ledger", "seat ledger:gone seats:ledger", "seat ledger:gone seats:ledger", "seat ledger:holds seats:ledger"}, nil},
	{"the line is lost", func(t *testing.T, store *notify.Store) {
		for _, key := range []string{"line:ledger", "heads:ledger", "keyed"} {
			do(t, store, "DEL", key)
		}
	}, []string{"no place ledger:behind keys:ledger", "index ledger keyed"}, nil},
	{"blocked and ready", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready:ledger", 1, "ledger:behind")
		do(t, store, "ZADD", "ready", 1, "ledger")
	}, []string{"two places ledger:behind line:ledger"}, nil},
	{"a line of nothing", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "line:ledger", 0, "k\x00000000000000001\x00ghost", 0, "x")
		do(t, store, "HSET", "keys:ledger", "ghost", "k")
	}, []string{"no record ledger:ghost line:ledger", "no record x line:ledger", "of nothing ledger:ghost keys:ledger"}, nil},
	{"reasons are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "deaths")
	}, []string{"no reason orders:dead dead:orders"}, nil},
	{"things of no message", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "attempts", "orders:ghost", 3)
		do(t, store, "ZADD", "expiries", 9e12, "orders:ghost")
		do(t, store, "HSET", "deaths", "orders:ghost", "why", "no topic", "why")
	}, []string{"of nothing orders:ghost attempts", "of nothing orders:ghost expiries", "of nothing orders:ghost deaths", "of nothing no topic deaths"}, nil},
	{"things of ids that are free", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "extras", "orders:ghost", " snoozed=3", "no topic", " snoozed=3\n"+lostRecord)
		do(t, store, "ZADD", "taken", 9e12, "orders:ghost", 9e12, "orders:ready")
	}, []string{"of nothing orders:ghost extras", "of nothing no topic extras", "of nothing orders:ghost taken", "of nothing orders:ready taken"}, nil},
	{"hooks of no listener, and an archive that is none", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "hooks", "$dead.orders", 1, "x", "y")
		do(t, store, "HSET", "extras", "*", " room=7")
	}, []string{"of nothing $dead.orders hooks", "of nothing x hooks", "of nothing * extras"}, nil},
	{"a successor of nothing", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "extras", "mail:stray", " snoozed=3\n"+lostRecord)
	}, []string{"of nothing mail:stray extras"}, append(without(), "stray")},
	{"an id that stays taken, and nothing says so", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "messages", "orders:ghost", "=1000")
	}, []string{"not taken orders:ghost messages"}, nil},
	{"an id that stays taken in a place", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "messages", "orders:ghost", "=1000")
		do(t, store, "ZADD", "taken", 1000, "orders:ghost")
		do(t, store, "ZADD", "ready:orders", 1, "orders:ghost")
		do(t, store, "ZADD", "ready", 1, "orders")
	}, []string{"no record orders:ghost ready:orders"}, nil},
	{"subscribers that are gone", func(t *testing.T, store *notify.Store) { // the next ring drops them
		do(t, store, "ZADD", "waiting:orders", 1, store.Keys().Inbox("ghost"))
	}, nil, nil},
	{"counters that disagree", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "topics", "orders:leased", 7, "mail:leased", "x", "mail:broadcasts", 5)
		do(t, store, "HDEL", "topics", "orders:broadcasts")
	}, []string{
		"count orders topics", "count mail topics", "count mail topics", "count orders topics", "index mail topics-names", "index mail topics-seen",
	}, nil},
	{"a listener without leases in the index of leases", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "alarms", 9e12, "gone")
	}, []string{"index gone alarms"}, nil},
	{"the positions are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "XADD", "log:news", "1700000000000-1", "id", "x", "due", 1, "prev", "0-0", "record", lostRecord)
	}, []string{"index news logs"}, nil},
	{"the times of the oldest deaths are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "deaths-oldest")
	}, []string{"index orders deaths-oldest"}, nil},
	{"the time of an oldest death is too late", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "deaths-oldest", 9e12, "orders")
	}, []string{"index orders deaths-oldest"}, nil},
	{"the topics that may be forgotten are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "topics-seen")
	}, []string{"index orders topics-seen", "index ledger topics-seen"}, nil},
	{"the names of topics are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "topics-names")
	}, []string{"index orders topics-names", "index ledger topics-names"}, nil},
	{"names that are none, and one out of order", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "topics-names", 7, "orders", 0, "no topic", 0, "*")
	}, []string{"index orders topics-names", "index no topic topics-names", "index * topics-names"}, nil},
	{"a topic is due earlier than the index of ready topics says", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready", 9e12, "orders")
	}, []string{"index orders ready"}, nil},
	{"a topic was due earlier, and is no more", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "ready", 1, "orders")
	}, nil, nil},
	{"the times of the newest deaths are lost", func(t *testing.T, store *notify.Store) {
		do(t, store, "DEL", "deaths-newest")
	}, []string{"index orders deaths-newest"}, nil},
	{"the time of a newest death is too early", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "deaths-newest", 1, "orders")
	}, []string{"index orders deaths-newest"}, nil},
	{"a topic is in the index of paused topics but not paused", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "topics-paused", 1, "orders")
	}, []string{"index orders topics-paused"}, nil},
	{"entries of workers are foreign", func(t *testing.T, store *notify.Store) {
		do(t, store, "ZADD", "claims", 17, "x", 18, "10 1 orders w", 20, "20 1 orders w")
		do(t, store, "HSET", "workers", "a", "x", "b", `{"name":"w"}`)
	}, []string{"unreadable x claims", "unreadable 10 1 orders w claims", "unreadable a workers"}, nil},
	{"what is noted of outboxes is foreign", func(t *testing.T, store *notify.Store) {
		do(t, store, "HSET", "relayed", "a", "TOKEN 7\n1:2 33:44", "b", "TOKEN \n", "c", "TOKEN 7\n1:2 x", "d", "x", "e", "TOKEN 7\n1:2  3:4")
	}, []string{"unreadable c relayed", "unreadable d relayed", "unreadable e relayed"}, nil},
	{"everything but the records is lost", func(t *testing.T, store *notify.Store) {
		keys := store.Keys()
		for _, key := range []string{keys.ScheduledTopics(), keys.Scheduled("orders"), keys.ReadyTopics(), keys.Ready("orders"), keys.Leased(), keys.Broadcasts(), keys.Topics(), keys.Dead("orders"), keys.Deaths(), keys.Attempts(), keys.Expiries()} {
			do(t, store, "DEL", strings.TrimPrefix(key, keys.Base()))
		}
	}, []string{
		"no place orders:all messages", "no place orders:leased messages", "no place orders:ready messages", "no place orders:scheduled messages",
		"no place orders:again messages", "no place orders:dead messages", "no place ledger:holds messages",
	}, nil},
}

// Messages with keys need no seats while their topic has branches, since it is not they that are claimed.
func TestBranchesNeedNoSeats(t *testing.T) {
	t.Parallel()
	db := open(t)
	storetest.Set(t, db, "orders", notify.SettingsChange{Branches: new("mail"), Paused: new(true)})
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "a", Key: "k"}, notify.Message{Topic: "orders", ID: "b", Key: "k"})
	storetest.Set(t, db, "others", notify.SettingsChange{Branches: new("mail")})
	storetest.Publish(t, db, notify.Message{Topic: "others", ID: "a"}) // of which the carrier is to know
	if got, _ := run(t, db, false); got != nil {
		t.Errorf("found %q", got)
	}
	do(t, db, "HSET", "topics", "orders:settings", "") // as a backup from before would have it
	found, _ := run(t, db, false)
	if want := []string{"index orders topics-paused", "seat orders:a seats:orders", "seat orders:b seats:orders", "settings orders topics"}; !slices.Equal(found, want) {
		t.Errorf("without branches: found %q, want %q", found, want)
	}
}

// The carrier is told of the ends of pauses that it does not know, and of no others; that it looks at one early is right.
func TestEndsOfPauses(t *testing.T) {
	t.Parallel()
	store := open(t)
	fill(t, store)
	paused(t, store, "early", "held", "later", "lasts")
	do(t, store, "HSET", "topics", "lasts:settings", " paused=1")
	do(t, store, "ZADD", "alarms", 1893553444000, "//early", 1893553445001, "//later", 1893553445000, "//lasts")
	want := []string{"index held alarms", "index lasts alarms", "index later alarms"}
	for range 2 {
		if got, _ := run(t, store, true); !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
		want = nil
	}
}

// paused pauses topics until a time, of which the carrier does not know.
func paused(t *testing.T, store *notify.Store, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		do(t, store, "HSET", "topics", topic+":settings", " paused=1 paused_until=1893553445000")
		for _, index := range []string{"topics-paused", "topics-names", "topics-seen"} {
			do(t, store, "ZADD", index, 0, topic)
		}
	}
}

// Hooks are those of the listeners to deaths, and what an archive notes and has not stored yet is right.
func TestHooks(t *testing.T) {
	t.Parallel()
	db := open(t)
	shard := db.Home()
	for name, pattern := range map[string]string{"a": "$dead.orders", "b": "$dead.orders", "c": "$dead.>", "d": "orders.*"} {
		if _, _, err := shard.Register(t.Context(), name, store.Registration{Pattern: pattern, From: "now"}); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Must(t, shard.OpenArchive(t.Context(), 10))
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "x"})
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "no")))
	check := func(apply bool) (found []string) {
		t.Helper()
		storetest.Must(t, storetest.ErrOf(repair.Run(t.Context(), db, repair.Options{Apply: apply}, func(f repair.Finding) {
			found = append(found, fmt.Sprintf("%s %s %s: %s", f.Fault, f.Name, f.Key, f.Remedy))
		})))
		slices.Sort(found)
		return found
	}
	right := func() map[string]string { return db.Client().HGetAll(t.Context(), db.Keys().Hooks()).Val() }
	want := map[string]string{"$dead.orders": "2", "$dead.>": "1"}
	storetest.Same(t, "hooks", want, right())
	if found := check(false); len(found) != 0 {
		t.Error(found)
	}
	do(t, db, "DEL", "hooks")
	do(t, db, "HSET", "hooks", "$dead.orders", 7)
	for _, apply := range []bool{false, true} {
		storetest.Same(t, "findings", []string{"count $dead.> hooks: set to 1", "count $dead.orders hooks: set to 2"}, check(apply))
	}
	storetest.Same(t, "hooks after the repair", want, right())
	for _, name := range []string{"a", "b", "c", "d"} {
		if there, err := shard.Unregister(t.Context(), name); !there || err != nil {
			t.Error(there, err)
		}
	}
	if got := right(); len(got) != 0 {
		t.Errorf("hooks without listeners: %v", got)
	}
}

// Each damage is reported without a change, then repaired, and not found again.
// Each message with a record is delivered once, and nothing is left.
func TestDamages(t *testing.T) {
	for _, test := range damages {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			fill(t, store)
			test.damage(t, store)
			slices.Sort(test.found)

			before := contents(t, store)
			got, sum := run(t, store, false)
			storetest.Same(t, "found", test.found, got)
			if sum.Found != len(got) || sum.Repairable != len(got) || sum.Repaired != 0 {
				t.Errorf("it sums up: %+v", sum)
			}
			if diff := gocmp.Diff(before, contents(t, store)); diff != "" {
				t.Errorf("the examination changed something (-before +after):\n%s", diff)
			}
			got, sum = run(t, store, true)
			if sum.Repaired != len(got) || sum.Found != len(got) {
				t.Errorf("it sums up: %+v", sum)
			}
			for _, one := range test.found {
				if !slices.Contains(got, one) && !strings.HasPrefix(one, "no place") && !strings.HasPrefix(one, "index") && !strings.HasPrefix(one, "count") {
					t.Errorf("not repaired: %s", one) // though the repair of another one may have repaired it
				}
			}
			if got, sum := run(t, store, false); len(got) > 0 {
				t.Errorf("found again: %v, %+v", got, sum)
			}
			want := test.want
			if want == nil {
				want = everything
			}
			wantDelivered(t, store, want)
		})
	}
}

// A named listener gets its unhandled broadcasts even after its registration was lost.
func TestListenersGoOn(t *testing.T) {
	store := open(t)
	c, err := carrier.New(store, carrier.Options{})
	storetest.Must(t, err)
	stop := storetest.Run(t, c.Run)
	l := subscriberstest.Listener(t, store)
	listen := func(ctx context.Context, received chan<- string) error {
		return l.Listen(ctx, "news", func(ctx context.Context, b *subscribers.Broadcast) error {
			received <- b.ID
			return nil
		}, subscribers.ListenOptions{Name: "n"})
	}
	received := make(chan string, 10)
	off := storetest.Run(t, func(ctx context.Context) error { return listen(ctx, received) })
	storetest.Eventually(t, "it is registered", func() bool {
		n, err := store.Client().HLen(t.Context(), store.Keys().Listeners()).Result()
		return err == nil && n == 1
	})
	send := func(id string) {
		storetest.Publish(t, store, notify.Message{Topic: "news", ID: id, Body: []byte(id), Broadcast: true})
		storetest.Eventually(t, "it is sent", func() bool {
			n, err := store.Client().HLen(t.Context(), store.Keys().Messages()).Result()
			return err == nil && n == 0
		})
	}
	send("handled")
	if got := storetest.Receive(t, "it is handled", received); got != "handled" {
		t.Fatalf("got %s", got)
	}
	off()
	send("held")
	send("missed")
	log, err := store.Client().XRange(t.Context(), store.Keys().Log("news"), "-", "+").Result()
	if err != nil || len(log) != 3 {
		t.Fatalf("the log is %v, %v", log, err)
	}
	ms, us, _ := strings.Cut(log[1].ID, "-")
	at := ms + fmt.Sprintf("%03s", us)
	do(t, store, "HSET", "places:n", "news", at) // of a process that died
	do(t, store, "ZADD", "held:n", 1, at+" news")
	do(t, store, "HSET", "owners:n", at+" news", "1 w")
	do(t, store, "DEL", "listeners")
	stop()

	want := []string{"no listener n held:n", "no listener n owners:n", "no listener n places:n"}
	got, sum := run(t, store, true)
	if diff := gocmp.Diff(want, got); diff != "" || sum.Found != 3 || sum.Repairable != 0 {
		t.Errorf("%+v, found (-want +got):\n%s", sum, diff)
	}
	defer storetest.Run(t, func(ctx context.Context) error { return listen(ctx, received) })()
	storetest.Eventually(t, "it is registered again", func() bool {
		n, err := store.Client().HLen(t.Context(), store.Keys().Listeners()).Result()
		return err == nil && n == 1
	})
	storetest.Run(t, c.Run)
	send("next")
	for _, want := range []string{"held", "missed", "next"} {
		if got := storetest.Receive(t, "what it missed", received); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A dead letter keeps its reason when it is moved from another topic's dead letters.
func TestReasonStays(t *testing.T) {
	store := open(t)
	fill(t, store)
	do(t, store, "ZADD", "dead:mail", 1, "orders:dead")
	do(t, store, "ZADD", "dead:_", 1, "orders:dead")
	got, _ := run(t, store, true)
	want := []string{"other topic orders:dead dead:_", "other topic orders:dead dead:mail"}
	storetest.Same(t, "found", want, got)
	reason, err := store.Client().HGet(t.Context(), store.Keys().Deaths(), "orders:dead").Result()
	if err != nil || reason != "no such order" {
		t.Errorf("the reason is %q, %v", reason, err)
	}
}

// A hand-over that is not confirmed is in its place, and so is the inbox that it was sent to.
func TestHandoverIsInPlace(t *testing.T) {
	store := open(t)
	isHanded("a")(t, store)
	before := contents(t, store)
	for _, apply := range []bool{false, true} {
		if found, _ := run(t, store, apply); len(found) > 0 {
			t.Errorf("repair finds %q", found)
		}
	}
	storetest.Same(t, "repair changed", before, contents(t, store))
	for list, cursor := storetest.Inspector(t, store), ""; ; {
		page, err := list.List(t.Context(), mail, notify.Leased, 1, cursor)
		if err != nil || cursor == "" && len(page.Messages) != 1 || len(page.Messages) > 0 && page.Messages[0].Fault != nil {
			t.Fatalf("listed %+v, %v", page, err)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	storetest.Should(t, confirms(t, store))
}

// Repair knows every key of Bellhop, so it reports none as another program's.
func TestEveryKeyIsKnown(t *testing.T) {
	store := open(t)
	channels := []string{"Prefix", "Base", "Shard", "Topic", "Name", "Nudge", "Vacant", "Beat", "Inbox", "Hands", "Wake", "Wakes", "Broadcast", "Death", "Format", "Ended", "Here", "Tag", "WakesOf", "Place"} // no keys, or without which nothing works, or named by others
	keys := reflect.ValueOf(store.Keys())
	for i := range keys.NumMethod() {
		name, method := keys.Type().Method(i).Name, keys.Method(i)
		if slices.Contains(channels, name) || method.Type().Out(0).Kind() != reflect.String {
			continue
		}
		var args []reflect.Value
		for n := range method.Type().NumIn() {
			args = append(args, reflect.Zero(method.Type().In(n)))
			if args[n].Kind() == reflect.String {
				args[n] = reflect.ValueOf("x")
			}
		}
		key := method.Call(args)[0].String()
		if err := store.Client().RPush(t.Context(), key, "x").Err(); err != nil { // no key of ours is a list
			t.Fatal(err)
		}
	}
	_, err := repair.Run(t.Context(), store, repair.Options{}, func(f repair.Finding) {
		if f.Fault != repair.WrongType {
			t.Errorf("%+v", f)
		}
	})
	storetest.Must(t, err)
}

// Foreign keys and records are reported and left unchanged.
func TestForeignThings(t *testing.T) {
	store := open(t)
	fill(t, store)
	do(t, store, "SET", "other", "x")
	do(t, store, "SET", "ready:no topic", "x")
	do(t, store, "SET", "waiting:mail", "x")
	do(t, store, "SET", "keys:orders@mail", "x")
	do(t, store, "HSET", "messages", "no topic", "x")
	want := []string{"foreign key  other", "foreign key  ready:no topic", "foreign record no topic messages", "wrong type  keys:orders@mail", "wrong type  waiting:mail"}
	before := contents(t, store)
	for range 2 {
		got, sum := run(t, store, true)
		if diff := gocmp.Diff(want, got); diff != "" || sum.Found != 2 || sum.Repairable != 0 || sum.Repaired != 0 {
			t.Errorf("%+v, found (-want +got):\n%s", sum, diff)
		}
	}
	if diff := gocmp.Diff(before, contents(t, store)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
}

// A place that is a foreign key keeps nothing else from being repaired, and only real repairs are reported.
func TestForeignPlaces(t *testing.T) {
	for _, key := range []string{
		"scheduled", "ready", "leased", "broadcasts", "messages", "attempts", "expiries", "extras", "taken", "deaths", "topics", "logs", "listeners", "alarms",
		"hooks", "endings", "done-first", "claims", "workers", "ready:mail", "dead:mail", "done:mail", "grouped", "grouped:mail", "groups:mail",
	} {
		t.Run(key, func(t *testing.T) {
			store := open(t)
			do(t, store, "ZADD", "leased", 1, "orders:x")
			do(t, store, "HSET", "places:gone", "orders", 1)
			if key != "messages" {
				do(t, store, "HSET", "messages", "mail:lost", lostRecord, "orders:lost", lostRecord, "mail:one", "1700000000000,{\"group\":\"g\"}\none")
			}
			do(t, store, "DEL", key)
			do(t, store, "SET", key, "x")
			var repaired []string
			_, err := repair.Run(t.Context(), store, repair.Options{Apply: true}, func(f repair.Finding) {
				if f.Repaired {
					repaired = append(repaired, f.Name)
				}
			})
			if key == "messages" { // without records nothing can be repaired
				if err == nil || len(repaired) > 0 {
					t.Errorf("repaired is %v, %v", repaired, err)
				}
				return
			}
			storetest.Must(t, err)
			if !slices.Contains(repaired, "orders:lost") {
				t.Errorf("repaired is %v", repaired)
			}
			if text, err := store.Client().Get(t.Context(), store.Keys().Base()+key).Result(); err != nil || text != "x" {
				t.Errorf("it is %q, %v", text, err)
			}
		})
	}
}

// Whatever keys and members are removed at random, one run repairs it all, and each message with a record is delivered.
func TestRandomDamage(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store := open(t)
			fill(t, store)
			random := rand.New(rand.NewPCG(seed, 0))
			for _, key := range slices.Sorted(keysOf(contents(t, store))) {
				if key != store.Keys().Format() { // without it no other key can be read
					harm(t, store, random, key)
				}
			}
			if before, _ := run(t, store, false); len(before) == 0 {
				t.Log("nothing was harmed")
			}
			run(t, store, true)
			if got, sum := run(t, store, false); len(got) > 0 {
				t.Errorf("found again: %v, %+v", got, sum)
			}
			left, err := store.Client().HKeys(t.Context(), store.Keys().Messages()).Result()
			storetest.Must(t, err)
			want := []string{}
			for _, member := range left {
				_, id, _ := strings.Cut(member, ":")
				if id == "all" {
					id = "broadcast all"
				}
				want = append(want, id)
			}
			wantDelivered(t, store, want)
		})
	}
}

func keysOf(all map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range all {
			if !yield(key) {
				return
			}
		}
	}
}

// harm removes a key, some of its members, or nothing.
func harm(t *testing.T, store *notify.Store, random *rand.Rand, key string) {
	t.Helper()
	name := strings.TrimPrefix(key, store.Keys().Base())
	kind, err := store.Client().Type(t.Context(), key).Result()
	storetest.Must(t, err)
	var members []string
	command := map[string]string{"zset": "ZREM", "set": "SREM", "hash": "HDEL"}[kind]
	switch kind {
	case "zset":
		members, err = store.Client().ZRange(t.Context(), key, 0, -1).Result()
	case "set":
		members, err = store.Client().SMembers(t.Context(), key).Result()
	case "hash":
		members, err = store.Client().HKeys(t.Context(), key).Result()
	}
	storetest.Must(t, err)
	slices.Sort(members)
	switch random.IntN(5) {
	case 0:
		do(t, store, "DEL", name)
	case 1, 2:
		for _, member := range members {
			if random.IntN(2) == 0 {
				do(t, store, command, name, member)
			}
		}
	}
}

// Progress never goes back, and ends at the total.
func TestProgress(t *testing.T) {
	store := open(t)
	for range 4 {
		some := manyOf(500)
		for i := range some {
			some[i].Group = fmt.Sprint("g", i%20)
		}
		storetest.Publish(t, store, some...)
	}
	examined, all, keys := 0, 0, 0
	_, err := repair.Run(t.Context(), store, repair.Options{OnProgress: func(n, of int) {
		if of == 0 {
			keys = n
			return
		}
		if n < examined || n > of || all > 0 && of != all {
			t.Errorf("%d of %d follows on %d of %d", n, of, examined, all)
		}
		examined, all = n, of
	}}, func(f repair.Finding) { t.Errorf("%+v", f) })
	const places, groups = 4000, 2*(2*20+1) + 2000 // numbers, names and the last number, twice; and who is in them
	if err != nil || keys == 0 || examined != all || all != places+groups {
		t.Errorf("it ended with %d of %d, and %d keys: %v", examined, all, keys, err)
	}
}

// manyOf returns messages due in an hour.
func manyOf(n int) (messages []notify.Message) {
	for range n {
		messages = append(messages, notify.Message{Topic: "orders", ID: notify.NewID(), Body: []byte("x"), Delay: time.Hour})
	}
	return messages
}
