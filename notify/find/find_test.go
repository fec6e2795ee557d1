package find_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// onEach runs a test with a store of one shard, and with one of eight.
func onEach(t *testing.T, test func(t *testing.T, db *notify.Store)) {
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			test(t, storetest.Sharded(t, shards))
		})
	}
}

// finder returns a finder whose calls end where they would on a machine that takes no time.
func finder(t testing.TB, db *notify.Store) *find.Finder {
	t.Helper()
	f := timed(t, db)
	f.Unhurried()
	return f
}

// timed returns a finder as users have it.
func timed(t testing.TB, db *notify.Store) *find.Finder {
	t.Helper()
	f, err := find.New(db)
	storetest.Must(t, err)
	return f
}

// all returns all messages that a question asks for, and the last page.
func all(t testing.TB, db *notify.Store, question string, o find.Options) (found []notify.Info, last find.Page) {
	t.Helper()
	q, err := find.Parse(question)
	storetest.Must(t, err)
	for f := finder(t, db); ; o.Cursor = last.Cursor {
		if last, err = f.Find(t.Context(), q, o); err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		if found = append(found, last.Messages...); last.Cursor == "" {
			return found, last
		}
	}
}

// names returns the members of messages, sorted.
func names(infos []notify.Info) []string {
	all := make([]string, 0, len(infos))
	for _, i := range infos {
		all = append(all, i.Topic+":"+i.ID)
	}
	slices.Sort(all)
	return all
}

func claim(t testing.TB, db *notify.Store, topic string, n int) []subscribers.Delivery {
	t.Helper()
	claimed, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: n, Lease: time.Hour})
	if err != nil || len(claimed) != n {
		t.Fatalf("claimed %d of %d, %v", len(claimed), n, err)
	}
	return claimed
}

// dead returns a message that died.
func dead(topic, id, reason string) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id), Restore: &notify.Restore{Died: time.Now().Add(-time.Hour), Reason: reason}}
}

// fill publishes messages in all states.
func fill(t testing.TB, db *notify.Store) {
	t.Helper()
	storetest.Publish(t, db,
		notify.Message{Topic: "done", ID: "kept", Body: []byte("4711")}, notify.Message{Topic: "held", ID: "leased", Body: []byte("4711")})
	storetest.Must(t, storetest.ErrOf(claim(t, db, "done", 1)[0].AckWith(t.Context(), notify.AckResult{Keep: time.Hour})))
	claim(t, db, "held", 1)
	storetest.Publish(t, db,
		notify.Message{Topic: "order.a", ID: "s1", Key: "acct-7", Delay: 24 * time.Hour, Body: []byte("total 4711"), Headers: map[string]string{"Tenant": "acme"}},
		notify.Message{Topic: "order.a", ID: "s2", Key: "acct-77", Group: "import-7", Delay: 48 * time.Hour, Headers: map[string]string{"tenant": "a\"b<é"}},
		notify.Message{Topic: "order.b", ID: "r~1.-:x", Body: []byte("\x00\xffbin\x00ary")},
		notify.Message{Topic: "news", ID: "all", Delay: time.Hour, Broadcast: true, Body: []byte("4711")},
		dead("order.b", "d1", "connection reset by peer"), dead("order.c.d", "d2", "timeout"),
	)
	passes(t, db)
}

