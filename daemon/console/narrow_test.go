package console_test

import (
	"regexp"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// narrow is the window of a telephone.
var narrow = consoletest.Look{Width: 390}

var letterLink = regexp.MustCompile(`href="(topics/order\.refused/messages/[^"]+)"`)

// On a telephone neither a page nor a table of it scrolls sideways, and each figure of a table stands behind its label. All ids on a page are
// its own, whatever the names of what it shows.
func testNarrowPages(t *testing.T, s *site) {
	p := s.browse("/ui/login", narrow)
	tables := 0
	for i, path := range addresses(t) {
		p.Go(s.url + path)
		if p.Count("#live") > 0 {
			p.Streams()
		}
		p.Fits()
		var wide []string
		p.Eval(`[...document.querySelectorAll(".scroll:not(.plain), .scroll:not(.plain) td, .scroll:not(.plain) tbody th")]
			.filter((e) => e.scrollWidth > e.clientWidth + 1 && e.className !== "n" || e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 200))`, &wide)
		for _, e := range wide {
			t.Errorf("%s: this is wider than the window: %s", path, e)
		}
		var bare []string
		p.Eval(`[...document.querySelectorAll(".scroll:not(.plain) td.n:not(.nil)")].filter((e) => !e.dataset.label && !e.title).map((e) => e.outerHTML)`, &bare)
		for _, e := range bare {
			t.Errorf("%s: nothing says what this is: %s", path, e)
		}
		var twice []string
		p.Eval("[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)", &twice)
		if len(twice) > 0 {
			t.Errorf("%s has twice: %q", path, twice)
		}
		tables += p.Count(".scroll:not(.plain) table")
		if storetest.InThird(i) {
			p.Axe()
		}
	}
	if tables < 12 {
		t.Errorf("there are %d tables on all pages", tables)
	}
}

// A row of a table is a card: its name and state in the first line, its figures below.
func testCards(t *testing.T, s *site) {
	p := s.browse("/ui/topics?pattern=order.slow", narrow)
	p.Await("tbody", "order.slow")
	type box struct{ Top, Bottom, Left, Right float64 }
	at := func(selector string) (b box) {
		t.Helper()
		p.Until(selector+" is there", "document.querySelector("+consoletest.Quoted(selector)+")")
		p.Eval("(({ top, bottom, left, right }) => ({ top, bottom, left, right }))(document.querySelector("+consoletest.Quoted(selector)+").getBoundingClientRect())", &b)
		return b
	}
	name, state, ready := at("tbody th"), at("tbody td.at"), at(`tbody td[data-label="Ready"]`)
	if state.Top >= name.Bottom || state.Left < name.Right-1 || ready.Top < name.Bottom-1 {
		t.Errorf("the name is at %v, the state at %v, what is ready at %v", name, state, ready)
	}
	if n := p.Count(`tbody td[data-label="Dead"].nil`); n != 1 {
		t.Errorf("what is 0 is shown as if it were something, %d", n)
	}

	letter := s.visitor().get("/ui/dead/letters?topic=order.refused").field(letterLink)
	p.Go(s.url + "/ui/" + letter)
	const row = "tbody tr:has(td.at:not(:empty)) "
	what, who, when, why := at(row+"th"), at(row+"td.at"), at(row+"td.n[title]"), at("tbody td.below:not(:empty)")
	if who.Top >= what.Bottom || when.Right > 390 || why.Right-why.Left < 300 {
		t.Errorf("what is at %v, who at %v, why at %v, when at %v", what, who, why, when)
	}
	if text := p.Text("tbody td.n[title]"); text == "" || len(text) > len("59 min 59 s ago") {
		t.Errorf("when is %q", text)
	}
}
