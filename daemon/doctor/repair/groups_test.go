package repair_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const team, branch = "team", "team@mail"

// fillGroups publishes a group g of a, which is ready, b, which is dead, and c, which is due later, for which done waits; a group h of e and f, which is
// dead, for which told waits, whoever is dead; and a group o of k, which is dead in a branch, and for which nothing waits. These have the numbers 1, 2 and 3.
func fillGroups(t testing.TB, db *notify.Store) {
	t.Helper()
	in := func(id, group string) notify.Message {
		return notify.Message{Topic: team, ID: id, Body: []byte(id), Group: group}
	}
	storetest.Publish(t, db, in("b", "g"), in("f", "h"))
	for _, d := range claimed(t, db, 2) {
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "a test")))
	}
	c := in("c", "g")
	c.Delay = time.Hour
	k := in("k", "o")
	k.Topic, k.Restore = branch, &notify.Restore{Died: time.Now(), Reason: "a test"}
	storetest.Publish(t, db, in("a", "g"), c, in("e", "h"), k,
		notify.Message{Topic: team, ID: "done", AfterGroup: team + ":g"}, notify.Message{Topic: team, ID: "told", AfterGroup: team + ":h", OnDead: "go"})
}

// claimed claims so many messages, by their ids.
func claimed(t testing.TB, db *notify.Store, n int) map[string]subscribers.Delivery {
	t.Helper()
	all, claimer := make(map[string]subscribers.Delivery), subscriberstest.Claimer(t, db)
	storetest.Eventually(t, "they are claimed", func() bool {
		got, err := claimer.Claim(t.Context(), team, subscribers.ClaimOptions{Max: n - len(all), Lease: time.Hour})
		storetest.Must(t, err)
		for _, d := range got {
			all[d.ID] = d
		}
		return len(all) == n
	})
	return all
}

// waits checks that a message waits for so many.
func waits(t testing.TB, db *notify.Store, id string, left int) {
	t.Helper()
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), team, id)
	if err != nil || info.State != notify.Scheduled || info.Left == nil || int(*info.Left) != left {
		t.Errorf("%s is %+v, %v; it should wait for %d", id, info, err, left)
	}
}

// wantGroups ends the messages that fillGroups published, and checks that those that wait come then, and not before.
func wantGroups(t *testing.T, db *notify.Store) {
	t.Helper()
	defer storetest.Run(t, mustCarrier(t, db).Run)()
	acks := func(d subscribers.Delivery) {
		t.Helper()
		storetest.Must(t, d.Ack(t.Context()))
	}
	waits(t, db, "done", 3)
	waits(t, db, "told", 1)
	ready := claimed(t, db, 2)
	acks(ready["a"])
	acks(ready["e"])
	waits(t, db, "done", 2)
	acks(claimed(t, db, 1)["told"])
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).RescheduleIn(t.Context(), team, "c", 0)))
	acks(claimed(t, db, 1)["c"])
	waits(t, db, "done", 1)
	storetest.Must(t, storetest.ErrOf(storetest.Inspector(t, db).Requeue(t.Context(), team, "b")))
	waits(t, db, "done", 1)
	acks(claimed(t, db, 1)["b"])
	acks(claimed(t, db, 1)["done"])
}

// allOf are the findings about what is in groups, if none is known of it.
var allOf = []string{
	"index team:a grouped:team", "index team:b grouped:team", "index team:c grouped:team", "index team:e grouped:team", "index team:f grouped:team",
	"index team@mail:k grouped:team",
}

var noGroups = []string{"no group team:done groups:team", "no group team:told groups:team"}

