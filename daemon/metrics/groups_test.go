package metrics_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// groups returns the series of all states.
func groups(open, waiting, held float64) map[string]float64 {
	of := func(state string) string { return `bellhop_groups{state="` + state + `"}` }
	return map[string]float64{of("open"): open, of("waiting"): waiting, of("held"): held, of("complete"): 0, of("restoring"): 0}
}

// Groups are shown by state, of all shards. One that waits counts as held once only dead letters are left of it.
func TestGroups(t *testing.T) {
	db := storetest.Sharded(t, 4)
	m := newMetrics(t, db, metrics.Options{})
	want(t, scrape(t, m), groups(0, 0, 0))
	for i := range 12 {
		storetest.Publish(t, db, notify.Message{Topic: fmt.Sprint("t", i), Group: "g"})
	}
	storetest.Publish(t, db, notify.Message{Topic: "rows", Group: "g"}, notify.Message{Topic: "rows", Group: "g"}, notify.Message{Topic: "rows", ID: "end", AfterGroup: "rows:g"})
	want(t, scrape(t, m), groups(12, 1, 0))
	bury := func() {
		t.Helper()
		got, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "rows", subscribers.ClaimOptions{Max: 1})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		storetest.Must(t, storetest.ErrOf(got[0].Bury(t.Context(), "no")))
	}
	bury()
	want(t, scrape(t, m), groups(12, 1, 0))
	bury()
	want(t, scrape(t, m), groups(12, 0, 1))
}

// A scrape looks at some of many groups. What it shows is the last whole round.
func TestManyGroups(t *testing.T) {
	db := storetest.Sharded(t, 1)
	const many = 2500
	all := make([]notify.Message, many)
	for i := range all {
		all[i] = notify.Message{Topic: "rows", ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i), Delay: time.Hour}
	}
	storetest.Publish(t, db, all...)
	var calls atomic.Int64
	db.Observe(func(script string, _ time.Duration, _ error) {
		if script == "stuck_groups" {
			calls.Add(1)
		}
	})
	m := newMetrics(t, db, metrics.Options{})
	for round := range 2 {
		for scrapes := range 3 {
			before := calls.Load()
			now, is := scrape(t, m)[`bellhop_groups{state="open"}`]
			if n := calls.Load() - before; n < 1 || n > 20 {
				t.Errorf("scrape %d of round %d made %d calls", scrapes, round, n)
			}
			if first := round == 0 && scrapes < 2; is == first || is && now != many {
				t.Errorf("scrape %d of round %d shows %v, %v", scrapes, round, now, is)
			}
		}
	}
}
