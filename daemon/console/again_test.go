package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// letter publishes a message that a worker gives up, and returns the address of its page.
func letter(t testing.TB, store *notify.Store, body string) string {
	t.Helper()
	storetest.Publish(t, store, notify.Message{
		Topic: "order.a", ID: "m1", Key: "acct-7", TTL: 24 * time.Hour, MaxAttempts: 3, Lease: 90 * time.Second, ContentType: "text/plain",
		Headers: map[string]string{"tenant": "acme", "note": "a: b"}, Body: []byte(body),
	})
	buryAll(t, store, "order.a", "no such shop")
	return "/ui/topics/order.a/messages/m1"
}

// A dead letter is published again, maybe changed, with all that was asked for; it stays what it is.
func TestPublishAgain(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]consoletest.Look{"with JavaScript": {}, "without": {NoScript: true, Width: 390}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			path := letter(t, s.store, "shop\n4711 <b>")
			p := s.browse(path, look)
			p.Loads(func() { p.Click("a[href*='again=']") })
			p.Axe()
			p.Fits()
			var body string
			if p.Eval("document.querySelector('textarea[name=body]').value", &body); body != "shop\n4711 <b>" {
				t.Errorf("the form has %q", body)
			}
			p.Eval("document.querySelector('input[name=id]').value", &body)
			if body != "" {
				t.Errorf("it has the id %q", body)
			}
			p.Type("textarea[name=body]", "shop 4712")
			p.Type("input[name=id]", "m2")
			p.Loads(func() { p.Click("button[value=message]") })
			p.Await("[role=status]", "Published m2 to order.a")
			got, err := storetest.Inspector(t, s.store).Inspect(t.Context(), "order.a", "m2")
			if err != nil {
				t.Fatal(err)
			}
			want := got.Record
			want.Key, want.TTL, want.MaxAttempts, want.Lease, want.ContentType = "acct-7", 24*time.Hour, 3, 90*time.Second, "text/plain"
			want.Headers, want.Body = map[string]string{"tenant": "acme", "note": "a: b"}, []byte("shop 4712")
			if diff := cmp.Diff(want, got.Record); diff != "" {
				t.Errorf("it is not as the letter was (-want +got):\n%s", diff)
			}
			s.visitor().get(path).is(http.StatusOK).says("Dead: no such shop")
		})
	}
}

// A body is downloaded as it is, by whoever may read it, and copied; one that is no text is not edited.
func TestBodyOfALetter(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	path := letter(t, s.store, "a\x00\xffb")
	got := s.login("shop").get(path + "/body").is(http.StatusOK)
	if kind, as := got.header.Get("Content-Type"), got.header.Get("Content-Disposition"); got.body != "a\x00\xffb" || kind != "application/octet-stream" || as != `attachment; filename="m1"` {
		t.Errorf("got %q as %s, %s", got.body, kind, as)
	}
	s.login("shop").get(path + "x/body").is(http.StatusNotFound)
	s.login("reader").get(path + "/body").is(http.StatusForbidden)
	s.visitor().get(path + "/body").leads("/ui/login?next=" + strings.ReplaceAll(strings.TrimPrefix(path, "/ui/"), "/", "%2F") + "%2Fbody")
	s.login("shop").get("/ui/topics/order.a?again=m1").is(http.StatusOK).says("is no text. Download it").hides(`value="acct-7"`)
	s.login("shop").get("/ui/topics/order.a?again=m3").is(http.StatusOK).says("Nothing was published.")
	s.login("reader").get("/ui/topics/order.a?again=m1").is(http.StatusOK).hides("acct-7", "tenant")

	s = open(t)
	p := s.browse(letter(t, s.store, `{"shop":4711}`), consoletest.Look{})
	p.Click("button[data-copy]")
	p.Await("button[data-copy]", "Copied")
}

// The page of dead letters says of each topic what most of them died of, and leads to these.
func TestMostFrequentReason(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	for range 4 {
		storetest.Publish(t, s.store, message("order.a", "x"))
	}
	buryAll(t, s.store, "order.a", "no such shop 4711", "timeout", "no such shop 4712", "no such shop 4713")
	bury(t, s.store, "secret.x", "leaked", "1")
	row := regexp.MustCompile(`id="topic:order\.a".*?<a href="(dead/letters[^"]+)">no such shop #</a></td><td class="n dead" data-label="Of that">3</td>`)
	page := wait(t, s.login("root"), "/ui/dead", "no such shop #").is(http.StatusOK)
	link := html.UnescapeString(page.field(row))
	s.login("root").get("/ui/"+link).is(http.StatusOK).says("4711", "4713").hides("timeout")
	page.says("leaked")
	wait(t, s.login("shop"), "/ui/dead", "no such shop #").hides("leaked", "secret")
	s.login("reader").get("/ui/dead").is(http.StatusOK).hides("no such shop", "Most frequent")
}
