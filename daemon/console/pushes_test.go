package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const pushSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// putPush puts a push of topics to a URL, as it is changed.
func putPush(t testing.TB, db *notify.Store, name string, change func(*store.Push), topics ...string) {
	t.Helper()
	p := store.Push{Topics: topics, URL: "https://" + name + ".example/hook?token=hidden-7", Secrets: []string{pushSecret}}
	change(&p)
	if err := db.Home().ChangePush(t.Context(), name, func(*store.Push) (*store.Push, error) { return &p, nil }); err != nil {
		t.Fatal(err)
	}
}

func asPut(*store.Push) {}

// fails has the endpoint of a push fail.
func fails(p *store.Push) {
	p.Failing = &store.PushFailure{Since: time.Now().Add(-time.Hour), Answer: "HTTP 500 Internal Server Error: " + hostile[0]}
}

// pushSome puts pushes of topics of a store that has something to show.
func pushSome(t testing.TB, db *notify.Store) {
	t.Helper()
	putPush(t, db, "crm", fails, "order.slow", "order.timeout")
	if err := db.Home().PushTried(t.Context(), "crm", time.Hour, "HTTP 502 Bad Gateway: "+hostile[1]); err != nil {
		t.Fatal(err)
	}
	putPush(t, db, "held", func(p *store.Push) { p.Paused = "by ops" }, "invoice.held")
	putPush(t, db, "jobs", func(p *store.Push) { p.URL, p.Secrets, p.To = "", nil, "nats:jobs.>" }, "report.nightly")
	putPush(t, db, "prices", func(p *store.Push) { p.Broadcasts = true }, "prices.>")
}

