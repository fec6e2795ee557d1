package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// bury publishes messages with an id each, of which all die of a reason.
func bury(t testing.TB, store *notify.Store, topic, reason string, ids ...string) {
	t.Helper()
	for i, id := range ids {
		storetest.Publish(t, store, notify.Message{
			Topic: topic, ID: id, Body: []byte(`{"order":1}`),
			Restore: &notify.Restore{Died: time.Now().Add(time.Duration(i-len(ids)) * time.Minute).Truncate(time.Millisecond), Reason: reason, AttemptsUsed: 1},
		})
	}
}

// claimOne claims a message, which must be ready.
func claimOne(t testing.TB, store *notify.Store, topic string) *subscribers.Delivery {
	t.Helper()
	claimer, err := subscribers.NewClaimer(store)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Worker: "worker-7"})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	return &ds[0]
}

func TestMessageLife(t *testing.T) {
	t.Parallel()
	s := open(t)
	const path = "/ui/topics/order.a/messages/m1"
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "m1", Body: []byte(`{"a":[1,2]}`), Headers: map[string]string{"Tenant": "acme"}, MaxAttempts: 2})
	v := s.visitor()
	v.get(path).is(http.StatusOK).says("Ready, due for", "Published", "header Tenant", "acme", "&#34;a&#34;: [", `value="cancel"`, `value="reschedule"`)
	if _, err := claimOne(t, s.store, "order.a").Nack(t.Context(), time.Hour, "first <b>reason</b>"); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, "the failed attempt", func() bool { return strings.Contains(v.get(path).body, "Attempt 1 failed") })
	v.get(path).says("Scheduled, due in", "worker-7", "first &lt;b&gt;reason&lt;/b&gt;")
	v.act(path, path, "act", "reschedule").is(http.StatusSeeOther)
	d := claimOne(t, s.store, "order.a")
	if err := d.Extend(store.WithProgress(t.Context(), store.Progress{Percent: 40, Note: "page <2> of 5"}), 0); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, "the lease", func() bool { return strings.Contains(v.get(path).body, "Leased to worker-7") })
	v.get(path).hides(`value="cancel"`, `value="reschedule"`).says("Lease ends", "1 attempt used", "The work on it: 40 %: page &lt;2&gt; of 5")
	v.get("/ui/topics/order.a").says("<h2>Leased</h2>", "worker-7")
	v.act("/ui/topics/order.a", path, "act", "cancel").is(http.StatusConflict).says("changed meanwhile", "A worker has it")
	v.act("/ui/topics/order.a", path, "act", "purge").is(http.StatusConflict).says("Nothing was done")
	v.act("/ui/topics/order.a", path, "act", "explode").is(http.StatusUnprocessableEntity)
	v.get(path).says(`value="stop"`)
	v.act(path, path, "act", "stop").is(http.StatusOK).says("Stop the work on m1, and cancel it?")
	v.get(path).says(`value="stop"`)
	v.act(path, path, "act", "stop", "sure", "1").did("Told the worker of m1 to stop", "/ui/topics/order.a")
	storetest.Eventually(t, "it is to stop", func() bool { return strings.Contains(v.get(path).body, "Its worker is to stop since") })
	v.get(path).hides(`value="stop"`)
	if err := d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.act(path, path, "act", "stop", "sure", "1").is(http.StatusConflict)
}

func TestMessageActs(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	const dead, waits = "/ui/topics/order.a/messages/dead", "/ui/topics/order.a/messages/waits"
	bury(t, s.store, "order.a", "no use", "dead")
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "waits", Delay: time.Hour})
	v.get(dead).says("Dead: no use", `value="requeue"`, `value="purge"`).hides(`value="cancel"`)
	v.act(dead, dead, "act", "requeue").did("Requeued dead", dead)
	v.get(dead).says("Ready").hides(`value="requeue"`)
	v.act("/ui/topics/order.a", dead, "act", "requeue").is(http.StatusConflict).says("changed meanwhile", "no such message among the dead letters")
	bury(t, s.store, "order.a", "why", "late")
	v.act("/ui/topics/order.a", "/ui/topics/order.a/messages/late", "act", "reschedule", "delay", "1h").is(http.StatusConflict).says("It is dead, and has no due time")
	v.act(waits, waits, "act", "reschedule", "delay", "much").is(http.StatusUnprocessableEntity).says("Nothing was changed", `value="much"`)
	v.act(waits, waits, "act", "reschedule", "delay", "1h", "due", "2030-01-02T15:04:05Z").is(http.StatusUnprocessableEntity).says("it is given beside delay")
	v.act(waits, waits, "act", "reschedule", "due", "2030-01-02T15:04:05Z").is(http.StatusSeeOther)
	v.get(waits).says("2030-01-02 15:04:05.000 UTC")
	v.act(waits, waits, "act", "cancel").did("Cancelled waits, it was scheduled", "/ui/topics/order.a")
	v.get(waits).is(http.StatusNotFound).says("There is no message waits in the topic order.a", "bellhop archive show order.a waits")
	v.act("/ui/topics/order.a", waits, "act", "cancel").is(http.StatusConflict)
}

