package notify_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A relay moves rows of an outbox of the test's own.
type relay struct {
	t     *testing.T
	pub   client
	store *notify.Store
	store.Relay
}

// newRelay returns a relay that has begun at the shard of the topic, and the rows that it had to delete.
func newRelay(t *testing.T, pub client, db *notify.Store) (*relay, []store.Row) {
	t.Helper()
	r := &relay{t, pub, db, store.Relay{Outbox: "the outbox", Token: record.NewID(), Batch: 1}}
	taken, err := db.Of(topic).BeginRelay(t.Context(), r.Relay)
	storetest.Must(t, err)
	return r, taken
}

func (r *relay) publish(rows ...notify.RelayRow) ([]notify.Result, error) {
	return r.pub.Relay(r.t.Context(), r.store.Of(topic), r.Relay, rows)
}

// outcomes publishes rows, and returns what became of each.
func (r *relay) outcomes(rows ...notify.RelayRow) string {
	r.t.Helper()
	results, err := r.publish(rows...)
	storetest.Must(r.t, err)
	var all []string
	for _, one := range results {
		all = append(all, string(one.Outcome))
		if (one.Outcome == notify.Refused) != (one.Err != nil) {
			r.t.Errorf("%s of %s: %v", one.Outcome, one.ID, one.Err)
		}
	}
	return strings.Join(all, " ")
}

// rowOf returns row n with a message.
func rowOf(n int, m notify.Message) notify.RelayRow {
	m.Topic = topic
	return notify.RelayRow{Message: m, Row: store.Row{Seq: int64(n), Called: time.UnixMicro(1_700_000_000_000_000 + int64(n))}}
}

// numbers returns the numbers of rows.
func numbers(rows []store.Row) (all []int64) {
	for _, r := range rows {
		all = append(all, r.Seq)
	}
	return all
}

// Of a key, what is in rows becomes claimable in their order, whatever the ids; ids of a topic that ascend take one call.
func TestOrderOfARelayedKey(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	r, _ := newRelay(t, pub, db)
	var calls atomic.Int64
	db.Observe(func(script string, _ time.Duration, _ error) {
		if script == "relay" {
			calls.Add(1)
		}
	})
	var rows []notify.RelayRow
	var want, got []string
	for n, id := range []string{"m", "n", "c", "b", "b2", "z", "a"} {
		m := notify.Message{ID: id, Key: "k", Body: []byte("x")}
		if n%2 == 1 {
			m.IfExists = notify.Replace // which goes another way
		}
		rows, want = append(rows, rowOf(n, m), rowOf(100+n, notify.Message{ID: fmt.Sprint(9 - n), Key: fmt.Sprint(n), Body: []byte("x")})), append(want, id)
	}
	r.outcomes(rows...)
	made := calls.Load()
	for range want {
		for _, d := range claim(t, db, 500) {
			if d.Key == "k" {
				got = append(got, d.ID)
			}
			storetest.Must(t, d.Ack(t.Context()))
		}
	}
	storetest.Same(t, "claimed of the key", want, got)
	r.outcomes(rowOf(201, notify.Message{ID: "1", Key: "l", Body: []byte("x")}), rowOf(202, notify.Message{ID: "0", Body: []byte("x")}), rowOf(203, notify.Message{ID: "2", Key: "l", Body: []byte("x")}))
	storetest.Is(t, "calls for ids that ascend", calls.Load()-made, 1)
}

// What nothing is said of is kept where its id is in use, in any state; what asks for more gets that; and what is refused is so alone.
func TestRelayedByWhatTheyAsk(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for _, id := range []string{"leased", "dead"} {
		publish(t, pub, message(id, time.Time{}))
		d := claim(t, db, 1)[0]
		if id == "dead" {
			storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "no")))
		}
	}
	publish(t, pub, message("waits", future))
	r, _ := newRelay(t, pub, db)
	broken := notify.Message{ID: "a b", Body: []byte("x")}
	large := notify.Message{ID: "large", Body: make([]byte, notify.DefaultMaxBody+1)}
	storetest.Is(t, "what nothing is said of", r.outcomes(
		rowOf(1, notify.Message{ID: "new"}), rowOf(2, notify.Message{ID: "leased"}), rowOf(3, broken), rowOf(4, notify.Message{ID: "dead"}),
		rowOf(5, large), rowOf(6, notify.Message{ID: "waits"}), rowOf(7, notify.Message{ID: "late", Due: future, Spread: 24 * time.Hour}),
		rowOf(8, notify.Message{ID: "endless", Due: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Spread: 24 * time.Hour}), rowOf(9, notify.Message{ID: "new"}),
	), "created kept refused kept refused kept created refused kept")
	storetest.Is(t, "what asks for something", r.outcomes(
		rowOf(11, notify.Message{ID: "waits", IfExists: notify.Refuse}), rowOf(12, notify.Message{ID: "leased", IfExists: notify.Replace}),
		rowOf(13, notify.Message{ID: "waits", IfExists: notify.Replace}), rowOf(14, notify.Message{ID: "leased", Then: notify.After}),
		rowOf(15, notify.Message{ID: "leased", Then: notify.After}), rowOf(16, notify.Message{ID: "dead", UniqueFor: time.Hour}),
		rowOf(17, notify.Message{ID: "leased", UniqueFor: time.Hour, IfExists: notify.Keep}), rowOf(18, notify.Message{ID: "dead", IfExists: notify.Debounce, Delay: time.Hour}),
		rowOf(19, notify.Message{ID: "dead", Then: notify.After}), rowOf(20, notify.Message{ID: "dead", IfExists: notify.Replace}),
	), "refused refused replaced created kept kept kept refused refused replaced")
	_, taken := newRelay(t, pub, db)
	storetest.Same(t, "noted", []int64{1, 2, 4, 6, 7, 9, 13, 14, 15, 16, 17, 20}, sorted(numbers(taken)))
}

