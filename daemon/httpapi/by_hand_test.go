package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// A schedule is run by hand, and backfilled: what would be made is answered, made, and taken when it is made again.
func TestScheduleByHand(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" schedule,publish invoices\nb "+tokenOf("b")+" publish,consume >\nc "+tokenOf("c")+" schedule mail.*\n")})
	a := "Authorization: Bearer " + tokenOf("a")
	s.call("PUT", schedulePath, `{"cron":"30 2 * * *","body":"x"}`, a).is(200)
	for _, path := range []string{"/run", "/backfill?from=2026-03-27T00:00:00Z"} {
		s.call("POST", schedulePath+path, "", "Authorization: Bearer "+tokenOf("b")).is(403).says("this needs schedule")
		s.call("POST", schedulePath+path, "", "Authorization: Bearer "+tokenOf("c")).is(403).says("may not use the topic invoices")
		s.call("POST", strings.Replace(schedulePath, "daily", "none", 1)+path, "", a).is(404).says("no schedule of the topic has this name")
	}
	run := read[api.Publication](s.call("POST", schedulePath+"/run", "", a).is(201))
	if run.Topic != "invoices" || !strings.HasPrefix(run.ID, "daily~20") || len(run.ID) != len("daily~2026-03-27T02:30:00.000Z") || run.State.String() != "ready" || run.Outcome != "created" {
		t.Errorf("got %+v", run)
	}
	s.call("GET", "/v1/topics/invoices/messages/"+run.ID, "", a).is(200).says(`"Bellhop-Schedule":"daily"`)
	path := schedulePath + "/backfill?from=2026-03-27T02:30:00Z&to=2026-03-29T02:30:00Z"
	s.call("POST", path+"&dry_run=true", "", a).is(200).says(`{"dry_run":true,"made":2,"taken":0,"occurrences":[{"at":"2026-03-27T02:30:00Z","id":"daily~2026-03-27T02:30:00Z"},{"at":"2026-03-28T02:30:00Z","id":"daily~2026-03-28T02:30:00Z"}]}`)
	s.call("POST", path, "", a).is(200).says(`{"made":2,"taken":0,`).says(`"id":"daily~2026-03-28T02:30:00Z","due":"20`)
	s.call("POST", path, "", a).is(200).says(`{"made":0,"taken":2,`).says(`"id":"daily~2026-03-28T02:30:00Z","taken":true`)
	s.call("GET", schedulePath, "", a).is(200).says(`"made":0`)
	s.call("POST", schedulePath+"/backfill", "", a).is(422).says("from")
	s.call("POST", schedulePath+"/backfill?from=yesterday&to=2199-01-01", "", a).is(422).says("from").says("to")
	s.call("POST", schedulePath+"/backfill?from=2026-03-27T00:00:00Z&to=2199-01-01T00:00:00Z", "", a).is(422).says("it is not past")
}

// When a schedule fires next is answered, and of a rule that is not put: its faults are those of a put.
func TestNextOfSchedule(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" schedule invoices\nb "+tokenOf("b")+" publish,consume >\nc "+tokenOf("c")+" schedule mail.*\n")})
	a, path := "Authorization: Bearer "+tokenOf("a"), schedulePath+"/next"
	s.call("GET", path, "", a).is(404).says("no schedule of the topic has this name")
	s.call("PUT", schedulePath, `{"cron":"30 2 1 1 *","zone":"Europe/Berlin","from":"2190-01-01T00:00:00Z","body":"x"}`, a).is(200)
	s.call("GET", path, "", "Authorization: Bearer "+tokenOf("b")).is(403).says("this needs schedule")
	s.call("GET", path, "", "Authorization: Bearer "+tokenOf("c")).is(403).says("may not use the topic invoices")
	if next := read[api.ScheduleNext](s.call("GET", path, "", a).is(200)).Next; len(next) != 5 || next[4].Format(time.RFC3339) != "2194-01-01T01:30:00Z" {
		t.Errorf("got %v", next)
	}
	if next := read[api.ScheduleNext](s.call("GET", path+"?n=1000&every=90m&from=2190-01-01T00:00:00Z", "", a).is(200)).Next; len(next) != 1000 || next[1].Format(time.RFC3339) != "2190-01-01T01:30:00Z" {
		t.Errorf("got %v", next)
	}
	s.call("GET", path+"?cron=0+0+*+*+*&from=2190-01-01T00:00:00Z&until=2190-01-02T12:00:00Z", "", a).is(200).says(`{"next":["2190-01-01T00:00:00Z","2190-01-02T00:00:00Z"]}`)
	s.call("GET", path+"?zone=Asia/Tokyo&n=1&from=2199-12-01T00:00:00Z", "", a).is(200).says(`{"next":["2199-12-31T17:30:00Z"]}`)
	for query, says := range map[string]string{
		"n=0": "from 1 to 1000", "n=1001": "from 1 to 1000", "cron=0+0+30+2+*": "never", "cron=0+0+*+*+*&zone=Mars": "Mars", "cron=0+0+*+*+*&every=1h": "there are 2 of them",
		"until=2180-01-01T00:00:00Z": "is before from", "zone=Berlin": "Europe/Berlin", "every=1ms": "every", "cron=no": "cron", "at=2190-01-01T00:00:00Z": "unknown",
	} {
		s.call("GET", path+"?"+query, "", a).is(422).says(says)
	}
	s.call("POST", schedulePath+"/pause", "", a).is(204)
	s.call("GET", path, "", a).is(200).says(`{"next":[]}`)
}
