package subscribers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// carryFew runs a carrier that keeps few broadcasts: not many more than 100.
func carryFew(t *testing.T, store *notify.Store) (stop func()) {
	t.Helper()
	return carry(t, store, carrier.Options{KeepCount: 100})
}

// wantGap waits for the one gap that a listener gets, and checks that what it
// received behind it is all that is kept: that nothing is missing but what the gap names.
func wantGap(t *testing.T, store *notify.Store, h *received, topic string, before ...string) {
	t.Helper()
	kept := sentTo(t, store)
	want := before
	var first notify.Position
	for _, s := range kept {
		if s.topic == topic && (first == 0 || s.at < first) {
			first = s.at
		}
		if s.topic == topic && (len(before) == 0 || s.id > before[len(before)-1]) {
			want = append(want, s.id)
		}
	}
	wantIDs(t, h, want...)
	gaps := h.missed()
	if len(gaps) != 1 {
		t.Fatalf("got the gaps %v, want one", gaps)
	}
	g := gaps[0]
	if g.Topic != topic || g.After >= g.UpTo || first != 0 && g.UpTo >= first {
		t.Errorf("got the gap %+v; the first that is kept is at %v", g, first)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(before) > 0 && g.After < h.all[len(before)-1].Position {
		t.Errorf("the gap is behind %v, where %s was received at %v", g.After, before[len(before)-1], h.all[len(before)-1].Position)
	}
}

// A listener so slow that broadcasts are removed before it reads them gets a gap, in their place, and goes on with what is kept.
func TestGapOfASlowListener(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carryFew(t, store)
	l := newListener(t, store)
	slow := &received{hold: make(chan struct{})}
	listenInto(t, l, ">", slow)
	fast, _ := listen(t, l, ">")
	ids := numbers("n", 5000)
	// It has read a page from the window when the rest comes.
	flood(t, store, []string{topic}, ids[:10]...)
	wantIDs(t, fast, ids[:10]...)
	for i := 10; i < len(ids); i += 50 { // not faster than the hub reads, which would have a gap of its own
		n := min(i+50, len(ids))
		flood(t, store, []string{topic}, ids[i:n]...)
		storetest.Eventually(t, "the fast one has received", func() bool { return fast.size() == n })
	}
	if n := len(fast.missed()); n > 0 {
		t.Fatalf("the fast one got %d gaps", n)
	}
	close(slow.hold)
	storetest.Eventually(t, "the slow one has received the last", func() bool {
		got := slow.list()
		return len(got) > 0 && got[len(got)-1] == ids[len(ids)-1]
	})
	read := 0 // before the gap
	for got := slow.list(); read < len(got) && got[read] == ids[read]; {
		read++
	}
	wantGap(t, store, slow, topic, ids[:read]...)
	if n := l.Stats(); n.Gaps != 1 || n.Lagged != 1 {
		t.Errorf("%+v", n)
	}
}

// A hub that was away while more came than is kept.
func TestGapOfAHub(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	carryFew(t, store)
	back := away(t, store, server.URL())
	l := newListener(t, back.store)
	h, _ := listen(t, l, ">")
	other, _ := listen(t, l, "other")
	broadcast(t, store, topic, "a")
	wantIDs(t, h, "a")
	back.leave()
	flood(t, store, []string{topic}, numbers("n", 1000)...)
	sentAll(t, store)
	back.come()
	wantGap(t, store, h, topic, "a")
	broadcast(t, store, "other", "o")
	wantIDs(t, other, "o")
	if gaps := other.missed(); len(gaps) > 0 {
		t.Errorf("the other one got %v", gaps)
	}
}

// A listener that was away for less than what is kept misses nothing, whatever it listens to.
func TestShortAbsenceIsNoGap(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	carry(t, store)
	back := away(t, store, server.URL())
	l := newListener(t, back.store)
	all, _ := listen(t, l, ">")
	one, _ := listen(t, l, "t.007")
	named, _ := listen(t, l, "t.*", subscribers.ListenOptions{Name: "n", Concurrency: 4})
	var topics []string
	for i := range 600 { // more than one look tells of
		topics = append(topics, storetest.Beside(store, "t.007", fmt.Sprintf("t.%03d", i)))
	}
	broadcast(t, store, "t.007", "first")
	wantIDs(t, one, "first")
	for round := range 3 {
		back.leave()
		ids := numbers(fmt.Sprint(round, "-"), 2400)
		flood(t, store, topics, ids...)
		sentAll(t, store)
		back.come()
		storetest.Eventually(t, "all are received", func() bool {
			n := 2400*(round+1) + 1
			return all.size() == n && named.size() == n && one.size() == 4*(round+1)+1
		})
	}
	were := sentTo(t, store)
	all.check(t, "all", were, ">")
	one.check(t, "one", were, "t.007")
	once := map[string]bool{}
	for _, id := range named.list() {
		if once[id] {
			t.Errorf("the named one received %s twice", id)
		}
		once[id] = true
	}
	if n := l.Stats(); n.Gaps > 0 {
		t.Errorf("%+v", n)
	}
}

// Who begins at the beginning does not miss what was removed before; who begins at a time or behind a position does.
func TestGapsAtTheBeginning(t *testing.T) {
	storetest.OneShard(t, "a position is the bookmark of any pattern in one")
	t.Parallel()
	store := storetest.Open(t)
	carryFew(t, store)
	began := time.Now()
	broadcast(t, store, topic, "0")
	first := sentTo(t, store)[0].at
	flood(t, store, []string{topic, "other"}, numbers("n", 1000)...)
	sentAll(t, store)
	var kept, of []string
	for _, s := range sentTo(t, store) {
		kept = append(kept, s.id)
		if s.topic == topic {
			of = append(of, s.id)
		}
	}
	if len(kept) > 500 {
		t.Fatalf("%d are kept", len(kept))
	}
	l := newListener(t, store)
	for _, test := range []struct {
		from subscribers.From
		gaps []string
	}{
		{subscribers.FromBeginning(), nil},
		{subscribers.FromNow(), nil},
		{subscribers.FromTime(began), []string{topic, "other"}},
		{subscribers.After(subscribers.At(first)), []string{topic, "other"}},
		{subscribers.After("0-0"), []string{topic, "other"}},
	} {
		for _, name := range []string{"", "n"} {
			var want []string
			if test.from != subscribers.FromNow() {
				want = kept
			}
			h, stop := listen(t, l, ">", subscribers.ListenOptions{From: test.from, Name: name})
			if name == "" {
				wantIDs(t, h, want...)
			} else {
				wantSet(t, h, want...)
			}
			got := map[string]bool{}
			for _, g := range h.missed() {
				if got[g.Topic] || g.After >= g.UpTo {
					t.Errorf("from %s: %v", test.from, h.missed())
				}
				got[g.Topic] = true
			}
			wanted := map[string]bool{}
			for _, topic := range test.gaps {
				wanted[topic] = true
			}
			if diff := gocmp.Diff(wanted, got); diff != "" {
				t.Errorf("from %s as %q: gaps (-want +got):\n%s", test.from, name, diff)
			}
			stop()
			if name != "" {
				storetest.Must(t, storetest.Inspector(t, store).RemoveListener(t.Context(), name))
			}
		}
	}
	h, _ := listen(t, l, topic, subscribers.ListenOptions{From: subscribers.FromTime(began)})
	wantGap(t, store, h, topic)
	if len(of) != h.size() {
		t.Errorf("received %d", h.size())
	}
}

// What is removed while a listener reads from the beginning is a gap: it was there when it began.
func TestGapWhileReadingFromTheBeginning(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "n"} {
		t.Run("name "+name, func(t *testing.T) {
			store := storetest.Open(t)
			stop := carryFew(t, store)
			flood(t, store, []string{topic}, numbers("m", 1000)...) // the beginning of which is removed already
			sentAll(t, store)
			stop()
			carry(t, store) // keeps all
			flood(t, store, []string{topic}, numbers("n", 5000)...)
			sentAll(t, store)
			l := newListener(t, store)
			slow := &received{hold: make(chan struct{})}
			listenInto(t, l, topic, slow, subscribers.ListenOptions{From: subscribers.FromBeginning(), Name: name})
			select {
			case slow.hold <- struct{}{}: // it has begun
			case <-time.After(storetest.Deadline):
				t.Fatal("it does not begin")
			}
			if gaps := slow.missed(); len(gaps) > 0 {
				t.Fatalf("at the beginning: %v", gaps)
			}
			storetest.Must(t, store.Client().XTrimMaxLen(t.Context(), store.KeysOf(topic).Log(topic), 100).Err())
			close(slow.hold)
			storetest.Eventually(t, "it has received the last", func() bool {
				got := slow.list()
				return len(got) > 0 && got[len(got)-1] == "n04999"
			})
			if gaps := slow.missed(); len(gaps) == 0 || len(gaps) > 1 && name == "" {
				t.Errorf("gaps %v", gaps)
			}
		})
	}
}

