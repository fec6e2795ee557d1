package console_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// scheduled returns a schedule, and its revision.
func scheduled(t *testing.T, db *notify.Store, topic, name string) (store.Schedule, int64) {
	t.Helper()
	s, state, _, err := db.Of(topic).Schedule(t.Context(), topic, name)
	storetest.Must(t, err)
	return s, state.Revision
}

// A schedule is put by a form, once that showed when it fires, and changed by one that begins with what it has.
func TestPutSchedule(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	const path, page = "/ui/put/schedule", "/ui/topics/bills/schedules/daily"
	v.get("/ui/schedules?topic=bills").says(`<a href="put/schedule?name=&amp;topic=bills">Put a schedule</a>`)
	empty := v.get(path+"?topic=bills").is(http.StatusOK).says(`name="topic" value="bills"`, "Show when it fires").hides("It would fire next", "autofocus")
	typed := empty.form("name", "daily", "cron", "30 2 * * *", "zone", "Europe/Berlin", "from", "2090-03-25T00:00:00Z", "overlap", "skip", "body", "line 1\r\nline 2", "headers", "Tenant: acme\r\n", "attempts", "3", "lease", "45s")
	first := v.post(path, typed...).is(http.StatusOK).says("It would fire next", "2090-03-25 02:30:00 &#43;0100", "2090-03-26 03:00:00 &#43;0200", "2090-03-29 02:30:00 &#43;0200", "Put it", "autofocus").hides("2090-03-30", "Nothing was changed.")
	v.get(page).is(http.StatusNotFound)
	other := v.post(path, first.form("cron", "0 4 * * *")...).is(http.StatusOK).says("2090-03-25 04:00:00 &#43;0100") // which was not shown
	v.get(page).is(http.StatusNotFound)
	v.post(path, v.post(path, other.form("cron", "30 2 * * *")...).is(http.StatusOK).form()...).did("Added the schedule daily of bills", page)
	want := store.Schedule{
		Topic: "bills", Name: "daily", Spec: calendar.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", From: time.Date(2090, 3, 25, 0, 0, 0, 0, time.UTC)}, Overlap: store.OverlapSkip, Grace: store.DefaultGrace,
		Message: record.Record{Body: []byte("line 1\nline 2"), Headers: map[string]string{"Tenant": "acme"}, MaxAttempts: 3, Lease: 45 * time.Second},
	}
	got, revision := scheduled(t, s.store, "bills", "daily")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v.get(page).says(`<a href="put/schedule?name=daily&amp;topic=bills">Change it</a>`)
	change := v.get(path+"?topic=bills&name=daily").is(http.StatusOK).says("Change daily of bills", "It would fire next", "<details open>", "Put it").hides("autofocus")
	v.post(path, change.form()...).did("Nothing is new in the schedule daily of bills", page)
	if same, is := scheduled(t, s.store, "bills", "daily"); is != revision || !cmp.Equal(got, same) {
		t.Errorf("it became %+v of revision %d", same, is)
	}
	v.post(path, change.form("once", "x1", "attempts", "4")...).did("Changed the schedule daily of bills", page)
	storetest.Must(t, s.store.Of("bills").PauseSchedule(t.Context(), "bills", "daily", store.AnyRevision))
	v.get(path + "?topic=bills&name=daily").says("It is paused, and stays so")
}