func sorted(all []int64) []int64 {
	slices.Sort(all)
	return all
}

// A batch takes the place of the one before, as soon as the shard takes something of it; what was begun since is noted beside.
func TestRelayNotesABatch(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	r, taken := newRelay(t, pub, db)
	storetest.Is(t, "rows of nothing", len(taken), 0)
	r.outcomes(rowOf(1, message("a", future)), rowOf(2, message("b", future)))
	r.outcomes(rowOf(3, message("c", future)))
	_, taken = newRelay(t, pub, db)
	storetest.Same(t, "of a batch", []store.Row{rowOf(1, notify.Message{}).Row, rowOf(2, notify.Message{}).Row, rowOf(3, notify.Message{}).Row}, taken)
	_, taken = newRelay(t, pub, db)
	storetest.Is(t, "rows that nobody deleted", len(taken), 3)
	r, _ = newRelay(t, pub, db)
	r.outcomes(rowOf(4, message("d", future)))
	r.Batch++
	r.outcomes(rowOf(5, message("e", future)))
	r, taken = newRelay(t, pub, db)
	storetest.Same(t, "of the next", []int64{5}, numbers(taken))
	other := *r
	other.Outbox = "another"
	taken, err := db.Of(topic).BeginRelay(t.Context(), other.Relay)
	storetest.Must(t, err)
	storetest.Is(t, "of another outbox", len(taken), 0)
	storetest.Is(t, "beside another", r.outcomes(rowOf(6, message("f", future))), "created")
}

// A relay is refused, and changes nothing, once another has begun.
func TestStaleRelay(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	old, _ := newRelay(t, pub, db)
	old.outcomes(rowOf(1, message("a", future)))
	newRelay(t, pub, db)
	for _, m := range []notify.Message{message("b", future), {ID: "b", IfExists: notify.Replace}} {
		unchanged(t, db, func() {
			results, err := old.publish(rowOf(2, m))
			storetest.Fails(t, "a late call", err, store.ErrStale)
			storetest.Is(t, "its outcome", results[0].Outcome, "")
		})
	}
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Relayed()).Err())
	_, err := old.publish(rowOf(2, message("b", future)))
	storetest.Fails(t, "a call behind a loss", err, store.ErrStale)
}

// By how old a row is its delay is shorter, and no more. A due time stays.
func TestAgeOfARelayed(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	r, _ := newRelay(t, pub, db)
	before := redisTime(t, db)
	age := func(n int, by time.Duration, m notify.Message) notify.RelayRow {
		row := rowOf(n, m)
		row.Age = by
		return row
	}
	results, err := r.publish(
		age(1, time.Minute+999*time.Microsecond, notify.Message{ID: "a", Delay: anHour}), age(2, 2*anHour, notify.Message{ID: "b", Delay: anHour}),
		age(3, -anHour, notify.Message{ID: "c", Delay: anHour}), age(4, anHour, notify.Message{ID: "d", Due: future}), age(5, time.Minute, notify.Message{ID: "e", Delay: anHour, IfExists: notify.Replace}),
		age(6, time.Minute, notify.Message{ID: "f"}),
	)
	storetest.Must(t, err)
	after := redisTime(t, db).Add(2 * time.Millisecond)
	for i, delay := range []time.Duration{anHour - time.Minute, 0, anHour, -1, anHour - time.Minute, 0} {
		switch due := results[i].Due; {
		case delay < 0:
			storetest.Is(t, "due", due.UTC(), future)
		case due.Before(before.Add(delay).Truncate(time.Millisecond)) || due.After(after.Add(delay)):
			t.Errorf("%s is due %v, want it %v behind %v", results[i].ID, due, delay, before)
		}
	}
}

