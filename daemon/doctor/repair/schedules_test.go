package repair_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is left of schedules that were damaged goes on, and what belongs to none is removed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard, keys, client, ctx := db.Of(mail), db.KeysOf(mail), db.Client(), t.Context()
	for _, name := range []string{"whole", "unlisted", "unruled", "unstated", "paused"} {
		s := store.Schedule{Topic: mail, Name: name, Spec: calendar.Spec{Every: 24 * time.Hour}}
		if _, _, err := shard.PutSchedule(ctx, &s, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	find := func(apply bool) (all []string) {
		t.Helper()
		_, err := repair.Run(ctx, db, repair.Options{Apply: apply}, func(f repair.Finding) { all = append(all, f.String()+"; "+f.Remedy) })
		storetest.Must(t, err)
		slices.Sort(all)
		return all
	}
	storetest.Must(t, shard.PauseSchedule(ctx, mail, "paused", store.AnyRevision))
	if found := find(false); len(found) > 0 {
		t.Errorf("of whole ones: %v", found)
	}
	err := errors.Join(
		client.ZRem(ctx, keys.Schedules(), mail+":unlisted", mail+":paused").Err(),
		client.HDel(ctx, keys.Rules(mail), "unruled").Err(),
		client.HDel(ctx, keys.SchedulesOf(mail), "unstated").Err(),
		client.Do(ctx, "ZADD", keys.Schedules(), 1, mail+":nothing", 2, "foreign").Err(),
		client.ZRem(ctx, keys.Alarms(), "/").Err(),
	)
	storetest.Must(t, err)
	here := func(key string) string { return key[len(keys.Base()):] }
	if storetest.Shards() > 1 {
		here = func(key string) string { return "{" + keys.Tag() + "}:" + key[len(keys.Base()):] }
	}
	const missing = ": its entry there is missing or wrong; "
	want := []string{
		"/ in " + here(keys.Alarms()) + missing + "set to when the first schedule is looked at",
		"foreign in " + here(keys.Schedules()) + missing + "removed",
		"mail:nothing in " + here(keys.Schedules()) + missing + "removed",
		"mail:paused in " + here(keys.Schedules()) + missing + "added",
		"mail:unlisted in " + here(keys.Schedules()) + missing + "added",
		"mail:unruled in " + here(keys.SchedulesOf(mail)) + ": it belongs to no message; removed",
		"mail:unstated in " + here(keys.SchedulesOf(mail)) + missing + "added, to go on from now",
	}
	for _, apply := range []bool{false, true} {
		if diff := cmp.Diff(want, find(apply)); diff != "" {
			t.Errorf("(- wanted, + found)\n%s", diff)
		}
	}
	if found := find(false); len(found) > 0 {
		t.Errorf("once repaired: %v", found)
	}
	carriertest.Run(t, db)
	for _, name := range []string{"whole", "unlisted", "unstated"} {
		storetest.Eventually(t, name+" is filled", func() bool {
			_, state, _, err := shard.Schedule(ctx, mail, name)
			return err == nil && state.Made == 2
		})
	}
}
