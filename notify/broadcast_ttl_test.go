package notify_test

import (
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
// counted, and leave nothing behind. The ids of both stay taken where that was asked for.
func TestExpiredBroadcastIsNotSent(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "both topics are carried by one call")
	storetest.Play(t, `
	publish a mode=broadcast due=past ttl=1s unique_for=1h
	publish b mode=broadcast due=past
	publish c mode=broadcast due=past ttl=876000h unique_for=1h
	publish e mode=broadcast ttl=1ms
	publish d topic=other mode=broadcast due=past ttl=1s
	counts broadcasts=4
	pass 2ms
	carry
	counts dropped=2 sent=2 log=2
	counts topic=other dropped=1
	redis HGET topics *:dropped = 3
	redis XLEN log:order.timeout = 2
	is a=done b=none c=done e=none
	publish a = refused:exists
	publish c = refused:exists
	cancel a = done
	cancel c = done
	empty
	`, scenario())
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
	storetest.Same(t, "dropped", [2]string{n, n}, dropped(t, db))
	t.Logf("%d of %d were sent", len(entries), len(all))
}

// The time to live counts from the due time that a broadcast has at last.
func TestTTLOfARescheduledBroadcast(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish later mode=broadcast due=past ttl=1m
	publish earlier mode=broadcast due=future ttl=1m
	reschedule later delay=3ms = scheduled
	has later expires=due+1m due=now+3ms
	reschedule earlier due=past = scheduled
	has earlier expires=due+1m due=past
	redis EXISTS expiries = 0
	pass 5ms
	carry
	counts sent=1 log=1 dropped=1
	empty
	`, scenario())
}

// A dead broadcast has its whole time to live again when it is requeued.
func TestTTLOfARequeuedBroadcast(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	redis SET log:order.timeout x
	publish a mode=broadcast ttl=1h
	pass 2ms
	carry = dead:a
	redis DEL log:order.timeout
	requeue a
	has a expires=due+1h due=now
	pass 2ms
	carry
	counts sent=1 log=1 died=1
	empty
	`, scenario())
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
