package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// show returns what is known of a group, without its times, and what it waits for in words.
func show(t *testing.T, db *notify.Store, topic, name string) (store.Group, []string) {
	t.Helper()
	g, some, err := store.ShowGroup(t.Context(), db, topic, name)
	storetest.Must(t, err)
	if since := time.Since(g.Opened); since < -time.Minute || since > time.Hour || (g.State == store.GroupDone && g.Left == 0) == g.Complete.IsZero() {
		t.Errorf("opened %v, complete since %v", g.Opened, g.Complete)
	}
	g.Opened, g.Complete = time.Time{}, time.Time{}
	var words []string
	for _, m := range some {
		words = append(words, strings.Join(strings.Fields(fmt.Sprint(m.ID, " ", m.State, " ", m.By, " ", m.Reason)), " "))
	}
	return g, words
}

// claimOf claims messages of a topic.
func claimOf(t *testing.T, db *notify.Store, topic string, n int) []store.ClaimedMessage {
	t.Helper()
	claimed, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: n, Lease: time.Hour, Name: "desk-1"})
	if err != nil || len(claimed.Messages) != n {
		t.Fatal(claimed, err)
	}
	return claimed.Messages
}

// A group says what it waits for, and how its members ended.
func TestShowGroup(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	shard := db.Of(topic)
	_, _, err := store.ShowGroup(t.Context(), db, topic, "g")
	storetest.Fails(t, "none", err, store.ErrNoGroup)
	for i := range 9 {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("m", i), Group: "g"})
	}
	if g, _ := show(t, db, topic, "g"); g != (store.Group{Name: "g", State: store.GroupOpen, Left: 9}) {
		t.Errorf("without a callback: %+v", g)
	}
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "end", AfterGroup: "rows:g"}, notify.Message{Topic: topic, ID: "l", Group: "g", Delay: time.Hour})
	claimed := claimOf(t, db, topic, 3)
	storetest.Must(t, storetest.ErrOf(shard.Ack(t.Context(), topic, []store.Lease{claimed[0].Lease})))
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "m8")))
	want := store.Group{Name: "g", State: store.GroupWaiting, Left: 8, Acked: 1, Cancelled: 1, Callback: "done:end"}
	if g, _ := show(t, db, topic, "g"); g != want {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	storetest.Must(t, storetest.ErrOf(shard.Nack(t.Context(), topic, store.Nack{Lease: claimed[1].Lease, Bury: true, Reason: "no such user"})))
	want.Dead = 1
	g, some := show(t, db, topic, "g")
	if g != want {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	is := []string{"l scheduled", "m2 leased desk-1", "m3 ready", "m4 ready", "m5 ready", "m1 dead no such user"}
	storetest.Same(t, "members", is, some)
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), "done", "end")))
	if g, _ := show(t, db, topic, "g"); g.State != store.GroupOpen || g.Callback != "" {
		t.Errorf("its callback is cancelled: %+v", g)
	}
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "go", AfterGroup: "rows:g", OnDead: "go"})
	if g, some := show(t, db, topic, "g"); g.State != store.GroupWaiting || g.Left != 7 || g.Dead != 1 || len(some) != store.MaxGroupMembers {
		t.Errorf("it goes though some are dead: %+v, %v", g, some)
	}
}

// Groups are listed the latest first, a page at a time, also where many between are forgotten.
func TestListGroups(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	for i := range 7 {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i)})
		if i == 2 {
			storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).GroupsOf(topic), "*", 2500).Err())
		}
	}
	var names []string
	pages := 0
	for cursor, more := "", true; more; more = cursor != "" {
		groups, next, err := store.ListGroups(t.Context(), db, topic, cursor, 3)
		storetest.Must(t, err)
		for _, g := range groups {
			names = append(names, g.Name)
		}
		cursor, pages = next, pages+1
	}
	if diff := cmp.Diff([]string{"g6", "g5", "g4", "g3", "g2", "g1", "g0"}, names); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	for field, call := range map[string]func() error{
		"topic":  func() error { _, _, err := store.ListGroups(t.Context(), db, "a b", "", 1); return err },
		"limit":  func() error { _, _, err := store.ListGroups(t.Context(), db, "a", "", 501); return err },
		"cursor": func() error { _, _, err := store.ListGroups(t.Context(), db, "a", "x", 1); return err },
		"name":   func() error { _, _, err := store.ShowGroup(t.Context(), db, "a", "~x"); return err },
	} {
		if faults := fault.All(call()); len(faults) != 1 || faults[0].Field != field {
			t.Errorf("%s: %v", field, faults)
		}
	}
}

