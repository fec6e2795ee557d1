package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a message asks for is kept with it, and shown.
func TestAsks(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const query = "&delay=1h&lease=45s&try_timeout=5m&fail=drop&late_after=10m&late=bury&unique_for=1d"
	s.call("POST", messages+"?id=a"+query, "x").is(201)
	s.call("POST", "/v1/messages", `{"topic":"orders","id":"b","delay":"1h","lease":"45s","try_timeout":"5m","fail":"drop","late_after":"10m","late":"bury","unique_for":"1d","body":"x"}`).is(200)
	for _, id := range []string{"a", "b"} {
		got := s.look(id)
		want := asked.Options{Lease: 45_000, TryTimeout: 300_000, Fail: "drop", LateAfter: 600_000, Late: "bury", UniqueFor: 86_400_000}
		if diff := cmp.Diff(want, got.Options); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	const local = "?due=2099-03-29T02:30&zone=Europe/Berlin" // of a wall clock
	for _, path := range []string{messages, topicPath + "/broadcasts"} {
		s.call("POST", path+local, "x").is(201).says(`"due":"2099-03-29T01:00:00Z"`)
	}
	if late := read[api.Publication](s.call("POST", messages+local+"&spread=1h", "x").is(201)).Due.Sub(time.Date(2099, 3, 29, 1, 0, 0, 0, time.UTC)); late <= 0 || late > time.Hour {
		t.Errorf("by its spread it is %v later", late)
	}
	s.call("POST", topicPath+"/broadcasts?id=c&delay=1h&ttl=1m&unique_for=1h", "x").is(201)
	if got := read[api.Message](s.call("GET", messages+"/c", "").is(200)); got.TTL != 60_000 || got.UniqueFor != 3_600_000 {
		t.Errorf("got %+v", got)
	}
}

// What waits for a group says how many are left, and needs a token of the topic of the group, too; so does what joins one from a branch.
func TestAfterGroup(t *testing.T) {
	t.Parallel()
	tokens := "one " + tokenOf("one") + " publish orders\nboth " + tokenOf("both") + " publish orders,order.done\nmail " + tokenOf("mail") + " publish orders@mail\n"
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", tokens)})
	as := func(token, path, body string) answer {
		return s.call("POST", path, body, "Authorization: Bearer "+tokenOf(token))
	}
	as("one", messages+"?id=a&group=g&delay=1h", "x").is(201)
	done := "/v1/topics/order.done/messages?id=done&after_group=orders:g"
	as("one", messages+"?id=done&after_group=order.done:g", "x").is(403).says("may not use the topic order.done")
	as("one", "/v1/messages", `{"topic":"orders","id":"done","after_group":"order.done:g","body":"x"}`).is(200).says("may not use the topic order.done")
	as("mail", "/v1/topics/orders@mail/messages?group=g", "x").is(403).says("may not use the topic orders")
	as("mail", "/v1/messages", `{"topic":"orders@mail","group":"g","body":"x"}`).is(200).says("may not use the topic orders")
	as("both", done, "x").is(201).says(`"id":"done","state":"scheduled","left":1`)
	as("both", "/v1/messages", `{"topic":"order.done","id":"other","after_group":"orders:g","body":"x"}`).is(200).says(`"type":"urn:bellhop:group-taken"`)
	as("both", done+"&on_dead=bury", "x").is(422).says("on_dead")
	got := read[api.Message](s.call("GET", "/v1/topics/order.done/messages/done", "", "Authorization: Bearer "+tokenOf("both")).is(200))
	if got.Due != nil || got.Left == nil || *got.Left != 1 || got.AfterGroup != "orders:g" {
		t.Errorf("got %+v", got)
	}
}

// Of a wrong request all faults are reported at once, each by the name of its parameter, and nothing is changed.
func TestWrongAsks(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "there", Delay: time.Hour, Body: []byte("x")})
	same := s.unchanged()
	for _, test := range []struct{ path, query, names, says string }{
		{"/messages", "if_exists=debounce&id=there&delay=1m&max_wait=59s", "max_wait", "less than the delay, 1m0s"},
		{"/messages", "if_exists=replace&id=there&max_wait=1m", "max_wait", "for if_exists=debounce alone"},
		{"/messages", "due=2030-01-02T08:00", "due", "or give its zone"},
		{"/messages", "due=2030-01-02T08:00:00Z&zone=Europe/Berlin", "zone", "due has an offset, so it needs no zone"},
		{"/messages", "zone=Europe/Berlin", "due", "it is missing, and the zone Europe/Berlin is for it"},
		{"/messages", "delay=1m&zone=Europe/Berlin", "zone", "it is given beside delay"},
		{"/messages", "lease=1ms&late=drop&if_exists=debounce&max_wait=1s&unique_for=1h&attempts=0&foo=1", "attempts delay foo if_exists late lease unique_for", "debounce puts the message off by it"},
		{"/messages", "late_after=1m&late=mark", "late", "use bury, drop, or leave late_after out"},
		{"/messages", "fail=x&late=x&if_exists=x&then=x", "fail if_exists late then", `fail "x": use bury, drop`},
		{"/broadcasts", "then=after&lease=1s", "lease then", "it is unknown"},
		{"/broadcasts", "due=2030-01-02T08:00&zone=Mars&spread=25h", "spread zone", "do you mean"},
		{"/broadcasts", "ttl=0s&unique_for=1h&if_exists=debounce", "delay if_exists ttl unique_for", ""},
	} {
		a := s.call("POST", topicPath+test.path+"?"+test.query, "x").is(422)
		if got := strings.Join(names(a.problem()), " "); got != test.names || !strings.Contains(a.problem().Detail, test.says) {
			t.Errorf("%s: it names %s, want %s and %q: %s", test.query, got, test.names, test.says, a.body)
		}
	}
	all := lines[struct{ Error *api.Problem }](s.call("POST", "/v1/messages",
		`{"topic":"orders","lease":"1ms","late":"drop","unique_for":"1h","if_exists":"debounce","body":"x"}`+"\n"+
			`{"topic":"orders","mode":"broadcast","lease":"1s","fail":"drop","body":"x"}`).is(200))
	for i, want := range []string{"delay if_exists late lease unique_for", "fail lease"} {
		if all[i].Error == nil || strings.Join(names(*all[i].Error), " ") != want {
			t.Errorf("line %d: it names %v, want %s", i+1, all[i].Error, want)
		}
	}
	same()
}