func TestFind(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fill(t, db)
		for question, want := range map[string][]string{
			"topic:>":                            {"done:kept", "held:leased", "news:all", "order.a:s1", "order.a:s2", "order.b:d1", "order.b:r~1.-:x", "order.c.d:d2"},
			"topic:order.*":                      {"order.a:s1", "order.a:s2", "order.b:d1", "order.b:r~1.-:x"},
			"topic:order.>,news state:scheduled": {"news:all", "order.a:s1", "order.a:s2"},
			"state:dead":                         {"order.b:d1", "order.c.d:d2"},
			"state:leased":                       {"held:leased"},
			"state:leased topic:order.*":         {},
			"state:done":                         {"done:kept"},
			"state:done,ready":                   {"done:kept", "order.b:r~1.-:x"},
			"id:s*":                              {"order.a:s1", "order.a:s2"},
			"id:s1":                              {"order.a:s1"},
			"id:all":                             {"news:all"},
			"id:leased":                          {"held:leased"},
			"id:kept":                            {"done:kept"},
			"id:s1 topic:held":                   {},
			"id:*1*":                             {"order.a:s1", "order.b:d1", "order.b:r~1.-:x"},
			"id:r~1.-:x":                         {"order.b:r~1.-:x"},
			"id:*.-:*":                           {"order.b:r~1.-:x"},
			"id:*l*":                             {"held:leased", "news:all"},
			"id:r*1*x":                           {"order.b:r~1.-:x"},
			"id:r*x*x":                           {},
			`reason~"reset by"`:                  {"order.b:d1"},
			"reason~timeout":                     {"order.c.d:d2"},
			"reason~%a+":                         {},
			"body~4711":                          {"held:leased", "news:all", "order.a:s1"},
			"body~\x00\xffb":                     {"order.b:r~1.-:x"},
			"body~\x00ary":                       {"order.b:r~1.-:x"},
			"body~BODY":                          {},
			`body~"body of d"`:                   {"order.b:d1", "order.c.d:d2"},
			"key:acct-7":                         {"order.a:s1"},
			"key:acct-7 state:dead":              {},
			"key:acct":                           {},
			"group:import-7":                     {"order.a:s2"},
			"group:import-7 state:dead":          {},
			"group:import":                       {},
			"header.tenant=acme":                 {"order.a:s1"},
			"header.TENANT=acme id:s*":           {"order.a:s1"},
			`header.tenant="a\"b<é"`:             {"order.a:s2"},
			"header.tenant=acm":                  {},
			"due<+30h":                           {"held:leased", "news:all", "order.a:s1", "order.b:d1", "order.b:r~1.-:x", "order.c.d:d2"},
			"due>+30h":                           {"order.a:s2"},
			"due>+2h due<+30h":                   {"order.a:s1"},
			"due<now state:leased,ready":         {"held:leased", "order.b:r~1.-:x"},
		} {
			found, last := all(t, db, question, find.Options{})
			storetest.Same(t, question, want, names(found))
			if last.Looked != last.Of && !strings.Contains(question, "due") {
				t.Errorf("%s: looked at %d of %d", question, last.Looked, last.Of)
			}
		}
	})
}

// A question for a group of a topic finds what is in it of the branches, too.
func TestFindGroupInBranches(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		in := func(topic, id string) notify.Message { return notify.Message{Topic: topic, ID: id, Group: "g"} }
		storetest.Publish(t, db, in("a.row@mail", "held"))
		claim(t, db, "a.row@mail", 1)
		storetest.Publish(t, db,
			in("a.row", "one"), in("a.row@mail", "copy"), in("a.row-x", "other"), in("a.row.sub", "other"), in("a.rows@mail", "other"),
			notify.Message{Topic: "a.row@mail", ID: "none"}, notify.Message{Topic: "a.row@mail", ID: "later", Group: "g", Delay: time.Hour},
		)
		passes(t, db)
		for question, want := range map[string][]string{
			"topic:a.row group:g":              {"a.row:one", "a.row@mail:copy", "a.row@mail:held", "a.row@mail:later"},
			"topic:*.row group:g":              {"a.row:one", "a.row@mail:copy", "a.row@mail:held", "a.row@mail:later"},
			"topic:a.row group:g state:leased": {"a.row@mail:held"},
			"topic:a.row group:g id:copy":      {"a.row@mail:copy"},
			"topic:a.row@mail group:g id:h*":   {"a.row@mail:held"},
			"topic:a.row@crm group:g":          {},
			"topic:a.row":                      {"a.row:one"},
		} {
			found, _ := all(t, db, question, find.Options{})
			storetest.Same(t, question, want, names(found))
		}
	})
}

