package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A message of a topic with branches has ended once all its copies have: only then what waits for its group comes, and that is copied, too, unless its
// topic has no branches.
func TestGroupsOfBranches(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
		set branches=mail,points

		== all copies are handled
		publish a b group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		has done topic=orders@ends left=2
		carry
		has done topic=orders@ends left=4
		has a topic=orders@mail group=g
		claim 2 topic=orders@mail = a b
		ack a b topic=orders@mail
		claim 2 topic=orders@points = a b
		nack a topic=orders@points delay=1h
		ack b topic=orders@points
		has done topic=orders@ends left=1
		carry
		is topic=orders@ends done=scheduled
		cancel a topic=orders@points = scheduled
		carry
		has done topic=orders@ends left=none acked=3 died=0 cancelled=1
		publish c group=g = complete
		publish c topic=orders@mail group=g = complete

		== a copy is dead
		publish a group=g attempts=1
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		claim 1 ack topic=orders@mail = a
		claim 1 topic=orders@points = a
		nack a topic=orders@points = dead
		has done topic=orders@ends left=1
		carry
		is topic=orders@ends done=scheduled
		requeue a topic=orders@points
		claim 1 topic=orders@points = a
		bury a topic=orders@points = dead
		purge a topic=orders@points
		carry
		has done topic=orders@ends left=none acked=1 died=1

		== a dead copy does not count
		publish a group=g attempts=1
		publish done topic=orders@ends after_group=orders:g on_dead=go = scheduled
		carry
		claim 1 ack topic=orders@mail = a
		claim 1 topic=orders@points = a
		nack a topic=orders@points = dead
		has done topic=orders@ends left=0
		requeue a topic=orders@points
		has done topic=orders@ends left=1
		carry
		is topic=orders@ends done=scheduled
		claim 1 topic=orders@points = a
		nack a topic=orders@points = dead
		carry
		has done topic=orders@ends left=none acked=1 died=1

		== copies expire, are dropped, and are kept as done
		set branch_ttl=1h
		publish a group=g key=k
		publish b group=g key=k if_busy=drop
		publish done topic=orders@ends after_group=orders:g on_dead=go = scheduled
		carry
		has done topic=orders@ends left=2
		expire a topic=orders@points
		carry = dead:a
		claim 1 topic=orders@mail = a
		ack a topic=orders@mail keep=1h
		carry
		has done topic=orders@ends left=none acked=1 died=1 dropped=2

		== an original dies, and is copied once it is requeued
		publish a group=g ttl=1h
		publish done topic=orders@ends after_group=orders:g = scheduled
		expire a
		carry = dead:a
		has done topic=orders@ends left=1
		requeue a
		carry
		has done topic=orders@ends left=2
		claim 1 ack topic=orders@mail = a
		claim 1 ack topic=orders@points = a
		carry
		has done topic=orders@ends left=none acked=2 died=0

		== a copy of an id that another has
		publish a group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		publish a group=g body=2
		carry
		has done topic=orders@ends left=4
		claim 2 ack topic=orders@mail = ~a~
		claim 2 topic=orders@points = ~a~
		ack a topic=orders@points
		has done topic=orders@ends left=1
		carry
		is topic=orders@ends done=scheduled
		purge a topic=orders@points = 0

		== a copy gets the id of one that ends in the same call
		set branches=mail
		publish a group=g fail=drop
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		publish a group=h delay=1h
		hasten 2h
		expire a topic=orders@mail
		carry = dropped:a
		has a topic=orders@mail group=h
		has done topic=orders@ends left=0
		carry
		has done topic=orders@ends left=none dropped=1

		== branches are added and removed amid a group
		publish a group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		set branches=+crm
		set branches=-mail
		publish b group=g
		carry
		has done topic=orders@ends left=4
		claim 9 ack topic=orders@points = a b
		claim 9 ack topic=orders@crm = b
		has done topic=orders@ends left=1
		set branches=default
		publish c group=g
		claim 9 ack = c
		claim 9 ack topic=orders@mail = a
		carry
		has done topic=orders@ends left=none acked=5

		== what plain workers have
		set branches=default
		publish a b group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		claim 1 = a
		set branches=mail
		carry
		has done topic=orders@ends left=2
		ack a
		claim 9 ack topic=orders@mail = b
		carry
		has done topic=orders@ends left=none acked=2

		== the callback is copied
		publish a group=g
		publish done after_group=orders:g group=h = scheduled
		publish last topic=orders@ends after_group=orders:h = scheduled
		carry
		claim 1 ack topic=orders@mail = a
		claim 1 ack topic=orders@points = a
		has done left=0
		carry
		carry
		is done=none
		has done topic=orders@mail state=ready acked=2
		has last topic=orders@ends left=2
		claim 1 ack topic=orders@mail = done
		claim 1 ack topic=orders@points = done
		carry
		carry
		has last topic=orders@ends left=none acked=2
		is topic=orders@mail done=none

		== one of a branch alone
		publish a topic=orders@mail group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		has done topic=orders@ends left=1
		publish a topic=orders@mail group=h if_exists=replace = replaced:ready
		has done topic=orders@ends left=0
		carry
		has done topic=orders@ends left=none cancelled=1

		== the topic is paused
		pause
		publish a group=g
		publish done topic=orders@ends after_group=orders:g = scheduled
		carry
		has done topic=orders@ends left=1
		cancel a = ready
		carry
		has done topic=orders@ends left=none cancelled=1

		== an index is foreign
		publish a group=g
		redis DEL grouped
		redis SET grouped x
		publish b topic=orders@other
		publish c topic=plain delay=1ms
		pass 2ms
		carry
		is a=ready
		is topic=orders@other b=ready
		redis DEL grouped
		redis ZADD grouped 0 orders
		redis ZADD alarms 1 @orders
		carry
		is topic=orders@mail a=ready
	`)
}

// The housekeeping takes entries away of copies that were never written, and corrects those that do not say that a copy is dead.
func TestGroupsOfBranchesAreMended(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set branches=mail
	publish a group=g attempts=1
	publish done topic=orders@ends after_group=orders:g = scheduled
	carry
	ghost @mail:b 1
	ghost @mail 1
	ghost @:x 1
	ghost @a.b:x 1
	claim 1 topic=orders@mail = a
	bury a topic=orders@mail = dead
	ghost @mail:a 1
	has done topic=orders@ends left=5
	sweep
	has done topic=orders@ends left=1
	redis ZSCORE grouped:orders @mail:a = 1.5
	purge a topic=orders@mail
	carry
	has done topic=orders@ends left=none died=1
	`, housekeeping)
}

