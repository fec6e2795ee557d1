package notify_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// brief is an announcement with a ttl.
func brief(id string, due time.Time, ttl time.Duration) notify.Message {
	m := announcement(id, due)
	m.TTL = ttl
	return m
}

func inspect(t *testing.T, pub client, id string) notify.Info {
	t.Helper()
	info, err := pub.Inspect(t.Context(), topic, id)
	storetest.Must(t, err)
	return info
}

// dropped returns how many broadcasts were dropped, of the topic and of all.
func dropped(t *testing.T, db *notify.Store) (n [2]string) {
	t.Helper()
	for i, of := range []string{topic, "*"} {
		sum := 0
		for _, keys := range db.KeysOfAll() {
			one, _ := db.Client().HGet(t.Context(), keys.Topics(), of+":dropped").Int()
			sum += one
		}
		n[i] = strconv.Itoa(sum)
	}
	return n
}

// A carrier that was away until broadcasts had expired sends the others alone. Those are
// counted, and leave nothing behind.
func TestExpiredBroadcastIsNotSent(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	other := brief("d", past, time.Second)
	other.Topic = "other"
	now := redisTime(t, db)
	for _, m := range []notify.Message{
		brief("a", past, time.Second), announcement("b", past), brief("c", past, now.Sub(past)+anHour), brief("e", time.Time{}, time.Millisecond), other,
	} {
		publish(t, pub, m)
	}
	wantCounts(t, pub, notify.Counts{Broadcasts: 4})
	end := redisTime(t, db).Add(2 * time.Millisecond)
	storetest.Eventually(t, "e expires", func() bool { return redisTime(t, db).After(end) })
	sent := recording(t, db, db.KeysOf(topic).Broadcast(topic))
	carry(t, db)
	storetest.Eventually(t, "all are carried", func() bool { return counts(t, pub).Broadcasts+count(t, pub, "other").Broadcasts == 0 })
	if diff := cmp.Diff([2]string{"2", "3"}, dropped(t, db)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if told := sent.recorded(); len(told) != 2 {
		t.Errorf("told was %q", told)
	}
	if c := counts(t, pub); c.Sent != 2 || c.Log != 2 || c.Died != 0 {
		t.Errorf("%+v", c)
	}
	storetest.Empty(t, db)
}

// The id of a broadcast stays taken whether it was sent or dropped.
func TestUniqueBroadcastExpires(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	carry(t, db)
	sent, expired := brief("sent", past, redisTime(t, db).Sub(past)+anHour), brief("expired", past, time.Second)
	sent.UniqueFor, expired.UniqueFor = anHour, anHour
	publish(t, pub, sent)
	publish(t, pub, expired)
	storetest.Eventually(t, "both are carried", func() bool { return counts(t, pub).Broadcasts == 0 })
	for _, id := range []string{"sent", "expired"} {
		if i := inspect(t, pub, id); i.State != notify.Done {
			t.Errorf("%s: %+v", id, i)
		}
		if _, err := pub.Publish(t.Context(), message(id, future)); !errors.Is(err, notify.ErrExists) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// No broadcast is sent at the end of its time to live, or later, and none is dropped before.
func TestBroadcastAtTheEndOfItsTTL(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	began := redisTime(t, db).Truncate(time.Millisecond)
	var all []notify.Message
	ends := make(map[string]time.Time)
	for i := range 400 { // some are over before the carrier begins, some while it works
		id := fmt.Sprint(i)
		due := began.Add(time.Duration(i/2) * time.Millisecond)
		m := brief(id, due, time.Duration(i%4)*time.Millisecond+time.Millisecond)
		ends[id] = due.Add(m.TTL)
		all = append(all, m)
	}
	pub.PublishMany(t.Context(), all)
	carry(t, db)
	storetest.Eventually(t, "all are carried", func() bool { return counts(t, pub).Broadcasts == 0 })
	entries, err := db.Client().XRange(t.Context(), db.KeysOf(topic).Log(topic), "-", "+").Result()
	storetest.Must(t, err)
	for _, e := range entries {
		at, err := record.ParsePosition(e.ID)
		id := e.Values["id"].(string)
		if end := ends[id]; err != nil || at.Time().Add(-time.Millisecond).After(end) { // positions of a batch are a microsecond apart
			t.Errorf("%s was sent at %v, %v; it ended at %v", id, at.Time(), err, end)
		}
	}
	n := fmt.Sprint(len(all) - len(entries))
	if diff := cmp.Diff([2]string{n, n}, dropped(t, db)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	t.Logf("%d of %d were sent", len(entries), len(all))
}

// The time to live counts from the due time that a broadcast has at last.
func TestTTLOfARescheduledBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const ttl = time.Minute
	publish(t, pub, brief("later", past, ttl))
	publish(t, pub, brief("earlier", future, ttl))
	for id, delay := range map[string]time.Duration{"later": 300 * time.Millisecond, "earlier": 0} {
		due := time.Time{}
		if delay == 0 {
			due = past
		}
		p, err := pub.reschedule(t.Context(), topic, id, delay, due)
		storetest.Must(t, err)
		if i := inspect(t, pub, id); !i.Expires.Equal(p.Due.Add(ttl)) || i.TTL != ttl {
			t.Errorf("%s: it expires at %v, and is due at %v", id, i.Expires, p.Due)
		}
	}
	if n, err := db.Client().Exists(t.Context(), db.KeysOf(topic).Expiries()).Result(); n != 0 || err != nil {
		t.Errorf("they are in the index of expiries, %v", err)
	}
	carry(t, db)
	storetest.Eventually(t, "one is sent, the other dropped", func() bool {
		c := counts(t, pub)
		return c.Sent == 1 && c.Broadcasts == 0
	})
	if got := dropped(t, db); got[0] != "1" {
		t.Errorf("dropped: %v", got)
	}
	storetest.Empty(t, db)
}

// A dead broadcast has its whole time to live again when it is requeued.
func TestTTLOfARequeuedBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Log(topic), "x", 0).Err())
	stop := carry(t, db)
	publish(t, pub, brief("a", time.Time{}, anHour))
	storetest.Eventually(t, "it is dead", func() bool { return counts(t, pub).Dead == 1 })
	stop()
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Log(topic)).Err())
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); n != 1 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	if i := inspect(t, pub, "a"); !i.Expires.Equal(i.Due.Add(anHour)) {
		t.Errorf("it expires at %v, and is due at %v", i.Expires, i.Due)
	}
	carry(t, db)
	storetest.Eventually(t, "it is sent", func() bool { return counts(t, pub).Sent == 1 })
	storetest.Empty(t, db)
}

// An export of a broadcast that waits has its ttl, and makes the same broadcast.
func TestRestoreABroadcastWithATTL(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, brief("a", future, anHour))
	want := inspect(t, pub, "a")
	if !want.Expires.Equal(future.Add(anHour)) {
		t.Errorf("it expires at %v", want.Expires)
	}
	raw := func() string {
		return db.Client().HGet(t.Context(), db.KeysOf(topic).Messages(), record.Member(topic, "a")).Val()
	}
	record := raw()
	lines, _ := export(t, db)
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "a")))
	restore(t, db, lines)
	if diff := cmp.Diff(want, inspect(t, pub, "a")); diff != "" || raw() != record {
		t.Errorf("restored from %s (-want +got), %q:\n%s", lines, raw(), diff)
	}
}