// Messages are described as Inspect does.
func TestFindDescribes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fill(t, db)
		found, _ := all(t, db, "topic:>", find.Options{})
		for _, info := range found {
			want, err := storetest.Inspector(t, db).Inspect(t.Context(), info.Topic, info.ID)
			if diff := cmp.Diff(want, info); err != nil || diff != "" {
				t.Errorf("%v (-inspect +find):\n%s", err, diff)
			}
		}
	})
}

// The order is by state, topic and time in a store of one shard, and pages of any size are the whole.
func TestFindPages(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		var want []string
		for topic := range 5 {
			for i := range 60 {
				m := notify.Message{Topic: fmt.Sprint("t", topic), ID: fmt.Sprint("m", 100+i), Delay: time.Hour * time.Duration(1+i/20)}
				want = append(want, m.Topic+":"+m.ID)
				storetest.Publish(t, db, m)
			}
		}
		for _, limit := range []int{1, 7, 500} {
			found, last := all(t, db, "topic:* id:m*", find.Options{Limit: limit})
			if len(found) != len(want) || last.Looked != 300 || last.Of != 300 {
				t.Fatalf("limit %d: %d messages, looked at %d of %d", limit, len(found), last.Looked, last.Of)
			}
			storetest.Same(t, fmt.Sprintf("limit %d", limit), want, names(found))
			sorted := slices.IsSortedFunc(found, func(a, b notify.Info) int { return strings.Compare(a.Topic, b.Topic) })
			if len(db.KeysOfAll()) == 1 && !sorted {
				t.Error("topics are not sorted")
			}
		}
	})
}

// Who may see some topics sees nothing of others, not even how many there are.
// A page is full, or a second old, at whatever pace Redis answers.
func TestPageIsFullOrASecondOld(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, notify.Message{Topic: "a", ID: "later", Delay: time.Hour}, dead("a", "1", "why"), dead("b", "2", "why"), notify.Message{Topic: "b", ID: "now"})
	q, err := find.Parse("topic:a,b")
	storetest.Must(t, err)
	for took, want := range map[time.Duration]int{999 * time.Millisecond: 3, 1001 * time.Millisecond: 0} {
		f := timed(t, db)
		f.Takes(took)
		if page, err := f.Find(t.Context(), q, find.Options{Limit: 3}); err != nil || len(page.Messages) != want || page.Cursor == "" {
			t.Errorf("after %v it finds %d messages, want %d: %v", took, len(page.Messages), want, err)
		}
	}
}

func TestFindMay(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fill(t, db)
		may := func(topic string) bool { return strings.HasPrefix(topic, "order.") }
		for question, want := range map[string]int64{"topic:>": 5, "state:leased": 0, "id:leased": 18, "topic:held,news": 0, "topic:order.a": 2} {
			found, last := all(t, db, question, find.Options{May: may})
			if last.Looked > want || last.Of > want || question == "topic:>" && len(found) != 5 {
				t.Errorf("%s: %d messages, looked at %d of %d", question, len(found), last.Looked, last.Of)
			}
			for _, info := range found {
				if !may(info.Topic) {
					t.Errorf("%s: %s", question, info.Topic)
				}
			}
		}
	})
}

