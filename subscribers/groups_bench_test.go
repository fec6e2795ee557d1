package subscribers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// scriptsIn returns how many functions a Redis runs within some time, a second.
func scriptsIn(b *testing.B, db *notify.Store, some time.Duration) float64 {
	b.Helper()
	storetest.Must(b, db.Client().ConfigResetStat(b.Context()).Err())
	time.Sleep(some)
	info, err := db.Client().InfoMap(b.Context(), "commandstats").Result()
	storetest.Must(b, err)
	var n int
	_, err = fmt.Sscanf(info["Commandstats"]["cmdstat_fcall"], "calls=%d,", &n)
	storetest.Must(b, err)
	return float64(n) / some.Seconds()
}

// BenchmarkGroups measures, with no other group and beside one of a million members and 100,000 of one, how long it takes from the last
// acknowledgement of a group until a handler has its callback, and how many functions Redis runs at rest; how long it takes to list 50 groups,
// and to show that of a million; and how many bytes a member takes beyond a plain message, and a group beyond its member. Ids have 36 bytes.
func BenchmarkGroups(b *testing.B) {
	const members, groups, rounds, rest = 1_000_000, 100_000, 300, 20 * time.Second
	for b.Loop() {
		db := storetest.At(b, storetest.Server(b).URL(), "")
		carry(b, db)
		callbacks := make(chan time.Time)
		sub, err := subscribers.NewSubscriber(db)
		if err == nil {
			err = sub.Handle("done", func(context.Context, *subscribers.Delivery) error {
				callbacks <- time.Now()
				return nil
			})
		}
		storetest.Must(b, err)
		storetest.Run(b, sub.Run)
		claimer := subscriberstest.Claimer(b, db)
		completed := func(of string) {
			var late storetest.Lateness
			for i := range rounds {
				group := fmt.Sprint(of, "-", i)
				storetest.Publish(b, db, notify.Message{Topic: topic, Group: group}, notify.Message{Topic: "done", AfterGroup: topic + ":" + group})
				waitsIn(b, db, []string{"done"}, 1)
				got, err := claimer.Claim(b.Context(), topic, subscribers.ClaimOptions{Max: 1})
				storetest.Must(b, err)
				time.Sleep(10 * time.Millisecond)
				began := time.Now()
				storetest.Must(b, got[0].Ack(b.Context()))
				late.Add((<-callbacks).Sub(began))
			}
			late.Report(b, of)
			b.ReportMetric(scriptsIn(b, db, rest), of+"-calls/s")
		}
		completed("alone")
		before := usedMemory(b, db)
		fill := func(n int, group func(i int) string) float64 {
			storetest.Fill(b, db, n, func(i int) notify.Message {
				return notify.Message{Topic: "import", ID: notify.NewID(), Group: group(i), Delay: time.Hour}
			})
			used := usedMemory(b, db) - before
			before += used
			return used / float64(n)
		}
		plain := fill(groups, func(int) string { return "" })
		member := fill(members, func(int) string { return "whole" })
		b.ReportMetric(member-plain, "B/member")
		b.ReportMetric(fill(groups, func(i int) string { return fmt.Sprintf("group-%010d", i) })-member, "B/group")
		completed("beside")
		var lists, shows storetest.Lateness
		for range 50 {
			began := time.Now()
			page, _, err := store.ListGroups(b.Context(), db, "import", "", 50)
			storetest.Must(b, err)
			storetest.Is(b, "groups on a page", len(page), 50)
			lists.Add(time.Since(began))
			began = time.Now()
			_, _, err = store.ShowGroup(b.Context(), db, "import", "whole")
			storetest.Must(b, err)
			shows.Add(time.Since(began))
		}
		lists.Report(b, "list")
		shows.Report(b, "show")
	}
}
