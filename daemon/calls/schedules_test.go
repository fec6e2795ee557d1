package calls_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// schedules lists all schedules, in pages of a call, and counts them by their topics and names. It calls between after each page.
func (c caller) schedules(name, params string, limit int, between func(calls.Schedules)) map[string]int {
	c.t.Helper()
	seen := make(map[string]int)
	for cursor := ""; ; {
		var page calls.Schedules
		got := c.do(name, fmt.Sprintf(`{%s"limit":%d,"cursor":%q}`, params, limit, cursor), "")
		if err := json.Unmarshal([]byte(got), &page); err != nil || page.Schedules == nil || len(page.Schedules) > limit {
			c.t.Fatalf("a page is %s", got)
		}
		for _, one := range page.Schedules {
			seen[one.Topic+" "+one.Name]++
		}
		if between != nil {
			between(page)
		}
		if cursor = page.Cursor; cursor == "" {
			return seen
		}
	}
}

const (
	ofInvoices = `"topic":"invoices"`
	daily      = `{"topic":"invoices","name":"daily"}`
)

// The schedules of all topics that a client may use are listed a page at a time, in all shards.
func TestListAllSchedules(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Sharded(t, 4))
	const topics, of = 12, 5
	shards := make(map[int]bool)
	for i := range topics {
		topic := fmt.Sprint("t.", i)
		shards[all.service.Store.Of(topic).Number()] = true
		for n := range of {
			all.says("putSchedule", fmt.Sprintf(`{"topic":%q,"name":"s%d"}`, topic, n), `{"every":"1h","body":"x"}`, `"outcome":"created"`)
		}
	}
	if seen := all.schedules("listAllSchedules", "", 4, nil); len(seen) != topics*of || len(shards) != 4 {
		t.Errorf("of %d shards %d schedules are listed", len(shards), len(seen))
	}
	if seen := all.of("t.1,t.4").schedules("listAllSchedules", "", 4, nil); len(seen) != 2*of || seen["t.1 s0"] != 1 || seen["t.4 s4"] != 1 {
		t.Errorf("of two topics these are listed: %v", seen)
	}
	all.says("listAllSchedules", `{"cursor":"4s0"}`, "", "it is none of a list of schedules")
	all.says("listSchedules", `{"topic":"t.1","cursor":"1-x"}`, "", "it is none of a list of schedules")
}

// All that is wrong with a schedule is said at once, and changes nothing.
func TestWrongSchedule(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
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
		c.says("putSchedule", daily, body, append(texts, "urn:bellhop:invalid")...)
	}
	c.says("putSchedule", `{"topic":"invoices","name":"a~2026-11-22T08:00:00Z"}`, `{"every":"1h","body":""}`, "it ends like the id of an occurrence")
	c.service.MaxBody = 1024
	c.says("putSchedule", daily, `{"every":"1h","body":"`+strings.Repeat("x", 1025)+`"}`, "urn:bellhop:too-large", "invalid body: it has 1025 bytes; at most 1024 are allowed")
	c.says("listSchedules", "{"+ofInvoices+"}", "", `{"schedules":[]}`)
	c.says("putSchedule", daily, `{"every":"1h","body":"`+strings.Repeat("x", 1024)+`"}`, `"outcome":"created"`)
}

// What a list shows is applied as it is; others are pruned if that is asked for, and a dry run changes nothing.
func TestApplySchedules(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	apply := func(body string, texts ...string) {
		t.Helper()
		c.says("applySchedules", "{"+ofInvoices+"}", body, texts...)
	}
	list := func() string { return strings.TrimSpace(c.do("listSchedules", "{"+ofInvoices+"}", "")) }
	apply(`{"schedules":[{"name":"a","every":"1h","body":"x","key":"k"},{"name":"b","cron":"30 2 * * *","zone":"Europe/Berlin","jitter":"5m","body_base64":"/w=="}]}`,
		`{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"created"},{"topic":"invoices","name":"b","outcome":"created"}]}`)
	c.do("pauseSchedule", `{"topic":"invoices","name":"b"}`, "")
	before := list()
	apply(before, `"name":"a","outcome":"kept"`, `"name":"b","outcome":"kept"`)
	c.says("showSchedule", `{"topic":"invoices","name":"b"}`, "", `"paused":"20`, `"next":[]`)
	const one = `{"schedules":[{"topic":"invoices","name":"a","every":"2h","body":"x"}],"prune":true`
	apply(one+`,"dry_run":true}`, `{"dry_run":true,"schedules":[{"topic":"invoices","name":"a","outcome":"replaced"},{"topic":"invoices","name":"b","outcome":"deleted"}]}`)
	if after := list(); after != before {
		t.Errorf("after a dry run: %s, before: %s", after, before)
	}
	apply(one+`}`, `"name":"a","outcome":"replaced"`, `"name":"b","outcome":"deleted"`)
	apply(one+`}`, `{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"kept"}]}`)
	apply(`{"schedules":[],"prune":true}`, `{"dry_run":false,"schedules":[{"topic":"invoices","name":"a","outcome":"deleted"}]}`)
	apply(`{"schedules":[],"prune":true}`, `{"dry_run":false,"schedules":[]}`)
}

