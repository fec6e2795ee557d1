package archive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// changed checks what a call worked on.
func changed(t testing.TB, want, got archive.Change, err error) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Rows are published again under their ids, with all that their publishers asked for, and
// due now. What is in use, or no publisher may send, is refused.
func TestRequeue(t *testing.T) {
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: databasetest.Database(t)})
	unreadable, foreign, twice := dead(2), dead(3), full()
	unreadable.Fault, unreadable.Raw, unreadable.Record = record.ErrRecord, "?", notify.Record{}
	foreign.Member = "no topic"
	twice.Ended = twice.Ended.Add(-time.Hour)
	write(t, a, "store1", full(), dead(1), unreadable, foreign, twice)
	got, err := a.Requeue(t.Context(), archive.Query{}, 100, "", true)
	changed(t, archive.Change{Done: 2, Refused: 3}, got, err)
	if n := len(search(t, a, archive.Query{}, 100)); n != 5 {
		t.Errorf("%d rows are left", n)
	}
	ds, err := subscriberstest.Claimer(t, s).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 2 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	info, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, "m0")
	storetest.Must(t, err)
	want := full().Record
	want.Published, want.FirstDue = info.Record.Published, info.Record.FirstDue
	if diff := cmp.Diff(want, info.Record); diff != "" {
		t.Errorf("the record (-archived +published):\n%s", diff)
	}
}

// An occurrence of a schedule without overlap is requeued as a message without a key.
func TestRequeueOccurrence(t *testing.T) {
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: databasetest.Database(t)})
	one := dead(1)
	one.Record.Key, one.Record.IfBusy = store.ScheduleKey("nightly"), "drop"
	write(t, a, "store1", one)
	got, err := a.Requeue(t.Context(), archive.Query{}, 100, "", true)
	changed(t, archive.Change{Done: 1}, got, err)
	info, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, "m1")
	if err != nil || info.State != notify.Ready || info.Key != "" || info.IfBusy != "" {
		t.Errorf("got %+v, %v", info, err)
	}
}

// What was in a group, or waited for one, is requeued as a message of none: it is due now, and holds back nobody.
func TestRequeueOfGroup(t *testing.T) {
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: databasetest.Database(t)})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "living", Group: "g", Delay: time.Hour})
	one, done := dead(1), dead(2)
	one.Record.Group = "g"
	done.Record.AfterGroup, done.Record.OnDead = topic+":g", "go"
	write(t, a, "store1", one, done)
	got, err := a.Requeue(t.Context(), archive.Query{}, 100, "", true)
	changed(t, archive.Change{Done: 2}, got, err)
	for _, id := range []string{"m1", "m2"} {
		info, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, id)
		if err != nil || info.State != notify.Ready || info.Group+info.AfterGroup+info.OnDead != "" {
			t.Errorf("got %+v, %v", info, err)
		}
	}
}

// A message that is still a dead letter is requeued as that, and one that waits or was
// claimed is not.
func TestRequeueDeadLetters(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	a := archivetest.Open(t, s, archive.Options{URL: url})
	runTerm(t, a, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 5)
	wantRows(t, url, 5)
	got, err := a.Requeue(t.Context(), archive.Query{ID: "m3"}, 10, "", true)
	changed(t, archive.Change{Done: 1}, got, err)
	ds, err := subscriberstest.Claimer(t, s).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
	if err != nil || len(ds) != 1 || ds[0].ID != "m3" || ds[0].Attempt != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	got, err = a.Requeue(t.Context(), archive.Query{}, 10, "", true)
	changed(t, archive.Change{Done: 4, Refused: 1}, got, err)
	got, err = a.Requeue(t.Context(), archive.Query{}, 10, "", true)
	changed(t, archive.Change{Refused: 5}, got, err)
	if counts, err := storetest.Count(s, topic); err != nil || counts.Dead != 0 || counts.Ready != 4 || counts.Leased != 1 {
		t.Errorf("got %+v, %v", counts, err)
	}
}

