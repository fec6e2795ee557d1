package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// pastOf returns what the river of a page says of the past, and its word for it.
func pastOf(t *testing.T, page shown) (word string, sum int64) {
	t.Helper()
	var drawn struct {
		Word string
		Past []*int64
	}
	if !strings.Contains(page.body, "data-river") {
		return "", 0
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(page.field(riverData))), &drawn); err != nil {
		t.Fatal(err)
	}
	for _, n := range drawn.Past {
		if n != nil {
			sum += *n
		}
	}
	return drawn.Word, sum
}

// The page of a topic, and the overview of a viewer of some topics, show what was
// acknowledged while they were open, and not what was before.
func TestPastOfTopics(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			store := storetest.Sharded(t, shards)
			s := guarded(t, store)
			carry(t, store)
			work(t, store, "w", "order.new", "order.old", "secret.plan")
			send := func(topic string, n int) {
				for range n {
					storetest.Publish(t, store, message(topic, "x"))
				}
				storetest.Eventually(t, "they are acknowledged", func() bool {
					c, err := storetest.Count(store, topic)
					return err == nil && c.Acked == c.Published
				})
			}
			send("order.new", 5)
			send("order.old", 1)
			send("secret.plan", 7)
			shop, root := s.login("shop"), s.login("root")
			pages := map[string]*visitor{"/ui/topics/order.new": root, "/ui/": shop}
			for path, v := range pages {
				stream := v.stream(path)
				defer stream.close()
				stream.says("acknowledged")
				if word, n := pastOf(t, v.get(path).is(200).says("while the page was open", "None acknowledged, and none to come in this time.")); n != 0 {
					t.Errorf("%s: %d are %s", path, n, word)
				}
			}
			send("order.new", 3)
			send("order.old", 2)
			send("secret.plan", 4)
			for path, want := range map[string]int64{"/ui/topics/order.new": 3, "/ui/": 5} {
				storetest.Eventually(t, path+" has a past", func() bool { _, n := pastOf(t, pages[path].get(path)); return n == want })
				storetest.Eventually(t, "the day is counted", func() bool {
					return strings.Contains(pages[path].get(path+"?span=day").is(200).hides("acknowledged</span>").body, "the hour shows it")
				})
			}
			s.login("reader").get("/ui/topics/order.new").is(200).hides("secret")
		})
	}
}

// Where a viewer may see more topics than are counted, the overview says why it has no past.
func TestNoPastOfManyTopics(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	storetest.Fill(t, store, 201, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprint("order.", i)} })
	v := s.login("shop")
	wait(t, v, "/ui/", "The past is not known").is(200).says("None to come in this time.", "up to 200").hides("acknowledged</span>")
}

// The river of a topic is a table alone until it has three points.
func TestNoRiverOfTwoPoints(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Now().Truncate(time.Minute).Add(10 * time.Minute)
	later := func(n int) {
		storetest.Publish(t, s.store, notify.Message{Topic: "bills", Due: at.Add(time.Duration(n) * time.Minute)})
	}
	later(1)
	later(2)
	const path, plot = "/ui/topics/bills", `id="river"`
	v := s.visitor()
	wait(t, v, path, "Falls due").hides(plot, "None")
	p := s.browse(path, consoletest.Look{})
	p.Await(".plain", "Falls due")
	p.Until("the table shows", "getComputedStyle(document.querySelector('.plain')).position !== 'absolute'")
	p.Streams()
	later(3)
	wait(t, v, path, plot)
	p.Until("it is drawn", inked)
}