// groupDamages are those of what fillGroups published.
var groupDamages = []struct {
	name   string
	damage [][]any // commands and their keys and arguments
	found  []string
}{
	{"none", nil, nil},
	{"an entry without a record", [][]any{{"ZADD", "grouped:team", 1, "ghost", 7, "ghosts", 1, "@mail:ghost"}}, []string{"of nothing team:ghost grouped:team", "of nothing team:ghosts grouped:team", "of nothing team@mail:ghost grouped:team"}},
	{"some entries are lost", [][]any{{"ZREM", "grouped:team", "a", "b"}}, allOf[:2]},
	{"all entries are lost", [][]any{{"DEL", "grouped:team"}}, allOf},
	{"numbers of no group", [][]any{{"ZADD", "grouped:team", 77, "a", "77.5", "b", "inf", "c"}}, allOf[:3]},
	{"in another group", [][]any{{"ZADD", "grouped:team", 2, "a", 1, "@mail:k"}}, []string{allOf[0], allOf[5]}},
	{"dead, or not", [][]any{{"ZADD", "grouped:team", 1.5, "a", 1, "b", 2, "f", "2.5", "e"}}, []string{allOf[0], allOf[1], allOf[3], allOf[4]}},
	{"heads are lost", [][]any{{"HDEL", "groups:team", "#1", "#2"}}, append([]string{"unreadable team:g groups:team", "unreadable team:h groups:team"}, noGroups...)},
	{"names are lost", [][]any{{"HDEL", "groups:team", "g", "h"}}, append([]string{"index team:g groups:team", "index team:h groups:team"}, noGroups...)},
	{"the groups are lost", [][]any{{"DEL", "groups:team"}}, slices.Concat(allOf, noGroups)},
	{"all but the records is lost", [][]any{{"DEL", "groups:team"}, {"DEL", "grouped:team"}, {"DEL", "grouped"}}, slices.Concat(allOf, noGroups)},
	{"the topic is not indexed", [][]any{{"DEL", "grouped"}}, []string{"index team grouped"}},
	{"topics without groups are indexed", [][]any{{"ZADD", "grouped", 0, "ghost", 0, "no topic", 0, "team@mail"}}, []string{"index ghost grouped", "index no topic grouped", "index team@mail grouped"}},
	{"heads are unreadable", [][]any{{"HSET", "groups:team", "#1", "", "#2", "h opened=x", "*", "x", "#x", "y", "#7", "a b", "a b", 7, "g", "1"}}, append([]string{
		"unreadable team groups:team", "unreadable team:#1 groups:team", "unreadable team:#x groups:team", "unreadable team:g groups:team",
		"unreadable team:h groups:team", "unreadable team:a groups:team", "index team:a groups:team", "unreadable team:a b groups:team",
	}, noGroups...)},
	{"two numbers of a name", [][]any{{"HSET", "groups:team", "#9", "g opened=1 changed=1"}, {"ZADD", "grouped:team", 9, "a"}}, []string{"of nothing team:#9 groups:team", allOf[0]}},
	{"a name of another number", [][]any{{"HSET", "groups:team", "g", 9, "h", "x"}}, append([]string{"index team:g groups:team", "unreadable team:g groups:team", "index team:h groups:team", "unreadable team:h groups:team", allOf[0], allOf[1], allOf[2]}, noGroups...)},
	{"complete, and it is not", [][]any{{"HSET", "groups:team", "g", "1 1700000000000"}}, []string{"index team:g groups:team", noGroups[0]}},
	{"one is complete, and what waits for it never came", [][]any{{"HSET", "groups:team", "g", "1 1700000000000", "#1", "g opened=1 changed=1 complete=1700000000000\nteam:done"}}, noGroups[:1]},
	{"the scheduled set is lost", [][]any{{"DEL", "scheduled:team"}}, []string{"no place team:c messages", "no place team:done messages", "no place team:told messages", "index team scheduled"}},
}

// Each damage of groups is reported without a change, then repaired, and not found again. What waits comes when all of its group ended.
func TestDamagedGroups(t *testing.T) {
	for _, test := range groupDamages {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			prefix := "test-" + notify.NewID()
			db := openAt(t, storetest.URL(), prefix)
			fillGroups(t, db)
			for _, d := range test.damage {
				do(t, db, d[0].(string), d[1].(string), d[2:]...)
			}
			want := slices.Sorted(slices.Values(test.found))
			before := contents(t, db)
			got, _ := run(t, db, false)
			storetest.Same(t, "found", want, got)
			if diff := gocmp.Diff(before, contents(t, db)); diff != "" {
				t.Errorf("the examination changed something (-before +after):\n%s", diff)
			}
			limited := limitedTo(t, db, reach.RepairRights(prefix, 1))
			if got, sum := run(t, limited, true); sum.Repaired != len(got) || (len(got) > 0) != (len(want) > 0) {
				t.Errorf("repaired %q: %+v", got, sum)
			}
			if got, _ := run(t, db, false); len(got) > 0 {
				t.Errorf("found again: %q", got)
			}
			wantGroups(t, db)
		})
	}
}

// Whatever is removed at random of what is kept of groups, one run repairs it all.
func TestRandomDamageOfGroups(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			db, random := open(t), rand.New(rand.NewPCG(seed, 0))
			fillGroups(t, db)
			for _, key := range []string{"grouped", "grouped:team", "groups:team", "scheduled:team", "scheduled", "alarms"} {
				harm(t, db, random, db.Keys().Base()+key)
			}
			run(t, db, true)
			if got, _ := run(t, db, false); len(got) > 0 {
				t.Errorf("found again: %q", got)
			}
			wantGroups(t, db)
		})
	}
}

// A message that waits for a group of which another waits, too, is reported, and stays.
func TestTwoWaitForAGroup(t *testing.T) {
	t.Parallel()
	db := open(t)
	fillGroups(t, db)
	do(t, db, "HDEL", "groups:team", "g", "#1")
	storetest.Publish(t, db, notify.Message{Topic: team, ID: "second", AfterGroup: team + ":g"})
	want := []string{noGroups[0]}
	for range 2 {
		got, _ := run(t, db, true)
		if got = slices.DeleteFunc(got, func(f string) bool { return strings.HasPrefix(f, "index") }); !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	waits(t, db, "second", 3)
}

// While a repair makes a group anew a carrier finds nobody in it, and what waits for it does not come.
func TestRepairHoldsGroups(t *testing.T) {
	t.Parallel()
	db := open(t)
	fillGroups(t, db)
	do(t, db, "DEL", "grouped:team")
	begun := false
	_, err := repair.Run(t.Context(), db, repair.Options{Apply: true, OnProgress: func(_, all int) {
		if begun || all == 0 {
			return
		}
		begun = true
		defer storetest.Run(t, mustCarrier(t, db).Run)()
		storetest.Eventually(t, "the carrier has looked at the group", func() bool {
			at := db.Client().ZScore(t.Context(), db.Keys().Alarms(), "="+team+" g").Val()
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), team, "done")
			return at > float64(time.Now().UnixMilli()) || err != nil || info.State != notify.Scheduled
		})
	}}, func(repair.Finding) {})
	if err != nil || !begun {
		t.Fatal(begun, err)
	}
	wantGroups(t, db)
}