// A named listener that was away while more came than is kept.
func TestGapOfAName(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carryFew(t, store)
	l := newListener(t, store)
	o := subscribers.ListenOptions{Name: "n"}
	h, stop := listen(t, l, ">", o)
	broadcast(t, store, topic, "a")
	wantIDs(t, h, "a")
	stop()
	flood(t, store, []string{topic}, numbers("n", 1000)...)
	broadcast(t, store, storetest.Beside(store, topic, "other"), "o")
	h, _ = listen(t, l, ">", o)
	storetest.Eventually(t, "the gap is reported", func() bool { return len(h.missed()) == 1 })
	kept := sentTo(t, store)
	storetest.Eventually(t, "what is kept is received", func() bool { return h.size() == len(kept) })
	if g := h.missed(); len(g) != 1 || g[0].Topic != topic || g[0].UpTo >= kept[0].at {
		t.Errorf("gaps %v", g)
	}
}

// A gap of a named listener is leased: one that died before it heeded the gap, or whose Redis did not get its answer through, loses none.
func TestGapOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stopCarrier := carryFew(t, db)
	o := subscribers.ListenOptions{Name: "n"}
	_, stop := listen(t, newListener(t, db), topic, o)
	stop()
	flood(t, db, []string{topic}, numbers("n", 1000)...)
	stopCarrier() // which trims no more
	shard, keys := db.Of(topic), db.KeysOf(topic)
	names, err := shard.Listeners(t.Context())
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	died := store.Take{Name: "n", Registration: names[0].Text, Lease: time.Hour, Max: 3, Topics: []string{topic}}
	got, err := shard.Take(t.Context(), died)
	if err != nil || len(got.Gaps) != 1 || got.Gaps[0].Attempt != 1 || len(got.Broadcasts) != 2 || len(got.More) != 1 {
		t.Fatalf("%+v, %v; want a gap and two broadcasts", got, err)
	}
	if again, err := shard.Take(t.Context(), died); err != nil || len(again.Gaps) > 0 || len(again.Broadcasts) != 3 {
		t.Fatalf("%+v, %v; want three broadcasts behind the gap", again, err)
	}
	held := db.Client().ZRange(t.Context(), keys.Held("n"), 0, -1).Val()
	if len(held) != 6 {
		t.Fatalf("%q is leased", held)
	}
	for _, member := range held { // their leases end
		storetest.Must(t, db.Client().Do(t.Context(), "ZADD", keys.Held("n"), 1, member).Err())
	}
	want := subscribers.Gap{Topic: topic, After: got.Gaps[0].After, UpTo: got.Gaps[0].UpTo}
	kept := sentTo(t, db)
	tries := 0
	h := &received{}
	o.BackoffMin, o.BackoffMax = time.Millisecond, time.Millisecond
	o, started := h.options(o)
	note := o.OnGap
	o.OnGap = func(g subscribers.Gap) {
		if tries++; tries == 1 {
			panic("not yet")
		}
		note(g)
	}
	storetest.Run(t, func(ctx context.Context) error {
		return newListener(t, db).Listen(ctx, topic, func(ctx context.Context, b *subscribers.Broadcast) error {
			if len(h.missed()) == 0 {
				t.Errorf("%s came before the gap", b.ID)
			}
			return h.handle(ctx, b)
		}, o)
	})
	storetest.Receive(t, "it listens", started)
	storetest.Eventually(t, "what is kept is received", func() bool { return h.size() == len(kept) })
	if gaps := h.missed(); len(gaps) != 1 || gaps[0] != want || tries != 2 {
		t.Errorf("got %+v in %d tries, want %+v", gaps, tries, want)
	}
	nothingHeld(t, db, "n")
}

