package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
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
		got := read[api.Message](s.call("GET", messages+"/"+id, "").is(200))
		want := asked.Options{Lease: 45_000, TryTimeout: 300_000, Fail: "drop", LateAfter: 600_000, Late: "bury", UniqueFor: 86_400_000}
		if diff := cmp.Diff(want, got.Options); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	s.call("POST", topicPath+"/broadcasts?id=c&delay=1h&ttl=1m&unique_for=1h", "x").is(201)
	if got := read[api.Message](s.call("GET", messages+"/c", "").is(200)); got.TTL != 60_000 || got.UniqueFor != 3_600_000 {
		t.Errorf("got %+v", got)
	}
}

// Of a wrong request all faults are reported at once, and nothing is changed.
func TestWrongAsks(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "there", Delay: time.Hour, Body: []byte("x")})
	same := s.unchanged()
	for _, test := range []struct {
		path, query string
		names       string
		says        []string
	}{
		{"/messages", "if_exists=debounce&id=there", "delay", []string{"debounce puts the message off by it"}},
		{"/messages", "if_exists=debounce&id=there&delay=1m&max_wait=59s", "max_wait", []string{"less than the delay, 1m0s"}},
		{"/messages", "if_exists=replace&id=there&max_wait=1m", "max_wait", []string{"for if_exists=debounce alone"}},
		{"/messages", "due=2030-01-02T08:00", "due", []string{"it has no offset; write one, such as 2030-01-02T08:00:00Z or 2030-01-02T08:00:00+02:00, or give its zone"}},
		{"/messages", "due=2030-01-02T08:00:00Z&zone=Europe/Berlin", "zone", []string{"due has an offset, so it needs no zone"}},
		{"/broadcasts", "due=2030-01-02T08:00&zone=Mars&spread=25h", "spread zone", []string{"do you mean", "spread 25h: use 1ms to 24h"}},
		{"/messages", "zone=Europe/Berlin", "due", []string{"it is missing, and the zone Europe/Berlin is for it"}},
		{"/messages", "delay=1m&zone=Europe/Berlin", "zone", []string{"it is given beside delay"}},
		{"/messages", "if_exists=keep", "if_exists", []string{"the id is missing; name the message"}},
		{"/messages", "then=after", "then", []string{"the id is missing"}},
		{"/messages", "unique_for=1h", "unique_for", []string{"the id is missing"}},
		{"/messages", "unique_for=169h&id=b", "unique_for", []string{"use 1ms to 168h"}},
		{"/messages", "late=drop", "late", []string{"late_after is missing"}},
		{"/messages", "lease=99ms&try_timeout=25h", "lease try_timeout", []string{"lease 99ms: use 100ms to 24h", "try_timeout 25h: use 100ms to 24h"}},
		{"/messages", "fail=x&late=x&if_exists=x&then=x", "fail if_exists late then", []string{`fail "x": use bury, drop`, `late "x": use mark, drop, bury`, `if_exists "x": use refuse, keep, replace, debounce`}},
		{"/messages", "lease=1ms&late=drop&if_exists=debounce&max_wait=1s&unique_for=1h&attempts=0&foo=1", "attempts delay foo if_exists late lease unique_for", nil},
		{"/broadcasts", "then=after&lease=1s", "lease then", []string{"it is unknown"}},
		{"/broadcasts", "ttl=0s&unique_for=1h&if_exists=debounce", "delay if_exists ttl unique_for", nil},
	} {
		a := s.call("POST", topicPath+test.path+"?"+test.query, "x").is(422)
		if got := strings.Join(names(a.problem()), " "); got != test.names {
			t.Errorf("%s: it names %s, want %s: %s", test.query, got, test.names, a.body)
		}
		for _, text := range test.says {
			if !strings.Contains(a.problem().Detail, text) {
				t.Errorf("%s: the detail is without %q: %s", test.query, text, a.problem().Detail)
			}
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

// A publish whose id is in use does what if_exists and then say, and answers what was done.
func TestIfExists(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	publish := func(status int, query string) api.Publication {
		t.Helper()
		return read[api.Publication](s.call("POST", messages+"?id=a&"+query, query).is(status))
	}
	first := publish(201, "delay=1h&if_exists=keep")
	if first.Outcome != notify.Created || first.PreviousDue != nil || first.State != notify.Scheduled {
		t.Errorf("got %+v", first)
	}
	if p := publish(200, "delay=2h&if_exists=keep"); p.Outcome != notify.Kept || !p.Due.Equal(first.Due) {
		t.Errorf("got %+v", p)
	}
	second := publish(200, "delay=2h&if_exists=replace&fail=drop")
	if second.Outcome != notify.Replaced || second.PreviousDue == nil || !second.PreviousDue.Equal(first.Due) || !second.Due.After(first.Due) {
		t.Errorf("got %+v", second)
	}
	third := publish(200, "delay=3h&if_exists=debounce&max_wait=1d")
	if third.Outcome != notify.Moved || third.PreviousDue == nil || !third.PreviousDue.Equal(second.Due) || !third.Due.After(second.Due) {
		t.Errorf("got %+v", third)
	}
	for _, query := range []string{"delay=1h", "delay=1h&if_exists=refuse"} {
		if p := s.call("POST", messages+"?id=a&"+query, "x").is(409).kind("exists").problem(); p.Outcome != notify.Refused {
			t.Errorf("got %+v", p)
		}
	}
	s.call("POST", messages+"?id=a&delay=0s&if_exists=replace", "at hand").is(200)
	d := s.claim("orders")
	s.call("POST", messages+"?id=a&if_exists=replace", "x").is(409).kind("leased").says(`"outcome":"refused"`)
	next := publish(201, "then=after&delay=5h&lease=45s")
	if next.Outcome != notify.Created || next.State != notify.Leased {
		t.Errorf("got %+v", next)
	}
	publish(200, "then=after&delay=6h&lease=45s&if_exists=replace")
	s.call("POST", messages+"?id=a&then=after", "x").is(409).says(`"outcome":"refused"`)
	got := read[api.Message](s.call("GET", messages+"/a", "").is(200))
	if got.State != notify.Leased || got.Next == nil || got.Next.Lease != 45_000 || string(got.Next.Bytes()) != "then=after&delay=6h&lease=45s&if_exists=replace" || !got.Next.Due.After(next.Due) {
		t.Errorf("got %+v", got)
	}
	s.call("DELETE", messages+"/a", "").is(409).kind("leased")
	if was := read[api.Cancelled](s.call("DELETE", messages+"/a?next=true", "").is(200)); was != api.CancelledOf(notify.Leased) {
		t.Errorf("got %+v", was)
	}
	s.call("DELETE", messages+"/a?next=true", "").is(404).kind("not-found")
	publish(201, "then=after&delay=5h")
	s.call("POST", settle(d, "ack", ""), "").is(204)
	s.call("GET", messages+"/a", "").is(200).says(`"body":"then=after&delay=5h"`).says(`"state":"scheduled"`)
	all := lines[struct {
		Outcome     notify.Outcome
		PreviousDue *time.Time `json:"previous_due"`
		Error       *api.Problem
	}](s.call("POST", "/v1/messages", `{"topic":"orders","id":"a","delay":"9h","if_exists":"debounce","body":"x"}`+"\n"+
		`{"topic":"orders","id":"a","body":"x"}`+"\n"+`{"topic":"orders","id":"b","body":"x"}`).is(200))
	if all[0].Outcome != notify.Moved || all[0].PreviousDue == nil || all[1].Error == nil || all[1].Error.Outcome != notify.Refused || all[2].Outcome != notify.Created {
		t.Errorf("got %+v", all)
	}
}

// The id of a message with unique_for stays taken after its end, until it is cancelled.
func TestUniqueFor(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&unique_for=1h", "x").is(201)
	s.call("POST", settle(s.claim("orders"), "ack", ""), "").is(204)
	s.call("POST", messages+"?id=a", "x").is(409).kind("exists")
	if p := read[api.Publication](s.call("POST", messages+"?id=a&if_exists=keep", "x").is(200)); p.Outcome != notify.Kept || p.State != notify.Done || !p.Due.IsZero() {
		t.Errorf("got %+v", p)
	}
	got := read[api.Message](s.call("GET", messages+"/a", "").is(200))
	if got.State != notify.Done || got.TakenUntil == nil || time.Until(*got.TakenUntil) < 50*time.Minute || got.Until != nil {
		t.Errorf("got %+v", got)
	}
	s.call("GET", messages+"/a", "").says(`"state":"done"`)
	if was := read[api.Cancelled](s.call("DELETE", messages+"/a", "").is(200)); was != api.CancelledOf(notify.Done) {
		t.Errorf("got %+v", was)
	}
	s.call("POST", messages+"?id=a", "x").is(201)
}

// A message that is put off uses up no attempt. Where that is refused its lease goes on.
func TestSnooze(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&ttl=1m&attempts=1", "x").is(201)
	for range 3 {
		s.call("POST", settle(s.claim("orders"), "nack", "&attempt=keep&delay=5s&reason=x"), "").is(204)
		s.call("PATCH", messages+"/a", "").is(200).says(`"state":"ready"`)
	}
	d := s.claim("orders")
	got := read[api.Message](s.call("GET", messages+"/a", "").is(200))
	if d.Attempt != 1 || got.Snoozed != 3 || got.AttemptsUsed != 0 {
		t.Errorf("attempt %d of %+v", d.Attempt, got)
	}
	same := s.unchanged()
	if p := s.call("POST", settle(d, "nack", "&attempt=keep&delay=2m"), "").is(422).says("time to live").problem(); !slices.Equal(names(p), []string{"delay"}) {
		t.Errorf("it names %v", names(p))
	}
	if p := s.call("POST", settle(d, "nack", "&attempt=keep&delay=2s&dead=true"), "").is(422).problem(); !slices.Equal(names(p), []string{"attempt", "delay"}) {
		t.Errorf("it names %v", names(p))
	}
	s.call("POST", settle(d, "nack", "&attempt=use"), "").is(422).says("use keep")
	same()
	s.call("POST", settle(d, "nack", "&attempt=keep"), "").is(204) // after a backoff
	s.call("POST", settle(d, "nack", "&attempt=keep"), "").is(409).kind("lease-lost")
	if n := s.gate.Stats().Snoozed; n != 4 {
		t.Errorf("%d are counted", n)
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
	if c := read[api.Topic](s.call("GET", topicPath, "").is(200)); c.Acked != 3 || c.Leased+c.Ready != 0 {
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

// A message that is claimed too late is marked, dropped or buried, as it asked for.
func TestLate(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, longAgo("a", notify.LateDrop), longAgo("b", notify.LateBury), longAgo("c", ""), longAgo("d", notify.LateMark), notify.Message{Topic: "orders", ID: "e", LateAfter: time.Hour})
	got := read[api.Claimed](s.call("POST", topicPath+"/claim?max=2", "").is(200)).Messages
	for len(got) < 2 { // the first page may have ended
		got = append(got, s.claim("orders"))
	}
	if got[0].ID != "c" || got[1].ID != "d" || !got[0].Late || !got[1].Late || got[0].LateMs < 3_500_000 {
		t.Errorf("got %+v", got)
	}
	a := s.call("POST", topicPath+"/claim?as=body", "").is(200)
	if a.header.Get("Bellhop-Id") != "e" || a.header.Get("Bellhop-Late") != "" {
		t.Errorf("got %v", a.header)
	}
	s.call("POST", settle(got[0], "nack", "&delay=5s"), "").is(204)
	s.call("PATCH", messages+"/c", "").is(200).says(`"state":"ready"`)
	a = s.call("POST", topicPath+"/claim?as=body", "").is(200)
	if a.header.Get("Bellhop-Id") != "c" || a.header.Get("Bellhop-Late") != "true" {
		t.Errorf("got %v", a.header)
	}
	s.call("GET", messages+"/a", "").is(404)
	s.call("GET", messages+"/b", "").is(200).says(`"reason":"late"`)
	if c := read[api.Topic](s.call("GET", topicPath, "").is(200)); c.Dropped != 1 || c.Dead != 1 {
		t.Errorf("counted %+v", c)
	}
}

// A message may have a lease and a timeout of its own, and be dropped at its failure.
func TestLeaseTryTimeoutAndFail(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&lease=45s&try_timeout=1m&fail=drop&attempts=1", "x").is(201)
	d := read[api.Claimed](s.call("POST", topicPath+"/claim?lease=10m", "").is(200)).Messages[0]
	claimed := *s.look("a").Claimed
	if lease := until(d).Sub(claimed).Round(time.Second); lease != 45*time.Second {
		t.Errorf("the lease is %v", lease)
	}
	extended := read[api.Extended](s.call("POST", settle(d, "extend", "&lease=10m"), "").is(200))
	if lease := extended.Until.Sub(claimed).Round(time.Second); lease != time.Minute || extended.Receipt != d.Receipt {
		t.Errorf("the extended lease is %v, and the receipt %d of %d", lease, extended.Receipt, d.Receipt)
	}
	s.call("POST", settle(d, "nack", ""), "").is(204)
	s.call("GET", messages+"/a", "").is(404)
	s.call("GET", topicPath, "").is(200).says(`"dropped":1`)
}
