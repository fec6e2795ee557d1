package console_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What the doctor finds of branches is on the page of its topic, and on the first page of whoever sees some topics.
func TestFindingsOfBranches(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Branches: new("mail")})
	storetest.Publish(t, s.store, message("order.a", "x"))
	putPush(t, s.store, "crm", asPut, "order.paid@mial", "bills@mail")
	shop := s.login("shop")
	const found = "branches: order.paid@mial is no branch of order.paid (mail)"
	wait(t, shop, "/ui/", found).hides("bills")
	shop.get("/ui/topics/order.paid@mial").says(found)
	shop.get("/ui/topics/order.a").hides("is no branch")
}

// The page of a topic shows its branches, as far as the viewer may see them, and that of a branch leads to its topic.
func TestBranchesOfATopic(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"one one-token-0123456789 publish,consume order.paid,order.paid@mail\n")})
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Branches: new("mail,points")})
	storetest.Publish(t, s.store, message("order.paid@mail", "x"), message("order.paid@mail", "y"))
	buryAll(t, s.store, "order.paid@mail", "no such shop")
	age(t, s.store, "order.paid@mail")
	root := s.login("root")
	root.get("/ui/topics/order.paid").is(http.StatusOK).says("<h2>Branches</h2>", `<a href="topics/order.paid@mail">order.paid@mail</a>`, `<td class="n" data-label="Overdue">1 h</td><td class="n" data-label="Ready">1</td>`, `data-label="Dead">1</td>`, ">order.paid@points</a>")
	root.get("/ui/topics/order.paid@mail").is(http.StatusOK).says(`A branch of <a href="topics/order.paid">order.paid</a>`).hides("<h2>Branches</h2>")
	one := s.visitor()
	one.post("/ui/login", "token", "one-token-0123456789").is(http.StatusSeeOther)
	one.get("/ui/topics/order.paid").is(http.StatusOK).says("order.paid@mail</a>").hides("order.paid@points</a>")
	s.login("reader").get("/ui/topics/order.paid").says("order.paid@points</a>")
}

// Branches stand right below their topic by name, on whichever page that is, each once.
func TestBranchesAreSorted(t *testing.T) {
	t.Parallel()
	s := open(t)
	const rows = 50 // on a page
	names := []string{"order.paid", "order.paid@mail", "order.paid@points", "order.paid-old", "order.paid-old@mail", "order.paid.eu", "order.paid.eu@mail", "order.paid2", "order.paid2@mail", "order.paidX"}
	alone := "order.gone@mail" // whose topic has nothing left
	var want []string
	for i := range rows - 4 { // so that the page ends in the midst of these
		want = append(want, fmt.Sprintf("a%02d", i))
	}
	want = append(append(want, alone), names...)
	for i := range rows {
		want = append(want, fmt.Sprintf("z%02d", i))
	}
	for _, topic := range want {
		storetest.Publish(t, s.store, message(topic, "x"))
	}
	v := s.visitor()
	shown := func(path string) (all []string, next string) {
		t.Helper()
		page := v.get(path).is(http.StatusOK)
		for _, found := range regexp.MustCompile(`<tr id="topic:([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
			all = append(all, found[1])
		}
		if link := regexp.MustCompile(`<a href="([^"]+)">Next page`).FindStringSubmatch(page.body); link != nil {
			next = "/ui/" + html.UnescapeString(link[1])
		}
		return all, next
	}
	var got []string
	for path := "/ui/topics?sort=name"; path != ""; {
		var some []string
		some, path = shown(path)
		got = append(got, some...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by name (-want +got):\n%s", diff)
	}
	if some, _ := shown("/ui/topics?sort=dead&pattern=order.*"); !cmp.Equal(some, append([]string{alone}, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, ".eu") })...)) {
		t.Errorf("of which none died they are %q", some)
	}
}
