package console_test

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
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

var (
	goesOn   = regexp.MustCompile(`<a href="([^"]+)">Go on(?: counting)?</a>`)
	lookedAt = regexp.MustCompile(`Looked at [0-9,]+ of [0-9,]+`)
	actForm  = regexp.MustCompile(`(?s)<form method="post" action="/ui/find/act".*?</form>`)
	hidden   = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
)

// mostPages is on how many pages a search or an act may go on.
const mostPages = 200

// whole gets a page of a search or of a count, and all on which it goes on: on a busy machine each has only a part. It
// returns the last one, and behind it the others without how far they are.
func (v *visitor) whole(path string) shown {
	v.t.Helper()
	var others string
	for range mostPages {
		page := v.get(path).is(http.StatusOK)
		if n := page.rows(); n > 0 {
			seen, _ := strconv.Atoi(mustURL(v.t, path).Query().Get("seen"))
			page.says(fmt.Sprintf("; %d to %d", seen+1, seen+n))
		}
		next := goesOn.FindStringSubmatch(page.body)
		if next == nil {
			page.body += others
			return page
		}
		others += lookedAt.ReplaceAllString(page.body, "")
		path = html.UnescapeString(next[1])
	}
	v.t.Fatalf("it goes on for more than %d pages: %s", mostPages, path)
	panic("unreachable")
}

// rows counts what a search has found.
func (s shown) rows() int {
	return strings.Count(s.body, `<th scope="row" class="name"><a href="topics/`)
}

// finds fails the test if a search has found another number of messages.
func (s shown) finds(n int) shown {
	s.t.Helper()
	if got := s.rows(); got != n {
		s.t.Errorf("%.200s has %d rows, want %d: %.5000s", s.call, got, n, s.body)
	}
	return s
}

// actOnAll sends the form of an act on all that match, and again while it goes on, as it does on a busy machine. It
// returns the last answer.
func (v *visitor) actOnAll(fields ...string) shown {
	v.t.Helper()
	for range mostPages {
		answer := v.post("/ui/find/act", fields...).is(http.StatusOK)
		form := actForm.FindString(answer.body)
		if form == "" {
			return answer
		}
		fields = nil
		for _, field := range hidden.FindAllStringSubmatch(form, -1) {
			fields = append(fields, field[1], html.UnescapeString(field[2]))
		}
	}
	v.t.Fatalf("it goes on for more than %d pages: %s", mostPages, fields)
	panic("unreachable")
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "order-1", "order-2", "x")
	storetest.Publish(t, s.store, notify.Message{Topic: "mail", ID: "order-3", Body: []byte("tenant 4711"), Headers: map[string]string{"Tenant": "acme"}, Delay: time.Hour})
	v := s.visitor()
	v.get("/ui/find").is(http.StatusOK).says("Examples", "header.tenant=acme")
	v.whole("/ui/find?q=id:order-*").finds(3).says("order-1", "order-2", "order-3", "Looked at 4 of 4").hides(">x<")
	v.whole("/ui/find?q=body~4711").finds(1).says("order-3").hides("order-1")
	v.whole("/ui/find?q=topic:none.*").finds(0).says("nothing found")
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
	t.Parallel()
	s := open(t)
	storetest.Fill(t, s.store, 120, func(i int) notify.Message {
		return notify.Message{Topic: "t", ID: fmt.Sprintf("m%03d", i), Delay: time.Hour}
	})
	v := s.visitor()
	seen := make(map[string]bool)
	for path := "/ui/find?q=topic:t"; path != ""; {
		page := v.get(path).is(http.StatusOK)
		for _, found := range regexp.MustCompile(`name="m" value="t:(m\d+)"`).FindAllStringSubmatch(page.body, -1) {
			seen[found[1]] = true
		}
		path = ""
		if found := goesOn.FindStringSubmatch(page.body); found != nil {
			path = html.UnescapeString(found[1])
		}
	}
	if len(seen) != 120 {
		t.Errorf("found %d of 120", len(seen))
	}
}

