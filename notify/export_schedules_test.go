package notify_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A meanwhile is a writer that does something behind the first write.
type meanwhile struct {
	bytes.Buffer
	do func()
}

func (w *meanwhile) Write(p []byte) (int, error) {
	defer func() {
		if w.do != nil {
			w.do()
		}
		w.do = nil
	}()
	return w.Buffer.Write(p)
}

// What a schedule makes during an export is left out, since it makes that again elsewhere; what it made before is exported, and what others publish.
func TestExportWhileOccurrencesAreMade(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard, base := db.Of(topic), time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
	e, err := shard.Elect(t.Context(), "me", time.Minute, 0)
	storetest.Must(t, err)
	s := store.Schedule{Topic: topic, Name: "a", Spec: calendar.Spec{Every: time.Hour}}
	if _, _, err := shard.PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	make := func(hour int) {
		t.Helper()
		page, err := shard.FillSchedules(t.Context(), e.Token, false, nil)
		if err != nil || len(page.Due) != 1 {
			t.Fatal(page, err)
		}
		at := base.Add(time.Duration(hour) * time.Hour)
		fill := store.Fill{Of: page.Due[0], Cursor: at, Next: time.Unix(1, 0), Occurrences: []store.Occurrence{{At: at}}}
		storetest.Must(t, storetest.ErrOf(shard.FillSchedules(t.Context(), e.Token, false, []store.Fill{fill})))
	}
	make(1)
	w := &meanwhile{do: func() {
		make(2)
		storetest.Publish(t, db, message(s.OccurrenceID(base.Add(3*time.Hour)), future))
	}}
	sum, err := clientOf(t, db).Export(t.Context(), w, nil)
	out := w.String()
	if err != nil || sum.Schedules != 1 || sum.Scheduled != 2 || !strings.HasPrefix(out, `{"kind":"schedule"`) || !strings.Contains(out, `"cursor":"2090-01-01T01:00:00Z","made":1`) ||
		!strings.Contains(out, `"id":"a~2090-01-01T01:00:00Z"`) || strings.Contains(out, "T02:00:00Z") || !strings.Contains(out, `"id":"a~2090-01-01T03:00:00Z"`) {
		t.Errorf("%+v, %v:\n%s", sum, err, out)
	}
}
