package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// inertOnly are texts that run something where a page does not escape them.
var inertOnly = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg/onload=alert(1)>`, `javascript:alert(1)`, `</textarea><script>alert(1)</script>`,
	`{{.Viewer}}`, "</pre><b>bold</b>", "]]><!--", `<iframe srcdoc="<script>alert(1)</script>">`, "\u202egnp.exe", "a\rdata: b\x00\x1b[2J",
}

// act sends a form of a page, which has the fields edition and once.
func (v *visitor) act(page, path string, pairs ...string) shown {
	v.t.Helper()
	return v.post(path, v.formOf(page, append(pairs, "back", fromRoot(page))...)...)
}

// formOf returns pairs with the fields edition and once of a page.
func (v *visitor) formOf(page string, pairs ...string) []string {
	v.t.Helper()
	form := v.get(page)
	return append(pairs, "edition", form.field(editionField), "once", form.field(onceField))
}

func TestTopicsSort(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store,
		notify.Message{Topic: "b.ready", ID: "1"}, notify.Message{Topic: "b.ready", ID: "2"}, notify.Message{Topic: "a.one", ID: "1"},
		notify.Message{Topic: "c.later", ID: "1", Delay: time.Hour})
	v := s.visitor()
	for sort, want := range map[string][]string{
		"name":    {"a.one", "b.ready", "c.later"},
		"ready":   {"b.ready", "a.one", "c.later"},
		"overdue": {"b.ready", "c.later"},
		"dead":    {"a.one"},
		"rate":    {"b.ready"},
	} {
		page := v.get("/ui/topics?sort=" + sort).is(http.StatusOK)
		at := -1
		for _, topic := range want {
			next := strings.Index(page.body, ">"+topic+"</a>")
			if next <= at {
				t.Errorf("sort %s: %s is at %d, behind %d", sort, topic, next, at)
			}
			at = next
		}
	}
	v.get("/ui/topics?pattern=b.*").is(http.StatusOK).says("b.ready").hides("a.one", "c.later")
	v.get("/ui/topics?pattern=x.y").is(http.StatusOK).says("No topic", `href="topics/x.y"`)
	v.get("/ui/topics?pattern=%22%3E%3Cscript%3E").is(http.StatusUnprocessableEntity).says("pattern").hides("<script>alert", `"><script>`)
	v.get("/ui/topics?sort=size").is(http.StatusUnprocessableEntity).says("use overdue, ready, dead, rate or name")
	v.get("/ui/topics?sort=name&after=%00").is(http.StatusUnprocessableEntity).says("follow the links")
}

// A topic whose messages no carrier made ready is late, in the list and on its page.
func TestTopicWithoutCarrier(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store, notify.Message{Topic: "bills", ID: "1", Delay: time.Hour})
	due := redis.Z{Score: float64(time.Now().Add(-2 * time.Hour).UnixMilli()), Member: "bills:1"}
	if err := s.store.Client().ZAddXX(t.Context(), s.store.KeysOf("bills").Scheduled("bills"), due).Err(); err != nil {
		t.Fatal(err)
	}
	v := s.visitor()
	v.get("/ui/topics?sort=name").is(http.StatusOK).says(`<td class="n late" data-label="Overdue">2 h</td>`)
	v.get("/ui/topics/bills").is(http.StatusOK).says("Late: no carrier made ready what has been due for 2 h")
}

// A topic of which a worker has had a message for long says so, in the list and on its page.
func TestTopicWithAnOldLease(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store, notify.Message{Topic: "mail", ID: "1"})
	claimer := subscriberstest.Claimer(t, s.store, subscribers.ClaimerOptions{Name: "mailer-1"})
	ds, err := claimer.Claim(t.Context(), "mail", subscribers.ClaimOptions{Lease: time.Hour})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	client, claims := s.store.Client(), s.store.KeysOf("mail").Claims()
	all, err := client.ZRangeWithScores(t.Context(), claims, 0, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	base, since := strings.Fields(all[0].Member.(string))[0], time.Now().Add(-20*time.Minute).UnixMilli()
	client.Del(t.Context(), claims)
	if err := client.ZAdd(t.Context(), claims, redis.Z{Score: all[0].Score, Member: fmt.Sprintf("%s %d mail mailer-1", base, since)}).Err(); err != nil {
		t.Fatal(err)
	}
	v := s.visitor()
	v.get("/ui/topics?sort=name").is(http.StatusOK).says(`<td class="n" data-label="Leased">1 for 20 min</td>`)
	v.get("/ui/topics/mail").is(http.StatusOK).says("<dd>1 for 20 min</dd>")
}

