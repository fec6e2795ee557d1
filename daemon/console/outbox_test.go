package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A refuser is an outbox of a database of its own, at which nobody relays what waits.
type refuser struct {
	*outbox.Outbox
	t   testing.TB
	url string
}

// refusing returns an outbox with rows r1, r2 and so on that were refused for hostile reasons, and one, w, that waits.
func refusing(t testing.TB, store *notify.Store, url string, n int) *refuser {
	t.Helper()
	at := database.Address{URL: url}
	_, err := outbox.Install(t.Context(), at, outbox.InstallOptions{})
	storetest.Must(t, err)
	b, err := outbox.New(store, outbox.Options{Address: at})
	storetest.Must(t, err)
	t.Cleanup(b.Close)
	for i := range n {
		reason := strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(hostile[i%len(hostile)], "?"), "\x00", "?"), "'", "''")
		databasetest.Exec(t, url, fmt.Sprintf("SELECT bellhop.publish('order.a', 'secret', id => 'r%d'); UPDATE bellhop.outbox SET refused = '%s' WHERE id = 'r%[1]d'", i+1, reason))
	}
	databasetest.Exec(t, url, "SELECT bellhop.publish('order.a', 'secret', id => 'w')")
	return &refuser{b, t, url}
}

// holds compares the ids of what waits, in order, and of what is refused: "w | r1 r2".
func (r *refuser) holds(want string) {
	r.t.Helper()
	const ids = "SELECT coalesce(string_agg(id, ' ' ORDER BY seq) FILTER (WHERE refused IS NULL), '') || ' | ' || coalesce(string_agg(id, ' ' ORDER BY seq) FILTER (WHERE refused IS NOT NULL), '') FROM bellhop.outbox"
	if got := databasetest.Ask(r.t, r.url, ids)[0]; got != want {
		r.t.Errorf("the outbox holds %s, want %s", got, want)
	}
}

// member returns what names a row in a form.
func (r *refuser) member(id string) string {
	r.t.Helper()
	return fmt.Sprint(databasetest.Ask(r.t, r.url, "SELECT seq FROM bellhop.outbox WHERE id = $1", id)[0], ":", r.Address())
}

// withOutboxes serves a store that has outboxes.
func withOutboxes(t testing.TB, store *notify.Store, o httpapi.Options, all ...*refuser) *site {
	t.Helper()
	o.Service = serviceOf(t, store)
	for _, one := range all {
		o.Service.Outboxes = append(o.Service.Outboxes, one.Outbox)
		o.Doctor.Outboxes = append(o.Doctor.Outboxes, outbox.Options{Address: database.Address{URL: one.url}, MaxBody: notify.DefaultMaxBody})
	}
	return serve(t, store, o)
}

// The page shows what waits and what is refused, without bodies: to whoever may not use all topics only how much it is.
func TestOutbox(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	guarded(t, store).login("root").get("/ui/outbox").is(http.StatusNotFound).says("No outbox", "set BELLHOP_OUTBOX_URL").hides(`<a href="outbox"`)
	box := refusing(t, store, databasetest.Database(t), 3)
	databasetest.Exec(t, box.url, "UPDATE bellhop.outbox SET called = called - interval '3 min'")
	s := withOutboxes(t, store, httpapi.Options{TokensFile: writeTokens(t, tokensFile)}, box)
	root := s.login("root")
	root.get("/ui/outbox").is(http.StatusOK).says(`<a href="outbox" aria-current="page">`, box.Address(), `<td class="n" data-label="Waiting">1</td><td class="n" data-label="Oldest">3 min`, `<td class="n late" data-label="Refused">3</td>`, "nobody: run bellhop serve",
		">r1</th>", "&lt;script&gt;alert(1)&lt;/script&gt;", `value="`+box.member("r2")+`"`, "Bodies are not shown").hides("secret", "<script>alert", ">w</th>", "Next page", "First page")
	s.login("metrics").get("/ui/outbox").is(http.StatusOK).says(">r1</th>", "nobody").hides("<button name", "checkbox", "secret")
	s.login("reader").get("/ui/outbox").is(http.StatusOK).says(`<td class="n late" data-label="Refused">3</td>`, "whoever may use all topics").hides("r1</th>")
	s.login("shop").get("/ui/outbox").is(http.StatusForbidden).hides(`<a href="outbox"`, box.Address())
	root.get("/ui/outbox?database=postgres://elsewhere/x").is(http.StatusUnprocessableEntity).says("no outbox is there")
	root.get("/ui/outbox?cursor=x").is(http.StatusUnprocessableEntity).says("it is none of a call of the outbox")

	c, err := carrier.New(store, carrier.Options{Name: "bell-1", OnTerm: box.Term, Logger: discard})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	wait(t, root, "/ui/outbox", `<td class="n nil" data-label="Waiting">0</td><td class="n nil" data-label="Oldest">–</td>`).says(">bell-1</td>", " UTC</td>").hides("nobody")
}

