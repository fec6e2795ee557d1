package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// A subscriber that waits with a free hand is handed the only copy of a step, and what is published, or due, of a topic that has no branches.
func TestBranchesAreHandedOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ waits, inbox, text string }{
		"a plain message at once": {"orders", "desk", "publish a\n carry\n is a=leased"},
		"a plain message later":   {"orders", "desk", "publish a delay=1h\n hasten 2h\n carry\n is a=leased"},
		"an original at once":     {"orders", "desk", "set branches=mail\n publish a\n carry\n is a=none\n is topic=orders@mail a=ready"},
		"an original later":       {"orders", "desk", "set branches=mail\n publish a delay=1h\n hasten 2h\n carry\n is a=none\n is topic=orders@mail a=ready"},
		"a copy at once":          {"orders@mail", "desk", "set branches=mail,points\n publish a\n carry\n is topic=orders@mail a=leased\n is topic=orders@points a=ready"},
		"a copy later":            {"orders@mail", "desk", "set branches=mail\n publish a delay=1h\n hasten 2h\n carry\n is topic=orders@mail a=leased"},
		"the second of two":       {"orders@mail", "desk", "set branches=mail\n publish a\n carry\n publish b\n carry\n is topic=orders@mail a=leased b=ready"},
		"two":                     {"orders@mail", "desk", "set branches=mail\n publish a b\n carry\n is topic=orders@mail a=ready b=ready"},
		"a copy with a key":       {"orders@mail", "desk", "set branches=mail\n publish a key=k\n carry\n is topic=orders@mail a=ready"},
		"a large copy":            {"orders@mail", "desk", "set branches=mail\n publish a body=" + strings.Repeat("x", 4096) + "\n carry\n is topic=orders@mail a=ready"},
		"an expired copy":         {"orders@mail", "desk", "set branches=mail branch_ttl=1h\n publish a delay=1h\n hasten 2h\n carry\n is topic=orders@mail a=ready"},
		"behind what is overdue":  {"orders@mail", "desk", "publish z topic=orders@mail delay=1h\n set branches=mail\n publish a\n hasten 2h topic=orders@mail\n carry\n is topic=orders@mail a=ready z=leased"},
		"to nobody":               {"orders@mail", "gone", "set branches=mail\n publish a\n carry\n is topic=orders@mail a=ready\n claim 1 topic=orders@mail = a"},
		"in a branch that is paused": {
			"orders@mail", "desk", "set branches=mail\n pause topic=orders@mail\n publish a\n carry\n is topic=orders@mail a=ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPlayer(t, storetest.Scenario{})
			storetest.Subscribe(t, p.Store, p.Shard.Keys().Hands("desk"))
			storetest.Must(t, storetest.ErrOf(p.Shard.Claim(t.Context(), store.Claim{Topic: c.waits, Max: 1, Inbox: reach.NewInbox(c.inbox, true)})))
			p.Play(c.text)
		})
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