func TestTopicsPage(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Fill(t, s.store, 120, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprintf("t%03d", i), ID: "1"} })
	v := s.visitor()
	v.get("/ui/topics?sort=name").says("t000", "t049", "after=t049").hides("t050", "First page")
	v.get("/ui/topics?sort=name&after=t099").says("t100", "t119", "First page").hides("Next page")
	v.get("/ui/topics?sort=ready&page=2").says("Page before", "page=3")
	v.get("/ui/topics?sort=ready&page=99").says("page=2").hides("Next page")
}

// The page of a topic lists the keys that wait longest, and behind what; who may not see its messages sees no key.
func TestKeysOfATopic(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	for _, id := range []string{"tx-1", "tx-2", "tx-3"} {
		storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: id, Key: "acct-7"})
	}
	s.login("root").get("/ui/topics/order.a").is(http.StatusOK).
		says("Blocked, of 1 key<", "Keys that wait longest", `<tr id="key:acct-7">`, "key%3Aacct-7", "tx-1, ready")
	s.login("reader").get("/ui/topics/order.a").is(http.StatusOK).says("Blocked, of 1 key<").hides("acct-7", "tx-1")
}

func TestTopicsOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1"}, notify.Message{Topic: "secret.b", ID: "1"})
	for name, v := range map[string]*visitor{"shop": s.login("shop"), "reader": s.login("reader")} {
		for _, query := range []string{"", "?sort=name", "?sort=ready", "?sort=rate", "?pattern=secret.*", "?pattern=*.b", "?sort=name&pattern=%3E"} {
			v.get("/ui/topics"+query).is(http.StatusOK).hides("secret.b", "topics/secret", `name="pause"`)
		}
		v.get("/ui/topics?pattern=*.a").is(http.StatusOK).says("order.a")
		v.get("/ui/topics/secret.b").is(http.StatusForbidden).hides("Ready")
		v.act("/ui/topics", "/ui/acts/topics", "pause", "order.a").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/topics/secret.b", "body", "x").is(http.StatusForbidden)
		if name == "reader" {
			v.get("/ui/topics/order.a").is(http.StatusOK).hides("<textarea", "Due next", "dead?topic")
			v.act("/ui/topics/order.a", "/ui/topics/order.a", "body", "x").is(http.StatusForbidden)
		}
	}
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Paused || c.Published != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
}

// A pause that ends by itself is shown with that time.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1"})
	end, err := store.PauseUntil(t.Context(), s.store, "order.a", store.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	v, until := s.login("root"), "until "+end.Format("2006-01-02 15:04:05.000 UTC")
	v.get("/ui/topics/order.a").says("Paused " + until + ": nothing is handed out")
	age(t, s.store, "order.a")
	wait(t, v, "/ui/", "paused: order.a: paused for ").says("until " + end.Format(time.RFC3339) + ", 1 ready")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1"})
	v := s.login("root")
	v.act("/ui/topics", "/ui/acts/topics", "pause", "order.a").did("Paused order.a", "/ui/topics")
	v.get("/ui/topics").says("Paused order.a", `name="resume" value="order.a"`)
	v.get("/ui/topics/order.a").says("Paused: nothing is handed out")
	v.act("/ui/topics/order.a", "/ui/acts/topics", "resume", "order.a").did("Resumed order.a", "/ui/topics/order.a")
	v.get("/ui/topics/order.a").hides("nothing is handed out,")
	v.act("/ui/topics", "/ui/acts/topics", "pause", "<b>").is(http.StatusUnprocessableEntity).hides("<b>")
	v.act("/ui/topics", "/ui/acts/topics").is(http.StatusUnprocessableEntity)
	if log := s.log.String(); !strings.Contains(log, `token=root act="pause or resume" what="Paused order.a" count=1`) {
		t.Errorf("the log lacks the act: %s", log)
	}
}

func TestPublishFromTheForm(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	const topic = "/ui/topics/order.new"
	form := v.get(topic).is(http.StatusOK)
	fields := []string{
		"edition", form.field(editionField), "once", form.field(onceField), "back", fromRoot(topic), "mode", "message",
		"body", "line 1\r\nline 2", "delay", "1h", "headers", "Tenant: acme\r\nTrace: a:b", "content_type", "text/plain",
	}
	v.post(topic, fields...).is(http.StatusSeeOther)
	v.post(topic, fields...).is(http.StatusConflict).says("sent before")
	id := form.field(onceField)
	info, err := storetest.Inspector(t, s.store).Inspect(t.Context(), "order.new", id)
	if err != nil || string(info.Body) != "line 1\nline 2" || info.Headers["Tenant"] != "acme" || info.Headers["Trace"] != "a:b" || info.ContentType != "text/plain" || info.State != notify.Scheduled {
		t.Errorf("got %+v, %v", info, err)
	}
	v.get(topic).says(id, "Due next")
	for what, refused := range map[string][]string{
		"delay":   {"delay", "soon", "body", "kept text"},
		"both":    {"delay", "1h", "due", "2030-01-02T15:04:05Z"},
		"NAME":    {"headers", "no colon"},
		"in use":  {"id", id},
		"content": {"content_type", "text\u0000"},
	} {
		v.act(topic, topic, append(refused, "mode", "message", "body", what)...).is(http.StatusUnprocessableEntity).says(what, "Nothing was published", refused[0])
	}
	v.act(topic, topic, "mode", "broadcast", "body", "42", "id", "b1", "delay", "1h").is(http.StatusSeeOther)
	v.get(topic).says("Broadcasts due next", "b1")
}

