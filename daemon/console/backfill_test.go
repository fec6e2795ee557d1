package console_test

import (
	"html"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A backfill says how many it would make, and makes them once it is confirmed; what is there already is left as it is.
func TestBackfill(t *testing.T) {
	t.Parallel()
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, tokensFile+"clerk clerk-token-0123456789 schedule order.>\n")})
	schedule(t, s.store, "order.a", "hourly", asItIs)
	schedule(t, s.store, "secret.b", "some", asItIs)
	clerk := s.visitor()
	clerk.post("/ui/login", "token", "clerk-token-0123456789").is(http.StatusSeeOther)
	now, err := s.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(before int) time.Time {
		return now.UTC().Truncate(time.Hour).Add(-time.Duration(before) * time.Hour)
	}
	hour := func(before int) string { return at(before).Format(time.RFC3339) }
	schedule(t, s.store, "order.a", "some", func(o *store.Schedule) { // of which none falls due meanwhile
		o.Spec = calendar.Spec{At: []time.Time{at(5), at(4), at(3), at(2), at(1), at(0), now.AddDate(1, 0, 0).Truncate(time.Second)}}
	})
	ready := func(want int64) {
		t.Helper()
		if c, err := storetest.Count(s.store, "order.a"); err != nil || c.Ready != want {
			t.Errorf("ready: %+v, %v, want %d", c, err, want)
		}
	}
	const path, hourly = "/ui/topics/order.a/schedules/some", "/ui/topics/order.a/schedules/hourly"
	clerk.get(path).says(`name="from"`, "Count them")
	for _, wrong := range []struct{ from, to, says string }{
		{"", "", "from: it is empty"},
		{"yesterday", "<b>", "from &#34;yesterday&#34;: write a time such as"},
		{"yesterday", "<b>", "to &#34;&lt;b&gt;&#34;: write a time such as"},
		{hour(2), "2190-01-01T00:00:00Z", "to 2190-01-01T00:00:00Z: it is not past"},
		{hour(2), hour(3), "from " + hour(2) + ": it is not before to"},
		{hour(1500), hour(2), "to: there are 1498 occurrences, and a backfill makes at most 1000; make those before " + hour(500) + " first"},
	} {
		clerk.act(hourly, hourly, "from", wrong.from, "to", wrong.to, "sure", "1").is(http.StatusUnprocessableEntity).says(wrong.says, "Nothing was made", `name="from"`, `name="to" value="`+html.EscapeString(wrong.to)+`"`).hides("<b>")
	}
	clerk.act(path, path, "from", hour(4), "to", hour(1)).is(http.StatusOK).says("Make 3 occurrences of some of order.a from ", ", due at once?", `name="to" value="`+hour(1)+`"`)
	ready(0)
	clerk.act(path, path, "from", hour(4), "to", hour(1), "sure", "1").did("Made 3 occurrences of some", path)
	ready(3)
	clerk.act(path, path, "from", hour(4), "to", hour(1)).did("There was nothing to make of some; 3 ids are in use, and left as they are", path)
	page := clerk.act(path, path, "from", hour(3)).is(http.StatusOK).says("Make 2 occurrences of some of order.a", "due at once; 2 ids are in use, and left as they are?")
	to := regexp.MustCompile(`name="to" value="([^"]+)"`).FindStringSubmatch(page.body)
	if upTo, err := time.Parse(time.RFC3339, to[1]); err != nil || upTo.Before(now) {
		t.Errorf("up to now is up to %v, %v", to, err)
	}
	clerk.act(path, path, "from", hour(3), "to", to[1], "sure", "1").did("Made 2 occurrences of some; 2 ids are in use, and left as they are", path)
	ready(5)

	if err := s.store.Of("order.a").PauseSchedule(t.Context(), "order.a", "some", store.AnyRevision); err != nil {
		t.Fatal(err)
	}
	clerk.act(path, path, "from", hour(5), "to", hour(4), "sure", "1").did("Made 1 occurrence of some", path)
	ready(6)

	const secret = "/ui/topics/secret.b/schedules/some"
	clerk.act(path, secret, "from", hour(4), "sure", "1").is(http.StatusForbidden)
	clerk.act(path, "/ui/topics/order.a/schedules/none", "from", hour(4), "sure", "1").is(http.StatusNotFound).says("No such schedule")
	clerk.post(path, "from", hour(9), "sure", "1").is(http.StatusConflict) // without the fields of a page's form
	shop := s.login("shop")                                                // without the right
	shop.act("/ui/topics", path, "from", hour(9), "sure", "1").is(http.StatusForbidden)
	ready(6)
	if c, err := storetest.Count(s.store, "secret.b"); err != nil || c.Ready != 0 {
		t.Errorf("of another topic: %+v, %v", c, err)
	}
}

// A backfill in a browser, with and without scripts.
func TestBackfillInABrowser(t *testing.T) {
	t.Parallel()
	s := open(t)
	schedule(t, s.store, "bills", "hourly", asItIs)
	p := s.browse("/ui/topics/bills/schedules/hourly", consoletest.Look{})
	hour := time.Now().UTC().Truncate(time.Hour)
	for _, look := range []consoletest.Look{{}, {NoScript: true}} {
		p.Look(look)
		p.Go(s.url + "/ui/topics/bills/schedules/hourly")
		p.Type("input[name=from]", hour.Add(-3*time.Hour).Format(time.RFC3339))
		p.Type("input[name=to]", hour.Format(time.RFC3339))
		p.Loads(func() { p.Click("form.card button") })
		if look.NoScript {
			p.Await("[role=status]", "There was nothing to make of hourly; 3 ids are in use, and left as they are")
			continue
		}
		p.Await("h1", "Make 3 occurrences of hourly of bills from ")
		p.Loads(func() { p.Click("button.grave") })
		p.Await("[role=status]", "Made 3 occurrences of hourly")
	}
}
