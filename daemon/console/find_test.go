package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func urlOf(text string) string { return url.QueryEscape(text) }

// printableOnly maps characters that a header may not have to none.
func printableOnly(r rune) rune {
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}

func TestFind(t *testing.T) {
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "order-1", "order-2", "x")
	storetest.Publish(t, s.store, notify.Message{Topic: "mail", ID: "order-3", Body: []byte("tenant 4711"), Headers: map[string]string{"Tenant": "acme"}, Delay: time.Hour})
	v := s.visitor()
	v.get("/ui/find").is(http.StatusOK).says("Examples", "header.tenant=acme")
	v.get("/ui/find?q=id:order-*").is(http.StatusOK).says("order-1", "order-2", "order-3", "Looked at 4 of 4").hides(">x<")
	v.get("/ui/find?q=body~4711").is(http.StatusOK).says("order-3").hides("order-1")
	v.get("/ui/find?q=topic:none.*").is(http.StatusOK).says("nothing found")
	v.get("/ui/find?q=topc:x").is(http.StatusUnprocessableEntity).says("<mark>t</mark>opc:x", "did you mean topic")
	v.get("/ui/find?q=topic:x+stat:dead").is(http.StatusUnprocessableEntity).says("topic:x <mark>s</mark>tat:dead")
	v.get("/ui/find?q=body~" + urlOf(`"open`)).is(http.StatusUnprocessableEntity).says("<mark>(end)</mark>")
	v.get("/ui/find?q=state:dead&cursor=garbage").is(http.StatusUnprocessableEntity).says("cursor")
	if log := s.log.String(); !strings.Contains(log, `msg="search of bodies" token=anybody question=body~4711`) {
		t.Errorf("the log lacks the search: %s", log)
	}
	export := v.get("/ui/find/export?q=state:dead").is(http.StatusOK)
	if n := strings.Count(export.body, "\n"); n != 3 || export.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasPrefix(export.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("exported %d lines: %v %s", n, export.header, export.body)
	}
	v.get("/ui/find/export?q=topc:x").is(http.StatusUnprocessableEntity)
}

func TestFindGoesOn(t *testing.T) {
	s := open(t)
	storetest.Fill(t, s.store, 120, func(i int) notify.Message {
		return notify.Message{Topic: "t", ID: fmt.Sprintf("m%03d", i), Delay: time.Hour}
	})
	v := s.visitor()
	seen := make(map[string]bool)
	next := regexp.MustCompile(`<a href="([^"]+)">Go on</a>`)
	for path := "/ui/find?q=topic:t"; path != ""; {
		page := v.get(path).is(http.StatusOK)
		for _, found := range regexp.MustCompile(`name="m" value="t:(m\d+)"`).FindAllStringSubmatch(page.body, -1) {
			seen[found[1]] = true
		}
		path = ""
		if found := next.FindStringSubmatch(page.body); found != nil {
			path = strings.ReplaceAll(found[1], "&amp;", "&")
		}
	}
	if len(seen) != 120 {
		t.Errorf("found %d of 120", len(seen))
	}
}