// Without a push the page says how to make one; with some it lists them, those that fail first, without their secrets.
func TestPushes(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	v.get("/ui/pushes").is(http.StatusOK).says("No push yet", `href="put/push"`, `<a href="pushes" aria-current="page">`)
	pushSome(t, s.store)
	storetest.Publish(t, s.store, message("order.slow", "x"))
	if _, err := subscriberstest.Claimer(t, s.store).Claim(t.Context(), "order.slow", subscribers.ClaimOptions{Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	page := wait(t, v, "/ui/pushes", `<span class="late">fails</span></td><td class="n" data-label="In flight">1</td>`).is(http.StatusOK)
	page.says("https://crm.example/hook?…", "order.slow, order.timeout", `<td class="n" data-label="Failing for">1 h`, "HTTP 502 Bad Gateway: &#34;&gt;&lt;img src=x", "nats:jobs.&gt;", `<span class="paused">paused</span>`, `name="resume" value="held"`, `href="pushes/prices"`)
	page.hides("whsec", "hidden-7", "<img src=x")
	at := 0
	for _, row := range []string{"push:crm", "push:jobs", "push:prices", "push:held"} {
		next := strings.Index(page.body, row)
		if next < at {
			t.Errorf("%s is at %d, behind %d", row, next, at)
		}
		at = next
	}
	for _, name := range []string{"crm", "held", "jobs", "prices"} {
		page := v.get("/ui/pushes/"+name).is(http.StatusOK).says("<title>"+name, `name="test" value="`+name, `name="delete"`)
		page.hides("whsec", "hidden-7")
	}
	v.get("/ui/pushes/crm").says("Its endpoint has failed for 1 h", "use up no attempts", "HTTP 502 Bad Gateway: &#34;", "<dt>Asked again</dt><dd>in 59 min", "<dt>In flight</dt><dd>1</dd>", `href="topics/order.slow"`, `<a href="topics/order.timeout">order.timeout</a></th><td class="at state">ok</td>`, "1, never shown", "32 of a topic, by each daemon").hides("<img src=x")
	v.get("/ui/pushes/held").says("Paused, by ops", `name="resume"`).hides("Asked again")
	v.get("/ui/pushes/jobs").says("No daemon sends it: run one with BELLHOP_NATS_URL", "nats:jobs.&gt;").hides("never shown")
	v.get("/ui/pushes/prices").says("broadcasts of", "prices.&gt;", "1 by each daemon").hides(`href="topics/prices`)
	v.get("/ui/pushes/none").is(http.StatusNotFound).says("No such push")
	v.get("/ui/pushes/%3Cb%3E").is(http.StatusUnprocessableEntity).hides("<b>")
	wait(t, v, "/ui/", "pushes: crm: its endpoint fails since 1h ago").says(`href="pushes/crm"`).hides("whsec", "hidden-7")
	storetest.Publish(t, s.store, message("ship.a", "x"), message("ship.b", "x"), message("ship.b.c", "x"))
	if _, err := subscriberstest.Claimer(t, s.store).Claim(t.Context(), "ship.b", subscribers.ClaimOptions{Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	putPush(t, s.store, "ship", asPut, "ship.*")
	wait(t, v, "/ui/pushes/ship", `href="topics/ship.b"`).says("ship.*", `href="topics/ship.a"`, "<dt>In flight</dt><dd>1</dd>").hides("ship.b.c", "There are others")
	storetest.Run(t, func(ctx context.Context) error {
		s.store.Subscribe(ctx, func(store.Event) {}, s.store.Home().PushersChannel(false)) // as a daemon that may send it
		return nil
	})
	wait(t, v, "/ui/pushes", `<span class="ok">works</span></td><td class="n" data-label="In flight">1</td>`)
	putPush(t, s.store, "erp", fails, "erp")
	wait(t, v, "/ui/", "pushes: erp: its endpoint fails").says("pushes: crm: its endpoint fails")
}

// Of a topic whose push has its messages wait it is said why, to who may not see the push without its name, and not that nobody waits.
func TestTopicsOfPushesThatWait(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile)})
	putPush(t, s.store, "crm", fails, "order.a")
	if err := s.store.Home().PushTried(t.Context(), "crm", time.Hour, "HTTP 502 Bad Gateway"); err != nil {
		t.Fatal(err)
	}
	putPush(t, s.store, "held", func(p *store.Push) { p.Paused = "by ops" }, "order.held.*")
	putPush(t, s.store, "shut", asPut, "order.shut")
	if err := s.store.Home().ClosePush(t.Context(), "shut", time.Hour, "HTTP 429 Too Many Requests"); err != nil {
		t.Fatal(err)
	}
	putPush(t, s.store, "left", asPut, "order.left")
	all := []string{"order.a", "order.held.b", "order.shut", "order.left"}
	for _, topic := range all {
		storetest.Publish(t, s.store, message(topic, "x"))
	}
	root, shop := s.login("root"), s.login("shop")
	for i, why := range []string{
		`its push <a href="pushes/crm">crm</a> has failed for 1 h, and is asked again in 59 min`, `its push <a href="pushes/held">held</a> is paused, by ops`,
		`its push <a href="pushes/shut">shut</a> wants no request for 59 min`, `its push <a href="pushes/left">left</a> is sent by no daemon`,
	} {
		root.get("/ui/topics/" + all[i]).says(why).hides("nobody waits")
	}
	shop.get("/ui/topics/order.a").says("its push fails").hides("crm", "nobody waits")
	for _, v := range []*visitor{root, shop} {
		v.get("/ui/topics").says("its push fails<", "its push is paused<", "its push is closed<", "no daemon sends its push<").hides("nobody waits")
	}
	wait(t, root, "/ui/", `late">late, its push fails</td>`).says("pushes: crm: its endpoint fails since 1h ago").hides("obody waits")
}

// serveWith is serve, of a daemon that may push to some addresses.
func serveWith(t testing.TB, allow string, o httpapi.Options) *site {
	t.Helper()
	db := storetest.Open(t)
	service, err := calls.NewService(db, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Service = service
	s := serve(t, db, o)
	if service.Pusher, err = push.New(db, push.Options{Allow: allow}); err != nil { // behind the gateway, as in the daemon
		t.Fatal(err)
	}
	return s
}

// What a button says is done to the push of its row, by who may; a push is deleted once that was confirmed.
func TestPushActs(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"clerk clerk-token-0123456789 push order.>\n")})
	putPush(t, s.store, "crm", fails, "order.a", "order.b")
	putPush(t, s.store, "mixed", fails, "order.c", "secret.b")
	putPush(t, s.store, "wide", func(p *store.Push) { p.Broadcasts = true }, ">")
	clerk := s.visitor()
	clerk.post("/ui/login", "token", "clerk-token-0123456789").is(http.StatusSeeOther)
	const list, path, acts = "/ui/pushes", "/ui/pushes/crm", "/ui/acts/pushes"
	clerk.get(list).is(http.StatusOK).says("order.a").hides("mixed", "secret.b", "wide")
	wait(t, clerk, "/ui/", "pushes: crm: its endpoint fails").hides("mixed")
	for _, other := range []string{"mixed", "wide"} {
		clerk.get("/ui/pushes/"+other).is(http.StatusForbidden).hides("secret.b", ".example")
		for _, button := range []string{"pause", "resume", "test", "delete"} {
			clerk.act(list, acts, button, other, "sure", "1").is(http.StatusForbidden)
		}
	}
	clerk.act(path, acts, "pause", "crm").did("Paused the push crm", path)
	clerk.get(path).says("Paused, by clerk", `name="resume"`)
	clerk.get("/ui/").hides("push crm has failed")
	clerk.act(list, acts, "resume", "crm").did("Resumed the push crm", list)
	clerk.get(path).hides("Paused, by")
	clerk.act(path, acts, "test", "crm").is(http.StatusNotFound).says("The daemon pushes to no URL")
	clerk.act(path, acts, "pause", "none").is(http.StatusNotFound).says("No such push")
	clerk.act(path, acts, "pause", "<b>").is(http.StatusUnprocessableEntity).hides("<b>")
	clerk.act(path, acts).is(http.StatusUnprocessableEntity).says("go back, and take one")
	clerk.post(acts, "delete", "crm", "sure", "1").is(http.StatusConflict) // without the fields of a page's form
	clerk.act(path, acts, "delete", "crm").is(http.StatusOK).says("Delete the push crm? Its messages stay as they are.")
	clerk.get(path).is(http.StatusOK)
	clerk.act(path, acts, "delete", "crm", "sure", "1").did("Deleted the push crm", list)
	clerk.get(path).is(http.StatusNotFound)
	if log := s.log.String(); !strings.Contains(log, `token=clerk act="change a push" what="Paused the push crm"`) || strings.Contains(log, "whsec") {
		t.Errorf("logged: %s", log)
	}

	shop := s.login("shop") // without the right
	shop.get("/ui/").hides(`href="pushes"`, "has failed")
	for _, path := range []string{list, "/ui/pushes/wide"} {
		shop.get(path).is(http.StatusForbidden)
	}
	shop.act("/ui/topics", acts, "delete", "wide", "sure", "1").is(http.StatusForbidden)
	s.login("root").get("/ui/pushes/wide").is(http.StatusOK)
}