// What waits for a group is published with the form by whoever may use the topic of the group, too.
func TestPublishAfterGroup(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"keeper keeper-token-0123456789 admin order.>\n")})
	storetest.Publish(t, s.store, notify.Message{Topic: "row", ID: "a", Group: "g", Delay: time.Hour})
	const topic = "/ui/topics/order.new"
	fields := []string{"mode", "message", "body", "x", "id", "done", "after_group", "row:g"}
	keeper, root := s.visitor(), s.visitor()
	keeper.post("/ui/login", "token", "keeper-token-0123456789").is(http.StatusSeeOther)
	keeper.act(topic, topic, fields...).is(http.StatusForbidden).says("may not use the topic row")
	if _, err := storetest.Inspector(t, s.store).Inspect(t.Context(), "order.new", "done"); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("inspected, it says %v", err)
	}
	root.post("/ui/login", "token", tokens["root"]).is(http.StatusSeeOther)
	root.act(topic, topic, fields...).is(http.StatusSeeOther)
	if info, err := storetest.Inspector(t, s.store).Inspect(t.Context(), "order.new", "done"); err != nil || info.Left == nil || *info.Left != 1 {
		t.Errorf("got %+v, %v", info, err)
	}
}

// A body as large as it may be fits into a form, whatever it has, and a larger one is refused with a reason.
func TestPublishLargeBodies(t *testing.T) {
	t.Parallel()
	s := open(t)
	const topic, lines = "/ui/topics/order.new", notify.DefaultMaxBody / 8
	large := strings.Repeat("{é:\"x\n", lines) // each byte but x grows threefold in a URL, and the end of a line is sent as two
	if len(large) != 7*lines {
		t.Fatal(len(large))
	}
	page := s.browse(topic, consoletest.Look{Width: 1400})
	page.Expect("422")
	page.Expect("413")
	publish := func(path, text, selector, says string) {
		t.Helper()
		page.Go(s.url + path)
		if path != topic {
			page.Type("input[name=topic]", "order.new")
		}
		page.Eval(`document.querySelector("textarea[name=body]").style.display = "none"`, nil) // to draw it takes seconds
		page.Eval(`document.querySelector("textarea[name=body]").value = `+text, nil)
		page.Loads(func() { page.Click("form.card p button") })
		page.Await(selector, says)
	}
	publish(topic, fmt.Sprintf(`"{é:\"x\n".repeat(%d)`, lines), "[role=status]", "Published ")
	publish(topic, fmt.Sprintf(`"\n".repeat(%d)`, notify.DefaultMaxBody), "[role=status]", "Published ")
	publish(topic, fmt.Sprintf(`"é".repeat(%d)`, notify.DefaultMaxBody/2+1), ".card .fault", "Nothing was published")
	publish(topic, fmt.Sprintf(`"é".repeat(%d)`, 4*notify.DefaultMaxBody), ".fault:not(#lost)", "a body may have 256.0 KiB. Nothing was done.")
	publish("/ui/broadcasts", fmt.Sprintf(`"{é:\"x\n".repeat(%d)`, lines), "[role=status]", "Broadcast ")
	found, err := storetest.Inspector(t, s.store).List(t.Context(), "order.new", notify.Ready, 10, "")
	if err != nil || len(found.Messages) != 2 || string(found.Messages[0].Body) != large || len(found.Messages[1].Body) != notify.DefaultMaxBody {
		t.Errorf("got %d messages, %v", len(found.Messages), err)
	}
}

// A daemon that takes smaller bodies takes no larger ones from its pages.
func TestPublishBodyOfTheDaemon(t *testing.T) {
	t.Parallel()
	v := serve(t, storetest.Open(t), httpapi.Options{MaxBody: 8}).visitor()
	for _, mode := range []string{"message", "broadcast"} {
		v.act("/ui/topics/x", "/ui/topics/x", "mode", mode, "body", "12345678").is(http.StatusSeeOther)
		v.act("/ui/topics/x", "/ui/topics/x", "mode", mode, "body", "123456789").is(http.StatusUnprocessableEntity).says("9 bytes", "at most 8")
	}
}

