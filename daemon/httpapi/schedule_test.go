package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const schedulePath = "/v1/topics/invoices/schedules/daily"

// A schedule is put, shown with the next five times, listed, paused, resumed, run and deleted, and all answers are as the document says.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{MaxBody: 1024})
	const path = "/v1/topics/invoices/schedules"
	s.call("GET", path, "").is(200).says(`{"schedules":[]}`)
	body := `{"cron":"30 2 * * *","zone":"Europe/Berlin","from":"2199-06-01T00:00:00Z","overlap":"skip","body":"x","attempts":3,"ttl":"1h","headers":{"Shop":"7"},"content_type":"text/plain"}`
	put := read[calls.SchedulePutReply](s.call("PUT", schedulePath, body).is(200))
	if put.Outcome != "created" || put.Zone != "Europe/Berlin" || put.Overlap != "skip" || put.MaxAttempts != 3 || put.TTL != 3_600_000 || put.Headers["Shop"] != "7" || len(put.State.Next) != 5 {
		t.Errorf("got %+v", put)
	}
	s.call("PUT", schedulePath, body).is(200).says(`"outcome":"kept"`)
	s.call("PUT", schedulePath, strings.Replace(body, "30 2", "31 2", 1)).is(200).says(`"outcome":"replaced"`).says(":31:00Z")
	s.call("POST", schedulePath+"/pause", "").is(204)
	s.call("GET", schedulePath, "").is(200).says(`"paused":"20`).says(`"next":[]`)
	s.call("POST", schedulePath+"/resume", "").is(204)
	s.call("POST", schedulePath+"/run", "").is(201)
	s.call("PUT", path+"/b", `{"every":"1h","body":""}`).is(200)
	for _, want := range []string{`"made":2,"taken":0`, `"made":0,"taken":2`} {
		s.call("POST", path+"/b/backfill?from=2026-03-27T00:00:00Z&to=2026-03-27T02:00:00Z", "").is(200).says(want)
	}
	carry(t, s.store)
	s.call("PUT", schedulePath, strings.Replace(body, "2199-06", "2198-06", 1)).is(200)
	storetest.Eventually(t, "the next are made", func() bool {
		return read[calls.Schedule](s.call("GET", schedulePath, "").is(200)).State.Made == 2
	})
	s.call("DELETE", "/v1/topics/invoices/messages/daily~2198-06-01T00:30:00Z", "").is(200)
	const next = `"next":["2198-06-02T00:30:00Z","2198-06-03T00:30:00Z","2198-06-04T00:30:00Z","2198-06-05T00:30:00Z","2198-06-06T00:30:00Z"]`
	for _, path := range []string{schedulePath, schedulePath + "/next", path, "/v1/schedules?limit=500"} {
		s.call("GET", path, "").is(200).says(next)
	}
	s.call("PUT", path, `{"schedules":[],"prune":true}`).is(200).says(`"outcome":"deleted"`)
	s.call("PUT", schedulePath, `{"every":"1h","body":"`+strings.Repeat("x", 1025)+`"}`).is(413)
	s.call("PUT", path, `{"schedules":[{"name":"a","every":"1h","body":"`+strings.Repeat("x", 1<<20)+`"}]}`).is(413)
	s.call("PUT", schedulePath, `{"every":"1h"}`).is(422).says(`"in":"body"`)
	for _, call := range []string{"GET ", "DELETE ", "GET /next", "POST /pause", "POST /resume", "POST /run", "POST /backfill?from=2026-03-27T00:00:00Z"} {
		method, more, _ := strings.Cut(call, " ")
		s.call(method, schedulePath+more, "").is(404).says("no schedule of the topic has this name")
	}
}
