package console_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var pageBefore = regexp.MustCompile(`<a href="([^"]+)">Page before</a>`)

// A page of a search says which of how many it shows, and leads back through all pages before it.
func TestPagesOfASearch(t *testing.T) {
	t.Parallel()
	s := open(t)
	const all = 175
	ids := make([]string, all)
	for i := range ids {
		ids[i] = fmt.Sprintf("l-%03d", i)
	}
	bury(t, s.store, "order.a", "timeout", ids...)
	v := s.visitor()
	storetest.Eventually(t, "the letters are counted", func() bool { // which stands for a second
		return strings.Contains(v.get("/ui/find?q=topic:order.a+state:dead").body, " of 175")
	})
	path, seen := "/ui/find?q=topic:order.a+state:dead", 0
	var pages []shown
	for {
		page := v.get(path).is(http.StatusOK)
		pages = append(pages, page)
		page.says(fmt.Sprintf("; %d to %d of %d", seen+1, seen+page.rows(), all))
		seen += page.rows()
		next := goesOn.FindStringSubmatch(page.body)
		if next == nil {
			break
		}
		path = html.UnescapeString(next[1])
	}
	if seen != all || len(pages) < 4 {
		t.Fatalf("%d pages show %d", len(pages), seen)
	}
	first := regexp.MustCompile(`>(l-\d+)</a>`)
	for i := len(pages) - 1; i > 0; i-- {
		before := v.get(html.UnescapeString(pages[i].field(pageBefore))).is(http.StatusOK)
		if got, want := before.field(first), pages[i-1].field(first); got != want {
			t.Errorf("before page %d stands %s, want %s", i, got, want)
		}
	}
	pages[0].hides("Page before")
	v.get("/ui/find?q=state:dead&seen=x&before=y").is(http.StatusOK).says("; 1 to ")
}

// What acts on ticked messages is shown once one is ticked, without JavaScript, too.
func TestBarOfTicked(t *testing.T) {
	t.Parallel()
	s := open(t)
	bury(t, s.store, "order.a", "timeout", "1", "2")
	for _, path := range []string{"/ui/find?q=state:dead", "/ui/dead/letters?topic=order.a"} {
		for _, look := range []consoletest.Look{{}, {NoScript: true, Width: 390}} {
			p := s.browse(path, look)
			shows := func() (height float64) {
				p.Eval("document.querySelector('.ticked').getBoundingClientRect().height", &height)
				return height
			}
			if n := shows(); n != 0 {
				t.Errorf("%s: the bar is %v px high, and nothing is ticked", path, n)
			}
			p.Click("input[name=m]")
			if n := shows(); n == 0 {
				t.Errorf("%s: there is no bar for what is ticked", path)
			}
			p.Fits()
			p.Axe()
		}
	}
	p := s.browse("/ui/find?q=state:dead", consoletest.Look{NoScript: true})
	p.Click("input[value='order.a:1']")
	p.Loads(func() { p.Click("button[value=requeue]") })
	p.Await("[role=status]", "requeue: 1 of 1 messages")
}