func TestHostileTextIsInertOnTopics(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	for i, text := range inertOnly {
		storetest.Publish(t, s.store, notify.Message{Topic: "x", ID: fmt.Sprint(i), Body: []byte(text), Delay: time.Hour})
		v.act("/ui/topics/x", "/ui/topics/x", "body", text, "id", text, "headers", text, "due", text).is(http.StatusUnprocessableEntity).
			hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe")
	}
	v.get("/ui/topics/x").is(http.StatusOK).hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe")
}

// Characters that break a line, or turn what follows, are shown as escapes also where a page repeats what it was asked.
func TestAskedForTextIsLegible(t *testing.T) {
	t.Parallel()
	s := open(t)
	const odd = "a\u2028b\u2029c\u0085d\u202ee"
	storetest.Publish(t, s.store, notify.Message{Topic: "t", ID: "1"})
	v := s.visitor()
	for path, shown := range map[string]string{
		"/ui/dead/letters?topic=t&reason=" + urlOf(odd):        "<strong>",
		"/ui/find/act?act=cancel&q=" + urlOf(`body~"`+odd+`"`): "<code>",
	} {
		page := v.get(path).is(http.StatusOK)
		_, text, _ := strings.Cut(page.body, shown)
		text, _, _ = strings.Cut(text, "</")
		if !strings.Contains(text, `a\u2028b\u2029c\u0085d\u202ee`) {
			t.Errorf("%s shows %q", path, text)
		}
	}
}

func TestTenThousandTopics(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Fill(t, s.store, 10_000, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprintf("t.%05d", i), ID: "1"} })
	v := s.visitor()
	for _, query := range []string{"", "?sort=ready", "?sort=dead", "?sort=rate", "?sort=name", "?sort=name&after=t.05000", "?sort=overdue&pattern=t.*"} {
		began := time.Now()
		page := v.get("/ui/topics" + query).is(http.StatusOK)
		t.Logf("%s: %v", query, time.Since(began))
		if n := strings.Count(page.body, `name="pause"`); n != 50 {
			t.Errorf("%s: %d topics", query, n)
		}
		if strings.Contains(query, "name") == strings.Contains(page.body, "These are compared") {
			t.Errorf("%s: what it covers is missing, or wrong", query)
		}
	}
}

func TestTopicsOverShards(t *testing.T) {
	t.Parallel()
	store := storetest.Sharded(t, 8)
	s := serve(t, store, httpapi.Options{})
	storetest.Fill(t, store, 60, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprintf("t%02d", i), ID: "1"} })
	v := s.visitor()
	v.get("/ui/topics?sort=name").is(http.StatusOK).says("t00", "t49").hides("missing")
	v.get("/ui/topics?sort=ready&page=2").is(http.StatusOK).says("Page before")
	v.get("/ui/topics/t07").is(http.StatusOK).says("1 ready")
}

func TestTopicsWithoutAShard(t *testing.T) {
	t.Parallel()
	const away = 3
	store := storetest.ShardAway(t, 8, away)
	s := serve(t, store, httpapi.Options{})
	here, gone := topicsBeside(t, store, away)
	storetest.Publish(t, store, notify.Message{Topic: here, ID: "1"})
	v := s.visitor()
	for _, query := range []string{"?sort=name", "?sort=ready"} {
		v.get("/ui/topics"+query).is(http.StatusOK).says("Shard 3 is missing", here)
	}
	v.get("/ui/topics/" + here).is(http.StatusOK).says("1 ready")
	v.get("/ui/topics/" + gone).is(http.StatusServiceUnavailable)
}

// topicsBeside returns a topic of a shard that is there, and one of that which is away.
func topicsBeside(t *testing.T, store *notify.Store, away int) (here, gone string) {
	t.Helper()
	for i := 0; here == "" || gone == ""; i++ {
		topic := fmt.Sprintf("t%d", i)
		shard, err := store.ShardOf(context.Background(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if shard.Number() == away {
			gone = topic
		} else {
			here = topic
		}
	}
	return here, gone
}

func TestTopicsInABrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1"})
	for _, look := range []consoletest.Look{{Width: 1400}, {Width: 320, Dark: true}} {
		page := s.browse("/ui/topics", look)
		page.Await("tbody", "order.a")
		page.Until("the rates are known", `document.querySelector('td[data-label="A second"]').textContent === '0'`)
		page.Axe()
		page.Fits()
		page.Click("td summary")
		page.Click("button[name=pause]")
		page.Await("[role=status]", "Paused order.a")
		page.Click("button[name=resume]")
		page.Await("[role=status]", "Resumed order.a")
		page.Click("th a[href='topics/order.a']")
		page.Await("h1", "order.a")
		page.Axe()
		page.Fits()
		page.Type("textarea[name=body]", "hello")
		page.Click("button[value=message]")
		page.Await("[role=status]", "Published")
	}
}
