package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const box = "input[name=q]"

// offered returns the topics that are offered to a visitor for the beginning of a name.
func offered(v *visitor, begin string) (topics []string) {
	v.t.Helper()
	got := v.get("/ui/find/topics?begin=" + urlOf(begin)).is(http.StatusOK)
	if err := json.Unmarshal([]byte(got.body), &topics); err != nil || topics == nil || got.header.Get("Content-Type") != "application/json" {
		v.t.Fatalf("answered %s, %v", got.body, err)
	}
	return topics
}

// A viewer is offered the topics that he sees, and no others, whatever the index of topics has.
func TestTopicsAreOffered(t *testing.T) {
	t.Parallel()
	const shards = 4
	store := storetest.Sharded(t, shards)
	var calls scriptCalls
	store.Observe(calls.observe)
	s := guarded(t, store)
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("order.%02d", i))
	}
	all = append(all, "order", "orders.new", "secret.b")
	storetest.Fill(t, store, len(all), func(i int) notify.Message { return notify.Message{Topic: all[i], Delay: time.Hour} })
	strange := append([]string{"order.b ad", "order.<b>", "$dead.order"}, hostile...)
	for _, name := range strange {
		if err := store.Client().ZAdd(t.Context(), store.KeysOf("order").TopicNames(), redis.Z{Member: name}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	root, shop, reader := s.login("root"), s.login("shop"), s.login("reader")
	for _, c := range []struct {
		v     *visitor
		begin string
		want  []string
	}{
		{root, "", append([]string{"order"}, all[:9]...)},
		{root, "orde", append([]string{"order"}, all[:9]...)},
		{root, "order.2", all[20:30]},
		{root, "orders", []string{"orders.new"}},
		{root, "s", []string{"secret.b"}},
		{root, "$", []string{}},
		{shop, "", all[:10]},
		{shop, "order.1", all[10:20]},
		{shop, "order.17", all[17:18]},
		{shop, "orders", []string{}},
		{shop, "s", []string{}},
		{shop, "order.b", []string{}},
		{shop, "order.b ", []string{}},
		{shop, strings.Repeat("o", 10_000), []string{}},
		{shop, "\n", []string{}},
	} {
		if diff := cmp.Diff(c.want, offered(c.v, c.begin)); diff != "" {
			t.Errorf("%.20q: %s", c.begin, diff)
		}
	}
	for _, begin := range hostile {
		if got := offered(root, begin); len(got) > 0 {
			t.Errorf("%q is completed by %q", begin, got)
		}
	}
	before := calls.of("names")
	for range 3 {
		offered(root, "order.0")
	}
	if n := calls.of("names") - before; n < shards || n > 2*shards {
		t.Errorf("the same beginning called %d times for %d shards", n, shards)
	}
	reader.get("/ui/find/topics?begin=").is(http.StatusForbidden)
	s.visitor().get("/ui/find/topics?begin=").is(http.StatusUnauthorized).hides("order")
}

// Each term is explained.
func TestTermsAreOffered(t *testing.T) {
	t.Parallel()
	var all map[string][]struct{ Text, What string }
	if err := json.Unmarshal([]byte(console.AllOffers()), &all); err != nil {
		t.Fatal(err)
	}
	if len(all[""]) != len(find.Terms()) {
		t.Errorf("offers %v", all[""])
	}
	for _, term := range all[""] {
		if term.What == "" {
			t.Errorf("%s is not explained", term.Text)
		}
		for _, value := range all[term.Text] {
			if _, err := find.Parse(term.Text + value.Text); err != nil {
				t.Error(err)
			}
		}
	}
}

// completed is a site with some topics, and the page of find in a browser.
func completed(t *testing.T) *consoletest.Page {
	t.Helper()
	s := open(t)
	storetest.Publish(t, s.store, notify.Message{Topic: "order.timeout", ID: "o1", Delay: time.Hour}, notify.Message{Topic: "order.slow", Delay: time.Hour}, notify.Message{Topic: "mail.welcome", Delay: time.Hour})
	return s.browse("/ui/find", consoletest.Look{})
}

// has waits until the box has a text.
func has(p *consoletest.Page, text string) {
	p.Until(fmt.Sprintf("the box has %q", text), fmt.Sprintf("document.querySelector(%q).value === %q", box, text))
}

// asked returns how often a page asked for topics.
func asked(p *consoletest.Page) (n int) {
	for _, url := range p.Requests() {
		if strings.Contains(url, "/ui/find/topics") {
			n++
		}
	}
	return n
}

func TestCompletesByKeyboard(t *testing.T) {
	t.Parallel()
	p := completed(t)
	const active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
	closed := func() { p.Until("nothing is offered", "document.querySelector('#offers').hidden") }
	closed()
	p.Until("the box has the focus", fmt.Sprintf("document.activeElement === document.querySelector(%q)", box))
	p.Press("ArrowDown")
	p.Await("#offers", "header.")
	p.Axe()
	p.Type(box, "st")
	p.Until("one term is offered", "document.querySelectorAll('#offers li').length === 1 && document.activeElement.getAttribute('aria-expanded') === 'true'")
	p.Await(".asks [role=status]", "1 completion")
	p.Press("ArrowDown")
	p.Until("it is chosen", active+".textContent.startsWith('state:') && "+active+".getAttribute('aria-selected') === 'true'")
	p.Axe()
	p.Press("Tab")
	has(p, "state:")
	p.Await("#offers", "scheduled")
	p.Press("ArrowUp")
	p.Press("ArrowUp")
	p.Press("Enter")
	has(p, "state:dead ")
	p.Await("#offers", "topic:")
	if p.Text("#offers"); strings.Contains(p.Text("#offers"), "state:") {
		t.Error("state: is offered again")
	}
	if n := asked(p); n > 0 {
		t.Errorf("asked for topics %d times", n)
	}
	p.Press("Escape")
	closed()
	has(p, "state:dead ")
	p.Press("Tab")
	p.Until("Tab leaves the box", "document.activeElement.tagName === 'BUTTON'")

	p.Type(box, "state:dead,ready,")
	p.Await("#offers", "leased")
	p.Until("those that are there are not offered", "document.querySelectorAll('#offers li').length === 4")
	p.Type(box, "topic:order.")
	p.Await("#offers", "order.slow")
	p.Press("ArrowDown")
	p.Press("ArrowDown")
	p.Press("Enter")
	has(p, "topic:order.timeout ")
	if n := asked(p); n == 0 || n > 2 {
		t.Errorf("asked for topics %d times", n)
	}
	p.Loads(func() { p.Press("Enter") })
	p.Await("tbody", "o1")
}

func TestCompletesByMouse(t *testing.T) {
	t.Parallel()
	p := completed(t)
	p.Type(box, "topic:mail.welcome,order.t")
	p.Await("#offers", "order.timeout")
	p.Click("#offers li")
	has(p, "topic:mail.welcome,order.timeout ")
	p.Until("the cursor stays", "document.activeElement.name === 'q' && document.activeElement.selectionStart === 33")
	p.Click("#offers li") // of the terms
	has(p, "topic:mail.welcome,order.timeout state:")
	p.Click("h1")
	p.Until("nothing is offered", "document.querySelector('#offers').hidden")
}

// What one types stays text, and within quotes nothing is completed.
func TestCompletesNothingHostile(t *testing.T) {
	t.Parallel()
	p := completed(t)
	for _, text := range hostile {
		for _, begin := range []string{"", "topic:", "topic:order.slow,", `body~"state:`} {
			if !utf8.ValidString(text) {
				continue // nobody can type it
			}
			p.Type(box, begin+text)
			has(p, begin+text)
			p.Until("nothing is offered", "document.querySelector('#offers').hidden")
		}
	}
	p.Type(box, `body~"sta`)
	has(p, `body~"sta`)
	p.Until("nothing is offered", "document.querySelector('#offers').hidden")
	p.Type(box, `body~"x" sta`)
	p.Await("#offers", "state:")
	p.Type(box, `body~"say \"hello sta`)
	has(p, `body~"say \"hello sta`)
	p.Until("nothing is offered", "document.querySelector('#offers').hidden")
	p.Type(box, `body~"say \"hello" sta`)
	p.Await("#offers", "state:")
	p.Type(box, `body~"ends in \\" sta`)
	p.Await("#offers", "state:")
}
