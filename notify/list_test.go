package notify_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	m := notify.Message{
		Topic: topic, ID: "a", Body: []byte("hello"), Due: future, TTL: anHour, MaxAttempts: 2,
		ContentType: "text/plain", Headers: map[string]string{"k": "v"},
	}
	before := redisTime(t, db).Truncate(time.Millisecond)
	publish(t, pub, m)
	want := notify.Info{
		Topic: topic, ID: "a", State: notify.Scheduled, Due: future.Local(), Expires: future.Add(anHour).Local(),
		Record: notify.Record{FirstDue: future.Local(), ContentType: "text/plain", Headers: m.Headers, TTL: anHour, MaxAttempts: 2, Body: m.Body},
	}
	wantInfo(t, pub, before, want)

	asked := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", asked)))
	want.State, want.Due = notify.Ready, score(t, db, "ready:"+topic, topic+":a")
	want.FirstDue = want.Due
	want.Expires = asked.Add(anHour) // from the time that was asked for
	wantInfo(t, pub, before, want)

	d := claim(t, db, 1)[0]
	want.State, want.Due, want.Until = notify.Leased, time.Time{}, d.Until()
	wantInfo(t, pub, before, want)

	storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "no use")))
	want.State, want.Until, want.Expires, want.Attempts, want.Reason = notify.Dead, time.Time{}, time.Time{}, 1, "no use"
	want.Died = score(t, db, "dead:"+topic, topic+":a")
	if want.Died.Before(before) {
		t.Errorf("died %v, published %v", want.Died, before)
	}
	wantInfo(t, pub, before, want)
}

// wantInfo checks what Inspect and List return of a message that was published soon
// after a time.
func wantInfo(t *testing.T, pub client, published time.Time, want notify.Info) {
	t.Helper()
	got, err := pub.Inspect(t.Context(), want.Topic, want.ID)
	storetest.Must(t, err)
	if got.Published.Before(published) || got.Published.After(published.Add(time.Minute)) {
		t.Errorf("published %v, want %v", got.Published, published)
	}
	want.Published = got.Published
	want.History, want.By, want.Since = got.History, got.By, got.Since // see attempts_test.go
	storetest.Same(t, "message", want, got)
	page, err := pub.List(t.Context(), want.Topic, want.State, 10, "")
	storetest.Must(t, err)
	storetest.Same(t, "list", []notify.Info{want}, page.Messages)
}

func TestInspectUnreadable(t *testing.T) {
	t.Parallel()
	records := map[string]string{
		"truncated":    "17000",
		"empty":        "",
		"not JSON":     "hello\nbody",
		"another type": "[1]\nbody",
		"another form": `{"at":1700000000000}` + "\nbody",
	}
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			inState(t, db, message("a", time.Time{}), state)
			for name, record := range records {
				db.Client().HSet(t.Context(), db.KeysOf(topic).Messages(), topic+":a", record)
				wantFault(t, pub, name, state)
			}
			db.Client().HDel(t.Context(), db.KeysOf(topic).Messages(), topic+":a")
			wantFault(t, pub, "missing", state)
		})
	}
}

func wantFault(t *testing.T, pub client, name string, state notify.State) {
	t.Helper()
	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || !errors.Is(info.Fault, record.ErrRecord) || info.State != state {
		t.Errorf("%s: %v, %v, fault %v; want %v and an ErrRecord", name, info.State, err, info.Fault, state)
	}
	page, err := pub.List(t.Context(), topic, state, 10, "")
	if err != nil || len(page.Messages) != 1 || !errors.Is(page.Messages[0].Fault, record.ErrRecord) {
		t.Errorf("%s: list: %+v, %v; want one with an ErrRecord", name, page, err)
	}
}