// A log of which everything was too old is removed altogether, which is a gap for who was away.
func TestGapOfARemovedLog(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	stopCarrier := carry(t, store, carrier.Options{KeepAge: carrier.MinKeepAge, Sweep: carrier.MinSweep})
	l := newListener(t, store)
	o := subscribers.ListenOptions{Name: "n"}
	_, stop := listen(t, l, ">", o)
	stop()
	began := time.Now()
	broadcast(t, store, topic, "a")
	storetest.Eventually(t, "the log is removed", func() bool { return counts(t, store).Log == 0 })
	stopCarrier()
	carry(t, store) // which keeps what comes
	plain, _ := listen(t, l, topic, subscribers.ListenOptions{From: subscribers.FromTime(began)})
	named, _ := listen(t, l, ">", o)
	beginning, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.FromBeginning()})
	storetest.Eventually(t, "the gaps are reported", func() bool { return len(plain.missed()) == 1 && len(named.missed()) == 1 })
	broadcast(t, store, topic, "b")
	wantIDs(t, plain, "b")
	wantIDs(t, named, "b")
	wantIDs(t, beginning, "b")
	for _, h := range []*received{plain, named} {
		if g := h.missed(); len(g) != 1 || g[0].Topic != topic || g[0].UpTo >= h.all[0].Position {
			t.Errorf("gaps %v", g)
		}
	}
	if g := beginning.missed(); len(g) > 0 {
		t.Errorf("from the beginning: %v", g)
	}
}

