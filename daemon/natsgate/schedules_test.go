package natsgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A list of schedules with large bodies comes in pages that fit into an answer, also where the store reads several together.
func TestLargeSchedules(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	const n = 8
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
		page := read[calls.Schedules](t, request(t, conn, "bellhop.list-schedules."+topic, `{"limit":500,"cursor":"`+cursor+`"}`))
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

// A schedule may have no larger body than a message, and one that is refused changes nothing.
func TestScheduleOfLargeBody(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	newGate(t, db, natsgate.Options{URL: n.ClientURL(), MaxBody: 1024})
	conn := n.connect()
	serving(t, conn)
	apply := func(bytes int) *nats.Msg {
		return request(t, conn, "bellhop.apply-schedules."+topic, `{"schedules":[{"name":"a","every":"1h","body":"`+strings.Repeat("x", bytes)+`"}]}`)
	}
	wantRefused(t, apply(1025), 413, "schedule 1: invalid body: it has 1025 bytes; at most 1024 are allowed")
	if there, err := store.EachSchedule(t.Context(), db, topic); err != nil || len(there) > 0 {
		t.Errorf("got %v, %v", there, err)
	}
	read[calls.SchedulesApplied](t, apply(1024))
}
