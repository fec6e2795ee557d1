package httpapi_test

import (
	"strings"
	"testing"

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
