package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is ready of a topic with branches, and of which the carrier knows nothing, is copied after a beat; and the carrier looks in vain at a topic that
// has no branches, or nothing ready.
func TestBranchesAreFound(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set branches=mail

	== nothing is noted
	publish a
	redis DEL alarms
	carry
	is a=ready
	carry beat
	carry
	is a=none
	is topic=orders@mail a=ready

	== nothing is to be copied
	publish b topic=plain
	redis ZADD alarms 1 @plain 1 @none 1 @orders
	carry
	is topic=plain b=ready
	redis EXISTS alarms = 0
	`)
}

// A beat that finds what is to be copied has the next call come at once.
func TestBranchesAreFoundByABeat(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	p.Play(`
	set branches=mail
	publish a
	redis DEL alarms
	`)
	if m := p.Carry(true); m.Next != 0 {
		t.Errorf("the next call is due at %d: %+v", m.Next, m)
	}
	if m := p.Carry(false); m.Moved != 1 || m.Next != record.Never {
		t.Errorf("the next one made %+v", m)
	}
}

// Branches are in the shard of their topic, and so is what tells of deaths there.
func TestBranchesAreInTheShardOfTheirTopic(t *testing.T) {
	t.Parallel()
	db := storetest.Sharded(t, 8)
	for i := range 8 {
		topic := fmt.Sprint("orders.", i)
		p := storetest.NewPlayer(t, storetest.Scenario{Topic: topic, Open: func(testing.TB) *notify.Store { return db }})
		_, _, err := p.Shard.Register(t.Context(), "mourner-"+topic, store.Registration{Pattern: "$dead.orders.*", From: "now"})
		storetest.Must(t, err)
		p.Play(strings.ReplaceAll(`
		set branches=mail
		publish a b
		carry
		claim 1 topic=TOPIC@mail = a
		bury a topic=TOPIC@mail = dead
		carry
		redis ZCARD ready:TOPIC@mail = 1
		redis ZCARD dead:TOPIC@mail = 1
		redis XLEN log:$dead.TOPIC@mail = 1
		counts topic=TOPIC@mail published=2 ready=1 dead=1 died=1
		counts topic=$dead.TOPIC@mail sent=1 log=1
		`, "TOPIC", topic))
	}
}

// shares are topics with two branches each, whose messages one call after the other copies.
type shares struct {
	*storetest.Player
	t *testing.T
}

func newShares(t *testing.T) shares {
	t.Helper()
	storetest.OneShard(t, "one carrier has both topics")
	p := storetest.NewPlayer(t, storetest.Scenario{Topic: "orders"})
	for _, topic := range []string{"orders", "others"} {
		storetest.Set(t, p.Store, topic, notify.SettingsChange{Branches: new("mail,points")})
	}
	return shares{p, t}
}

// publish publishes ready messages.
func (s shares) publish(topic string, n, size int) {
	s.t.Helper()
	for i := range n {
		storetest.Publish(s.t, s.Store, notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: make([]byte, size)})
	}
	s.pass()
}

// pass has Redis's clock go on, since the entries of one time are in the order of their names.
func (s shares) pass() {
	s.t.Helper()
	end := s.Now()
	storetest.Eventually(s.t, "redis's clock goes on", func() bool { return s.Now().UnixMilli() > end.UnixMilli() })
}

// copies makes a call of the carrier, and checks how many copies each branch has then.
func (s shares) copies(batch int, want ...int64) {
	s.t.Helper()
	_, err := s.Shard.Carry(s.t.Context(), store.Carry{Token: s.Token(), Lease: time.Minute, Batch: batch, KeepCount: 100, KeepAge: time.Hour, Ready: "0"})
	storetest.Must(s.t, err)
	s.pass()
	counts, err := s.Inspector.Count(s.t.Context(), "orders@mail", "orders@points", "others@mail", "others@points")
	storetest.Must(s.t, err)
	var got []int64
	for _, c := range counts {
		got = append(got, c.Ready)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("there are %d copies, want %d", got, want)
	}
}

// A call makes no more steps than there is room for in half a batch, where originals count as copies do; and topics take turns.
func TestBranchesTakeTurns(t *testing.T) {
	t.Parallel()
	s := newShares(t)
	s.publish("orders", 10, 1)
	s.publish("others", 10, 1)
	s.copies(12, 2, 2, 0, 0)
	s.copies(12, 2, 2, 2, 2)
	s.copies(2, 3, 3, 2, 2)
	s.copies(2, 3, 3, 3, 3)
}

// A step writes 256 KiB at the most, but one message in any case.
func TestBranchesOfLargeMessages(t *testing.T) {
	t.Parallel()
	s := newShares(t)
	s.publish("orders", 3, 200_000)
	s.copies(1000, 1, 1, 0, 0)
	s.copies(1000, 2, 2, 0, 0)
}