// Many rows are requeued a page at a time, each once.
func TestRequeuePages(t *testing.T) {
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: databasetest.Database(t)})
	var all []store.Ending
	for i := range 130 {
		all = append(all, dead(i))
	}
	write(t, a, "store1", all...)
	q, done := archive.Query{State: "dead"}, archive.Change{}
	for calls := 0; ; calls++ {
		got, err := a.Requeue(t.Context(), q, 60, done.Cursor, true)
		if err != nil || got.Refused > 0 || got.Done > 60 || calls > 3 {
			t.Fatalf("call %d: got %+v, %v", calls, got, err)
		}
		done.Done, done.Cursor = done.Done+got.Done, got.Cursor
		if done.Cursor == "" {
			break
		}
	}
	counts, err := storetest.Count(s, topic)
	if err != nil || counts.Ready != 130 || done.Done != 130 {
		t.Errorf("%d requeued, and ready are %d, %v", done.Done, counts.Ready, err)
	}
	s.Close()
	if got, err := a.Requeue(t.Context(), q, 60, "", true); err == nil || got.Done != 0 || got.Cursor != "" {
		t.Errorf("without Redis: got %+v, %v", got, err)
	}
}

// Whole months are pruned at once, and of the month of the time what ended before it.
func TestPrune(t *testing.T) {
	a, url := open(t)
	var all []store.Ending
	for month := range 4 { // July to October
		for i := range 5 {
			all = append(all, at(10*month+i, time.Date(2026, time.Month(7+month), 10+i, 0, 0, 0, 0, time.UTC)))
		}
	}
	write(t, a, "store1", all...)
	before := time.Date(2026, 10, 13, 0, 0, 0, 0, time.UTC)
	got, err := a.Prune(t.Context(), before, 6)
	changed(t, archive.Change{Done: 10, Cursor: "more"}, got, err)
	got, err = a.Prune(t.Context(), before, 7)
	changed(t, archive.Change{Done: 7, Cursor: "more"}, got, err)
	got, err = a.Prune(t.Context(), before, 7)
	changed(t, archive.Change{Done: 1}, got, err)
	storetest.Same(t, "rows", []string{"m34", "m33"}, ids(search(t, a, archive.Query{}, 100)))
	for month, want := range map[string]bool{"messages_2026_07": false, "messages_2026_09": false, "messages_2026_10": true} {
		if there := databasetest.Ask(t, url, "SELECT to_regclass('bellhop.' || $1) IS NOT NULL", month)[0]; there != want {
			t.Errorf("%s is there: %v", month, there)
		}
	}
	if _, err := a.Prune(t.Context(), time.Time{}, 0); len(fault.All(err)) != 2 {
		t.Errorf("without a time and a limit: got %v", err)
	}
}

// What a query selects is erased, in every month, up to the limit.
func TestErase(t *testing.T) {
	a, _ := open(t)
	var all []store.Ending
	for i := range 12 {
		e := at(i, noon.AddDate(0, -i%3, 0))
		e.Entry = fmt.Sprintf("%d-%d", e.Ended.UnixMilli(), i)
		if i%2 == 0 {
			e.Headers = map[string]string{"Person": "p1"}
		}
		all = append(all, e)
	}
	write(t, a, "store1", all...)
	q := archive.Query{Headers: map[string]string{"person": "p1"}}
	got, err := a.Erase(t.Context(), q, 4)
	changed(t, archive.Change{Done: 4, Cursor: "more"}, got, err)
	got, err = a.Erase(t.Context(), q, 4)
	changed(t, archive.Change{Done: 2}, got, err)
	got, err = a.Erase(t.Context(), q, 4)
	changed(t, archive.Change{}, got, err)
	if n := len(search(t, a, archive.Query{}, 100)); n != 6 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := a.Erase(t.Context(), archive.Query{State: "gone"}, 0); len(fault.All(err)) != 2 {
		t.Errorf("with a wrong state and limit: got %v", err)
	}
}

// Wrong options are told all at once, and without the URL, which may hold a password.
func TestWrongOptions(t *testing.T) {
	for name, test := range map[string]struct {
		o    archive.Options
		want []string
	}{
		"nothing":    {archive.Options{}, []string{"url"}},
		"everything": {archive.Options{URL: "mysql://u:secret@h/d", PasswordFile: "/none", Room: -1}, []string{"url", "password_file", "room"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := archive.New(storetest.Open(t), test.o)
			var fields []string
			for _, fault := range fault.All(err) {
				fields = append(fields, fault.Field)
			}
			if diff := cmp.Diff(test.want, fields); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); !errors.Is(err, notify.ErrInvalid) || strings.Contains(text, "secret") {
				t.Errorf("got %s", text)
			}
		})
	}
	if _, err := archive.New(nil, archive.Options{URL: "postgres://u@h/d"}); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("without a store: got %v", err)
	}
}