// A dead letter that was requeued has its attempts anew: those before are told as such.
func TestLifeAfterARequeue(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	const path = "/ui/topics/order.a/messages/1"
	storetest.Set(t, s.store, "order.a", notify.SettingsChange{Attempts: new(2)})
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1"})
	carry(t, s.store)
	for range 2 {
		storetest.Eventually(t, "it is ready", func() bool {
			counts, err := storetest.Count(s.store, "order.a")
			return err == nil && counts.Ready == 1
		})
		if _, err := claimOne(t, s.store, "order.a").Nack(t.Context(), 0, "no route"); err != nil {
			t.Fatal(err)
		}
	}
	v.get(path).says("Attempt 1 failed", "Attempt 2 failed")
	v.act(path, path, "act", "requeue").did("Requeued 1", path)
	v.get(path).says("Attempt failed, before it was requeued", ">Requeued<").hides("Attempt 0", "Attempt -")
}

func TestMessageRights(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "1", Body: []byte("hidden body")}, notify.Message{Topic: "secret.b", ID: "1", Body: []byte("hidden body")})
	bury(t, s.store, "order.a", "why", "dead")
	shop, reader := s.login("shop"), s.login("reader")
	reader.get("/ui/topics/order.a/messages/1").is(http.StatusForbidden).hides("hidden body")
	for _, v := range []*visitor{shop, reader} {
		v.get("/ui/topics/secret.b/messages/1").is(http.StatusForbidden).hides("hidden body")
		v.act("/ui/topics", "/ui/topics/secret.b/messages/1", "act", "cancel").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/topics/order.a/messages/dead", "act", "purge").is(http.StatusForbidden)
	}
	reader.act("/ui/topics", "/ui/topics/order.a/messages/1", "act", "cancel").is(http.StatusForbidden)
	reader.act("/ui/topics", "/ui/topics/order.a/messages/1", "act", "stop").is(http.StatusForbidden)
	shop.get("/ui/topics/order.a/messages/dead").is(http.StatusOK).hides(`value="purge"`, `value="requeue"`)
	shop.get("/ui/topics/order.a/messages/1").says("hidden body", `value="cancel"`)
	shop.act("/ui/topics", "/ui/topics/order.a/messages/1", "act", "cancel").is(http.StatusSeeOther)
}

