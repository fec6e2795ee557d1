package reasons_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// Reasons differ by their words, not by the names in them, and their number is bounded.
func TestCount(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	put := func(deaths ...any) {
		t.Helper()
		storetest.Must(t, store.Client().HSet(t.Context(), store.KeysOf("orders").Deaths(), deaths...).Err())
	}
	put("orders:1", "no such order 4711", "orders:2", "no such order 4712", "orders:3", "answered 503", "orders:4", "answered 404",
		"mail:1", "no such order 4713", "foreign", "\x1b[2J\xff", "orders:5", strings.Repeat("x", 1000))
	got, err := reasons.Count(t.Context(), store, nil)
	want := []reasons.Reason{
		{Topic: "orders", Reason: "no such order #", Dead: 2},
		{Topic: "_", Reason: "\x1b[2J", Dead: 1},
		{Topic: "mail", Reason: "no such order #", Dead: 1},
		{Topic: "orders", Reason: "answered 404", Dead: 1},
		{Topic: "orders", Reason: "answered 503", Dead: 1},
		{Topic: "orders", Reason: strings.Repeat("x", 200), Dead: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	for from := 0; from < 12_000; from += 1000 {
		var deaths []any
		for i := range 1000 {
			deaths = append(deaths, fmt.Sprintf("t%d:1", from+i), "gone")
		}
		put(deaths...)
	}
	var totals []int
	got, err = reasons.Count(t.Context(), store, func(total int) { totals = append(totals, total) })
	if err != nil || len(got) > 10_001 || got[0].Topic != "*" || got[0].Reason != "other reasons" || len(totals) < 10 || !slices.IsSorted(totals) {
		t.Errorf("got %d reasons, the first %+v, in %d pages, %v", len(got), got[:1], len(totals), err)
	}
}