// Each thing that is wrong with any of the schedules is named, with its number, and nothing changes.
func TestApplyWrongSchedules(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	const fine = `{"name":"a","every":"1h","body":"x"}`
	many := strings.TrimSuffix(strings.Repeat(`{"name":"a","every":"0s","body":"x"},`, 30), ",")
	for body, texts := range map[string][]string{
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
		`{"schedules":[` + strings.Repeat(fine+",", 10_000) + fine + `]}`:                                 {"schedules: there are 10001, and up to 10000 are possible"},
	} {
		c.says("applySchedules", "{"+ofInvoices+"}", body, append(texts, "urn:bellhop:invalid")...)
	}
	c.service.MaxBody = 1024
	c.says("applySchedules", "{"+ofInvoices+"}", `{"schedules":[`+fine+`,{"name":"b","every":"1h","body":"`+strings.Repeat("x", 1025)+`"}]}`,
		"urn:bellhop:too-large", "schedule 2: invalid body: it has 1025 bytes; at most 1024 are allowed")
	c.says("listSchedules", "{"+ofInvoices+"}", "", `{"schedules":[]}`)
}

// A list of schedules with large bodies has as many of them as fit into a page, and its pages have all.
func TestLargeSchedules(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	const n, size = 24, 256 << 10
	for i := range n {
		one := store.Schedule{Topic: "invoices", Name: fmt.Sprintf("s%d", i), Spec: calendar.Spec{Every: time.Hour}, Message: record.Record{Body: make([]byte, size)}}
		if _, _, err := c.service.Store.Of("invoices").PutSchedule(t.Context(), &one, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	seen := c.schedules("listSchedules", ofInvoices+",", 500, func(page calls.Schedules) {
		if n := len(page.Schedules); n == 0 || n*size > 4<<20 {
			t.Fatalf("a page has %d schedules", n)
		}
	})
	if len(seen) != n {
		t.Errorf("%d of %d are listed", len(seen), n)
	}
}

// A page of schedules has no more than were asked for, and none is left out where those are deleted that were listed.
func TestSchedulePagesBetweenChanges(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	const n = 60
	for i := range n {
		c.do("putSchedule", fmt.Sprintf(`{"topic":"invoices","name":"s%d"}`, i), `{"every":"1h","body":"x"}`)
	}
	seen := c.schedules("listSchedules", ofInvoices+",", 3, func(page calls.Schedules) {
		if len(page.Schedules) > 0 {
			c.says("deleteSchedule", fmt.Sprintf(`{"topic":"invoices","name":%q}`, page.Schedules[0].Name), "", "null")
		}
	})
	if len(seen) != n {
		t.Errorf("%d of %d are listed", len(seen), n)
	}
}

// When a schedule fires next is answered, and of a rule that is not put: its faults are those of a put.
func TestNextOfSchedule(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	next := func(more string, texts ...string) {
		t.Helper()
		c.says("nextOfSchedule", strings.TrimSuffix(daily, "}")+more+"}", "", texts...)
	}
	c.do("putSchedule", daily, `{"cron":"30 2 1 1 *","zone":"Europe/Berlin","from":"2190-01-01T00:00:00Z","body":"x"}`)
	next("", `"2193-01-01T01:30:00Z","2194-01-01T01:30:00Z"]}`)
	next(`,"n":1000,"every":"90m","from":"2190-01-01T00:00:00Z"`, `{"next":["2190-01-01T00:00:00Z","2190-01-01T01:30:00Z"`)
	next(`,"cron":"0 0 * * *","from":"2190-01-01T00:00:00Z","until":"2190-01-02T12:00:00Z"`, `{"next":["2190-01-01T00:00:00Z","2190-01-02T00:00:00Z"]}`)
	next(`,"zone":"Asia/Tokyo","n":1,"from":"2199-12-01T00:00:00Z"`, `{"next":["2199-12-31T17:30:00Z"]}`)
	for more, says := range map[string]string{
		`"n":0`: "from 1 to 1000", `"cron":"0 0 30 2 *"`: "never", `"cron":"0 0 * * *","zone":"Mars"`: "Mars", `"cron":"0 0 * * *","every":"1h"`: "there are 2 of them",
		`"until":"2180-01-01T00:00:00Z"`: "is before from", `"zone":"Berlin"`: "Europe/Berlin", `"every":"1ms"`: "every", `"cron":"no"`: "cron", `"at":"2190-01-01T00:00:00Z"`: "unknown",
	} {
		next(","+more, says, "urn:bellhop:invalid")
	}
	c.do("pauseSchedule", daily, "")
	next("", `{"next":[]}`)
}

// A schedule is run by hand, and backfilled: what would be made is answered, made, and taken when it is made again.
func TestScheduleByHand(t *testing.T) {
	t.Parallel()
	c := newCaller(t, storetest.Open(t))
	backfill := func(more string, texts ...string) {
		t.Helper()
		c.says("backfillSchedule", strings.TrimSuffix(daily, "}")+more+"}", "", texts...)
	}
	c.do("putSchedule", daily, `{"cron":"30 2 * * *","body":"x"}`)
	c.says("runSchedule", daily, "", `{"topic":"invoices","id":"daily~20`, `"state":"ready","outcome":"created"`)
	const span = `,"from":"2026-03-27T02:30:00Z","to":"2026-03-29T02:30:00Z"`
	backfill(span+`,"dry_run":true`, `{"dry_run":true,"made":2,"taken":0,"occurrences":[{"at":"2026-03-27T02:30:00Z","id":"daily~2026-03-27T02:30:00Z"},{"at":"2026-03-28T02:30:00Z","id":"daily~2026-03-28T02:30:00Z"}]}`)
	backfill(span, `{"made":2,"taken":0,`, `"id":"daily~2026-03-28T02:30:00Z","due":"20`)
	backfill(span, `{"made":0,"taken":2,`, `"id":"daily~2026-03-28T02:30:00Z","taken":true`)
	c.says("showSchedule", daily, "", `"made":0`)
	backfill("", `"name":"from"`)
	backfill(`,"from":"yesterday","to":"2199-01-01"`, `"name":"from"`, `"name":"to"`)
}
