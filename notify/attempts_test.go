package notify_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// An export has what is known of attempts that failed, and who publishes it has that again.
func TestHistoryIsExported(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	c := subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: "w-1"})
	publish(t, pub, message("again", time.Time{}))
	for _, id := range []string{"again", "dead"} {
		if id == "dead" {
			publish(t, pub, message("dead", time.Time{}))
		}
		ds, err := c.Claim(t.Context(), topic)
		if err != nil || len(ds) != 1 || ds[0].ID != id {
			t.Fatal(ds, err)
		}
		if id == "dead" {
			_, err = ds[0].Bury(t.Context(), "for good")
		} else {
			_, err = ds[0].Nack(t.Context(), anHour, "no\nroute")
		}
		storetest.Must(t, err)
	}
	var out bytes.Buffer
	storetest.Must(t, storetest.ErrOf(pub.Export(t.Context(), &out, nil)))
	other := storetest.Open(t)
	wantRestored(t, other, strings.Split(strings.TrimSpace(out.String()), "\n"))
	for _, id := range []string{"again", "dead"} {
		had, err := pub.Inspect(t.Context(), topic, id)
		storetest.Must(t, err)
		has, err := storetest.Inspector(t, other).Inspect(t.Context(), topic, id)
		if err != nil || len(has.History) != 1 || has.History[0].By != "w-1" || cmp.Diff(had.History, has.History) != "" || has.Attempts != 1 {
			t.Errorf("%s: %d attempts, %v: %s", id, has.Attempts, err, cmp.Diff(had.History, has.History))
		}
	}
}

// A restored history that no export has is refused.
func TestRestoredHistoryIsChecked(t *testing.T) {
	t.Parallel()
	for history, fault := range map[string]string{
		`[{}]`:                               "restore.history.ended: it is missing",
		`[{"ended":"1960-01-01T00:00:00Z"}]`: "use a time from 1970",
		`[{"ended":"2026-01-01T00:00:00Z","took_ms":-1}]`:                                                   "restore.history.took_ms",
		`[{"ended":"2026-01-01T00:00:00Z","by":"a b"}]`:                                                     "restore.history.by",
		`[` + strings.Repeat(`{"ended":"2026-01-01T00:00:00Z"},`, 10) + `{"ended":"2026-01-01T00:00:00Z"}]`: "use up to 10",
		`[{"ended":"2026-01-01T00:00:00Z","reason":"` + strings.Repeat("x", 1025) + `"}]`:                   "at most 1024 bytes",
	} {
		pub, _ := open(t)
		m, err := notify.ParseExported([]byte(`{"topic":"a","id":"b","due":"2026-01-01T00:00:00Z","body":"","restore":{"history":` + history + `}}`))
		if err == nil {
			_, err = pub.Publish(t.Context(), m)
		}
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%.80s: %v", history, err)
		}
	}
}
