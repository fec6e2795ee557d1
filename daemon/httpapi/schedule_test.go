package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const schedulePath = "/v1/topics/invoices/schedules/daily"

// A schedule is put, shown with the next five times in its zone, listed a page at a time, paused, resumed and deleted. Its messages are made.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("GET", "/v1/topics/invoices/schedules", "").is(200).says(`{"schedules":[]}`)
	body := `{"cron":"30 2 * * *","zone":"Europe/Berlin","overlap":"skip","body":"x","attempts":3,"ttl":"1h","headers":{"Shop":"7"},"content_type":"text/plain"}`
	put := read[api.SchedulePutReply](s.call("PUT", schedulePath, body).is(200))
	if put.Outcome != "created" || put.Zone != "Europe/Berlin" || put.Overlap != "skip" || put.MaxAttempts != 3 || put.TTL != 3_600_000 || put.Headers["Shop"] != "7" || len(put.State.Next) != 5 {
		t.Errorf("got %+v", put)
	}
	for _, at := range put.State.Next {
		if !strings.Contains(at, "T02:30:00+0") {
			t.Errorf("it fires at %s", at)
		}
	}
	s.call("PUT", schedulePath, body).is(200).says(`"outcome":"kept"`)
	s.call("PUT", schedulePath, strings.Replace(body, "30 2", "31 2", 1)).is(200).says(`"outcome":"replaced"`).says("T02:31:00")
	s.call("POST", schedulePath+"/pause", "").is(204)
	s.call("GET", schedulePath, "").is(200).says(`"paused":"20`).says(`"next":[]`)
	s.call("POST", schedulePath+"/resume", "").is(204)
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		s.call("PUT", "/v1/topics/invoices/schedules/"+name, `{"every":"1h","body":""}`).is(200)
	}
	seen := make(map[string]bool)
	for cursor := ""; ; {
		page := read[api.Schedules](s.call("GET", "/v1/topics/invoices/schedules?limit=5"+cursor, "").is(200))
		for _, one := range page.Schedules {
			seen[one.Name] = true
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	if len(seen) != 27 {
		t.Errorf("%d of 27 are listed", len(seen))
	}
	carry(t, s.store)
	s.call("PUT", "/v1/topics/ticks/schedules/clock", `{"every":"1s","count":2,"body":"tick"}`).is(200)
	storetest.Eventually(t, "two are made and ready", func() bool {
		c, err := storetest.Count(s.store, "ticks")
		return err == nil && c.Ready == 2
	})
	s.call("GET", "/v1/topics/ticks/schedules/clock", "").is(200).says(`"made":2`)
	s.call("DELETE", schedulePath, "").is(204)
	for _, path := range []string{"", "/pause", "/resume"} {
		method := map[bool]string{true: "GET", false: "POST"}[path == ""]
		s.call(method, schedulePath+path, "").is(404).says("no schedule of the topic has this name")
	}
}

// All that is wrong with a schedule is said at once, and changes nothing.
func TestWrongSchedule(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for body, texts := range map[string][]string{
		`{}`:                                   {"body: it is missing", "there are 0 of them; give one"},
		`{"cron":"0 0 30 2 *","body":"{{x}}"}`: {"it never fires", "there are no templates"},
		`{"cron":"0 0 * * *","zone":"Berlin","body":""}`:          {"do you mean Europe/Berlin"},
		`{"every":"soon","until":"never","body":""}`:              {"every", "until"},
		`{"every":5,"body":""}`:                                   {"every", "string"},
		`{"every":"1h","until":"2026-01-01T00:00:00Z","body":""}`: {"until 2026-01-01T00:00:00Z: there is no occurrence between now and then", `"name":"until"`},
		`{"at":["2026-01-01T00:00:00Z"],"body":""}`:               {"at: none of its times is to come, so it never fires", `"name":"at"`},
		`{"every":"1h","id":"a","topic":"b","body":""}`:           {`the field \"id\" is unknown`, `the field \"topic\" is unknown`, "cron, every"},
		`{"every":"1h","body":"","ttl":"x","lease":"25h"}`:        {"ttl", "lease"},
		`{"every":"1h","body":"","headers":{"bellhop-a":"b"}}`:    {"names that begin with Bellhop-"},
		`[]`: {"it is not a JSON object"},
	} {
		a := s.call("PUT", schedulePath, body).is(422)
		for _, text := range texts {
			a.says(text)
		}
	}
	s.call("PUT", "/v1/topics/invoices/schedules/a~2026-11-22T08:00:00Z", `{"every":"1h","body":""}`).is(422).says("it ends like the id of an occurrence")
	s.call("GET", "/v1/topics/invoices/schedules", "").is(200).says(`{"schedules":[]}`)
}

// A token needs the right schedule, and the topic.
func TestScheduleRights(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens",
		"a "+tokenOf("a")+" schedule invoices\nb "+tokenOf("b")+" publish,consume >\nc "+tokenOf("c")+" schedule mail.*\n")})
	body := `{"every":"1h","body":""}`
	s.call("PUT", schedulePath, body, "Authorization: Bearer "+tokenOf("b")).is(403).says("this needs schedule")
	s.call("PUT", schedulePath, body, "Authorization: Bearer "+tokenOf("c")).is(403).says("may not use the topic invoices")
	s.call("PUT", schedulePath, body, "Authorization: Bearer "+tokenOf("a")).is(200)
	for _, call := range []string{"GET ", "DELETE ", "POST /pause", "POST /resume"} {
		method, path, _ := strings.Cut(call, " ")
		s.call(method, schedulePath+path, "", "Authorization: Bearer "+tokenOf("c")).is(403)
	}
}
