package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// full is a message with all that a row can have.
func full() store.Ending {
	e := dead(0)
	e.State, e.Attempts, e.Result = "acked", 3, []byte{0, 255}
	e.History = []record.Attempt{
		{Ended: noon.Add(-time.Minute), Took: 1500 * time.Millisecond, By: "w1", Reason: "refused"},
		{Ended: noon, Took: -1},
	}
	e.Record = notify.Record{
		Published: noon.Add(-time.Hour), FirstDue: noon.Add(-time.Minute), ContentType: "text/plain", Headers: map[string]string{"Tenant": "acme", "n": "ü \"'\\"},
		TTL: time.Hour, MaxAttempts: 7, Lease: time.Minute, TryTimeout: time.Second, UniqueFor: 2 * time.Hour, Fail: notify.FailDrop,
		LateAfter: 24 * time.Hour, Late: notify.LateBury, Body: []byte("a\x00b\xff'; DROP TABLE bellhop.messages; --"),
	}
	return e
}

// A row has all that the stream of endings has of a message.
func TestRow(t *testing.T) {
	a, _ := open(t)
	e := full()
	write(t, a, "store1", e)
	want := archive.Row{
		Ended: e.Ended, Topic: topic, ID: "m0", State: "acked", Reason: e.Reason, Attempts: 3, History: e.History, Store: "store1", Entry: e.Entry,
		Record: e.Record, Result: e.Result, Size: len(e.Body),
	}
	rows, err := a.Show(t.Context(), topic, "m0", true)
	if diff := cmp.Diff([]archive.Row{want}, rows); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	want.Body, want.Result = nil, nil
	rows, err = a.Show(t.Context(), topic, "m0", false)
	if diff := cmp.Diff([]archive.Row{want}, rows); diff != "" || err != nil {
		t.Errorf("without bodies: %v (-want +got):\n%s", err, diff)
	}
	if _, err := a.Show(t.Context(), topic, "m1", true); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("a message that is not there: got %v", err)
	}
	if _, err := a.Show(t.Context(), "a b", "", true); len(fault.All(err)) != 2 {
		t.Errorf("a wrong topic and no id: got %v", err)
	}
}

// A row that something else wrote is shown as unreadable, by its id, and hides no other.
func TestUnreadableRow(t *testing.T) {
	a, url := open(t)
	write(t, a, "store1", dead(1), dead(2), dead(3), dead(4), dead(5))
	for id, set := range map[string]string{"m1": "history = '7'", "m2": "headers = '[]'", "m3": "options = '7'", "m4": "published = 'infinity'"} {
		databasetest.Exec(t, url, "UPDATE bellhop.messages SET "+set+" WHERE id = '"+id+"'")
	}
	found := search(t, a, archive.Query{}, 100)
	for _, row := range found {
		if (row.Fault == "") != (row.ID == "m5") {
			t.Errorf("the fault of %s is %q", row.ID, row.Fault)
		}
	}
	if n := a.Stats().Unreadable; len(found) != 5 || n != 4 {
		t.Errorf("got %q, of which %d are counted as unreadable", ids(found), n)
	}
}

// What is stored twice is one row; what has another key is another row.
func TestTwice(t *testing.T) {
	a, _ := open(t)
	again := dead(1)
	again.Entry += "0"
	write(t, a, "store1", dead(1), dead(2))
	write(t, a, "store1", dead(1), dead(1), dead(3))
	write(t, a, "store1", again)
	write(t, a, "store2", dead(1))
	storetest.Same(t, "rows", []string{"m1", "m1", "m1", "m2", "m3"}, ids(search(t, a, archive.Query{}, 100)))
	if stored := a.Stats().Stored; stored != 5 {
		t.Errorf("stored %d rows", stored)
	}
}

