package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// stuckGroups returns how many groups of a shard are how, its stuck ones without their times, and how many pages these took.
func stuckGroups(t *testing.T, shard store.Shard, after store.StuckAfter) (sum map[store.GroupState]int64, stuck []store.StuckGroup, pages int) {
	t.Helper()
	sum = make(map[store.GroupState]int64)
	for page := (store.StuckPage{}); pages == 0 || page.Topic != ""; pages++ {
		var err error
		page, err = shard.StuckGroups(t.Context(), 100, after, page)
		storetest.Must(t, err)
		for state, n := range page.States {
			sum[state] += n
		}
		for _, g := range page.Groups {
			g.Since = time.Time{}
			stuck = append(stuck, g)
		}
	}
	return sum, stuck, pages
}

// Pages of groups count each by its state, over topics that have many and that have few, and have those that are stuck.
func TestStuckGroups(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard, day := db.Of("rows"), store.StuckAfter{Open: 24 * time.Hour, Restoring: time.Hour}
	for _, name := range []string{"dead", "half", "goes"} {
		storetest.Publish(t, db, notify.Message{Topic: "rows", ID: name, Group: name})
	}
	for _, m := range claimOf(t, db, "rows", 3) {
		storetest.Must(t, storetest.ErrOf(shard.Nack(t.Context(), "rows", store.Nack{Lease: m.Lease, Bury: true})))
	}
	all := []notify.Message{
		{Topic: "rows", ID: "half2", Group: "half"},
		{Topic: "rows", ID: "imported", Group: "imported", Due: time.Now(), Restore: &notify.Restore{}},
		{Topic: "done", ID: "dead", AfterGroup: "rows:dead"},
		{Topic: "done", ID: "half", AfterGroup: "rows:half"},
		{Topic: "done", ID: "goes", AfterGroup: "rows:goes", OnDead: "go"},
	}
	for i := range 300 {
		of := storetest.Beside(db, "rows", []string{"many", fmt.Sprint("t", i)}[i%2])
		all = append(all, notify.Message{Topic: of, ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i)})
	}
	storetest.Publish(t, db, all...)
	carryAll(t, shard)
	sum, stuck, pages := stuckGroups(t, shard, day)
	want := map[store.GroupState]int64{store.GroupOpen: 300, store.GroupWaiting: 1, store.GroupHeld: 1, store.GroupDone: 1, store.GroupRestoring: 1}
	held := store.StuckGroup{Topic: "rows", Name: "dead", State: store.GroupHeld, Callback: "done:dead", Left: 1, Dead: 1}
	if diff := cmp.Diff(want, sum) + cmp.Diff([]store.StuckGroup{held}, stuck); diff != "" || pages < 4 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	_, stuck, _ = stuckGroups(t, shard, store.StuckAfter{Open: day.Open})
	imported := store.StuckGroup{Topic: "rows", Name: "imported", State: store.GroupRestoring, Left: 1}
	if len(stuck) != 2 || stuck[0] != imported && stuck[1] != imported {
		t.Errorf("stuck are %+v", stuck)
	}
	if _, stuck, _ = stuckGroups(t, shard, store.StuckAfter{Restoring: day.Restoring}); len(stuck) != 301 {
		t.Errorf("%d are stuck", len(stuck))
	}
}