// How far a name is behind that nobody listens under, and when the log is about to remove, or has removed, what it did not get.
func TestLagOfAName(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	h, stop := listen(t, l, ">", subscribers.ListenOptions{Name: "n"})
	broadcast(t, store, topic, "a")
	wantIDs(t, h, "a")
	stop()
	broadcast(t, store, topic, "b", "c")
	broadcast(t, store, "other", "d")
	sentAt := sentTo(t, store)
	want := func(what string, oldest notify.Position, missed, atRisk bool) {
		t.Helper()
		names, err := storetest.Inspector(t, store).Listeners(t.Context())
		if err != nil || len(names) != 1 {
			t.Fatalf("%v, %v", names, err)
		}
		if n := names[0]; n.Behind != 2 || !n.Oldest.Equal(oldest.Time()) || n.HasGap != missed || n.AtRisk != atRisk {
			t.Errorf("%s: got %+v, want the oldest at %v", what, n, oldest.Time())
		}
	}
	trim := func(keep int64) {
		t.Helper()
		storetest.Must(t, store.Client().XTrimMaxLen(t.Context(), store.KeysOf(topic).Log(topic), keep).Err())
	}
	want("the log keeps all", sentAt[1].at, false, false)
	trim(2)
	want("the next is removed first", sentAt[1].at, false, true)
	trim(1)
	want("one is gone", sentAt[2].at, true, true)
	trim(0)
	want("all are gone", sentAt[3].at, true, false)
	storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf("other").Log("other"), "foreign", 0).Err())
	if names, err := storetest.Inspector(t, store).Listeners(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("a log is foreign: %v, %v", names, err)
	}
}