func TestHostileBodiesAreInert(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	for i, text := range inertOnly {
		id := fmt.Sprint(i)
		bury(t, s.store, "x", text, id)
		for n, as := range []string{"", "text", "json", "hex", text} {
			other := fmt.Sprintf("b%d-%d", i, n)
			storetest.Publish(t, s.store, notify.Message{Topic: "x", ID: other, Body: []byte(text), Headers: map[string]string{"X-H": strings.ToValidUTF8(strings.Map(printableOnly, text), "")}, Delay: time.Hour})
			for _, path := range []string{"/ui/topics/x/messages/" + id, "/ui/topics/x/messages/" + other} {
				v.get(path+"?as="+urlOf(as)).is(http.StatusOK).hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe", "\u202e", "\x1b", "\x00", "a\rdata")
			}
		}
	}
	for _, path := range []string{"/ui/dead/letters?topic=x", "/ui/dead/reasons", "/ui/dead", "/ui/find?q=topic:x"} {
		v.get(path).is(http.StatusOK).hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe", "\u202e", "\x1b", "\x00")
	}
	for _, text := range inertOnly {
		for _, path := range []string{"/ui/dead/letters?topic=x&reason=", "/ui/dead/letters?topic=", "/ui/find?q=", "/ui/find?q=topic:x&cursor=", "/ui/find/act?act=purge&q=", "/ui/find/act?q=topic:x&act=", "/ui/topics/x/messages/", "/ui/topics?pattern="} {
			v.get(path+urlOf(text)).hides("<script>alert", "<img src=x", "<svg/onload", "<b>bold", "<iframe")
		}
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	long := strings.Repeat("é", 100<<10)
	storetest.Publish(t, s.store, notify.Message{Topic: "x", ID: "long", Body: []byte(long)}, notify.Message{Topic: "x", ID: "zero", Body: []byte{0, 1, 0xff, 'a'}})
	page := v.get("/ui/topics/x/messages/long").is(http.StatusOK).says("200.0 KiB, shown are the first 64 KiB", `<strong aria-current="true">text</strong>`)
	if n := strings.Count(page.body, "é"); n != 32<<10 {
		t.Errorf("%d characters are shown", n)
	}
	v.get("/ui/topics/x/messages/long?as=hex").says("00000000  c3 a9", `<pre tabindex="0" class="hex">`, "shown are the first 64 KiB", `<strong aria-current="true">hex</strong>`)
	v.get("/ui/topics/x/messages/long?as=json").says("It is not JSON.")
	v.get("/ui/topics/x/messages/zero").says("00000000  00 01 ff 61")
	v.get("/ui/topics/x/messages/zero?as=text").says(`\x00\x01\xffa`)
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout of order-4711", "old", "new")
	bury(t, s.store, "order.a", "no such shop", "shop")
	bury(t, s.store, "order.b", "timeout of order-4712", "other")
	v := s.visitor()
	v.get("/ui/dead").is(http.StatusOK).says("4 dead", "order.a", "order.b")
	const letters = "/ui/dead/letters?topic=order.a"
	page := v.get(letters).is(http.StatusOK).says("3 in all", "Purge all 3")
	if strings.Index(page.body, ">new<") > strings.Index(page.body, ">old<") {
		t.Error("the latest death is not the first")
	}
	v.get("/ui/dead/reasons").says("timeout of order-#", "no such shop", "4 were counted")
	v.get(letters+"&reason=timeout+of+order-%23").says(">new<", ">old<", "3 were looked at").hides(">shop<")
	v.act(letters, "/ui/acts/found", "act", "requeue").is(http.StatusUnprocessableEntity).says("tick")
	v.act(letters, "/ui/acts/found", "act", "requeue", "m", "order.a:old", "m", "order.a:gone").
		did("requeue: 1 of 2 messages; the others had changed, or are in another state", letters)
	v.act(letters, "/ui/acts/found", "act", "purge", "m", "order.a:shop", "m", "order.a:new", "sure", "1").is(http.StatusSeeOther)
	if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Dead != 0 || c.Ready != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestDeadRights(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	bury(t, s.store, "order.a", "why", "1")
	bury(t, s.store, "secret.b", "hidden", "1")
	shop, reader := s.login("shop"), s.login("reader")
	for _, v := range []*visitor{shop, reader} {
		v.get("/ui/dead").is(http.StatusOK).says("order.a").hides("secret.b", "2 dead")
		v.get("/ui/dead/letters?topic=secret.b").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/acts/found", "m", "order.a:1", "act", "purge").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/acts/found", "m", "secret.b:1", "act", "purge").is(http.StatusForbidden)
	}
	reader.get("/ui/dead/letters?topic=order.a").is(http.StatusForbidden)
	reader.get("/ui/dead/reasons").is(http.StatusForbidden)
	shop.get("/ui/dead/letters?topic=order.a").is(http.StatusOK).says("why").hides("checkbox", "Purge")
	shop.get("/ui/dead/reasons").is(http.StatusOK).says("1 were counted").hides("hidden", "secret.b")
}

// Who listens is for those who may see the workers.
func TestWhoListensOnThePage(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	carry(t, s.store)
	l, err := subscribers.NewListener(s.store, subscribers.ListenerOptions{Name: "<b>desk</b>", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, "order.*", func(context.Context, *subscribers.Broadcast) error { <-end; return nil }, subscribers.ListenOptions{Name: "billing"})
	})
	t.Cleanup(func() { close(end) })
	for _, name := range []string{"root", "reader"} {
		wait(t, s.login(name), "/ui/broadcasts", ">&lt;b&gt;desk&lt;/b&gt;</td>").hides("<b>desk")
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "held", Broadcast: true, Body: []byte("x")})
	for _, name := range []string{"root", "reader"} {
		wait(t, s.login(name), "/ui/broadcasts", ">&lt;b&gt;desk&lt;/b&gt; (1 held)</td>").hides("<b>desk")
	}
	s.login("shop").get("/ui/broadcasts").is(http.StatusOK).says(">somebody</td>").hides("desk", "held)")
	const of = "/ui/broadcasts/of?topic=order.a&id=held"
	s.login("root").get(of).is(http.StatusOK).says("It was sent", ">leased</span>", ">&lt;b&gt;desk&lt;/b&gt;</td>").hides("<b>desk")
	s.login("shop").get(of).is(http.StatusOK).says(">leased</span>").hides("desk")
	s.login("reader").get(of).is(http.StatusForbidden)
}