// What is wrong in the form of a schedule is named, stays as it was typed, and changes nothing; so does a change by somebody else.
func TestPutScheduleIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	schedule(t, s.store, "bills", "daily", func(o *store.Schedule) { o.Message.Body = []byte("one") })
	v := s.visitor()
	const path = "/ui/put/schedule"
	page := v.get(path + "?topic=bills&name=daily").says(`name="every" value="1h"`)
	v.post(path, page.form("every", "soon", "jitter", "often", "attempts", "many", "headers", "no colon", "body", "{{x}}")...).is(http.StatusUnprocessableEntity).
		says("every &#34;soon&#34;", "jitter &#34;often&#34;", "attempts &#34;many&#34;", "header &#34;no colon&#34;", `value="soon"`, `value="many"`, ">\n{{x}}</textarea>", "Nothing was changed.", "no colon</textarea>")
	v.post(path, page.form("body", "{{x}}")...).is(http.StatusUnprocessableEntity).says("there are no templates", "{{x}}</textarea>")
	v.post(path, page.form("once", "1", "revision", "-1")...).is(http.StatusUnprocessableEntity).says("revision")

	schedule(t, s.store, "bills", "daily", func(o *store.Schedule) { o.Message.Body = []byte("two") })
	_, revision := scheduled(t, s.store, "bills", "daily")
	refused := v.post(path, page.form("once", "2", "body", "three")...).is(http.StatusUnprocessableEntity).says("schedule daily: it was changed meanwhile", ">\nthree</textarea>")
	if got, is := scheduled(t, s.store, "bills", "daily"); is != revision || string(got.Message.Body) != "two" {
		t.Errorf("it changed to %+v", got)
	}
	v.post(path, refused.form()...).did("Changed the schedule daily of bills", "/ui/topics/bills/schedules/daily")
	storetest.Must(t, s.store.Of("bills").DeleteSchedule(t.Context(), "bills", "daily", store.AnyRevision))
	refused = v.post(path, refused.form("once", "3")...).is(http.StatusUnprocessableEntity).says("it was deleted meanwhile")
	v.post(path, refused.form()...).did("Added the schedule daily of bills", "/ui/topics/bills/schedules/daily")
	again := v.get(path+"?topic=bills").form("name", "daily", "every", "2h")
	v.post(path, v.post(path, again...).is(http.StatusOK).form()...).is(http.StatusUnprocessableEntity).says("bills has a schedule of this name")
}

// A body that is no text is kept, and what is typed is inert; who may not use a topic puts no schedule of it.
func TestHostileSchedules(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"clerk clerk-token-0123456789 schedule order.>\n")})
	const path = "/ui/put/schedule"
	schedule(t, s.store, "order.a", "binary", func(o *store.Schedule) { o.Message.Body = []byte("a\r\n\x00\xff") })
	schedule(t, s.store, "order.a", "lines", func(o *store.Schedule) { o.Message.Body = []byte("a\r\nb") })
	schedule(t, s.store, "secret.b", "daily", asItIs)
	clerk := s.visitor()
	clerk.post("/ui/login", "token", "clerk-token-0123456789").is(http.StatusSeeOther)
	clerk.post(path, clerk.get(path+"?topic=order.a&name=lines").form()...).did("Nothing is new in the schedule lines of order.a", "/ui/topics/order.a/schedules/lines")
	page := clerk.get(path+"?topic=order.a&name=binary").says("body_base64", base64.StdEncoding.EncodeToString([]byte("a\r\n\x00\xff")))
	clerk.post(path, page.form()...).did("Nothing is new in the schedule binary of order.a", "/ui/topics/order.a/schedules/binary")
	clerk.post(path, page.form("once", "1", "body_base64", "<b>")...).is(http.StatusUnprocessableEntity).says("it is not the base64 of a body").hides("<b>")
	for _, text := range append(inertOnly, "\x00") {
		form := clerk.get(path).form("topic", text, "name", text, "cron", text, "at", text, "body", text, "headers", text, "key", text, "mode", text, "shown", text)
		clerk.post(path, form...).is(http.StatusUnprocessableEntity).hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe", "\x00")
		clerk.get(path+"?topic="+urlOf(text)+"&name="+urlOf(text)).is(http.StatusUnprocessableEntity).hides("<script>alert", "<img src=x", "<b>bold")
	}
	clerk.post(path, clerk.get(path).form("body", strings.Repeat("<", 1<<20))...).is(http.StatusRequestEntityTooLarge)
	clerk.post(path, clerk.get(path).form("edition", "0")...).is(http.StatusConflict)
	clerk.get(path + "?topic=secret.b&name=daily").is(http.StatusForbidden).hides("1h")
	clerk.post(path, clerk.get(path).form("topic", "secret.b", "name", "x", "every", "1h")...).is(http.StatusForbidden)
	s.login("shop").get(path).is(http.StatusForbidden)
}