func TestActOnTheTicked(t *testing.T) {
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "1", "2")
	storetest.Publish(t, s.store, notify.Message{Topic: "b", ID: "1", Delay: time.Hour})
	v := s.visitor()
	const page = "/ui/find?q=topic%3A%3E"
	v.act(page, "/ui/acts/found", "act", "reschedule", "m", "b:1").is(http.StatusUnprocessableEntity).says("none is given")
	v.act(page, "/ui/acts/found", "act", "cancel").is(http.StatusUnprocessableEntity).says("tick")
	v.act(page, "/ui/acts/found", "act", "cancel", "m", "order.a:1", "m", "<b>bold").is(http.StatusUnprocessableEntity).hides("<b>bold")
	v.act(page, "/ui/acts/found", "act", "requeue", "m", "order.a:1", "m", "b:1").did("requeue: 1 of 2 messages; the others had changed, or are in another state", page)
	v.act(page, "/ui/acts/found", "act", "purge", "m", "order.a:1", "m", "b:1").is(http.StatusOK).says("Purge 2 messages?", `name="m" value="b:1"`)
	v.act(page, "/ui/acts/found", "act", "purge", "m", "order.a:1", "m", "b:1", "sure", "1").did("purge: 0 of 2 messages; they had changed, or are in another state", page)
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
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "1", "2", "3")
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "w", Delay: time.Hour})
	v := s.visitor()
	const page = "/ui/find/act?q=topic:order.*&act=purge"
	v.whole(page).says("Purge 3 dead letters?", "cannot be undone")
	const letter = "/ui/topics/order.a/messages/1"
	v.get(letter).is(http.StatusOK).says("timeout")
	v.get("/ui/find/act?q=topic:order.*&act=explode").is(http.StatusUnprocessableEntity)
	v.get("/ui/find/act?q=state:leased&act=purge").is(http.StatusUnprocessableEntity)
	form := v.get(page)
	fields := []string{"edition", form.field(editionField), "once", form.field(onceField), "q", "topic:order.*", "act", "purge"}
	v.actOnAll(fields...).says("Purged 3 of 3 dead letters").hides("data-goes-on", "so far")
	v.get(letter).is(http.StatusNotFound)
	v.post("/ui/find/act", fields...).is(http.StatusConflict).says("sent before")
	v.whole(page).says("No dead letters match")
	const move, cancel = "/ui/find/act?q=topic:order.*&act=reschedule", "/ui/find/act?q=topic:order.*&act=cancel"
	v.actOnAll(v.formOf(move, "q", "topic:order.*", "act", "reschedule", "due", "2030-01-02T15:04:05Z")...).says("Rescheduled 1 of 1").hides("so far")
	v.act(move, "/ui/find/act", "q", "topic:order.*", "act", "reschedule").is(http.StatusUnprocessableEntity).says("delay=0s for at once")
	v.act(move, "/ui/find/act", "q", "topic:order.*", "act", "reschedule", "due", "soon").is(http.StatusUnprocessableEntity)
	v.actOnAll(v.formOf(cancel, "q", "topic:order.*", "act", "cancel")...).says("Cancelled 1 of 1").hides("so far")
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Dead+c.Scheduled+c.Ready != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
	purged := int64(0)
	for _, line := range regexp.MustCompile(`msg="acted on all that match" token=anybody act=purge question=topic:order\.\* count=(\d+)`).FindAllStringSubmatch(s.log.String(), -1) {
		n, _ := strconv.ParseInt(line[1], 10, 64)
		purged += n
	}
	if purged != 3 {
		t.Errorf("the log lacks the act: %s", s.log)
	}
}

// A fickle is a store whose Redis refuses all scripts of its user while it is told to.
type fickle struct {
	*storetest.User
	called atomic.Pointer[func(script string)] // is told of each call, which the daemon makes at any time
}

func newFickle(t *testing.T) *fickle {
	t.Helper()
	f := &fickle{User: storetest.NewUser(t)}
	f.Store.Observe(func(script string, _ time.Duration, _ error) {
		if called := f.called.Load(); called != nil {
			(*called)(script)
		}
	})
	return f
}

// fails and works have Redis refuse everything, and nothing.
func (f *fickle) fails(t *testing.T) { t.Helper(); f.ACL(t, "-@all") }
func (f *fickle) works(t *testing.T) { t.Helper(); f.ACL(t, "+@all"); f.called.Store(nil) }

// failsAfter has Redis refuse everything after so many calls of a script.
func (f *fickle) failsAfter(t *testing.T, calls int64, of string) {
	t.Helper()
	var n atomic.Int64
	f.called.Store(new(func(script string) {
		if script == of && n.Add(1) == calls {
			f.fails(t)
		}
	}))
}

// sent returns the fields of a form in a page, beside the ones that are given.
func (s shown) sent(pairs ...string) []string {
	for _, found := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(s.body, -1) {
		pairs = append(pairs, found[1], html.UnescapeString(found[2]))
	}
	return pairs
}