// Foreign members and keys, and messages without a record that are not dead, are passed over.
func TestFindForeign(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: "a", ID: "1", Delay: time.Hour}, notify.Message{Topic: "b", ID: "2", Delay: time.Hour},
			notify.Message{Topic: "c", ID: "3"})
		ctx, keys := t.Context(), db.KeysOf("a")
		long := strings.Repeat("x", 5000)
		for i, member := range []string{"", "x", "a:", ":", "b:2", "a:lost", "a:\x00", "\xff:\xff", long, "a:" + long, long + "y"} {
			db.Client().ZAdd(ctx, keys.Scheduled("a"), redis.Z{Score: float64(i) / 3, Member: member})
			db.Client().ZAdd(ctx, keys.Leased(), redis.Z{Score: math.Inf(1), Member: member})
			db.Client().ZAdd(ctx, keys.Broadcasts(), redis.Z{Score: -1e300, Member: member})
		}
		db.Client().HSet(ctx, keys.Messages(), "a:\x00", "x", "a:", "1\n", "x", "y")
		db.Client().Set(ctx, db.KeysOf("c").Ready("c"), "foreign", 0)
		for _, limit := range []int{1, 100} {
			found, _ := all(t, db, "topic:>", find.Options{Limit: limit})
			storetest.Same(t, "found", []string{"a:1", "b:2"}, names(found))
		}
	})
}

// An unreadable record is found by what stands in it.
func TestFindUnreadable(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		storetest.Publish(t, db, notify.Message{Topic: "a", ID: "1", Delay: time.Hour})
		db.Client().HSet(t.Context(), db.KeysOf("a").Messages(), "a:1", "what is this")
		if found, _ := all(t, db, "body~is", find.Options{}); len(found) != 1 || found[0].Fault == nil {
			t.Errorf("found %+v", found)
		}
	})
}

func TestFindManyTopics(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const n = 10_000
		storetest.Fill(t, db, n, func(i int) notify.Message {
			return notify.Message{Topic: fmt.Sprintf("t%d.x%d", i%10, i), ID: "m", Delay: time.Hour}
		})
		storetest.Publish(t, db, dead("t9.x9", "c", "why"), dead("t4.x9994", "b", "why"), dead("t4.x14", "a", "why"))
		var calls, indexed atomic.Int64
		db.Observe(func(script string, _ time.Duration, _ error) {
			if calls.Add(1); script == "occupied" {
				indexed.Add(1)
			}
		})
		found, last := all(t, db, "state:dead", find.Options{Limit: 500})
		storetest.Same(t, "the dead", []string{"t4.x14:a", "t4.x9994:b", "t9.x9:c"}, names(found))
		if n, most := indexed.Load(), int64(2*len(db.KeysOfAll())); n > most || last.Looked != 3 || last.Of != 3 { // to count them, and to find them
			t.Errorf("asked %d times, at most %d, which topics have dead letters; looked at %d of %d", n, most, last.Looked, last.Of)
		}
		found, last = all(t, db, "topic:t4.> state:dead", find.Options{Limit: 1})
		if storetest.Same(t, "the dead of some", []string{"t4.x14:a", "t4.x9994:b"}, names(found)); last.Looked != 2 {
			t.Errorf("looked at %d of %d", last.Looked, last.Of)
		}
		found, last = all(t, db, "topic:t3.>", find.Options{Limit: 500})
		if len(found) != n/10 || last.Looked != n/10 || last.Of != n/10 {
			t.Errorf("found %d, looked at %d of %d", len(found), last.Looked, last.Of)
		}
		found, last = all(t, db, "id:m topic:*.x77", find.Options{})
		if len(found) != 1 {
			t.Errorf("found %d, %+v", len(found), last)
		}
		t.Logf("%d calls", calls.Load())
	})
}

// What there is to look at is counted while the first pages are read, and not again by later ones.
func TestFindCounts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const topics, n = 2000, 6000
		storetest.Fill(t, db, n, func(i int) notify.Message {
			return notify.Message{Topic: fmt.Sprint("t", i%topics), ID: fmt.Sprint(i), Delay: time.Hour * time.Duration(i%3)}
		})
		f := timed(t, db)
		for question, want := range map[string]int64{"topic:>": n, "state:ready": n / 3, "due>+90m": n / 3} {
			q, err := find.Parse(question)
			var page find.Page
			for pages, behind := 0, 0; behind < 3 && err == nil; pages++ {
				if page, err = f.Find(t.Context(), q, find.Options{Limit: 1, Cursor: page.Cursor}); err != nil {
					break
				}
				if page.Cursor == "" || page.Of > want || pages > 100 {
					t.Fatalf("%s: page %d looked at %d of %d, want of %d", question, pages, page.Looked, page.Of, want)
				}
				if page.Of == want {
					behind++
				}
			}
			if err != nil || page.Of != want || page.Looked == want {
				t.Errorf("%s: looked at %d of %d, want of %d, %v", question, page.Looked, page.Of, want, err)
			}
		}
	})
}