// What is refused is listed in pages, of several outboxes with their databases, or of one.
func TestOutboxPages(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	server, away := databasetest.Server(t)
	one, two := refusing(t, store, databasetest.Database(t), 49), refusing(t, store, away, 2)
	v := withOutboxes(t, store, httpapi.Options{}, one, two).visitor()
	page := v.get("/ui/outbox").is(http.StatusOK).says(">r49</th>", "Next page", ">"+one.Address()+"</td>", ">"+two.Address()+"</td>")
	if n := strings.Count(page.body, "checkbox"); n != 50 {
		t.Errorf("%d rows are on the page, want 50", n)
	}
	next := page.body[strings.Index(page.body, `href="outbox?cursor`)+len(`href="`):]
	next, _, _ = strings.Cut(next, `"`)
	last := v.get(next).is(http.StatusOK).says("First page", ">r2</th>").hides("Next page", ">r3</th>")
	if n := strings.Count(last.body, "checkbox"); n != 1 {
		t.Errorf("%d rows are on the last page, want 1", n)
	}
	of := "/ui/outbox?database=" + url.QueryEscape(two.Address())
	page.says(`<a href="` + fromRoot(of) + `"`)
	if n := strings.Count(v.get(of).is(http.StatusOK).says("Refused in "+two.Address(), ">r2</th>").body, "checkbox"); n != 2 {
		t.Errorf("%d rows are of the second outbox, want 2", n)
	}
	member := two.member("r1")
	server.Stop()
	for _, path := range []string{of, "/ui/outbox"} {
		wait(t, v, path, "start PostgreSQL there").is(http.StatusOK).says("The outbox cannot answer: Its database does not answer").hides("Nothing is refused")
		wait(t, v, path, `class="late"><span aria-hidden="true">▲</span> outbox at `+two.Address())
	}
	v.get("/ui/outbox?database=" + url.QueryEscape(one.Address())).is(http.StatusOK).says(">r49</th>")
	v.act("/ui/outbox?database="+url.QueryEscape(one.Address()), "/ui/acts/outbox", "retry", member).is(http.StatusServiceUnavailable).says("The outbox cannot answer", "start PostgreSQL there")
}

// Each act is of one message, of those that are ticked, or of all; a purge asks first.
func TestOutboxActs(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	one, two := refusing(t, store, databasetest.Database(t), 4), refusing(t, store, databasetest.Database(t), 2)
	s := withOutboxes(t, store, httpapi.Options{}, one, two)
	v := s.visitor()
	act := func(pairs ...string) shown { return v.act("/ui/outbox", "/ui/acts/outbox", pairs...) }
	act("retry", one.member("r2")).did("Retried 1 refused message", "/ui/outbox")
	one.holds("w r2 | r1 r3 r4")
	gone := one.member("r2")
	act("retry", gone).is(http.StatusNotFound).says("is refused, so nothing was changed")
	act("retry", "ticked").is(http.StatusUnprocessableEntity).says("0 messages are ticked")
	act("retry", "ticked", "m", one.member("r1"), "m", gone).is(http.StatusNotFound)
	act("retry", "ticked", "m", "1:"+one.Address()+"x").is(http.StatusUnprocessableEntity).says("no outbox is there")
	act("retry", "none").is(http.StatusUnprocessableEntity)
	act("m", one.member("r1")).is(http.StatusUnprocessableEntity).says("a button named retry or purge")
	act("purge", one.member("r1")).is(http.StatusOK).says("Purge the refused row 1 of "+one.Address()+"?", "cannot be undone")
	act("purge", "ticked", "m", one.member("r1"), "m", two.member("r1")).is(http.StatusOK).says("Purge 2 refused messages?")
	act("purge", "all").is(http.StatusOK).says("Purge all that is refused?")
	act("purge", "all", "database", two.Address()).is(http.StatusOK).says("Purge all that is refused in " + two.Address())
	one.holds("w r2 | r1 r3 r4")
	two.holds("w | r1 r2")
	act("purge", "ticked", "m", one.member("r1"), "m", two.member("r1"), "sure", "1").did("Purged 2 refused messages", "/ui/outbox")
	one.holds("w r2 | r3 r4")
	two.holds("w | r2")
	act("retry", "all", "database", one.Address()).did("Retried 2 refused messages", "/ui/outbox")
	one.holds("w r2 r3 r4 | ")
	databasetest.Exec(t, one.url, "UPDATE bellhop.outbox SET refused = 'again'")
	act("purge", "all", "sure", "1").did("Purged 5 refused messages", "/ui/outbox")
	one.holds(" | ")
	two.holds("w | ")
	if log := s.log.String(); !strings.Contains(log, `what="Purged 5 refused messages" count=5`) {
		t.Errorf("the log is %s", log)
	}
}

