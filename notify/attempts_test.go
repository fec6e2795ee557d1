package notify_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// An export has what is known of attempts that failed, and who publishes it has that again.
func TestHistoryIsExported(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	publish again dead
	claim 2 name=w-1 = again dead
	nack again delay=1h reason="no\nroute"
	bury dead reason="for good"
	`)
	lines, _ := export(t, p.Store)
	had, has := p.Inspector, storetest.Open(t)
	wantRestored(t, has, lines)
	for _, id := range []string{"again", "dead"} {
		before, err := had.Inspect(t.Context(), topic, id)
		storetest.Must(t, err)
		after := inspect(t, clientOf(t, has), id)
		storetest.Same(t, id, before.History, after.History)
		if len(after.History) != 1 || after.History[0].By != "w-1" || after.Attempts != 1 {
			t.Errorf("%s: %+v", id, after)
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