// A group that is forgotten leaves its messages, with all else that they ask for, and its name is free.
func TestForgetGroup(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	letters, keys := storetest.Inspector(t, db), db.KeysOf(topic)
	messages := []notify.Message{
		{ID: "alone"},
		{ID: "key", Key: "k"},
		{ID: "ttl", TTL: time.Hour},
		{ID: "lease", Lease: time.Minute},
		{ID: "header", Headers: map[string]string{"group": "g"}},
		{ID: "late", Delay: time.Hour, MaxAttempts: 3},
	}
	for i := range messages {
		messages[i].Topic, messages[i].Group, messages[i].Body = topic, "g", []byte(`"group":"g",`)
		storetest.Publish(t, db, messages[i])
	}
	for i := range 2500 {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("m", i), Group: "g"})
	}
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "end", AfterGroup: "rows:g"}, notify.Message{Topic: topic, ID: "other", Group: "h"})
	left, cancelled, err := store.ForgetGroup(t.Context(), db, topic, "g")
	if left != 2506 || cancelled != "done:end" || err != nil {
		t.Fatal(left, cancelled, err)
	}
	for _, m := range messages {
		info, err := letters.Inspect(t.Context(), topic, m.ID)
		storetest.Must(t, err)
		if info.Fault != nil || info.Group != "" || info.Key != m.Key || info.TTL != m.TTL || info.Lease != m.Lease || info.MaxAttempts != m.MaxAttempts ||
			info.Headers["group"] != m.Headers["group"] || string(info.Body) != string(m.Body) {
			t.Errorf("%s is %+v", m.ID, info)
		}
	}
	_, _, err = store.ForgetGroup(t.Context(), db, topic, "g")
	storetest.Fails(t, "again", err, store.ErrNoGroup)
	storetest.Fails(t, "its callback", storetest.ErrOf(letters.Inspect(t.Context(), "done", "end")), notify.ErrNotFound)
	if entries := db.Client().ZRange(t.Context(), keys.Grouped(topic), 0, -1).Val(); !slices.Equal(entries, []string{"other"}) {
		t.Errorf("entries of %d are left", len(entries))
	}
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "new", Group: "g"}, notify.Message{Topic: "done", ID: "again", AfterGroup: "rows:g"})
	if g, some := show(t, db, topic, "g"); g.Left != 1 || len(some) != 1 {
		t.Errorf("a group of its name is %+v", g)
	}
	left, cancelled, err = store.ForgetGroup(t.Context(), db, topic, "g")
	if left != 1 || cancelled != "done:again" || err != nil {
		t.Error(left, cancelled, err)
	}
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "other")))
	_, _, err = store.ForgetGroup(t.Context(), db, topic, "h")
	storetest.Must(t, err)
	if n := db.Client().Exists(t.Context(), keys.Grouped(topic), keys.GroupsOf(topic)).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// carryAll carries what is due.
func carryAll(t *testing.T, shard store.Shard) {
	t.Helper()
	e, err := shard.Elect(t.Context(), "me", time.Minute, 0)
	storetest.Must(t, err)
	storetest.Must(t, storetest.ErrOf(shard.Carry(t.Context(), store.Carry{Token: e.Token, Epoch: e.Epoch, Lease: time.Minute, Batch: 10, Ready: "0"})))
	storetest.Must(t, storetest.ErrOf(shard.Resign(t.Context(), e.Token, "", 0)))
}

// A group whose callback came by a time is complete once that is gone, and its name is taken once none of it are left. One whose callback was
// cancelled before is open.
func TestGroupOfEarlyCallback(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	shard, pub := db.Of(topic), storetest.Publisher(t, db)
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "a", Group: "g"}, notify.Message{Topic: "done", ID: "end", AfterGroup: "rows:g"})
	is := func(want store.Group) {
		t.Helper()
		want.Name = "g"
		if g, _ := show(t, db, topic, "g"); g != want {
			t.Errorf("got  %+v\nwant %+v", g, want)
		}
	}
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), "done", "end", time.Hour)))
	is(store.Group{State: store.GroupWaiting, Left: 1, Callback: "done:end"})
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), "done", "end")))
	is(store.Group{State: store.GroupOpen, Left: 1})
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "end", AfterGroup: "rows:g"})
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), "done", "end", 0)))
	storetest.Must(t, storetest.ErrOf(shard.Ack(t.Context(), "done", []store.Lease{claimOf(t, db, "done", 1)[0].Lease})))
	is(store.Group{State: store.GroupDone, Left: 1, Callback: "done:end"})
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "b", Group: "g"})
	claimed := claimOf(t, db, topic, 2)
	storetest.Must(t, storetest.ErrOf(shard.Ack(t.Context(), topic, []store.Lease{claimed[0].Lease, claimed[1].Lease})))
	carryAll(t, shard)
	is(store.Group{State: store.GroupDone, Acked: 2, Callback: "done:end"})
	_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, Group: "g"})
	storetest.Fails(t, "joins", err, store.ErrGroupComplete)
}

// Large messages of a group that is forgotten are in none, however many records one call reads.
func TestForgetGroupOfLargeMessages(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	const n = 40
	for i := range n {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("m", i), Group: "g", Body: make([]byte, 250_000)})
	}
	if left, _, err := store.ForgetGroup(t.Context(), db, topic, "g"); left != n || err != nil {
		t.Error(left, err)
	}
	for i := range n {
		info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, fmt.Sprint("m", i))
		storetest.Must(t, err)
		storetest.Is(t, "the group of a message", info.Group, "")
	}
}

// A group that is complete is forgotten without what came of it.
func TestForgetCompleteGroup(t *testing.T) {
	t.Parallel()
	db, topic := storetest.Open(t), "rows"
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "end", AfterGroup: "rows:g"})
	carryAll(t, db.Of(topic))
	if g, _ := show(t, db, topic, "g"); g.State != store.GroupDone {
		t.Errorf("it is %+v", g)
	}
	if left, cancelled, err := store.ForgetGroup(t.Context(), db, topic, "g"); left != 0 || cancelled != "" || err != nil {
		t.Error(left, cancelled, err)
	}
	if info, err := storetest.Inspector(t, db).Inspect(t.Context(), "done", "end"); err != nil || info.Headers[store.HeaderAfterAcked] != "0" {
		t.Error(info, err)
	}
}
