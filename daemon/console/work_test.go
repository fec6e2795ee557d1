package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// inWork has a worker claim a message of each topic, one after the other.
func inWork(t testing.TB, store *notify.Store, topics ...string) (all []*subscribers.Delivery) {
	t.Helper()
	for _, topic := range topics {
		storetest.Publish(t, store, notify.Message{Topic: topic, ID: "of-" + topic, Body: []byte("secret body")})
		all = append(all, claimOne(t, store, topic))
	}
	return all
}

// What workers have is on one page, that which one has had longest first, for whoever may read it.
func TestWorkPage(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	s.login("root").get("/ui/work").is(http.StatusOK).says("No worker has a message.")
	held := inWork(t, s.store, "order.b", "secret.x", "order.a")
	storetest.Must(t, held[2].Extend(store.WithProgress(t.Context(), store.Progress{Percent: 40, Note: "page <2> of 5"}), 0))
	page := wait(t, s.login("root"), "/ui/work", "of-order.a").is(http.StatusOK)
	page.says("worker-7", "40 %: page &lt;2&gt; of 5", `data-label="For"`, `formaction="topics/order.b/messages/of-order.b"`).hides("secret body")
	var places []int
	for _, topic := range []string{"order.b", "secret.x", "order.a"} {
		places = append(places, strings.Index(page.body, "work:"+topic))
	}
	if places[0] < 0 || !slices.IsSorted(places) {
		t.Errorf("the messages stand at %v, and not in the order in which they were claimed", places)
	}
	s.login("shop").get("/ui/work").is(http.StatusOK).says("of-order.a", "of-order.b", "Stop").hides("secret")
	s.login("reader").get("/ui/work").is(http.StatusForbidden)
	s.login("reader").get("/ui/").hides(`href="work"`)
	s.login("root").get("/ui/").says(`<a href="work">3</a>`)
}

// Work is stopped from its page after a question, and the page of the topic says so, also once nothing is left of the message.
func TestWorkIsStopped(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]consoletest.Look{"with JavaScript": {}, "without": {NoScript: true, Width: 390}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			held := inWork(t, s.store, "order.a", "order.b")
			p := s.browse("/ui/work", look)
			p.Await("tbody", "of-order.a")
			p.Fits()
			p.Axe()
			p.Loads(func() { p.Click("button[formaction$='of-order.a']") })
			p.Await("h1", "Stop the work on of-order.a, and cancel it?")
			p.Loads(func() { p.Click("main form button") })
			p.Await(".done[role=status]", "Told the worker of of-order.a to stop")
			p.Await("h1", "order.a")
			storetest.Must(t, held[0].Release(t.Context()))
			wait(t, s.visitor(), "/ui/topics/order.a", "No worker has a message.")
			if p.Until("the page says what was done", "document.querySelector('.done')"); strings.Contains(p.Text("main"), "There is no message") {
				t.Errorf("the page says %s", p.Text("main"))
			}
			p.Go(s.url + "/ui/work")
			p.Await("tbody", "of-order.b")
			if n := p.Count("tbody tr"); n != 1 {
				t.Errorf("%d messages are in work", n)
			}
		})
	}
}