func TestFindShardAway(t *testing.T) {
	t.Parallel()
	const away = 3
	db := storetest.ShardAway(t, 8, away)
	n := 0
	for i := range 100 {
		m := notify.Message{Topic: fmt.Sprint("t", i), ID: "m", Delay: time.Hour}
		if db.Of(m.Topic).Number() != away {
			storetest.Publish(t, db, m)
			n++
		}
	}
	f, q := finder(t, db), parse(t, "state:scheduled")
	o, found := find.Options{Limit: 10}, 0
	for {
		page, err := f.Find(t.Context(), q, o)
		var missing *store.MissingError
		if !errors.As(err, &missing) || !slices.Equal(missing.Shards, []int{away}) {
			t.Fatalf("error %v, want that shard %d is missing", err, away)
		}
		found += len(page.Messages)
		if o.Cursor = page.Cursor; o.Cursor == "" {
			break
		}
	}
	if found != n {
		t.Errorf("found %d of %d", found, n)
	}
}

func TestFindRefuses(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, notify.Message{Topic: "a", ID: "1", Delay: time.Hour}, notify.Message{Topic: "a", ID: "2", Delay: time.Hour})
	f := finder(t, db)
	page, err := f.Find(t.Context(), parse(t, "topic:a"), find.Options{Limit: 1})
	if err != nil || page.Cursor == "" {
		t.Fatal(page, err)
	}
	dry, err := f.Act(t.Context(), parse(t, "topic:a"), find.Act{Kind: find.Cancel}, find.Options{Limit: 1}, true)
	if err != nil || dry.Cursor == "" {
		t.Fatal(dry, err)
	}
	for field, call := range map[string]func() error{
		"q": func() error { return storetest.ErrOf(f.Find(t.Context(), find.Query{}, find.Options{})) },
		"limit": func() error {
			return storetest.ErrOf(f.Find(t.Context(), parse(t, "topic:a"), find.Options{Limit: 501}))
		},
		"size": func() error { return storetest.ErrOf(f.Find(t.Context(), parse(t, "topic:a"), find.Options{Size: -1})) },
		"cursor": func() error {
			for _, cursor := range []string{page.Cursor, "x", "e30", "!", strings.Repeat("A", 5000), dry.Cursor} {
				_, err := f.Find(t.Context(), parse(t, "topic:b"), find.Options{Cursor: cursor})
				if !errors.Is(err, notify.ErrInvalid) {
					return fmt.Errorf("cursor %s: %w", cursor, err)
				}
			}
			_, err := f.Act(t.Context(), parse(t, "topic:a"), find.Act{Kind: find.Cancel}, find.Options{Cursor: page.Cursor}, false)
			if !errors.Is(err, notify.ErrInvalid) {
				return fmt.Errorf("act: %w", err)
			}
			_, err = f.Act(t.Context(), parse(t, "topic:a"), find.Act{Kind: find.Cancel}, find.Options{Cursor: dry.Cursor}, false)
			return err
		},
		"due": func() error {
			for _, act := range []find.Act{{Kind: find.Purge, Due: time.Now()}, {Kind: find.Reschedule}} {
				_, err := f.Act(t.Context(), parse(t, "topic:a"), act, find.Options{}, false)
				var fault *notify.Fault
				if !errors.As(err, &fault) || fault.Field != "due" {
					return fmt.Errorf("%+v: %w", act, err)
				}
			}
			_, err := f.Act(t.Context(), parse(t, "topic:a"), find.Act{Kind: find.Cancel, Delay: new(time.Duration)}, find.Options{}, false)
			return err
		},
		"delay": func() error {
			return storetest.ErrOf(f.Act(t.Context(), parse(t, "topic:a"), find.Act{Kind: find.Reschedule, Delay: new(time.Duration(-1))}, find.Options{}, false))
		},
		"act": func() error {
			return storetest.ErrOf(f.Act(t.Context(), parse(t, "topic:a"), find.Act{}, find.Options{}, false))
		},
	} {
		var fault *notify.Fault
		if err := call(); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	storetest.Fails(t, "it", storetest.ErrOf(f.Act(t.Context(), parse(t, "state:leased"), find.Act{Kind: find.Requeue}, find.Options{}, false)), notify.ErrInvalid)
	page, err = f.Find(t.Context(), parse(t, " topic:a "), find.Options{Cursor: page.Cursor})
	if err != nil || len(page.Messages) != 1 || page.Messages[0].ID != "2" {
		t.Error(page, err)
	}
}