// list returns the ids of a topic in one state, in pages of limit, and calls between, if
// it is not nil, after each.
func list(t *testing.T, pub client, of string, state notify.State, limit int, between func(page []string)) []string {
	t.Helper()
	var all []string
	cursor := ""
	for range 10_000 {
		page, err := pub.List(t.Context(), of, state, limit, cursor)
		storetest.Must(t, err)
		if len(page.Messages) > limit {
			t.Fatalf("a page of %d messages, want %d at the most", len(page.Messages), limit)
		}
		var ids []string
		for _, info := range page.Messages {
			if info.Topic != of || info.State != state || info.Fault != nil {
				t.Fatalf("listed %+v", info)
			}
			ids = append(ids, info.ID)
		}
		all = append(all, ids...)
		if between != nil && len(ids) > 0 {
			between(ids)
		}
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
	t.Fatal("the list does not end")
	return nil
}

// publishMixed publishes n messages of each of two topics, many of which are
// due at the same time, and returns the ids of one topic in the order of the list.
func publishMixed(t *testing.T, db *notify.Store, n int, first time.Time) []string {
	t.Helper()
	var messages []notify.Message
	type place struct {
		due time.Time
		id  string
	}
	var places []place
	for i := range n {
		p := place{first.Add(time.Duration(i%3) * time.Millisecond), fmt.Sprintf("%c-%d", "Az_"[i%3], i)}
		places = append(places, p)
		for _, of := range []string{topic, "order.timeout-2"} {
			messages = append(messages, notify.Message{Topic: of, ID: p.id, Body: []byte("x"), Due: p.due, Restore: &notify.Restore{}})
		}
	}
	storetest.Publish(t, db, messages...)
	slices.SortFunc(places, func(a, b place) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	ids := make([]string, n)
	for i, p := range places {
		ids[i] = p.id
	}
	return ids
}

func TestListPages(t *testing.T) {
	t.Parallel()
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			first := past
			if state == notify.Scheduled {
				first = future
			}
			want := publishMixed(t, db, 1000, first)
			if state == notify.Leased || state == notify.Dead {
				for range 2 {
					ds := claim(t, db, 500)
					if state == notify.Leased {
						continue
					}
					for _, d := range ds {
						storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "for the list")))
					}
				}
			}
			for _, limit := range []int{7, 100, 499, notify.MaxPage} {
				got := list(t, pub, topic, state, limit, nil)
				if state == notify.Leased || state == notify.Dead { // in the order of leases and deaths
					slices.Sort(got)
					want = slices.Sorted(slices.Values(want))
				}
				storetest.Same(t, fmt.Sprintf("pages of %d", limit), want, got)
			}
		})
	}
}

// Messages that are removed between two pages, the last of the page among them, make the
// list neither skip nor repeat the others.
func TestListWhileMessagesGo(t *testing.T) {
	t.Parallel()
	for _, state := range []notify.State{notify.Scheduled, notify.Ready} {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			first := past
			if state == notify.Scheduled {
				first = future
			}
			want := publishMixed(t, db, 500, first)
			got := list(t, pub, topic, state, 20, func(page []string) {
				for _, id := range []string{page[len(page)-1], page[0]} {
					if _, err := pub.Cancel(t.Context(), topic, id); err != nil && !errors.Is(err, notify.ErrNotFound) {
						t.Fatal(err)
					}
				}
			})
			storetest.Same(t, "list", want, got)
		})
	}
}

// A page of one topic is found among very many broadcasts of another, and one call reads
// a bounded number of them. Ready messages need no search.
func TestListOneAmongMany(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "both topics are in it")
	pub, db := open(t)
	var messages []notify.Message
	for i := range 25_000 {
		messages = append(messages, notify.Message{Topic: "another", ID: fmt.Sprint(i), Body: []byte("x"), Due: future, Broadcast: true})
	}
	messages = append(messages, announcement("first", future.Add(-1*anHour)), announcement("last", future.Add(anHour)))
	messages = append(messages, message("1", future), message("2", future))
	storetest.Publish(t, db, messages...)
	page, err := pub.Broadcasts(t.Context(), topic, 10, "")
	if err != nil || len(page.Messages) != 1 || page.Messages[0].ID != "first" || page.Cursor == "" {
		t.Errorf("first page: %d broadcasts, cursor %q, %v; want one and a cursor", len(page.Messages), page.Cursor, err)
	}
	if page, err = pub.Broadcasts(t.Context(), topic, 10, page.Cursor); err != nil || len(page.Messages) != 1 || page.Messages[0].ID != "last" {
		t.Errorf("second page: %+v, %v; want the last", page.Messages, err)
	}
	if page, err = pub.List(t.Context(), topic, notify.Scheduled, 2, ""); err != nil || len(page.Messages) != 2 {
		t.Errorf("messages: %d, %v; want both at once", len(page.Messages), err)
	}
}