func TestBroadcastsPage(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	root, shop, reader := s.login("root"), s.login("shop"), s.login("reader")
	root.get("/ui/broadcasts").is(http.StatusOK).says("No named listener", "0 broadcasts are scheduled")
	l, err := subscribers.NewListener(s.store)
	if err != nil {
		t.Fatal(err)
	}
	for name, pattern := range map[string]string{"billing": "order.*", "spy": "secret.>"} {
		stop := storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, func(context.Context, *subscribers.Broadcast) error { return nil }, subscribers.ListenOptions{Name: name})
		})
		storetest.Eventually(t, "the listener "+name, func() bool {
			all, err := storetest.Inspector(t, s.store).Listeners(t.Context())
			for _, one := range all {
				if one.Name == name {
					return true
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			return false
		})
		stop()
	}
	root.act("/ui/broadcasts", "/ui/broadcasts", "topic", "order.a", "body", "42", "delay", "1h", "id", "b1").is(http.StatusSeeOther)
	root.act("/ui/broadcasts", "/ui/broadcasts", "topic", "<b>bold", "body", "kept text").is(http.StatusUnprocessableEntity).says("Nothing was sent", "kept text").hides("<b>bold")
	root.act("/ui/broadcasts", "/ui/broadcasts", "topic", "secret.later", "body", "43", "delay", "2h", "id", "b2").is(http.StatusSeeOther)
	wait(t, root, "/ui/broadcasts", "billing")
	wait(t, root, "/ui/broadcasts", "spy")
	root.get("/ui/broadcasts").says("billing", "spy", `href="broadcasts/remove?name=billing"`, "2 broadcasts are scheduled", `order.a</a></th><td class="n" data-label="Scheduled">1</td>`, ">in 59 min", `secret.later</a></th><td class="n" data-label="Scheduled">1</td>`, ">in 1 h 59 min")
	for _, v := range []*visitor{shop, reader} {
		v.get("/ui/broadcasts").is(http.StatusOK).says("billing", "order.a</a>").hides("spy", "secret", "broadcasts/remove", "broadcasts are scheduled")
		v.get("/ui/broadcasts/remove?name=billing").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/acts/listeners", "remove", "billing").is(http.StatusForbidden)
		v.act("/ui/topics", "/ui/broadcasts", "topic", "secret.b").is(http.StatusForbidden)
	}
	root.get("/ui/broadcasts/of").is(http.StatusOK).says("Who has a broadcast").hides("It is")
	root.get("/ui/broadcasts/of?topic=order.a&id=b1").is(http.StatusOK).says("It is scheduled, due in 59 min")
	root.get("/ui/broadcasts/of?topic=order.a&id=none").is(http.StatusNotFound)
	root.get("/ui/broadcasts/of?topic=%3Cb%3Ebold&id=b1").is(http.StatusUnprocessableEntity).hides("<b>bold")
	shop.get("/ui/broadcasts/of?topic=secret.later&id=b2").is(http.StatusForbidden).hides("scheduled, due")
	reader.act("/ui/topics", "/ui/broadcasts", "topic", "order.a").is(http.StatusForbidden)
	root.act("/ui/broadcasts/remove?name=spy", "/ui/acts/listeners", "remove", "spy", "back", "broadcasts").is(http.StatusSeeOther)
	root.get("/ui/broadcasts").says("Removed the listener spy").hides("name=spy")
	root.get("/ui/broadcasts/remove?name=spy").is(http.StatusNotFound).says("no such listener")
	root.get("/ui/broadcasts/remove?name=%3Cb%3Ebold").is(http.StatusUnprocessableEntity).hides("<b>bold")
	root.act("/ui/broadcasts", "/ui/acts/listeners", "remove", "spy").is(http.StatusConflict).says("no such listener")
	root.act("/ui/broadcasts", "/ui/acts/listeners", "remove", "<b>bold").is(http.StatusUnprocessableEntity).hides("<b>bold")
}