// The removal of a dead letter has no row if its death has one, of the same time: Redis noted
// it since its clock was set back.
func TestRemovedTwice(t *testing.T) {
	a, _ := open(t)
	removed := func(n int) store.Ending {
		e := dead(n)
		e.State, e.Entry = "removed", e.Entry+"1"
		return e
	}
	write(t, a, "store1", dead(1))
	earlier := removed(1)
	earlier.Ended = earlier.Ended.Add(-time.Millisecond)
	write(t, a, "store1", removed(1), dead(2), removed(2), removed(3), earlier) // nobody archived the deaths of 3, and the first one of 1
	write(t, a, "store2", removed(1))
	write(t, a, "store1", removed(2)) // and nothing else
	var got []string
	for _, m := range search(t, a, archive.Query{}, 100) {
		got = append(got, m.ID+" "+m.State)
	}
	slices.Sort(got)
	storetest.Same(t, "rows", []string{"m1 dead", "m1 removed", "m1 removed", "m2 dead", "m3 removed"}, got)
}

// A query selects the rows of which all that it asks for holds. Values are never part of
// a statement.
func TestQuery(t *testing.T) {
	a, _ := open(t)
	hostile := `'; DROP TABLE bellhop.messages; -- $1 ? \`
	other, late, odd := dead(2), dead(3), dead(4)
	other.Member, other.State, other.Reason = record.Member("order.paid.late", "m2"), "dropped", "expired: 100% of _"
	late.Member, late.Headers = record.Member("orders", "m3"), map[string]string{"Tenant": "acme", "Other": hostile}
	odd.Reason, odd.Body, odd.Headers = hostile, []byte("\x00"+hostile), map[string]string{"Tenant": "other"}
	write(t, a, "store1", dead(1), other, late, odd)
	patterns := func(texts ...string) (all []notify.Pattern) {
		for _, text := range texts {
			p, err := notify.ParsePattern(text)
			storetest.Must(t, err)
			all = append(all, p)
		}
		return all
	}
	for name, test := range map[string]struct {
		q    archive.Query
		want string
	}{
		"all":                {archive.Query{}, "m1 m2 m3 m4"},
		"a topic":            {archive.Query{Topics: patterns("order.timeout")}, "m1 m4"},
		"topics":             {archive.Query{Topics: patterns("order.*", "orders")}, "m1 m3 m4"},
		"deep topics":        {archive.Query{Topics: patterns("order.>")}, "m1 m2 m4"},
		"tokens":             {archive.Query{Topics: patterns("*.*.late")}, "m2"},
		"one token":          {archive.Query{Topics: patterns("*")}, "m3"},
		"every topic":        {archive.Query{Topics: patterns(">")}, "m1 m2 m3 m4"},
		"no such topic":      {archive.Query{Topics: patterns("orde")}, ""},
		"a pattern of none":  {archive.Query{Topics: []notify.Pattern{{}}}, ""},
		"an id":              {archive.Query{ID: "m2"}, "m2"},
		"a state":            {archive.Query{State: "dropped"}, "m2"},
		"a reason":           {archive.Query{Reason: "no answer"}, "m1 m3"},
		"a reason with %":    {archive.Query{Reason: "100% of _"}, "m2"},
		"no wildcards":       {archive.Query{Reason: "%answer"}, ""},
		"a hostile reason":   {archive.Query{Reason: hostile}, "m4"},
		"a header":           {archive.Query{Headers: map[string]string{"tenant": "acme"}}, "m3"},
		"two headers":        {archive.Query{Headers: map[string]string{"tenant": "acme", "Other": hostile}}, "m3"},
		"no such headers":    {archive.Query{Headers: map[string]string{"tenant": "acme", "Other": "x"}}, ""},
		"a body":             {archive.Query{Body: "body 2"}, "m2"},
		"a hostile body":     {archive.Query{Body: "\x00" + hostile}, "m4"},
		"from":               {archive.Query{From: noon.Add(-2 * time.Second)}, "m1 m2"},
		"to":                 {archive.Query{To: noon.Add(-2 * time.Second)}, "m3 m4"},
		"all at once":        {archive.Query{Topics: patterns("*"), ID: "m3", State: "dead", Reason: "no", Body: "3", From: noon.Add(-time.Hour), To: noon}, "m3"},
		"all of it but one ": {archive.Query{Topics: patterns("*"), ID: "m3", State: "acked", Reason: "no", Body: "3"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(ids(search(t, a, test.q, 100)), " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What is wrong with a query is told at once, by its fields.
func TestWrongQuery(t *testing.T) {
	a, _ := open(t)
	for name, test := range map[string]struct {
		q      archive.Query
		limit  int
		cursor string
		want   []string
	}{
		"everything": {
			archive.Query{
				ID: "\xff", State: "gone", Reason: strings.Repeat("x", 1025), Body: strings.Repeat("x", 1025), Headers: map[string]string{"a b": "c"},
				From: noon, To: noon, Topics: make([]notify.Pattern, 501),
			},
			1001, "x",
			[]string{"id", "reason", "body", "state", "topics", "headers", "to", "limit", "cursor"},
		},
		"no limit":            {archive.Query{}, 0, "", []string{"limit"}},
		"a zero byte":         {archive.Query{Reason: "a\x00"}, 1, "", []string{"reason"}},
		"a far time":          {archive.Query{To: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, 1, "", []string{"to"}},
		"a cursor of nothing": {archive.Query{}, 1, "e30", []string{"cursor"}},
		"a cursor with zeros": {archive.Query{}, 1, "eyJlIjoiMjAyNi0wMS0wMVQwMDowMDowMFoiLCJ0IjoiXHUwMDAwIn0", []string{"cursor"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Search(t.Context(), test.q, test.limit, test.cursor, false)
			var fields []string
			for _, fault := range fault.All(err) {
				fields = append(fields, fault.Field)
			}
			if diff := cmp.Diff(test.want, fields); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Pages have each row once, the newest first, whatever their size, and also if many ended
// at the same time.
func TestPages(t *testing.T) {
	a, _ := open(t)
	var all []store.Ending
	for i := range 50 {
		e := dead(i / 10)
		e.Member, e.Entry = record.Member(topic, fmt.Sprintf("m%02d", i)), fmt.Sprintf("%d-%d", e.Ended.UnixMilli(), i)
		all = append(all, e)
	}
	write(t, a, "store1", all...)
	want := ids(search(t, a, archive.Query{}, 100))
	if len(want) != len(all) {
		t.Fatalf("a page has %d rows, of %d", len(want), len(all))
	}
	for _, size := range []int{1, 7, 10, 49, 50} {
		if diff := cmp.Diff(want, ids(search(t, a, archive.Query{}, size))); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
}

// A page ends when it has enough bytes.
func TestLargeBodies(t *testing.T) {
	a, _ := open(t)
	var all []store.Ending
	for i := range 5 {
		e := dead(i)
		e.Body = make([]byte, 5<<20)
		all = append(all, e)
	}
	write(t, a, "store1", all...)
	page, err := a.Search(t.Context(), archive.Query{}, 100, "", true)
	if err != nil || len(page.Rows) != 2 {
		t.Fatalf("got %d rows, %v", len(page.Rows), err)
	}
	rest, err := a.Search(t.Context(), archive.Query{}, 100, page.Cursor, false)
	if diff := cmp.Diff([]string{"m2", "m3", "m4"}, ids(rest.Rows)); diff != "" || err != nil {
		t.Errorf("the rest: %v (-want +got):\n%s", err, diff)
	}
}

// A database that nobody archived to, and one of a newer version, are told.
func TestOtherSchema(t *testing.T) {
	a, url := open(t)
	if _, err := a.Search(t.Context(), archive.Query{}, 1, "", false); !errors.Is(err, archive.ErrNoSchema) {
		t.Errorf("without a schema: got %v", err)
	}
	write(t, a, "store1", dead(1))
	databasetest.Exec(t, url, "INSERT INTO bellhop.versions VALUES (99); ALTER TABLE bellhop.messages RENAME TO other")
	_, err := a.Search(t.Context(), archive.Query{}, 1, "", false)
	if !errors.Is(err, archive.ErrNewer) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("with a newer schema, a search: got %v", err)
	}
	if err := a.Write(t.Context(), "store1", []store.Ending{dead(2)}); !errors.Is(err, archive.ErrNewer) {
		t.Errorf("with a newer schema, a write: got %v", err)
	}
	if n := databasetest.Ask(t, url, "SELECT count(*) FROM bellhop.other")[0]; n != int64(1) {
		t.Errorf("something was written: %v rows", n)
	}
}