func TestListOfNothing(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	unchanged(t, db, func() {
		for _, state := range states {
			page, err := pub.List(t.Context(), topic, state, 10, "")
			if diff := cmp.Diff(notify.Page{}, page); diff != "" || err != nil {
				t.Errorf("%v: page (-want +got), %v:\n%s", state, err, diff)
			}
			for _, odd := range []string{"1 ", "-9223372036854775808 a", "9223372036854775807 a", "1 payments:x", "1 \xff\x00"} {
				if page, err := pub.List(t.Context(), topic, state, 10, cursor(odd)); err != nil || len(page.Messages) > 0 {
					t.Errorf("%v behind %q: %+v, %v", state, odd, page, err)
				}
			}
		}
	})
}

func TestCursorOfTheEndGoesOnWithWhatCameSince(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	publish(t, pub, message("a", future))
	page, err := pub.List(t.Context(), topic, notify.Scheduled, 1, "")
	if err != nil || page.Cursor == "" {
		t.Fatalf("page %+v, %v; want a cursor", page, err)
	}
	publish(t, pub, message("b", future))
	page, err = pub.List(t.Context(), topic, notify.Scheduled, 10, page.Cursor)
	if err != nil || len(page.Messages) != 1 || page.Messages[0].ID != "b" {
		t.Errorf("page %+v, %v; want b", page, err)
	}
}

func TestTopicCounts(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	none, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(none) != 0 {
		t.Errorf("topics %v, %v; want none", none, err)
	}
	wantCounts(t, pub, notify.Counts{})

	for i := range 10 {
		publish(t, pub, overdue(fmt.Sprint("ready", i), redisTime(t, db).Add(-anHour)))
	}
	for i := range 3 {
		publish(t, pub, message(fmt.Sprint("scheduled", i), future))
	}
	bury(t, db, 4)
	storetest.Must(t, claim(t, db, 1)[0].Ack(t.Context()))
	claim(t, db, 2)
	wait(t, db, "a", "b")
	publish(t, pub, notify.Message{Topic: "another", Body: []byte("x"), Due: future})

	wantCounts(t, pub, notify.Counts{Scheduled: 3, Ready: 3, Leased: 2, Dead: 4, Waiting: 2, Published: 13, Acked: 1, Died: 4})
	all, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(all) != 2 {
		t.Fatalf("topics %v, %v; want two", all, err)
	}
	if all[1].Overdue < anHour || all[1].Overdue > anHour+time.Minute {
		t.Errorf("overdue for %v, want an hour", all[1].Overdue)
	}
	if all[1].Lateness < anHour || all[1].Lateness > anHour+time.Minute {
		t.Errorf("the last claim was late by %v, want an hour", all[1].Lateness)
	}
	all[1].Overdue, all[1].Lateness = 0, 0
	want := []notify.Counts{{Topic: "another", Scheduled: 1, Published: 1}, counts(t, pub)}
	storetest.Same(t, "topics", want, all)
}

func cursor(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestLatestDeadFirst(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	const n = 30
	died := future.Add(-300 * 24 * time.Hour)
	for i := range n { // three of each time of death
		publish(t, pub, notify.Message{Topic: topic, ID: fmt.Sprintf("m%02d", i), Restore: &notify.Restore{Died: died.Add(time.Duration(i/3) * time.Second), Reason: "no order 4711"}})
	}
	var ids []string
	for cursor := ""; ; {
		page, err := pub.LatestDead(t.Context(), topic, 7, cursor)
		storetest.Must(t, err)
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
			if kind := reasons.Of(m); kind != (reasons.Reason{Topic: topic, Reason: "no order #", Dead: 1}) {
				t.Fatalf("kind %+v", kind)
			}
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("m%02d", n-1-i)
	}
	if d := cmp.Diff(want, ids); d != "" {
		t.Error(d)
	}
}