// Of a topic rows are published in their order, whichever way they go.
func TestRelayedInOrder(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	r, _ := newRelay(t, pub, db)
	var rows []notify.RelayRow
	for n := range 60 {
		m := notify.Message{ID: "a", Body: fmt.Append(nil, n), IfExists: notify.Replace}
		if n%3 == 1 {
			m.IfExists = notify.Keep
		}
		rows = append(rows, rowOf(n, m))
	}
	results, err := r.publish(rows...)
	storetest.Must(t, err)
	for n, one := range results {
		want := notify.Replaced
		if n == 0 {
			want = notify.Created
		} else if n%3 == 1 {
			want = notify.Kept
		}
		storetest.Is(t, fmt.Sprint("the outcome of ", n), one.Outcome, want)
	}
	info, err := pub.Inspect(t.Context(), topic, "a")
	storetest.Must(t, err)
	storetest.Is(t, "the last", string(info.Body), "59")

	r.Batch++
	rows = nil
	var want []int64
	for n := range 60 {
		m := notify.Message{ID: fmt.Sprint("b", n)}
		if n%2 == 0 {
			m.IfExists = notify.Replace
		}
		rows, want = append(rows, rowOf(n, m)), append(want, int64(n))
	}
	r.outcomes(rows...)
	_, taken := newRelay(t, pub, db)
	storetest.Same(t, "noted, call by call", want, numbers(taken))
}

// A foreign key of one topic is a fault of its rows alone.
func TestRelayedToAForeignTopic(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "all are in one call")
	pub, db := open(t)
	r, _ := newRelay(t, pub, db)
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf("b").KeysOf("b"), "foreign", 0).Err())
	var rows []notify.RelayRow
	for n, topic := range []string{"a", "b", "a", "c"} {
		row := rowOf(n, notify.Message{ID: fmt.Sprint(n), Key: "k"})
		row.Topic = topic
		rows = append(rows, row)
	}
	storetest.Is(t, "beside a foreign key", r.outcomes(rows...), "created refused created created")
	_, taken := newRelay(t, pub, db)
	storetest.Same(t, "noted", []int64{0, 2, 3}, numbers(taken))
}

// Begun at each unknown answer, a relay publishes each row once, however often it dies, also if messages are handled meanwhile and their ids
// are free.
func TestRelayedOnce(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	random := rand.New(rand.NewPCG(54, 1))
	var table []notify.RelayRow
	for n := range 400 {
		m := notify.Message{ID: fmt.Sprint("m", n), Body: fmt.Append(nil, n)}
		switch n % 4 {
		case 1:
			m.IfExists = notify.Replace
		case 2:
			m.Key = fmt.Sprint("k", n%3)
		}
		table = append(table, rowOf(n, m))
	}
	handled := make(map[string]int)
	handle := func() {
		for ds := claimed(t, db); len(ds) > 0; ds = claimed(t, db) {
			for _, d := range ds {
				handled[string(d.Body)]++
				storetest.Must(t, d.Ack(t.Context()))
			}
		}
	}
	remove := func(rows []store.Row) {
		table = slices.DeleteFunc(table, func(r notify.RelayRow) bool { return slices.Contains(rows, r.Row) })
	}
	r, _ := newRelay(t, pub, db)
	for len(table) > 0 {
		r.Batch++
		some := slices.Clone(table[:min(len(table), 1+random.IntN(20))])
		late := *r
		_, err := r.publish(some...)
		storetest.Must(t, err)
		handle()
		var done []store.Row
		for _, row := range some {
			done = append(done, row.Row)
		}
		switch random.IntN(3) {
		case 0: // it dies before it deletes
		case 1: // and having deleted
			remove(done)
		case 2:
			remove(done)
			continue
		}
		var taken []store.Row
		r, taken = newRelay(t, pub, db)
		if random.IntN(2) == 0 { // having begun
			r, taken = newRelay(t, pub, db)
		}
		_, err = late.publish(some...)
		storetest.Fails(t, "a late call", err, store.ErrStale)
		remove(taken)
	}
	handle()
	if len(handled) != 400 {
		t.Errorf("%d were handled", len(handled))
	}
	for body, n := range handled {
		if n != 1 {
			t.Errorf("%s was handled %d times", body, n)
		}
	}
}

// claimed claims all of the topic that are ready.
func claimed(t *testing.T, db *notify.Store) []subscribers.Delivery {
	t.Helper()
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 500, Lease: time.Minute})
	storetest.Must(t, err)
	return ds
}

// An outbox needs the format that brings it.
func TestRelayNeedsItsFormat(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "one format key is written")
	db := storetest.Open(t)
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Format(), "9 ID", 0).Err())
	db = storetest.At(t, storetest.URL(), db.Prefix())
	unchanged(t, db, func() {
		_, err := db.Of(topic).BeginRelay(t.Context(), store.Relay{Outbox: "o", Token: "t"})
		if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "the outbox needs format 10, and this one has 9, so that older programs can work beside; when none is left: bellhop upgrade") {
			t.Errorf("an outbox in format 9: %v", err)
		}
	})
	_, err := db.Upgrade(t.Context(), true)
	storetest.Must(t, err)
	_, err = db.Of(topic).BeginRelay(t.Context(), store.Relay{Outbox: "o", Token: "t"})
	storetest.Must(t, err)
}
