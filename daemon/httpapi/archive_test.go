package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// archived starts a gateway with an archive in a database, and a carrier that archives.
func archived(t testing.TB, db string, o httpapi.Options) *server {
	t.Helper()
	store, service := archiving(t, db)
	o.Service = service
	return serveOn(t, store, o)
}

// archiving returns a store with a carrier that archives in a database, and what calls of the archive need.
func archiving(t testing.TB, db string) (*notify.Store, *calls.Service) {
	t.Helper()
	store := storetest.Open(t)
	a := archivetest.Open(t, store, archive.Options{URL: db})
	carriertest.Run(t, store, carrier.Options{OnTerm: a.Term})
	archivetest.Registered(t, store)
	service, err := calls.NewService(store, a, nil)
	storetest.Must(t, err)
	return store, service
}

// rights are a tokens file whose tokens differ in their rights to the archive.
func rights(t testing.TB) string {
	t.Helper()
	var lines strings.Builder
	for name, may := range map[string]string{
		"admin": "admin >", "reader": "archive orders.>", "bodies": "archive-bodies orders.>", "again": "archive,publish orders.>", "publisher": "publish >", "some": "admin orders.>",
	} {
		fmt.Fprintf(&lines, "%s %s %s\n", name, tokenOf(name), may)
	}
	return file(t, "tokens", lines.String())
}

// as sends a request with a token.
func (s *server) as(name, method, path string) answer {
	s.t.Helper()
	return s.call(method, path, "", "Authorization: Bearer "+tokenOf(name))
}

// found returns the ids of the rows that a search finds, sorted.
func (s *server) found(name, query string) []string {
	s.t.Helper()
	var ids []string
	for _, row := range read[calls.ArchivePage](s.as(name, "GET", "/v1/archive?"+query).is(200)).Messages {
		ids = append(ids, row.ID)
	}
	slices.Sort(ids)
	return ids
}

