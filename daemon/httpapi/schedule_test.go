package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const schedulePath = "/v1/topics/invoices/schedules/daily"

// A schedule is put, shown with the next five times, listed a page at a time, paused, resumed and deleted. Its messages are made.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("GET", "/v1/topics/invoices/schedules", "").is(200).says(`{"schedules":[]}`)
	body := `{"cron":"30 2 * * *","zone":"Europe/Berlin","from":"2199-06-01T00:00:00Z","overlap":"skip","body":"x","attempts":3,"ttl":"1h","headers":{"Shop":"7"},"content_type":"text/plain"}`
	put := read[api.SchedulePutReply](s.call("PUT", schedulePath, body).is(200))
	if put.Outcome != "created" || put.Zone != "Europe/Berlin" || put.Overlap != "skip" || put.MaxAttempts != 3 || put.TTL != 3_600_000 || put.Headers["Shop"] != "7" || len(put.State.Next) != 5 {
		t.Errorf("got %+v", put)
	}
	for _, at := range put.State.Next {
		if zone, _ := calendar.Zone("Europe/Berlin"); at.In(zone).Format(time.TimeOnly) != "02:30:00" || at.Location() != time.UTC {
			t.Errorf("it fires at %s", at)
		}
	}
	s.call("PUT", schedulePath, body).is(200).says(`"outcome":"kept"`)
	s.call("PUT", schedulePath, strings.Replace(body, "30 2", "31 2", 1)).is(200).says(`"outcome":"replaced"`).says(":31:00Z")
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
	s.call("PUT", schedulePath, strings.Replace(body, "2199-06", "2198-06", 1)).is(200)
	storetest.Eventually(t, "the next are made", func() bool {
		return read[api.Schedule](s.call("GET", schedulePath, "").is(200)).State.Made == 2
	})
	s.call("DELETE", "/v1/topics/invoices/messages/daily~2198-06-01T00:30:00Z", "").is(200)
	const next = `"next":["2198-06-02T00:30:00Z","2198-06-03T00:30:00Z","2198-06-04T00:30:00Z","2198-06-05T00:30:00Z","2198-06-06T00:30:00Z"]`
	s.call("GET", schedulePath, "").is(200).says(next)
	s.call("GET", "/v1/topics/invoices/schedules?limit=500", "").is(200).says(next)
	s.call("GET", schedulePath+"/next", "").is(200).says(next)
	s.call("DELETE", schedulePath, "").is(204)
	for _, path := range []string{"", "/pause", "/resume"} {
		method := map[bool]string{true: "GET", false: "POST"}[path == ""]
		s.call(method, schedulePath+path, "").is(404).says("no schedule of the topic has this name")
	}
}

// The schedules of all topics that a token permits are listed a page at a time, in all shards.
func TestListAllSchedules(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.Sharded(t, 4), httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" schedule >\nb "+tokenOf("b")+" schedule t.1,t.4\nc "+tokenOf("c")+" publish >\n")})
	const topics, of = 12, 5
	shards := make(map[int]bool)
	for i := range topics {
		topic := fmt.Sprint("t.", i)
		shards[s.store.Of(topic).Number()] = true
		for n := range of {
			s.call("PUT", fmt.Sprintf("/v1/topics/%s/schedules/s%d", topic, n), `{"every":"1h","body":"x"}`, "Authorization: Bearer "+tokenOf("a")).is(200)
		}
	}
	for token, want := range map[string]int{"a": topics * of, "b": 2 * of} {
		seen := make(map[string]int)
		for cursor := ""; ; {
			page := read[api.Schedules](s.call("GET", "/v1/schedules?limit=4"+cursor, "", "Authorization: Bearer "+tokenOf(token)).is(200))
			for _, one := range page.Schedules {
				seen[one.Topic+" "+one.Name]++
			}
			if len(page.Schedules) > 4 {
				t.Errorf("a page has %d", len(page.Schedules))
			}
			if page.Cursor == "" {
				break
			}
			cursor = "&cursor=" + page.Cursor
		}
		if len(seen) != want || token == "b" && (seen["t.1 s0"] != 1 || seen["t.4 s4"] != 1) || len(shards) != 4 {
			t.Errorf("%s of %d shards gets %d schedules, want %d: %v", token, len(shards), len(seen), want, seen)
		}
	}
	s.call("GET", "/v1/schedules?cursor=4s0", "", "Authorization: Bearer "+tokenOf("a")).is(422).says("it is none of a list of schedules")
	s.call("GET", "/v1/schedules", "", "Authorization: Bearer "+tokenOf("c")).is(403).says("this needs schedule")
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