// A publish whose id is in use answers what was done, and with 201 only what it made: of one message, and of many.
func TestIfExists(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	publish := func(status int, query string) api.Publication {
		t.Helper()
		return read[api.Publication](s.call("POST", messages+"?id=a&"+query, query).is(status))
	}
	first := publish(201, "delay=1h&if_exists=keep")
	if p := publish(200, "delay=2h&if_exists=keep"); first.Outcome != notify.Created || p.Outcome != notify.Kept || !p.Due.Equal(first.Due) {
		t.Errorf("got %+v, then %+v", first, p)
	}
	if p := publish(200, "delay=3h&if_exists=debounce&max_wait=1d"); p.Outcome != notify.Moved || p.PreviousDue == nil || !p.PreviousDue.Equal(first.Due) {
		t.Errorf("got %+v", p)
	}
	s.call("POST", messages+"?id=a", "x").is(409).kind("exists").says(`"outcome":"refused"`)
	publish(200, "delay=0s&if_exists=replace")
	s.claim("orders")
	s.call("POST", messages+"?id=a&if_exists=replace", "x").is(409).kind("leased").says(`"outcome":"refused"`)
	next := publish(201, "then=after&delay=5h&lease=45s")
	got := read[api.Message](s.call("GET", messages+"/a", "").is(200))
	if next.Outcome != notify.Created || next.State != notify.Leased || got.Next == nil || got.Next.Lease != 45_000 || string(got.Next.Bytes()) != "then=after&delay=5h&lease=45s" {
		t.Errorf("got %+v, then %+v", next, got)
	}
	s.call("DELETE", messages+"/a", "").is(409).kind("leased")
	if was := read[calls.Cancelled](s.call("DELETE", messages+"/a?next=true", "").is(200)); was != (calls.Cancelled{Cancelled: true, Was: notify.Leased}) {
		t.Errorf("got %+v", was)
	}
	all := lines[struct {
		Outcome notify.Outcome
		Error   *api.Problem
	}](s.call("POST", "/v1/messages", `{"topic":"orders","id":"a","then":"after","body":"x"}`+"\n"+`{"topic":"orders","id":"a","body":"x"}`).is(200))
	if all[0].Outcome != notify.Created || all[1].Error == nil || all[1].Error.Outcome != notify.Refused {
		t.Errorf("got %+v", all)
	}
}