// die publishes messages and has them die, and waits until they are archived.
func (s *server) die(messages ...notify.Message) {
	s.t.Helper()
	storetest.Publish(s.t, s.store, messages...)
	for _, m := range messages {
		d := read[api.Claimed](s.as("admin", "POST", "/v1/topics/"+m.Topic+"/claim?worker=shop-1&wait=1m").is(200)).Messages[0]
		reason := url.QueryEscape("no route to " + d.ID)
		s.as("admin", "POST", fmt.Sprintf("/v1/topics/%s/messages/%s/nack?receipt=%d&dead=true&reason=%s", d.Topic, d.ID, d.Receipt, reason)).is(204)
	}
	storetest.Eventually(s.t, "they are archived", func() bool {
		a := s.as("admin", "GET", "/v1/archive?limit=500")
		return a.status == 200 && len(read[calls.ArchivePage](a).Messages) == len(messages)
	})
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s := archived(t, databasetest.Database(t), httpapi.Options{TokensFile: rights(t)})
	tenant := func(name string) map[string]string { return map[string]string{"Tenant": name} }
	began := time.Now().Add(-time.Minute)
	s.die(
		notify.Message{Topic: "orders.new", ID: "a", Body: []byte("EUR 10"), Headers: tenant("acme"), ContentType: "text/plain", MaxAttempts: 3},
		notify.Message{Topic: "orders.new", ID: "b", Body: []byte("\x00\xff"), Headers: tenant("acme")},
		notify.Message{Topic: "orders.paid", ID: "c", Body: []byte(strings.Repeat("x", 100_000)), Headers: tenant("other: one")},
		notify.Message{Topic: "payments", ID: "d", Body: []byte("EUR 11"), Headers: tenant("acme")},
	)
	past, future := url.QueryEscape(began.Format(time.RFC3339)), "2199-01-01T00:00:00Z"
	for query, want := range map[string][]string{
		"":                               {"a", "b", "c", "d"},
		"header=Tenant:acme":             {"a", "b", "d"},
		"header=Tenant:other:%20one":     {"c"},
		"topic=orders.*":                 {"a", "b", "c"},
		"reason=route%20to%20c":          {"c"},
		"state=dead&body=EUR":            {"a", "d"},
		"from=24h":                       {"a", "b", "c", "d"},
		"to=1d":                          nil,
		"from=" + past + "&to=" + future: {"a", "b", "c", "d"},
	} {
		if diff := cmp.Diff(want, s.found("admin", query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	row := read[calls.ArchivePage](s.as("bodies", "GET", "/v1/archive/orders.new/a").is(200)).Messages[0]
	if string(row.Bytes()) != "EUR 10" || row.Size != 6 || row.State != "dead" || row.Reason != "no route to a" || row.ContentType != "text/plain" || row.MaxAttempts != 3 ||
		row.AttemptsUsed != 1 || len(row.History) != 1 || row.History[0].Reason != "no route to a" || row.Ended.Before(began) || row.FirstDue == nil || row.Published == nil {
		t.Errorf("got %+v", row)
	}
	s.as("bodies", "GET", "/v1/archive/orders.new/b").is(200).says(`"body_base64":"AP8="`)
	s.as("admin", "GET", "/v1/archive/orders.paid/c").is(200).says(strings.Repeat("x", 100_000))
	s.as("admin", "GET", "/v1/archive/orders.new/unknown").is(404).kind("not-found")

	var ids []string
	for cursor := ""; ; {
		page := read[calls.ArchivePage](s.as("admin", "GET", "/v1/archive?limit=3"+cursor).is(200))
		for _, row := range page.Messages {
			ids = append(ids, row.ID)
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	slices.Sort(ids)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, ids); diff != "" {
		t.Error(diff)
	}
	for query, name := range map[string]string{
		"from=" + future + "&to=" + past: "to", "cursor=x": "cursor", "header=Tenant": "header", "reason=%00": "reason", "topic=a..b": "topic", "limit=501": "limit",
	} {
		if p := s.as("admin", "GET", "/v1/archive?"+query).is(422).problem(); !slices.Equal(names(p), []string{name}) {
			t.Errorf("%s: it names %v", query, names(p))
		}
	}
}

// A token reads rows of its topics alone, and bodies only if it may.
func TestRightsToTheArchive(t *testing.T) {
	t.Parallel()
	s := archived(t, databasetest.Database(t), httpapi.Options{TokensFile: rights(t)})
	s.die(notify.Message{Topic: "orders.new", ID: "a", Body: []byte("secret")}, notify.Message{Topic: "payments", ID: "d", Body: []byte("secret")})
	for _, name := range []string{"reader", "bodies", "again", "some"} {
		if got := s.found(name, ""); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s finds %v", name, got)
		}
		for _, path := range []string{"/v1/archive?topic=payments", "/v1/archive?topic=>", "/v1/archive/payments/d"} {
			s.as(name, "GET", path).is(403).kind("forbidden")
		}
		may := name == "bodies" || name == "some"
		for _, path := range []string{"/v1/archive", "/v1/archive/orders.new/a"} {
			a := s.as(name, "GET", path).is(200)
			if shown := strings.Contains(string(a.body), "secret"); shown != may {
				t.Errorf("%s: a body is shown: %v, want %v", name, shown, may)
			}
		}
		status := 403
		if may {
			status = 200
		}
		s.as(name, "GET", "/v1/archive?body=s").is(status)
	}
	for _, name := range []string{"reader", "bodies", "publisher"} {
		s.as(name, "POST", "/v1/archive/requeue?all=true").is(403)
	}
	for _, name := range []string{"reader", "bodies", "publisher", "again"} {
		s.as(name, "POST", "/v1/archive/erase?all=true").is(403)
		s.as(name, "DELETE", "/v1/archive?before=2199-01-01T00:00:00Z").is(403)
	}
	s.as("again", "POST", "/v1/archive/requeue?body=s").is(403) // it would tell what bodies contain
	s.as("some", "DELETE", "/v1/archive?before=2199-01-01T00:00:00Z").is(403).says(">")
	s.as("publisher", "GET", "/v1/archive").is(403)
	if got := s.found("admin", ""); len(got) != 2 {
		t.Errorf("there are %v", got)
	}
}

// What is archived can be published again, and removed.
func TestChangesOfTheArchive(t *testing.T) {
	t.Parallel()
	s := archived(t, databasetest.Database(t), httpapi.Options{TokensFile: rights(t)})
	var all []notify.Message
	for i := range 5 {
		all = append(all, notify.Message{Topic: "orders.new", ID: fmt.Sprint(i), Body: []byte("x"), Headers: map[string]string{"Tenant": fmt.Sprint(i % 2)}})
	}
	s.die(append(all, notify.Message{Topic: "payments", ID: "p", Body: []byte("x")})...)
	change := func(name, method, path string, want calls.ArchiveChange) (cursor string) {
		t.Helper()
		got := read[calls.ArchiveChange](s.as(name, method, "/v1/archive"+path).is(200))
		if cursor, got.Cursor = got.Cursor, ""; got != want {
			t.Errorf("%s by %s: got %+v, want %+v", path, name, got, want)
		}
		return cursor
	}
	s.as("again", "POST", "/v1/archive/requeue").is(422).says("all=true")
	const letters = "/requeue?header=Tenant:1" // that are dead letters still
	change("again", "POST", letters, calls.ArchiveChange{Refused: 2})
	change("some", "POST", letters, calls.ArchiveChange{Count: 2})
	s.as("admin", "POST", "/v1/find/purge?q=topic:orders.new&all=true").is(200)
	cursor := change("again", "POST", "/requeue?all=true&limit=3", calls.ArchiveChange{Count: 2, Refused: 1})
	change("again", "POST", "/requeue?all=true&limit=3&cursor="+cursor, calls.ArchiveChange{Count: 1, Refused: 1})
	s.as("admin", "GET", "/v1/topics/payments/messages/p").is(200).says(`"dead"`) // of another topic

	change("some", "POST", "/erase?header=Tenant:1", calls.ArchiveChange{Count: 2})
	if cursor := change("some", "POST", "/erase?all=true&limit=2", calls.ArchiveChange{Count: 2}); cursor == "" {
		t.Error("there is no cursor")
	}
	change("admin", "DELETE", "?before=2001-01-01T00:00:00Z", calls.ArchiveChange{})
	change("admin", "DELETE", "?before=2199-01-01T00:00:00Z", calls.ArchiveChange{Count: 2})
	if got := s.found("admin", ""); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
}

// A database that is away is no fault of the caller, and hinders no other call.
func TestArchiveAway(t *testing.T) {
	t.Parallel()
	database, address := databasetest.Server(t)
	s := archived(t, address, httpapi.Options{TokensFile: rights(t)})
	s.die(notify.Message{Topic: "orders.new", ID: "a", Body: []byte("x")})
	database.Stop()
	for path, method := range map[string]string{
		"": "GET", "/orders.new/a": "GET", "/requeue?all=true": "POST", "/erase?all=true": "POST", "?before=2199-01-01T00:00:00Z": "DELETE",
	} {
		a := s.as("admin", method, "/v1/archive"+path).is(503).kind("archive").says("the archive cannot answer")
		if u, err := url.Parse(address); err != nil || u.User != nil && strings.Contains(string(a.body), u.User.String()+"@") {
			t.Errorf("the answer has the password: %s", a.body)
		}
	}
	s.as("admin", "GET", "/v1/topics/orders.new").is(200)
	storetest.Eventually(t, "it is ready", func() bool { return s.as("admin", "GET", "/readyz").status == 200 })
}

// A call of the archive may take longer than others: the client hears why it failed, or the database is no more asked once the client is gone.
func TestArchiveIsHeldUp(t *testing.T) {
	t.Parallel()
	url := databasetest.Database(t)
	store, service := archiving(t, url)
	h := serve(t, store, httpapi.Options{Service: service}, httpapi.Timing{Answer: 5 * time.Second}) // the database gives up after 10
	archivetest.Hold(t, url, "bellhop.messages")
	for _, path := range []string{"", "/orders.new/a"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if a := h.want(client(t), 503, "GET", "/v1/archive"+path, ""); !strings.Contains(string(a.body), "the archive cannot answer") {
				t.Errorf("got %s", a.body)
			}
		})
	}
}