// endpoint serves an address that answers a status, and sends what it got.
func endpoint(t *testing.T, status *atomic.Int64) (url string, got chan string) {
	t.Helper()
	got = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.RequestURI() + " " + r.Header.Get("Bellhop-Topic") + " " + string(body)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// pushNow returns a push.
func pushNow(t *testing.T, db *notify.Store, name string) store.Push {
	t.Helper()
	p, err := db.Home().Push(t.Context(), name)
	storetest.Must(t, err)
	return p
}

// A push is tested and put by a form, and changed by one that begins with what it has: its secrets, that in its URL among them, stay.
func TestPutPush(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusOK)
	to, got := endpoint(t, &status)
	s := serveWith(t, "127.0.0.1", httpapi.Options{})
	v := s.visitor()
	const path, page = "/ui/put/push", "/ui/pushes/crm"
	typed := v.get(path).is(http.StatusOK).says("Put a push", `type="password"`).form("name", "crm", "topics", "order.a, order.*", "url", to+"/hook?token=hidden-7", "secrets", pushSecret, "in_flight", "8")
	tested := v.post(path, append(typed, "do", "test")...).is(http.StatusOK).says("The test took ", ": HTTP 200 OK", `class="ok"`)
	if one := storetest.Receive(t, "it is tested", got); one != `/hook?token=hidden-7 order.a {"test":true}` {
		t.Errorf("got %q", one)
	}
	v.get(page).is(http.StatusNotFound)
	status.Store(http.StatusInternalServerError)
	tested = v.post(path, append(tested.form(), "do", "test")...).is(http.StatusOK).says("The test failed after ", "HTTP 500", `class="late"`)
	v.post(path, tested.form("do", "put")...).did("Added the push crm, which sends to "+to+"/hook?…", page)
	want := store.Push{Name: "crm", Topics: []string{"order.a", "order.*"}, URL: to + "/hook?token=hidden-7", Secrets: []string{pushSecret}, InFlight: 8, Timeout: store.DefaultPushTimeout}
	if diff := cmp.Diff(want, pushNow(t, s.store, "crm")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v.get(page).says(`<a href="put/push?name=crm">Change it</a>`)
	change := v.get(path+"?name=crm").is(http.StatusOK).says("Change crm", `value="order.a order.*"`, "/hook?…").hides("hidden-7", "whsec_Mf")
	<-got // that of the second test
	status.Store(http.StatusOK)
	v.post(path, append(change.form(), "do", "test")...).is(http.StatusOK).says("HTTP 200 OK").hides("hidden-7", "whsec_Mf")
	if one := storetest.Receive(t, "it is tested as it is", got); !strings.HasPrefix(one, "/hook?token=hidden-7 ") {
		t.Errorf("got %q", one)
	}
	v.post(path, change.form("once", "1", "do", "put", "timeout", "20s", "topics", "order.a")...).did("Changed the push crm, which sends to "+to+"/hook?…", page)
	want.Timeout, want.Topics = 20*time.Second, []string{"order.a"}
	if diff := cmp.Diff(want, pushNow(t, s.store, "crm")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong in the form of a push is named, stays as it was typed, and changes nothing; so does a change by somebody else.
func TestPutPushIsRefused(t *testing.T) {
	t.Parallel()
	s := serveWith(t, "public", httpapi.Options{TokensFile: writeTokens(t, tokensFile+"clerk clerk-token-0123456789 push order.>\n")})
	putPush(t, s.store, "crm", asPut, "order.a")
	putPush(t, s.store, "mixed", asPut, "order.b", "secret.c")
	clerk := s.visitor()
	clerk.post("/ui/login", "token", "clerk-token-0123456789").is(http.StatusSeeOther)
	const path = "/ui/put/push"
	page := clerk.get(path + "?name=crm")
	before := pushNow(t, s.store, "crm")
	clerk.post(path, page.form("in_flight", "0", "timeout", "soon", "broadcasts", "maybe")...).is(http.StatusUnprocessableEntity).
		says("in_flight &#34;0&#34;: write a whole number from 1 to 1000", "timeout &#34;soon&#34;", "broadcasts", `value="soon"`, "Nothing was changed.")
	clerk.post(path, page.form("once", "1", "url", "ftp://x")...).is(http.StatusUnprocessableEntity).says("write https://HOST/PATH")
	clerk.post(path, clerk.get(path).form("name", "crm", "topics", "order.z", "url", "https://x.example", "secrets", pushSecret)...).is(http.StatusUnprocessableEntity).says("there is a push of this name", "order.z")
	clerk.post(path, clerk.get(path).form("name", "new", "topics", "secret.d", "url", "https://x.example", "secrets", pushSecret)...).is(http.StatusForbidden)
	clerk.post(path, clerk.get(path).form("name", "mixed", "topics", "order.b", "url", "https://x.example", "secrets", pushSecret)...).is(http.StatusForbidden).hides("secret.c")
	clerk.get(path + "?name=mixed").is(http.StatusForbidden).hides("secret.c")
	clerk.post(path, clerk.get(path).form("name", "new", "topics", "order.z", "url", "https://10.0.0.1", "secrets", pushSecret, "do", "test")...).is(http.StatusUnprocessableEntity).says("10.0.0.1")
	for _, text := range append(inertOnly, "\x00") {
		clerk.post(path, clerk.get(path).form("name", text, "topics", text, "url", text, "to", text, "secrets", text, "seen", text)...).is(http.StatusUnprocessableEntity).
			hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe", "\x00")
	}
	clerk.post(path, clerk.get(path).form("url", strings.Repeat("<", 1<<20))...).is(http.StatusRequestEntityTooLarge)
	clerk.post(path, clerk.get(path).form("edition", "0")...).is(http.StatusConflict)
	if diff := cmp.Diff(before, pushNow(t, s.store, "crm")); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	putPush(t, s.store, "crm", func(p *store.Push) { p.InFlight = 2 }, "order.a")
	refused := clerk.post(path, page.form("once", "2", "timeout", "20s")...).is(http.StatusUnprocessableEntity).says("push crm: it was changed meanwhile", `value="20s"`)
	if now := pushNow(t, s.store, "crm"); now.InFlight != 2 || now.Timeout != store.DefaultPushTimeout {
		t.Errorf("it changed to %+v", now)
	}
	clerk.post(path, refused.form()...).leads("/ui/pushes/crm")
	storetest.Must(t, s.store.Home().RemovePush(t.Context(), "crm"))
	gone := clerk.post(path, refused.form("once", "3", "secrets", pushSecret)...).is(http.StatusUnprocessableEntity).says("it was deleted meanwhile")
	clerk.post(path, gone.form("url", "https://x.example")...).did("Added the push crm, which sends to https://x.example", "/ui/pushes/crm")
	s.login("shop").get(path).is(http.StatusForbidden)
}

// A schedule and a push are put in a browser, with JavaScript and without.
func TestPutsInABrowser(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusOK)
	to, _ := endpoint(t, &status)
	for name, look := range map[string]consoletest.Look{"with JavaScript": {Dark: true}, "without": {NoScript: true, Width: 390}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, "127.0.0.1", httpapi.Options{})
			p := s.browse("/ui/schedules?topic=bills", look)
			p.Loads(func() { p.Click("a[href^='put/schedule']") })
			p.Expect("422")
			p.Type("input[name=name]", "daily")
			p.Type("input[name=cron]", "whenever")
			p.Loads(func() { p.Click("button[name=do]") })
			p.Await(".fault:not(#lost)", "cron")
			p.Axe()
			p.Fits()
			p.Type("input[name=cron]", "30 2 * * *")
			p.Type("textarea[name=body]", "hello")
			p.Loads(func() { p.Click("button[name=do]") })
			p.Await("section[autofocus]", "It would fire next")
			p.Axe()
			p.Fits()
			p.Loads(func() { p.Click("button[name=do]") })
			p.Await("[role=status]", "Added the schedule daily of bills")
			p.Go(s.url + "/ui/pushes")
			p.Loads(func() { p.Click("a[href='put/push']") })
			for field, text := range map[string]string{"name": "crm", "topics": "bills", "url": to, "secrets": pushSecret} {
				p.Type("input[name="+field+"]", text)
			}
			p.Loads(func() { p.Click("button[value=test]") })
			p.Await("[role=status]", "HTTP 200 OK")
			p.Axe()
			p.Fits()
			p.Loads(func() { p.Click("button[value=put]") })
			p.Await("[role=status]", "Added the push crm")
			if got := pushNow(t, s.store, "crm"); got.URL != to {
				t.Errorf("got %+v", got)
			}
		})
	}
}
