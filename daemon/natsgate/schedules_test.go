package natsgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A list of schedules with large bodies comes in pages that fit into an answer, also where the store reads several together.
func TestLargeSchedules(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	const n = 24
	for i := range n {
		s := store.Schedule{
			Topic: topic, Name: fmt.Sprintf("s%d", i), Spec: calendar.Spec{Every: time.Hour},
			Message: record.Record{Body: []byte(strings.Repeat("\"", 300<<10))}, // JSON has twice as many bytes, so an answer holds one
		}
		if _, _, err := db.Of(topic).PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for cursor := ""; ; {
		page := read[api.Schedules](t, request(t, conn, "bellhop.list-schedules."+topic, `{"limit":500,"cursor":"`+cursor+`"}`))
		for _, one := range page.Schedules {
			seen[one.Name] = true
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d are listed", len(seen), n)
	}
}