// Acts need the right admin to all topics: for all others they change nothing.
func TestOutboxActsNeedRights(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	box := refusing(t, store, databasetest.Database(t), 2)
	file := tokensFile + "some some-token-0123456789 admin order.>\n"
	s := withOutboxes(t, store, httpapi.Options{TokensFile: writeTokens(t, file)}, box)
	some := s.visitor()
	some.post("/ui/login", "token", "some-token-0123456789").is(http.StatusSeeOther)
	for _, v := range []*visitor{some, s.login("metrics")} {
		for _, button := range []string{"retry", "purge"} {
			for _, value := range []string{"all", "ticked", box.member("r1")} {
				v.post("/ui/acts/outbox", v.formOf("/ui/topics", button, value, "m", box.member("r2"), "sure", "1")...).is(http.StatusForbidden)
			}
		}
	}
	box.holds("w | r1 r2")
}

// Without JavaScript one message, those that are ticked and all are retried and purged; with it one button ticks all.
func TestOutboxInABrowser(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	box := refusing(t, store, databasetest.Database(t), 7)
	s := withOutboxes(t, store, httpapi.Options{}, box)
	p := s.browse("/ui/outbox", consoletest.Look{NoScript: true})
	press := func(button, value, did string) {
		t.Helper()
		p.Loads(func() { p.Click(fmt.Sprintf("button[name=%s][value='%s']", button, value)) })
		if button == "purge" {
			p.Await("h1", "Purge ")
			p.Loads(func() { p.Click("main button.grave") })
		}
		p.Await("[role=status]", did)
	}
	tick := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			p.Click("input[aria-label='order.a " + id + "']")
		}
	}
	press("retry", box.member("r1"), "Retried 1 refused message")
	press("purge", box.member("r2"), "Purged 1 refused message")
	tick("r3", "r4")
	press("retry", "ticked", "Retried 2 refused messages")
	tick("r5")
	press("purge", "ticked", "Purged 1 refused message")
	box.holds("w r1 r3 r4 | r6 r7")
	press("retry", "all", "Retried 2 refused messages")
	p.Await("section", "Nothing is refused.")
	databasetest.Exec(t, box.url, "UPDATE bellhop.outbox SET refused = 'again' WHERE id <> 'w'")
	p.Look(consoletest.Look{})
	p.Go(s.url + "/ui/outbox")
	p.Streams()
	p.Click("button[data-tick]")
	databasetest.Exec(t, box.url, "SELECT bellhop.publish('order.a', id => 'later')")
	p.Until("the stream shows what came", "document.querySelector('#live td').innerText === '2'")
	press("retry", "ticked", "Retried 5 refused messages") // which stayed ticked
	box.holds("w later r1 r3 r4 r6 r7 | ")
	databasetest.Exec(t, box.url, "UPDATE bellhop.outbox SET refused = 'again'")
	p.Go(s.url + "/ui/outbox")
	press("purge", "all", "Purged 7 refused messages")
	box.holds(" | ")
}

// The first page says what the doctor finds of an outbox, with the remedy, and leads to the page, until it is mended.
func TestOverviewShowsTheOutbox(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes")
	store := storetest.At(t, server.URL(), "sound")
	box := refusing(t, store, databasetest.Database(t), 1)
	databasetest.Exec(t, box.url, "UPDATE bellhop.outbox SET called = called - interval '3 min'")
	s := withOutboxes(t, store, httpapi.Options{TokensFile: writeTokens(t, tokensFile)}, box)
	root := s.login("root")
	wait(t, root, "/ui/", `<a href="outbox">outbox: `+box.Address()+" has no relay: 1 wait, the oldest for 3m; 1 refused</a>").
		says("→</span> start a daemon with BELLHOP_OUTBOX_URL: bellhop serve", `<a href="outbox">outbox: `+box.Address()+" holds what cannot be published: 1 wait", "see why, and then publish it again or delete it").hides("Nothing is wrong")
	c, err := carrier.New(store, carrier.Options{OnTerm: box.Term, Logger: discard})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "what waits is relayed", func() bool { return box.Stats().Relayed == 1 })
	root.act("/ui/outbox", "/ui/acts/outbox", "purge", "all", "sure", "1").did("Purged 1 refused message", "/ui/outbox")
	storetest.Eventually(t, "the doctor looked again", func() bool {
		page := root.get("/ui/").body
		return !strings.Contains(page, "The doctor is looking") && !strings.Contains(page, `href="outbox">outbox`)
	})
	s.login("metrics").get("/ui/").is(http.StatusOK).hides("cannot be published")
}
