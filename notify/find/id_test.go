package find_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// fillID publishes messages of one id in all states, an id that stays taken, and others.
func fillID(t testing.TB, db *notify.Store) {
	t.Helper()
	storetest.Publish(t, db, notify.Message{Topic: "done", ID: "x"}, notify.Message{Topic: "held", ID: "x"},
		notify.Message{Topic: "taken", ID: "x", UniqueFor: time.Hour})
	storetest.Must(t, storetest.ErrOf(claim(t, db, "done", 1)[0].AckWith(t.Context(), notify.AckResult{Keep: time.Hour})))
	storetest.Must(t, claim(t, db, "taken", 1)[0].Ack(t.Context()))
	claim(t, db, "held", 1)
	storetest.Publish(t, db,
		notify.Message{Topic: "order.a", ID: "x", Delay: 24 * time.Hour, Body: []byte("total 4711"), Headers: map[string]string{"Tenant": "acme"}},
		notify.Message{Topic: "order.b", ID: "x"}, notify.Message{Topic: "order.b", ID: "xx"}, notify.Message{Topic: "none", ID: "y"},
		notify.Message{Topic: "news", ID: "x", Delay: time.Hour, Broadcast: true}, dead("order.c.d", "x", "timeout"),
	)
	passes(t, db)
}

// passes waits until what is due at once was due before now, as the store reckons: that is never ahead of Redis.
func passes(t testing.TB, db *notify.Store) {
	t.Helper()
	due, err := db.Home().Time(t.Context())
	storetest.Must(t, err)
	storetest.Eventually(t, "the clock goes on", func() bool {
		now, err := db.Now(t.Context())
		return err == nil && now.UnixMilli() > due.UnixMilli()
	})
}

func TestFindID(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fillID(t, db)
		const topics = 8 // done, held, taken, order.a, order.b, none, news, order.c.d
		for question, want := range map[string][]string{
			"id:x":                            {"done:x", "held:x", "news:x", "order.a:x", "order.b:x", "order.c.d:x"},
			"id:x state:scheduled":            {"news:x", "order.a:x"},
			"id:x state:ready":                {"order.b:x"},
			"id:x state:leased":               {"held:x"},
			"id:x state:dead":                 {"order.c.d:x"},
			"id:x state:done":                 {"done:x"},
			"id:x topic:order.*":              {"order.a:x", "order.b:x"},
			"id:x topic:*.*.d,news,absent":    {"news:x", "order.c.d:x"},
			"id:x body~4711":                  {"order.a:x"},
			"id:x header.tenant=acme":         {"order.a:x"},
			"id:x reason~time":                {"order.c.d:x"},
			"id:x due>+2h":                    {"order.a:x"},
			"id:x due<now state:ready,leased": {"held:x", "order.b:x"},
			"id:nowhere":                      {},
		} {
			for _, limit := range []int{1, 500} {
				found, last := all(t, db, question, find.Options{Limit: limit})
				storetest.Same(t, question, want, names(found))
				if last.Looked != last.Of || !strings.Contains(question, "topic:") && last.Of != topics {
					t.Errorf("%s: looked at %d of %d topics", question, last.Looked, last.Of)
				}
			}
		}
		may := func(topic string) bool { return topic == "order.a" || topic == "none" }
		found, last := all(t, db, "id:x", find.Options{May: may})
		if diff := cmp.Diff([]string{"order.a:x"}, names(found)); diff != "" || last.Looked != 2 || last.Of != 2 {
			t.Errorf("looked at %d of %d of two topics (-want +got):\n%s", last.Looked, last.Of, diff)
		}
	})
}

// Pages go on where the one before ended, also when messages and topics are gone meanwhile.
func TestFindIDPages(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const n, limit = 700, 100
		storetest.Fill(t, db, n, func(i int) notify.Message {
			return notify.Message{Topic: fmt.Sprint("t", i), ID: "m", Delay: time.Hour}
		})
		f, q := finder(t, db), parse(t, "id:m")
		first, err := f.Find(t.Context(), q, find.Options{Limit: limit})
		if err != nil || first.Cursor == "" || first.Looked != int64(len(first.Messages)) || len(first.Messages) > limit {
			t.Fatalf("%d messages, looked at %d of %d, %v", len(first.Messages), first.Looked, first.Of, err)
		}
		want := names(first.Messages)
		for i := range n {
			member := fmt.Sprintf("t%d:m", i)
			if i%2 == 1 || slices.Contains(want, member) {
				continue
			}
			topic := fmt.Sprint("t", i)
			storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "m")))
			if i%4 == 0 {
				db.Client().ZRem(t.Context(), db.KeysOf(topic).TopicNames(), topic)
			}
		}
		for i := 1; i < n; i += 2 {
			if member := fmt.Sprintf("t%d:m", i); !slices.Contains(want, member) {
				want = append(want, member)
			}
		}
		rest, _ := all(t, db, "id:m", find.Options{Limit: limit, Cursor: first.Cursor})
		slices.Sort(want)
		storetest.Same(t, "it", want, names(append(rest, first.Messages...)))
	})
}

// An act on an id changes what it works on, wherever that is.
func TestActOnID(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fillID(t, db)
		storetest.Publish(t, db, dead("order.e", "x", "refused"))
		want(t, "purge", act(t, db, "id:x", find.Act{Kind: find.Purge}, find.Options{Limit: 1}, false), 2, 2)
		want(t, "cancel", act(t, db, "id:x topic:order.>", find.Act{Kind: find.Cancel}, find.Options{}, false), 2, 2)
		found, _ := all(t, db, "id:x", find.Options{})
		storetest.Same(t, "what is left", []string{"done:x", "held:x", "news:x"}, names(found))
	})
}

// A slice reads a bounded number of bytes, one message excepted, and looks in a bounded number of topics.
func TestLookUpIsBounded(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "it looks in the topics of one shard")
	db := storetest.Open(t)
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = fmt.Sprint("t", i)
		storetest.Publish(t, db, notify.Message{Topic: topics[i], ID: "large", Body: bytes.Repeat([]byte("a"), 230_000)},
			notify.Message{Topic: topics[i], ID: "small"})
	}
	for id, want := range map[string]int{"large": 1, "small": 6, "nowhere": 50} {
		found, err := db.Of("t0").LookUp(t.Context(), id, store.Slice{Topics: topics, Work: 50, Most: 500})
		if err != nil || found.Through != want || found.Looked != int64(want) {
			t.Errorf("%s: looked in %d topics, %v, want %d", id, found.Through, err, want)
		}
	}
	found, err := db.Of("t0").LookUp(t.Context(), "small", store.Slice{Topics: topics, Work: 500, Most: 3})
	if err != nil || found.Through != 3 || len(found.Matches) != 3 {
		t.Errorf("looked in %d topics, %v, want 3", found.Through, err)
	}
}