// What a list shows is applied as it is; others are pruned if that is asked for, and a dry run changes nothing.
func TestApplySchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const path = "/v1/topics/invoices/schedules"
	s.call("PUT", path, `{"schedules":[{"name":"a","every":"1h","body":"x","key":"k"},{"name":"b","cron":"30 2 * * *","zone":"Europe/Berlin","jitter":"5m","body_base64":"/w=="}]}`).is(200).
		says(`{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"created"},{"topic":"invoices","name":"b","outcome":"created"}]}`)
	s.call("POST", path+"/b/pause", "").is(204)
	list := string(s.call("GET", path, "").is(200).body)
	s.call("PUT", path, strings.TrimSpace(list)).is(200).says(`"name":"a","outcome":"kept"`).says(`"name":"b","outcome":"kept"`)
	s.call("GET", path+"/b", "").says(`"paused":`)
	const one = `{"schedules":[{"topic":"invoices","name":"a","every":"2h","body":"x"}],"prune":true`
	s.call("PUT", path, one+`,"dry_run":true}`).is(200).says(`{"dry_run":true,"schedules":[{"topic":"invoices","name":"a","outcome":"replaced"},{"topic":"invoices","name":"b","outcome":"deleted"}]}`)
	if again := string(s.call("GET", path, "").body); again != list {
		t.Errorf("after a dry run: %s, before: %s", again, list)
	}
	s.call("PUT", path, one+`}`).is(200).says(`"name":"a","outcome":"replaced"`).says(`"name":"b","outcome":"deleted"`)
	s.call("PUT", path, one+`}`).is(200).says(`{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"kept"}]}`)
	s.call("PUT", path, `{"schedules":[],"prune":true}`).is(200).says(`{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"deleted"}]}`)
	s.call("PUT", path, `{"schedules":[],"prune":true}`).is(200).says(`{"dry_run":false,"schedules":[]}`)
}

// Each thing that is wrong with any of the schedules is named, with its number, and nothing changes.
func TestApplyWrongSchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const path, fine = "/v1/topics/invoices/schedules", `{"name":"a","every":"1h","body":"x"}`
	many := strings.TrimSuffix(strings.Repeat(`{"name":"a","every":"0s","body":"x"},`, 30), ",")
	for body, says := range map[string][]string{
		``:                             {"schedules: ", "write one JSON object"},
		`[]`:                           {"schedules: ", "write one JSON object"},
		`{}`:                           {"schedules: they are missing", `"name":"schedules"`},
		`{"prune":true}`:               {"schedules: they are missing"},
		`{"schedules":null}`:           {"schedules: they are missing"},
		`{"schedules":7,"dry":true}`:   {"schedules 7: write a list of objects", `the field \"dry\" is unknown; use schedules, prune and dry_run`},
		`{"schedules":[],"prune":"x"}`: {`prune \"x\": write true or false`, `"name":"prune"`},
		`{"schedules":[` + fine + `,{"name":"b","every":"1x","jitter":"1y","body":"x"},{"every":"1h","body":"x"},7]}`:         {"schedule 2: ", "every", "jitter", "schedule 3: ", "name: it is missing", "schedule 4: "},
		`{"schedules":[` + fine + `,{"topic":"other","name":"b","every":"1h","body":"x"},{"topic":"invoices"},{"name":"c"}]}`: {"schedule 2: ", "these are the schedules of invoices", "schedule 3: ", "schedule 4: "},
		`{"schedules":[` + fine + `,` + fine + `]}`:                                                       {"schedule 2: ", "name a: it is that of schedule 1, too"},
		`{"schedules":[` + fine + `,{"name":"b","at":["2020-01-01T00:00:00Z"],"body":"x"}],"prune":true}`: {"invoices b: ", "none of its times is to come", "1 of them would never fire, and nothing was changed"},
		`{"schedules":[` + fine + `,` + many + `]}`:                                                       {"schedule 2: ", "schedule 21: ", "30 of them are wrong"},
	} {
		a := s.call("PUT", path, body).is(422)
		for _, text := range says {
			a.says(text)
		}
	}
	s.call("PUT", path, `{"schedules":[{"name":"a","every":"1h","body":"`+strings.Repeat("x", 1<<20)+`"}]}`).is(413)
	s.call("PUT", path, `{"schedules":[`+strings.Repeat(fine+",", 10_000)+fine+`]}`).is(422).says("schedules: there are 10001, and up to 10000 are possible")
	s.call("GET", path, "").is(200).says(`{"schedules":[]}`)
}

