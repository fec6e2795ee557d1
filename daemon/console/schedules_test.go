package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// schedule puts a schedule that fires each hour, and as it is changed.
func schedule(t testing.TB, db *notify.Store, topic, name string, change func(*store.Schedule)) {
	t.Helper()
	s := store.Schedule{Topic: topic, Name: name, Spec: calendar.Spec{Every: time.Hour}}
	change(&s)
	if _, _, err := db.Of(topic).PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func asItIs(*store.Schedule) {}

// scheduleSome puts schedules of topics of a store that has something to show.
func scheduleSome(t testing.TB, db *notify.Store) {
	t.Helper()
	schedule(t, db, "order.timeout", "nightly", func(o *store.Schedule) {
		o.Spec = calendar.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", From: time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)}
		o.Message.Headers, o.Message.Body = map[string]string{"note": hostile[0]}, []byte(hostile[1])
	})
	schedule(t, db, "invoice.held", "hourly", asItIs)
	schedule(t, db, "invoice.held", "seldom", asItIs)
	if err := db.Of("invoice.held").PauseSchedule(t.Context(), "invoice.held", "seldom", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

// Without a schedule the page says how to make one; with some it lists them, what is wrong first, and of one topic alone.
func TestSchedules(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	v.get("/ui/schedules").is(http.StatusOK).says("No schedule yet. Make one:", "bellhop schedule put invoices daily --cron '30 2 * * *'", `<a href="schedules" aria-current="page">`)
	v.get("/ui/schedules?topic=bills").says("No schedule of bills yet", "schedule put bills daily")
	schedule(t, s.store, "bills", "nightly", func(o *store.Schedule) {
		o.Spec = calendar.Spec{Cron: "30 2 1 1 *", Zone: "Europe/Berlin", From: time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)}
	})
	schedule(t, s.store, "bills", "paused", asItIs)
	if err := s.store.Of("bills").PauseSchedule(t.Context(), "bills", "paused", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	over := store.Schedule{Topic: "shop", Name: "over", Spec: calendar.Spec{Every: time.Hour, Until: time.Unix(1_700_000_000, 0)}}
	if _, err := s.store.Of("shop").RestoreSchedule(t.Context(), &over, &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	schedule(t, s.store, "shop", "foreign", asItIs)
	if err := s.store.Client().HSet(t.Context(), s.store.KeysOf("shop").Rules("shop"), "foreign", `{"cron":"0 2 * * *","zone":"<b>Mars"}`+"\n0\nx").Err(); err != nil {
		t.Fatal(err)
	}
	page := wait(t, v, "/ui/schedules", "over").is(http.StatusOK).says(
		`<td class="below">30 2 1 1 * in Europe/Berlin</td><td class="utc">2090-01-01 02:30:00 &#43;0100</td>`, `<span class="paused">paused</span>`, `<span class="quiet">over</span>`,
		`<span class="dead">unreadable</span>`, "&lt;b&gt;Mars", `href="topics/bills/schedules/nightly"`, `name="resume" value="bills:paused"`,
	).hides("<b>Mars")
	at := 0
	for _, row := range []string{"schedule:shop:foreign", "schedule:bills:nightly", "schedule:bills:paused", "schedule:shop:over"} {
		next := strings.Index(page.body, row)
		if next < at {
			t.Errorf("%s is at %d, behind %d", row, next, at)
		}
		at = next
	}
	wait(t, v, "/ui/schedules?topic=bills", "nightly").says("paused").hides("foreign", "Show all schedules")
	v.get("/ui/schedules?topic=%3Cb%3E").is(http.StatusUnprocessableEntity).says(`name="topic" value="&lt;b&gt;"`, "Show all").hides("<b>")
	v.get("/ui/topics/bills").says(`<a href="schedules?topic=bills">Schedules of this topic</a>`)
	v.get("/ui/topics/shop/schedules/foreign").is(http.StatusOK).says("Unreadable: it makes nothing", "&lt;b&gt;Mars", `name="delete"`).hides("<b>Mars")
	v.get("/ui/topics/shop/schedules/none").is(http.StatusNotFound).says("No such schedule")
	v.get("/ui/topics/shop/schedules/%3Cb%3E").is(http.StatusUnprocessableEntity).hides("<b>")
}

// A schedule that nobody fills is behind.
func TestScheduleIsBehind(t *testing.T) {
	t.Parallel()
	s := open(t)
	schedule(t, s.store, "bills", "each", func(o *store.Schedule) { o.Spec.Every = time.Minute })
	key := s.store.KeysOf("bills").SchedulesOf("bills")
	if err := s.store.Client().HSet(t.Context(), key, "each", fmt.Sprintf(" revision=1 cursor=%d\n", time.Now().Add(-time.Hour).Unix())).Err(); err != nil {
		t.Fatal(err)
	}
	v := s.visitor()
	v.get("/ui/schedules").says(`<span class="late">behind</span>`)
	v.get("/ui/topics/bills/schedules/each").says("Behind: nobody makes what it is to make")
}

// The page of a schedule shows how it was put, when it fires next with the offset of its zone, and what became of what it made.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := open(t)
	carry(t, s.store)
	schedule(t, s.store, "bills", "yearly", func(o *store.Schedule) {
		o.Spec = calendar.Spec{Cron: "30 2 * 1,7 *", Zone: "Europe/Berlin", From: time.Date(2090, 1, 31, 0, 0, 0, 0, time.UTC)}
		o.Overlap, o.Message.Body, o.Message.Headers = store.OverlapSkip, []byte(hostile[1]), map[string]string{"note": hostile[0]}
	})
	v := s.visitor()
	page := wait(t, v, "/ui/topics/bills/schedules/yearly", `yearly~2090-01-31T01:30:00Z">made</a>`).is(http.StatusOK).says(
		"2090-01-31 02:30:00 &#43;0100", "2090-07-01 02:30:00 &#43;0200", "2090-07-04 02:30:00 &#43;0200", "not yet", "<td>skip</td>", "&lt;script&gt;alert(1)", "&lt;img src=x", "None was due yet", "<title>yearly of bills",
	)
	page.hides("<script>alert", "<img src=x", "2090-07-05")

	schedule(t, s.store, "bills", "seconds", func(o *store.Schedule) { o.Spec.Every = time.Second })
	wait(t, v, "/ui/topics/bills/schedules/seconds", ">ready</a>").says("Fires next", "Last occurrences")
	claimer := subscriberstest.Claimer(t, s.store)
	storetest.Eventually(t, "a worker has one", func() bool {
		if _, err := claimer.Claim(t.Context(), "bills", subscribers.ClaimOptions{Max: 100, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`>leased</a></td><td class="n" data-label="Claimed late by">[0-9.]+ m?s</td>`).MatchString(v.get("/ui/topics/bills/schedules/seconds").body)
	})
}

// What a button says is done to the schedule of its row, is noted, and is asked for before a schedule is deleted.
func TestScheduleActs(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"clerk clerk-token-0123456789 schedule order.>\n")})
	schedule(t, s.store, "order.a", "daily", asItIs)
	schedule(t, s.store, "secret.b", "daily", asItIs)
	clerk := s.visitor()
	clerk.post("/ui/login", "token", "clerk-token-0123456789").is(http.StatusSeeOther)
	const path = "/ui/topics/order.a/schedules/daily"
	clerk.get("/ui/schedules").is(http.StatusOK).says("order.a").hides("secret.b")
	for _, address := range []string{"/ui/schedules?topic=secret.b", "/ui/topics/secret.b/schedules/daily"} {
		clerk.get(address).is(http.StatusForbidden).hides("every 1h")
	}
	clerk.act(path, "/ui/acts/schedules", "pause", "order.a:daily").did("Paused the schedule daily of order.a", path)
	clerk.get(path).says("Paused since", "Not until it is resumed", `name="resume"`)
	clerk.act("/ui/schedules", "/ui/acts/schedules", "resume", "order.a:daily").did("Resumed the schedule daily of order.a", "/ui/schedules")
	clerk.get(path).hides("Paused since")
	clerk.act(path, "/ui/acts/schedules", "run", "order.a:daily").leads(path)
	ran := regexp.MustCompile(`Ran the schedule daily of order.a: published (daily~20[0-9TZ:.-]+), ready`)
	clerk.get(path).hides("See it").field(ran)
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Ready != 1 {
		t.Errorf("ready after a run: %+v, %v", c, err)
	}
	root := s.login("root")
	root.act(path, "/ui/acts/schedules", "run", "order.a:daily").leads(path)
	page := root.get(path)
	at := "topics/order.a/messages/" + page.field(ran)
	page.says(`<a href="` + at + `">See it</a>`)
	root.get(at).is(http.StatusOK).says("<h1>")
	schedule(t, s.store, "order.a", "sent", func(s *store.Schedule) { s.Message.Broadcast = true })
	root.act(path, "/ui/acts/schedules", "run", "order.a:sent").leads(path)
	root.get(path).says(`<a href="broadcasts/of?id=sent`, `">See it</a>`)
	root.get(path).hides("Ran the schedule")
	clerk.act(path, "/ui/acts/schedules", "run", "secret.b:daily").is(http.StatusForbidden)
	clerk.act(path, "/ui/acts/schedules", "run", "order.a:none").is(http.StatusNotFound).says("No such schedule")
	clerk.act(path, "/ui/acts/schedules", "pause", "secret.b:daily").is(http.StatusForbidden)
	clerk.act(path, "/ui/acts/schedules", "pause", "order.a:none").is(http.StatusNotFound).says("No such schedule")
	clerk.act(path, "/ui/acts/schedules", "pause", "<b>").is(http.StatusUnprocessableEntity).hides("<b>")
	clerk.act(path, "/ui/acts/schedules").is(http.StatusUnprocessableEntity).says("go back, and take one")
	clerk.post("/ui/acts/schedules", "delete", "order.a:daily", "sure", "1").is(http.StatusConflict) // without the fields of a page's form
	clerk.act(path, "/ui/acts/schedules", "delete", "order.a:daily").is(http.StatusOK).says("Delete the schedule daily of order.a, and withdraw what it made ahead?")
	clerk.get(path).is(http.StatusOK)
	clerk.act(path, "/ui/acts/schedules", "delete", "order.a:daily", "sure", "1").did("Deleted the schedule daily of order.a", "/ui/schedules?topic=order.a")
	clerk.get(path).is(http.StatusNotFound)

	shop := s.login("shop") // without the right
	shop.get("/ui/").hides(`href="schedules"`)
	shop.get("/ui/topics/order.a").hides("Schedules of this topic")
	shop.get("/ui/schedules").is(http.StatusForbidden)
	schedule(t, s.store, "order.a", "weekly", asItIs)
	shop.get("/ui/topics/order.a/schedules/weekly").is(http.StatusForbidden)
	shop.act("/ui/topics", "/ui/acts/schedules", "delete", "order.a:weekly", "sure", "1").is(http.StatusForbidden)
	clerk.get("/ui/topics/order.a/schedules/weekly").is(http.StatusOK)
}

// A schedule is paused and deleted in a browser, with and without scripts.
func TestScheduleInABrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	schedule(t, s.store, "bills", "daily", asItIs)
	p := s.browse("/ui/schedules", consoletest.Look{})
	p.Streams()
	p.Click("td summary")
	p.Loads(func() { p.Click("button[name=pause]") })
	p.Await("[role=status]", "Paused the schedule daily of bills")
	p.Look(consoletest.Look{NoScript: true})
	p.Go(s.url + "/ui/topics/bills/schedules/daily")
	p.Until("what is grave is put away", "document.querySelector('button[name=delete]').checkVisibility() === false")
	p.Click(".menu summary")
	p.Loads(func() { p.Click("button[name=delete]") })
	p.Await("h1", "Delete the schedule daily of bills")
	p.Loads(func() { p.Click("button.grave") })
	p.Await("[role=status]", "Deleted the schedule daily of bills")
}

// The page of a topic's schedules reads nothing of what they publish, which may be large.
func TestSchedulesReadNoBodies(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var read storetest.Meter
	db.Client().AddHook(&read)
	s := serve(t, db, httpapi.Options{})
	const n, size = 20, 200_000
	for i := range n {
		schedule(t, s.store, "bills", fmt.Sprintf("s%d", i), func(o *store.Schedule) { o.Message.Body = make([]byte, size) })
	}
	before := read.Load()
	s.visitor().get("/ui/schedules?topic=bills").is(http.StatusOK).says("s0", "s19")
	if bytes := read.Load() - before; bytes == 0 || bytes > n*size/2 {
		t.Errorf("Redis answered %d bytes", bytes)
	}
}