func TestActOnTheTicked(t *testing.T) {
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "1", "2")
	storetest.Publish(t, s.store, notify.Message{Topic: "b", ID: "1", Delay: time.Hour})
	v := s.visitor()
	const page = "/ui/find?q=topic%3A%3E"
	v.act(page, "/ui/acts/found", "act", "reschedule", "m", "b:1").is(http.StatusUnprocessableEntity).says("none is given")
	v.act(page, "/ui/acts/found", "act", "cancel").is(http.StatusUnprocessableEntity).says("tick")
	v.act(page, "/ui/acts/found", "act", "cancel", "m", "order.a:1", "m", "<b>bold").is(http.StatusUnprocessableEntity).hides("<b>bold")
	v.act(page, "/ui/acts/found", "act", "requeue", "m", "order.a:1", "m", "b:1").did("requeue: 1 of 2 messages; the others had changed, or are in another state", page)
	v.act(page, "/ui/acts/found", "act", "reschedule", "due", "2030-01-02T15:04:05Z", "m", "b:1").is(http.StatusSeeOther)
	v.act(page, "/ui/acts/found", "act", "purge", "m", "order.a:2").is(http.StatusSeeOther)
	info, err := storetest.Inspector(t, s.store).Inspect(t.Context(), "b", "1")
	if err != nil || info.Due.Year() != 2030 {
		t.Errorf("got %+v, %v", info, err)
	}
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Dead != 0 || c.Ready != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestActOnAllThatMatch(t *testing.T) {
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "1", "2", "3")
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "w", Delay: time.Hour})
	v := s.visitor()
	const page = "/ui/find/act?q=topic:order.*&act=purge"
	v.get(page).is(http.StatusOK).says("Purge 3 dead letters?", "cannot be undone")
	const letter = "/ui/topics/order.a/messages/1"
	v.get(letter).is(http.StatusOK).says("timeout")
	v.get("/ui/find/act?q=topic:order.*&act=explode").is(http.StatusUnprocessableEntity)
	v.get("/ui/find/act?q=state:leased&act=purge").is(http.StatusUnprocessableEntity)
	form := v.get(page)
	fields := []string{"edition", form.field(editionField), "once", form.field(onceField), "q", "topic:order.*", "act", "purge"}
	v.post("/ui/find/act", fields...).is(http.StatusOK).says("Purged 3 of 3 dead letters").hides("data-goes-on", "so far")
	v.get(letter).is(http.StatusNotFound)
	v.post("/ui/find/act", fields...).is(http.StatusConflict).says("sent before")
	v.get(page).says("No dead letters match")
	v.act("/ui/find/act?q=topic:order.*&act=reschedule", "/ui/find/act", "q", "topic:order.*", "act", "reschedule", "due", "2030-01-02T15:04:05Z").is(http.StatusOK).says("Rescheduled 1 of 1")
	v.act("/ui/find/act?q=topic:order.*&act=reschedule", "/ui/find/act", "q", "topic:order.*", "act", "reschedule").is(http.StatusUnprocessableEntity).says("delay=0s for at once")
	v.act("/ui/find/act?q=topic:order.*&act=reschedule", "/ui/find/act", "q", "topic:order.*", "act", "reschedule", "due", "soon").is(http.StatusUnprocessableEntity)
	v.act("/ui/find/act?q=topic:order.*&act=cancel", "/ui/find/act", "q", "topic:order.*", "act", "cancel").is(http.StatusOK).says("Cancelled 1 of 1")
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Dead+c.Scheduled+c.Ready != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
	if log := s.log.String(); !strings.Contains(log, `act="act on all that match" what="purge all of topic:order.*" count=3`) {
		t.Errorf("the log lacks the act: %s", log)
	}
}

func TestFindRights(t *testing.T) {
	s := guarded(t, storetest.Open(t))
	bury(t, s.store, "order.a", "why", "1")
	bury(t, s.store, "secret.b", "hidden", "1", "2")
	shop, reader, root := s.login("shop"), s.login("reader"), s.login("root")
	shop.get("/ui/find?q=state:dead").is(http.StatusOK).says("order.a", "Looked at 1 of 1").hides("secret.b", "purge", "All that match, after")
	shop.get("/ui/find?q=topic:secret.b").is(http.StatusOK).says("Looked at 0 of 0", "nothing found")
	export := shop.get("/ui/find/export?q=state:dead").is(http.StatusOK)
	if strings.Count(export.body, "\n") != 1 {
		t.Errorf("exported %s", export.body)
	}
	reader.get("/ui/find?q=state:dead").is(http.StatusForbidden)
	reader.get("/ui/find/export?q=state:dead").is(http.StatusForbidden)
	for _, v := range []*visitor{shop, reader} {
		v.get("/ui/find/act?q=state:dead&act=purge").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/find/act", "q", "state:dead", "act", "purge").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/acts/found", "act", "purge", "m", "order.a:1").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/acts/found", "act", "cancel", "m", "secret.b:1").is(http.StatusForbidden)
	}
	s.visitor().get("/ui/find/export?q=state:dead").is(http.StatusSeeOther)
	root.get("/ui/find?q=state:dead").says("Looked at 3 of 3", "3 found")
}

func TestActOnAllInABrowser(t *testing.T) {
	s := open(t)
	storetest.Fill(t, s.store, 5000, func(i int) notify.Message {
		return notify.Message{Topic: "t", ID: fmt.Sprint(i), Restore: &notify.Restore{Died: time.Now().Add(-time.Hour), Reason: "why"}}
	})
	page := s.browse("/ui/find?q=topic:t+state:dead", consoletest.Look{Width: 1400})
	page.Click("a[href*='act=purge']")
	page.Until("the count", `[...document.querySelectorAll("p")].some((p) => p.innerText.includes("Purge 5,000 dead letters?"))`)
	page.Axe()
	page.Click("button.grave")
	page.Until("all are purged", `document.querySelector("p.large")?.innerText === "Purged 5,000 of 5,000 dead letters"`)
	page.Axe()
	if c, err := storetest.Count(s.store, "t"); err != nil || c.Dead != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}