// An act on all that match can be gone on with after whatever stopped it.
func TestActOnAllGoesOnAfterAFault(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"root", "keeper"} {
		t.Run(name, func(t *testing.T) {
			const n, path = 120, "/ui/find/act"
			f := newFickle(t)
			storetest.Fill(t, f.Admin, n, func(i int) notify.Message {
				return notify.Message{Topic: "order.a", ID: fmt.Sprint(i), Delay: time.Hour * time.Duration(1+i)}
			})
			s := serve(t, f.Store, httpapi.Options{TokensFile: writeTokens(t, tokensFile+"keeper keeper-token-0123456789 admin order.>\n")})
			v := s.visitor()
			v.post("/ui/login", "token", cmp.Or(tokens[name], "keeper-token-0123456789")).is(http.StatusSeeOther)
			page := v.get(path + "?q=topic:order.a&act=reschedule").is(http.StatusOK).says("Reschedule 120 ")
			form := page.sent()
			v.post(path, append(form, "delay", "soon")...).is(http.StatusUnprocessableEntity)

			f.fails(t) // before anything is done
			page = v.post(path, append(form, "delay", "2h")...).is(http.StatusServiceUnavailable).says("It stopped", "Redis refuses the daemon", "Rescheduled 0 of 0", "Go on</button>").hides("data-goes-on", "by itself")
			f.works(t)
			f.failsAfter(t, 20, "reschedule")
			storetest.Eventually(t, "it goes on, and stops again", func() bool { // the store looks at Redis again after a while
				page = v.post(path, page.sent()...)
				return page.status == http.StatusServiceUnavailable && !strings.Contains(page.body, "Rescheduled 0 of 0")
			})
			page.says("It stopped", "Rescheduled 20 of 20 scheduled, ready and blocked messages so far", "Go on</button>").hides("changed meanwhile")
			last := page.sent()
			page = v.post(path, last...).is(http.StatusServiceUnavailable).says("It stopped", "Rescheduled 20 of 20 scheduled, ready and blocked messages so far", "Go on</button>")
			page.field(regexp.MustCompile(`name="cursor" value="([^"]+)"`))
			f.works(t)
			page = v.post(path, last...).is(http.StatusConflict).says("It stopped", "This form was sent before", "Rescheduled 20 of 20", "Go on</button>")
			page = v.post(path, append([]string{"edition", "old"}, page.sent()...)...).is(http.StatusConflict).says("It stopped", "The daemon was updated", "Rescheduled 20 of 20", "Go on</button>")
			storetest.Eventually(t, "all are rescheduled", func() bool {
				page = v.post(path, page.sent()...)
				return !strings.Contains(page.body, "Go on</button>")
			})
			page.says("Rescheduled 120 of 120 scheduled, ready and blocked messages<")
			logged, acts := 0, regexp.MustCompile(` act=reschedule question=topic:order.a count=(\d+)`).FindAllStringSubmatch(s.log.String(), -1)
			for _, found := range acts {
				count, _ := strconv.Atoi(found[1])
				logged += count
			}
			if len(acts) < 2 || logged != n { // an act on many goes on in parts, each of bounded time
				t.Errorf("the log lacks the act: %s", s.log)
			}
		})
	}
}

// Acts on the ticked say and log what they did before Redis failed.
func TestActsThatPartlySucceed(t *testing.T) {
	t.Parallel()
	f := newFickle(t)
	s := serve(t, f.Store, httpapi.Options{})
	v := s.visitor()
	storetest.Fill(t, f.Admin, 50, func(i int) notify.Message {
		return notify.Message{Topic: "order.a", ID: fmt.Sprint(i), Restore: &notify.Restore{Died: time.Now().Add(-time.Hour), Reason: "why"}}
	})
	const found = "/ui/find?q=state%3Adead"
	form := append(v.get(found).sent(), "act", "purge", "sure", "1")
	for i := range 50 {
		form = append(form, "m", fmt.Sprint("order.a:", i))
	}
	f.failsAfter(t, 20, "purge")
	page := v.post("/ui/acts/found", form...).is(http.StatusServiceUnavailable).says("Redis refuses the daemon", "purge: 20 of 50 messages, then it stopped", `href="`+fromRoot(found)+`"`).hides("by itself")
	f.works(t)
	if c, err := storetest.Count(f.Admin, "order.a"); err != nil || c.Dead != 30 {
		t.Errorf("got %+v, %v", c, err)
	}
	if line := `act="act on found messages" what="purge: 20 of 50 messages, then it stopped" count=20`; !strings.Contains(s.log.String(), line) {
		t.Errorf("the log lacks %s: %s", line, s.log.String())
	}
	f.fails(t)
	before := strings.Count(s.log.String(), "act of the console")
	v.post("/ui/topics/order.a/messages/1", append(page.sent(), "edition", form[1], "act", "cancel")...)
	if log := s.log.String(); strings.Count(log, "act of the console") != before {
		t.Errorf("an act that failed is logged: %s", log)
	}
}

func TestFindRights(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	bury(t, s.store, "order.a", "why", "1")
	bury(t, s.store, "secret.b", "hidden", "1", "2")
	shop, reader, root := s.login("shop"), s.login("reader"), s.login("root")
	shop.whole("/ui/find?q=state:dead").finds(1).says("order.a", "Looked at 1 of 1").hides("secret.b", "purge", "With all that match")
	shop.whole("/ui/find?q=topic:secret.b").finds(0).says("Looked at 0 of 0", "nothing found")
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
	root.whole("/ui/find?q=state:dead").finds(3).says("Looked at 3 of 3")
}

func TestActOnAllInABrowser(t *testing.T) {
	t.Parallel()
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