// A message is put off with attempt=keep. Where that is refused its lease goes on.
func TestSnooze(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&ttl=1m&attempts=1", "x").is(201)
	d := s.claim("orders")
	same := s.unchanged()
	for query, want := range map[string][]string{"&attempt=keep&delay=2m": {"delay"}, "&attempt=keep&delay=2s&dead=true": {"attempt", "delay"}, "&attempt=use": {"attempt"}} {
		if p := s.call("POST", settle(d, "nack", query), "").is(422).problem(); !slices.Equal(names(p), want) {
			t.Errorf("%s: it names %v", query, names(p))
		}
	}
	same()
	s.call("POST", settle(d, "nack", "&attempt=keep"), "").is(204)
	s.call("POST", settle(d, "nack", "&attempt=keep"), "").is(409).kind("lease-lost")
	if got := s.look("a"); got.Snoozed != 1 || got.AttemptsUsed != 0 || s.gate.Stats().Snoozed != 1 {
		t.Errorf("got %+v, and %d are counted", got, s.gate.Stats().Snoozed)
	}
}

// A claim with ack=now acknowledges what it hands out.
func TestAckNow(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "a", Body: []byte("1")}, notify.Message{Topic: "orders", ID: "b", Body: []byte("2")})
	same := s.unchanged()
	if p := s.call("POST", topicPath+"/claim?ack=now&lease=1m", "").is(422).problem(); !slices.Equal(names(p), []string{"ack"}) {
		t.Errorf("it names %v", names(p))
	}
	s.call("POST", topicPath+"/claim?ack=later", "").is(422).says("use now")
	same()
	a := s.call("POST", topicPath+"/claim?ack=now", "").is(200)
	if got := read[api.Claimed](a).Messages; len(got) != 1 || got[0].ID != "a" || strings.Contains(string(a.body), "receipt") {
		t.Errorf("got %s", a.body)
	}
	a = s.call("POST", topicPath+"/claim?ack=now&as=body", "").is(200)
	if string(a.body) != "2" || a.header.Get("Bellhop-Receipt") != "" || a.header.Get("Bellhop-Id") != "b" || a.header.Get("Bellhop-Late-Ms") == "" {
		t.Errorf("got %q with %v", a.body, a.header)
	}
	polled := make(chan answer, 1)
	go func() { polled <- s.call("POST", topicPath+"/claim?ack=now&wait=1m", "") }()
	storetest.Eventually(t, "it waits", func() bool { return s.gate.Stats().Polls == 1 })
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "c", Body: []byte("3")})
	storetest.Receive(t, "the answer", polled).is(200).says(`"id":"c"`)
	if c := read[calls.Topic](s.call("GET", topicPath, "").is(200)); c.Acked != 3 || c.Leased+c.Ready != 0 {
		t.Errorf("counted %+v", c)
	}
}

// longAgo returns a message that was first due an hour ago.
func longAgo(id string, late notify.Late) notify.Message {
	at := time.Now().Add(-time.Hour)
	return notify.Message{
		Topic: "orders", ID: id, Body: []byte("x"), LateAfter: time.Minute, Late: late,
		Due: at, Restore: &notify.Restore{Published: at, FirstDue: at},
	}
}

// A message that is claimed too late is dropped or buried, as it asked for. A delivery says how late it is.
func TestLate(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, longAgo("a", notify.LateDrop), longAgo("b", notify.LateBury), longAgo("c", ""))
	in := longAgo("d", "")
	in.LateAfter = 2 * time.Hour
	storetest.Publish(t, s.store, in)
	if got := s.claim("orders"); got.ID != "d" || got.LateMs < 3_500_000 {
		t.Errorf("got %+v", got)
	}
	s.call("GET", messages+"/a", "").is(404)
	for _, id := range []string{"b", "c"} {
		s.call("GET", messages+"/"+id, "").is(200).says(`"reason":"late"`)
	}
	if c := read[calls.Topic](s.call("GET", topicPath, "").is(200)); c.Dropped != 1 || c.Dead != 2 {
		t.Errorf("counted %+v", c)
	}
}
