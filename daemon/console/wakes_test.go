package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The past of a topic is what was acknowledged while somebody looked.
func TestWake(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, noon.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	for name, c := range map[string]struct {
		at    []time.Time
		acked []int64
		want  map[int]int64 // by minutes before noon
	}{
		"one look says nothing":         {at(-30), []int64{5}, nil},
		"each second":                   {at(-62, -61, -60, -59), []int64{5, 7, 10, 10}, map[int]int64{2: 2, 1: 3}},
		"nothing came":                  {at(-62, -61), []int64{5, 5}, map[int]int64{2: 0}},
		"nobody looked in between":      {at(-200, -199, -61, -60), []int64{5, 6, 100, 101}, map[int]int64{4: 1, 1: 1}},
		"the topic was forgotten":       {at(-3, -2, -1), []int64{5, 0, 2}, map[int]int64{1: 2}},
		"the clock was set back":        {at(-3, 5, 4), []int64{5, 6, 9}, map[int]int64{0: 1}},
		"longer than is kept":           {at(-3602, -3601, -2, -1), []int64{1, 2, 3, 4}, map[int]int64{1: 1}},
		"a clock that is ahead of it":   {at(100, 101), []int64{1, 3}, map[int]int64{0: 2}},
		"another hour takes its place":  {at(-3661, -3660, -1, 0), []int64{1, 2, 3, 4}, map[int]int64{0: 1}},
		"the oldest minute is kept yet": {at(-3600, -3599), []int64{1, 2}, map[int]int64{60: 1}},
	} {
		got := make(map[int]int64)
		for i, n := range console.Wake(c.at, c.acked, noon.Add(30*time.Second)) {
			if n != nil {
				got[60-i] = *n
			}
		}
		if len(got)+len(c.want) > 0 && !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

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
				if word, n := pastOf(t, v.get(path).is(200).says("while the page was open")); word != "acknowledged" || n != 0 {
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

// Where a viewer may see more topics than are counted each second, the overview says why it has no past.
func TestNoPastOfManyTopics(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	storetest.Fill(t, store, 201, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprint("order.", i)} })
	v := s.login("shop")
	storetest.Eventually(t, "the river is there", func() bool { return strings.Contains(v.get("/ui/").body, "data-river") })
	v.get("/ui/").is(200).says("The past is not known", "up to 200").hides("acknowledged</span>")
}

// The river of a topic is drawn, and a table without JavaScript.
func TestRiverOfATopic(t *testing.T) {
	t.Parallel()
	s := populated(t)
	p := s.browse("/ui/topics/order.timeout?span=day", consoletest.Look{})
	p.Await("#live h2", "Messages an hour")
	p.Until("it is drawn", "document.querySelector('#river canvas')")
	p.Click(".choose a")
	p.Await("#live h2", "Messages a minute")
	p.Until("it is drawn", "document.querySelector('#river canvas')")
	s.browse("/ui/topics/order.timeout?span=day", consoletest.Look{NoScript: true}).Await(".plain", "Falls due")
}