func TestPagesOverShards(t *testing.T) {
	t.Parallel()
	store := storetest.Sharded(t, 8)
	s := serve(t, store, httpapi.Options{})
	for i := range 40 {
		bury(t, store, fmt.Sprintf("t%02d", i), "why 4711", "1")
	}
	v := s.visitor()
	v.get("/ui/dead").is(http.StatusOK).says("40 dead", "t00", "t39")
	v.get("/ui/dead/reasons").is(http.StatusOK).says("40 were counted")
	v.whole("/ui/find?q=state:dead+id:1").finds(40)
	v.whole("/ui/find/act?q=state:dead&act=purge").says("Purge 40 dead letters?")
	v.get("/ui/broadcasts").is(http.StatusOK)
}

func TestPagesWithoutAShard(t *testing.T) {
	t.Parallel()
	const away = 3
	store := storetest.ShardAway(t, 8, away)
	s := serve(t, store, httpapi.Options{})
	here, gone := topicsBeside(t, store, away)
	bury(t, store, here, "why", "1")
	v := s.visitor()
	for path, says := range map[string]string{
		"/ui/dead": here, "/ui/dead/reasons": here, "/ui/broadcasts": "Logs", "/ui/find?q=state:dead": here, "/ui/find/act?q=state:dead&act=purge": "Purge 1 dead letters",
	} {
		v.whole(path).says("Shard 3 is missing", says)
	}
	v.get("/ui/dead/letters?topic=" + gone).is(http.StatusServiceUnavailable)
	v.get("/ui/topics/" + gone + "/messages/1").is(http.StatusServiceUnavailable)
}

// Letters are requeued and purged in a browser, one of them from the menu of its page. Pages that have no other example are looked at.
func TestMessagesInABrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "m1", "m2", "m3", "m4")
	page := s.browse("/ui/topics/order.a/messages/m4", consoletest.Look{Width: 320, Dark: true, NoScript: true})
	page.Axe()
	page.Fits()
	page.Until("what is grave is put away", "document.querySelector('#purge').checkVisibility() === false")
	page.Click(".menu summary")
	page.Loads(func() { page.Click("#purge") })
	page.Await("[role=status]", "Purged m4")
	page.Expect("422")
	for _, path := range []string{"/ui/find", "/ui/find?q=x"} {
		page.Go(s.url + path)
		page.Axe()
		page.Fits()
	}
	page = s.browse("/ui/dead", consoletest.Look{Width: 1400})
	page.Click("tbody a")
	page.Await("h1", "Dead letters of order.a")
	page.Click("input[value='order.a:m1']")
	page.Click("button[value=requeue]")
	page.Await("[role=status]", "requeue: 1 of 1 messages")
	page.Click("button[data-tick]")
	page.Click("button[value=purge]")
	page.Await("h1", "Purge 2 messages?")
	page.Axe()
	page.Click("main form button")
	page.Await("[role=status]", "purge: 2 of 2")
}

// A body that is a thousand times as long when it is laid out costs no more than what is
// shown of it.
func TestDeepBody(t *testing.T) { // not parallel: it measures what all take
	s := open(t)
	const depth = 9_000
	m := message("order.timeout", strings.Repeat("[", depth)+strings.Repeat("0,", 3_000)+"0"+strings.Repeat("]", depth))
	m.ID = "deep"
	storetest.Publish(t, s.store, m)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.visitor().get("/ui/topics/order.timeout/messages/deep").is(200).says("[\n  [\n    [", "the first 64 KiB")
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
		t.Errorf("it took %d MiB", taken>>20)
	}
}

// JSON is laid out as json.Indent does it.
func TestLaidOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, `[{}]`, `{"a":[],"b":{},"c":[1,"x",{"d":null}]}`, `[[[]],[{}]]`, `"a\"b\\"`, `{"a:b,{":"[\\\"]"}`, `-1.5e3`, `[true,false,null,"é\u0000"]`,
	} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		if got := string(console.LaidOut([]byte(text), 1000)); got != want.String() {
			t.Errorf("%s is laid out as\n%s\nwant\n%s", text, got, &want)
		}
	}
}

// A message whose time makes no sense is shown, not fatal.
func TestSenselessTimes(t *testing.T) {
	t.Parallel()
	s := open(t)
	m := message("order.timeout", "x")
	m.ID = "a"
	storetest.Publish(t, s.store, m)
	ready := s.store.KeysOf("order.timeout").Ready("order.timeout")
	if err := s.store.Client().ZAdd(t.Context(), ready, redis.Z{Score: 253402300799000, Member: "order.timeout:a"}).Err(); err != nil {
		t.Fatal(err)
	}
	s.visitor().get("/ui/topics/order.timeout/messages/a").is(200).says("Ready")
	s.visitor().get("/ui/topics/order.timeout").is(200)
	s.visitor().get("/ui/").is(200)
}