// A list of schedules with large bodies has as many of them as fit into a page, and its pages have all.
func TestLargeSchedules(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const n, size = 24, 256 << 10
	for i := range n {
		one := store.Schedule{Topic: "invoices", Name: fmt.Sprintf("s%d", i), Spec: calendar.Spec{Every: time.Hour}, Message: record.Record{Body: make([]byte, size)}}
		if _, _, err := s.store.Of("invoices").PutSchedule(t.Context(), &one, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for cursor := ""; ; {
		page := read[api.Schedules](s.call("GET", "/v1/topics/invoices/schedules?limit=500"+cursor, "").is(200))
		bytes := 0
		for _, one := range page.Schedules {
			bytes += len(*one.Body)
			seen[one.Name] = true
		}
		if bytes > 4<<20 || len(page.Schedules) == 0 {
			t.Fatalf("a page has %d schedules with %d bytes", len(page.Schedules), bytes)
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	if len(seen) != n {
		t.Errorf("%d of %d are listed", len(seen), n)
	}
	s.call("GET", "/v1/topics/invoices/schedules?cursor=1-x", "").is(422).says("it is none of a list of schedules")
}

// A page of schedules has no more than were asked for, and none is left out where those are deleted that were listed.
func TestSchedulePagesBetweenChanges(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const n = 60
	for i := range n {
		s.call("PUT", fmt.Sprintf("/v1/topics/invoices/schedules/s%d", i), `{"every":"1h","body":"x"}`).is(200)
	}
	seen := make(map[string]bool)
	for cursor := ""; ; {
		page := read[api.Schedules](s.call("GET", "/v1/topics/invoices/schedules?limit=3"+cursor, "").is(200))
		if len(page.Schedules) > 3 {
			t.Fatalf("%d schedules", len(page.Schedules))
		}
		for i, one := range page.Schedules {
			if seen[one.Name] = true; i == 0 {
				s.call("DELETE", "/v1/topics/invoices/schedules/"+one.Name, "").is(204)
			}
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	if len(seen) != n {
		t.Errorf("%d of %d are listed", len(seen), n)
	}
}

// A schedule may have no larger body than a message, and one that is refused changes nothing.
func TestScheduleOfLargeBody(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{MaxBody: 1024})
	const path = "/v1/topics/invoices/schedules"
	most, more := strings.Repeat("x", 1024), strings.Repeat("x", 1025)
	s.call("PUT", schedulePath, `{"every":"1h","body":"`+more+`"}`).is(413).says("invalid body: it has 1025 bytes; at most 1024 are allowed")
	s.call("PUT", path, `{"schedules":[{"name":"a","every":"1h","body":""},{"name":"b","every":"1h","body":"`+more+`"}]}`).is(413).
		says("schedule 2: invalid body: it has 1025 bytes; at most 1024 are allowed")
	s.call("GET", path, "").is(200).says(`{"schedules":[]}`)
	s.call("PUT", schedulePath, `{"every":"1h","body":"`+most+`"}`).is(200)
	s.call("PUT", path, `{"schedules":[{"name":"a","every":"1h","body":"`+most+`"}]}`).is(200)
}
