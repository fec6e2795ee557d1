package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Where memory is short copying waits, and what was copied is acknowledged; once there is room it goes on.
func TestBranchesWithoutMemory(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.At(t, storetest.Server(t, "--maxmemory-policy", "noeviction").URL(), "own"))
	p := storetest.NewPlayer(t, storetest.Scenario{Open: func(testing.TB) *notify.Store { return db }})
	limit := func(bytes string) {
		storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err())
		storetest.Must(t, db.Client().Del(t.Context(), p.Shard.Keys().Room(90)).Err()) // a measure holds for a while
	}
	p.Play(`
	set branches=mail
	publish a
	carry
	claim 1 topic=orders@mail = a
	publish b
	`)
	limit("1")
	p.Play(`
	carry
	ack a topic=orders@mail
	carry beat
	is b=ready
	is topic=orders@mail b=none
	`)
	limit("0")
	storetest.Eventually(t, "copying goes on", func() bool {
		p.Carry(false)
		c, err := storetest.Count(db, "orders@mail")
		return err == nil && c.Ready == 1
	})
	p.Play(`
	is b=none
	claim 1 topic=orders@mail = b
	`)
}

// What is ready is copied while schedules are settled.
func TestBranchesWhileSchedulesAreSettled(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	p.Play(`
	set branches=mail
	publish a
	`)
	late := redis.Z{Member: "/", Score: float64(p.Now().Add(-time.Minute).UnixMilli())}
	storetest.Must(t, p.Store.Client().ZAdd(t.Context(), p.Shard.Keys().Alarms(), late).Err())
	m, err := p.Shard.Carry(t.Context(), store.Carry{Token: p.Token(), Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0", Settled: new(30 * time.Second)})
	if err != nil || !m.Settle {
		t.Errorf("schedules are not to be settled: %+v, %v", m, err)
	}
	p.Play(`is topic=orders@mail a=ready`)
}

// A subscriber that waits with a free hand is handed what is published, or due, of a topic that has no branches alone.
func TestBranchesAreNotHandedOver(t *testing.T) {
	t.Parallel()
	for state, settings := range map[string]string{"leased": "set lease=1h", "none": "set branches=mail"} {
		for name, publish := range map[string]string{"at once": "publish a", "later": "publish a delay=1h\n\thasten 2h"} {
			t.Run(state+" "+name, func(t *testing.T) {
				t.Parallel()
				p := storetest.NewPlayer(t, storetest.Scenario{})
				storetest.Subscribe(t, p.Store, p.Shard.Keys().Hands("desk"))
				storetest.Must(t, storetest.ErrOf(p.Shard.Claim(t.Context(), store.Claim{Topic: p.Topic, Max: 1, Inbox: reach.NewInbox("desk", true)})))
				p.Play(settings + "\n\t" + publish + "\n\tcarry\n\tis a=" + state)
			})
		}
	}
}

// More of a key than a call calls up drain into a branch in the order in which they are due, which is not that of their ids, and what is published
// meanwhile waits behind them.
func TestBranchesOfALine(t *testing.T) {
	t.Parallel()
	const n = 2500
	p := storetest.NewPlayer(t, storetest.Scenario{})
	var want []string
	storetest.Fill(t, p.Store, n, func(i int) notify.Message {
		want = append(want, fmt.Sprint("m", i*7%n))
		return notify.Message{Topic: p.Topic, ID: want[i], Body: []byte("x"), Key: "k", Delay: time.Hour + time.Duration(i)*time.Millisecond}
	})
	storetest.Hasten(t, p.Store, 2*time.Hour, p.Topic)
	counts := func() notify.Counts {
		t.Helper()
		c, err := storetest.Count(p.Store, p.Topic)
		storetest.Must(t, err)
		return c
	}
	carry := func() {
		t.Helper()
		_, err := p.Shard.Carry(t.Context(), store.Carry{Token: p.Token(), Lease: time.Minute, Batch: 2000, KeepCount: 100, KeepAge: time.Hour, Ready: "0", Beat: true})
		storetest.Must(t, err)
	}
	for counts().Scheduled > 0 {
		carry()
	}
	p.Play("set branches=mail")
	if c := counts(); c.Blocked == 0 || c.Ready == 0 {
		t.Errorf("the line of %d is %+v once there are branches", n, c)
	}
	p.Play("publish last key=k\n\tis last=blocked")
	for swept := (store.Swept{}); counts().Ready+counts().Blocked > 0; {
		carry()
		swept = p.Sweep(store.Sweep{Seat: swept.Seat})
	}
	copies, err := storetest.Collect(p.Inspector.Messages(t.Context(), "orders@mail", notify.Blocked))
	storetest.Must(t, err)
	slices.SortFunc(copies, func(a, b notify.Info) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	got := make([]string, len(copies))
	for i, one := range copies {
		got[i] = one.ID
	}
	storetest.Same(t, "the line of the branch, by due time", append(want[1:], "last"), got)
	p.Play("claim 5 topic=orders@mail = m0")
}