// A page ends when it has as many bytes as were asked for, and the next one goes on.
func TestPageIsFullOfBytes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const messages, size = 20, 100_000
	storetest.Fill(t, db, messages, func(i int) notify.Message {
		return notify.Message{Topic: "large", ID: fmt.Sprint(i), Delay: time.Hour, Body: make([]byte, size)}
	})
	f, q, o, found := finder(t, db), parse(t, "topic:large"), find.Options{Size: 3 * size}, 0
	for pages := 0; pages == 0 || o.Cursor != ""; pages++ {
		page, err := f.Find(t.Context(), q, o)
		if n := len(page.Messages); err != nil || n > 3+4 { // it reads four at a time
			t.Fatalf("a page of %d messages, %v", n, err)
		}
		found, o.Cursor = found+len(page.Messages), page.Cursor
	}
	if found != messages {
		t.Errorf("found %d, want %d", found, messages)
	}
}

// A slice reads and compares a bounded number of bytes, one message excepted, also when small messages come before large ones.
func TestSliceIsBounded(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const small, large, size = 100, 20, 230_000
	for i := range small + large {
		m := notify.Message{Topic: "mixed", ID: fmt.Sprint(i), Delay: time.Hour * time.Duration(1+i)}
		if i >= small {
			m.Body = bytes.Repeat([]byte("a"), size)
		}
		storetest.Publish(t, db, m)
	}
	for _, part := range []string{"zzz", strings.Repeat("a", 127) + "b"} {
		for name, sought := range map[string]store.Sought{"all": {Body: part}, "large": {Body: part, From: time.Now().Add((small + 1) * time.Hour).UnixMilli()}} {
			mark, looked, slices := store.Mark{}, int64(0), 0
			for ended := false; !ended; slices++ {
				found, err := db.Of("mixed").Find(t.Context(), &sought, store.Slice{Place: script.PlaceScheduled, Topics: []string{"mixed"}, After: mark, Work: 500, Most: 500})
				if err != nil || found.Looked < 1 || len(found.Matches) > 0 {
					t.Fatalf("%s: %+v, %v", name, found, err)
				}
				if n := max(looked+found.Looked-small, 0) - max(looked-small, 0); name == "all" && n > 4 || name == "large" && found.Looked > 2 {
					t.Errorf("%s, part of %d bytes: a slice looked at %d messages of %d bytes", name, len(part), max(n, found.Looked), size)
				}
				looked += found.Looked
				mark, ended = found.Mark, found.Through == 1
			}
			if name == "all" && looked != small+large || name == "large" && looked != large-1 {
				t.Errorf("%s: looked at %d", name, looked)
			}
			if len(part) > 100 && slices < large-1 {
				t.Errorf("%s: %d slices", name, slices)
			}
		}
	}
}