// A push is tested from its page, which says what its endpoint answered.
func TestPushIsTested(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusOK)
	got := make(chan string, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("Bellhop-Topic") + " " + string(body)
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "<b>")
	}))
	t.Cleanup(endpoint.Close)
	s := serveWith(t, "127.0.0.1", httpapi.Options{})
	putPush(t, s.store, "crm", func(p *store.Push) { p.URL = endpoint.URL }, "order.a")
	v := s.visitor()
	const path = "/ui/pushes/crm"
	v.act(path, "/ui/acts/pushes", "test", "crm").leads(path)
	if one := storetest.Receive(t, "it is tested", got); one != `order.a {"test":true}` {
		t.Errorf("got %q", one)
	}
	v.get(path).says("Tested the push crm, which took ", ": HTTP 200 OK: &lt;b&gt;").hides("<b>")
	status.Store(http.StatusInternalServerError)
	v.act(path, "/ui/acts/pushes", "test", "crm").is(http.StatusBadGateway).says("The test of crm failed", "HTTP 500 Internal Server Error: &lt;b&gt;").hides("<b>", "whsec")
}

// A push is paused and deleted in a browser, with and without scripts.
func TestPushInABrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	putPush(t, s.store, "crm", asPut, "bills")
	p := s.browse("/ui/pushes", consoletest.Look{})
	p.Streams()
	p.Click("td summary")
	p.Loads(func() { p.Click("button[name=pause]") })
	p.Await("[role=status]", "Paused the push crm")
	p.Look(consoletest.Look{NoScript: true})
	p.Go(s.url + "/ui/pushes/crm")
	p.Until("what is grave is put away", "document.querySelector('button[name=delete]').checkVisibility() === false")
	p.Click(".menu summary")
	p.Loads(func() { p.Click("button[name=delete]") })
	p.Await("h1", "Delete the push crm")
	p.Loads(func() { p.Click("button.grave") })
	p.Await("[role=status]", "Deleted the push crm")
}