// A group shows copies by their branches, and is forgotten with them; a branch has no groups of its own.
func TestShowGroupOfBranches(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	db := p.Store
	mails := notify.SettingsChange{Branches: new("mail")}
	storetest.Set(t, db, p.Topic, mails)
	storetest.Publish(t, db, notify.Message{Topic: p.Topic, ID: "a", Group: "g"})
	p.Carry(false)
	storetest.Publish(t, db, notify.Message{Topic: p.Topic, ID: "b", Group: "g"})
	of := p.Topic + "@mail"
	lease := claimOf(t, db, of, 1)[0].Lease
	members := func() (all []string) {
		t.Helper()
		_, some, err := store.ShowGroup(t.Context(), db, p.Topic, "g")
		storetest.Must(t, err)
		for _, m := range some {
			all = append(all, m.Topic+" "+m.ID+" "+m.State.String()+" "+m.By+m.Reason)
		}
		return all
	}
	storetest.Same(t, "members", []string{of + " a leased desk-1", p.Topic + " b ready "}, members())
	storetest.Must(t, storetest.ErrOf(p.Shard.Nack(t.Context(), of, store.Nack{Lease: lease, Bury: true, Reason: "no"})))
	storetest.Same(t, "members after a death", []string{p.Topic + " b ready ", of + " a dead no"}, members())
	for what, call := range map[string]func() error{
		"list":   func() error { _, _, err := store.ListGroups(t.Context(), db, of, "", 1); return err },
		"show":   func() error { _, _, err := store.ShowGroup(t.Context(), db, of, "g"); return err },
		"forget": func() error { _, _, err := store.ForgetGroup(t.Context(), db, of, "g"); return err },
		"restore": func() error {
			return storetest.ErrOf(p.Shard.RestoreGroup(t.Context(), &store.ExportedGroup{Topic: of, Name: "g"}))
		},
	} {
		if faults := fault.All(call()); len(faults) != 1 || faults[0].Field != "topic" {
			t.Errorf("%s: %v", what, faults)
		}
	}
	left, _, err := store.ForgetGroup(t.Context(), db, p.Topic, "g")
	if left != 2 || err != nil {
		t.Error(left, err)
	}
	info, err := p.Inspector.Inspect(t.Context(), of, "a")
	if err != nil || info.Group != "" {
		t.Errorf("%+v, %v", info, err)
	}
}
