package subscribers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// fail claims a message and rejects it, as due again at once.
func fail(t *testing.T, c *subscribers.Claimer, reason string) (subscribers.Delivery, subscribers.Outcome) {
	t.Helper()
	d := claimOne(t, c, time.Minute)
	out, err := d.Nack(t.Context(), 0, reason)
	storetest.Must(t, err)
	return d, out
}

// wantReasons checks why attempts failed, that all were of a worker, and that they are in order.
func wantReasons(t *testing.T, where string, history []notify.Attempt, worker string, reasons ...string) {
	t.Helper()
	var got []string
	last := time.Time{}
	for _, a := range history {
		got = append(got, a.Reason)
		if a.By != worker || a.Took < 0 || a.Ended.Before(last) || time.Since(a.Ended).Abs() > time.Hour {
			t.Errorf("%s: an attempt by %q took %v and ended %v", where, a.By, a.Took, a.Ended)
		}
		last = a.Ended
	}
	if diff := cmp.Diff(reasons, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", where, diff)
	}
}

// The last ten attempts of a message that failed are known to whoever claims it, inspects it, or finds it dead, and after a requeue.
func TestHistory(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(13)})
	c := called(t, db, "w-1")
	storetest.Publish(t, db, body("a"))
	var want []string
	for i := range 12 {
		storetest.Eventually(t, "it is ready", func() bool { return counts(t, db).Ready == 1 })
		reason := fmt.Sprintf("no %d", i)
		d, out := fail(t, c, reason)
		wantReasons(t, "claimed", d.History, "w-1", want...)
		if out.Attempts != i+1 || out.Forgetful {
			t.Errorf("got %+v", out)
		}
		want = append(want, reason)
		want = want[max(len(want)-record.MaxHistory, 0):]
		wantReasons(t, "inspected", inspect(t, db, "a").History, "w-1", want...)
	}
	storetest.Eventually(t, "it is ready", func() bool { return counts(t, db).Ready == 1 })
	d, out := fail(t, c, "line one\r\nline two "+strings.Repeat("ä", 1000))
	if out.State != notify.Dead || d.Attempt != 13 {
		t.Fatalf("attempt %d: got %+v", d.Attempt, out)
	}
	dead := inspect(t, db, "a")
	last := dead.History[len(dead.History)-1].Reason
	if len(dead.History) != record.MaxHistory || !strings.HasPrefix(last, "line one  line two ää") || len(last) > record.MaxReason {
		t.Errorf("got %d attempts, the last of %d bytes: %.40q", len(dead.History), len(last), last)
	}
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if info := inspect(t, db, "a"); info.Attempts != 0 || cmp.Diff(dead.History, info.History) != "" {
		t.Errorf("requeued: %d attempts, %+v", info.Attempts, info.History)
	}
	again := claimOne(t, c, time.Minute)
	if again.Attempt != 1 || cmp.Diff(dead.History, again.History) != "" {
		t.Errorf("claimed again: %d, %+v", again.Attempt, again.History)
	}
	storetest.Must(t, again.Ack(t.Context()))
	storetest.Empty(t, db)
}

// A lease that ends is an attempt that failed, of whoever had it.
func TestHistoryOfLeasesThatEnd(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := called(t, db, "w-1")
	storetest.Publish(t, db, body("a"))
	d := claimOne(t, c, record.MinLease)
	storetest.Eventually(t, "it is ready", func() bool { return counts(t, db).Ready == 1 })
	history := inspect(t, db, "a").History
	wantReasons(t, "inspected", history, "w-1", "lease expired")
	if len(history) == 1 && (history[0].Took < record.MinLease-time.Millisecond || history[0].Ended.Sub(d.Receipt.Until()).Abs() > time.Millisecond) {
		t.Errorf("it took %v and ended %v, while the lease ended %v", history[0].Took, history[0].Ended, d.Receipt.Until())
	}
}

// A topic keeps no history that its settings, or those of the store, switch off, until they return to the default.
func TestHistoryOff(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := called(t, db, "w-1")
	storetest.Publish(t, db, body("a"))
	off, fallback := notify.SettingsChange{History: new(false)}, notify.SettingsChange{Default: []string{"history"}}
	for _, step := range []struct {
		of      string
		to      notify.SettingsChange
		history int
	}{
		{topic, fallback, 1},
		{topic, off, 0},
		{topic, fallback, 1},
		{notify.AllTopics, off, 0},
		{topic, notify.SettingsChange{History: new(true)}, 1},
		{topic, fallback, 0},
		{notify.AllTopics, fallback, 1},
	} {
		storetest.Set(t, db, step.of, step.to)
		storetest.Eventually(t, "it is ready", func() bool { return counts(t, db).Ready == 1 })
		_, out := fail(t, c, "no")
		value := db.Client().HGet(t.Context(), db.KeysOf(topic).Attempts(), record.Member(topic, "a")).Val()
		if got := inspect(t, db, "a"); len(got.History) != step.history || got.Attempts != out.Attempts || strings.Count(value, "\n") != step.history {
			t.Errorf("%v of %s: %d attempts, known are %+v, held as %q", step.to, step.of, got.Attempts, got.History, value)
		}
	}
}

// Where memory is short an attempt counts and is not kept, which the answer says.
func TestHistoryWhereMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	c := called(t, db, "w-1")
	storetest.Publish(t, db, body("a"), body("b"))
	if d, out := fail(t, c, "first"); out.Forgetful || out.Attempts != 1 {
		t.Fatalf("%s: %+v", d.ID, out)
	}
	limit := func(bytes int64) {
		t.Helper()
		storetest.Must(t, db.Client().ConfigSet(t.Context(), "maxmemory", fmt.Sprint(bytes)).Err())
		if err := db.Client().Del(t.Context(), db.KeysOf(topic).Room(98), db.KeysOf(topic).Room(reach.DefaultMemoryShare)).Err(); err != nil { // what was measured before
			t.Fatal(err)
		}
	}
	limit(1 << 20)
	d := claimOne(t, c, time.Minute)
	out, err := d.Nack(t.Context(), time.Hour, "second")
	if info := inspect(t, db, d.ID); err != nil || !out.Forgetful || out.Attempts != 1 || info.Attempts != 1 || len(info.History) > 0 {
		t.Errorf("got %+v, %v, and %+v", out, err, info.History)
	}
	limit(0)
}

// A failed attempt takes at most 120 bytes beside its reason.
func TestHistoryIsSmall(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := called(t, db, "worker-1")
	const n = 2000
	for range n {
		storetest.Publish(t, db, notify.Message{Topic: topic})
	}
	for range n / record.MaxClaim {
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: record.MaxClaim, Lease: time.Minute})
		storetest.Must(t, err)
		for _, d := range ds {
			storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "")))
		}
	}
	bytes, err := db.Client().MemoryUsage(t.Context(), db.KeysOf(topic).Attempts(), 0).Result()
	storetest.Must(t, err)
	t.Logf("%d bytes for each of %d attempts", bytes/n, n)
	if held := db.Client().HLen(t.Context(), db.KeysOf(topic).Attempts()).Val(); held != n || bytes/n > 120 {
		t.Errorf("%d attempts take %d bytes each", held, bytes/n)
	}
}

// Who has a message is known for each of a claim, also of those with leases of their own, and after extensions.
func TestWhoHasIt(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	a, b := called(t, db, "w-a"), called(t, db, "w-b")
	own := body("own")
	own.Lease = time.Hour
	storetest.Publish(t, db, body("1"), body("2"), own)
	ds, err := a.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 3, Lease: time.Minute})
	if err != nil || len(ds) != 3 {
		t.Fatal(len(ds), err)
	}
	storetest.Publish(t, db, body("3"))
	third := claimOne(t, b, time.Minute)
	wantHolder := func(id, name string) time.Time {
		t.Helper()
		info := inspect(t, db, id)
		if info.By != name || info.Since.IsZero() || info.Since.After(info.Until) {
			t.Errorf("%s is had by %q since %v", id, info.By, info.Since)
		}
		return info.Since
	}
	since := wantHolder("1", "w-a")
	wantHolder("2", "w-a")
	wantHolder("own", "w-a")
	wantHolder("3", "w-b")
	for _, d := range ds[:2] {
		storetest.Must(t, d.Extend(t.Context(), 2*time.Hour))
		if got := wantHolder(d.ID, "w-a"); !got.Equal(since) {
			t.Errorf("%s: since %v, and %v before it was extended", d.ID, got, since)
		}
	}
	storetest.Must(t, third.Extend(t.Context(), 2*time.Hour))
	wantHolder("3", "w-b")
	wantHolder("own", "w-a")
	storetest.Must(t, a.Delivery(topic, "own", ds[2].Receipt).Extend(t.Context(), time.Hour))
	wantHolder("own", "w-a")
}

// Messages that different workers claimed and one call extends are still known apart.
func TestWhoHasItAfterOneExtension(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var leases []store.Lease
	for _, name := range []string{"w-a", "w-b", "w-a"} {
		id := fmt.Sprint(len(leases))
		storetest.Publish(t, db, body(id))
		d := claimOne(t, called(t, db, name), time.Minute)
		leases = append(leases, store.Lease{Member: record.Member(topic, id), Receipt: int64(d.Receipt)})
	}
	before := []time.Time{inspect(t, db, "0").Since, inspect(t, db, "1").Since, inspect(t, db, "2").Since}
	e, err := db.Of(topic).Extend(t.Context(), topic, "w-c", leases, time.Hour)
	if err != nil || len(e.Lost) > 0 {
		t.Fatal(e.Lost, err)
	}
	for i, name := range []string{"w-a", "w-b", "w-a"} {
		info := inspect(t, db, fmt.Sprint(i))
		if info.By != name || !info.Since.Equal(before[i]) || info.Until.UnixMicro() != e.Receipts[i] {
			t.Errorf("%d: had by %q since %v until %v, want %q since %v until %d", i, info.By, info.Since, info.Until, name, before[i], e.Receipts[i])
		}
	}
}

// An entry of another topic says nothing, and neither do two of one receipt that differ.
func TestWhoHasItIsNotGuessed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ entry, want string }{
		"another topic":        {"%d 1 other w-b", "w-a"},
		"another of the topic": {"%d 1 " + topic + " w-b", ""},
		"foreign":              {"%d x", "w-a"},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			storetest.Publish(t, db, body("a"))
			d := claimOne(t, called(t, db, "w-a"), time.Minute)
			base := int64(d.Receipt) / 10 * 10
			storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Claims(), redis.Z{Score: float64(base), Member: fmt.Sprintf(test.entry, base)}).Err())
			if info := inspect(t, db, "a"); info.By != test.want {
				t.Errorf("had by %q, want %q", info.By, test.want)
			}
		})
	}
}

// A hand-over belongs to nobody until it is confirmed or refused, whatever entry its receipt has. Then it is that of the worker that
// it was handed to.
func TestWhoHasAHandover(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("refused"))
	h := one.taken()
	promised := h.Promise(time.Minute)
	for _, receipt := range []int64{h.Receipt, promised} {
		base := receipt / 10 * 10
		storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Claims(), redis.Z{Score: float64(base), Member: fmt.Sprintf("%d 1 %s w-x", base, topic)}).Err())
	}
	if info := inspect(t, db, "refused"); info.By != "" {
		t.Errorf("had by %q before it is confirmed", info.By)
	}
	out, err := db.Of(topic).Nack(t.Context(), topic, store.Nack{
		Lease: store.Lease{Member: h.Member, Receipt: promised, Worker: "w-1"}, Delay: time.Hour, Reason: "no",
	})
	info := inspect(t, db, "refused")
	if err != nil || out.Attempts != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	wantReasons(t, "refused", info.History, "w-1", "no")
	if took := info.History[0].Ended.Sub(time.UnixMicro(h.At)); took-info.History[0].Took > 2*time.Millisecond {
		t.Errorf("it ended %v after the hand-over, and took %v", took, info.History[0].Took)
	}
	one.claim(h.At)
	storetest.Publish(t, db, body("kept"))
	h = one.taken()
	h.Worker = "w-1"
	if lost, forgotten, err := db.Of(topic).AckWith(t.Context(), topic, h.Lease, store.Result{Keep: time.Hour}); lost || forgotten || err != nil {
		t.Fatal(lost, forgotten, err)
	}
	if info := inspect(t, db, "kept"); info.By != "w-1" || info.Since.IsZero() {
		t.Errorf("done by %q, which had it since %v", info.By, info.Since)
	}
	one.claim(h.At)
	storetest.Publish(t, db, body("confirmed"))
	h = one.taken()
	promised = h.Promise(time.Minute)
	for range 2 {
		if lost, err := one.shard.Confirm(t.Context(), topic, "w-1", []store.Lease{{Member: h.Member, Receipt: promised}}); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		if info := inspect(t, db, "confirmed"); info.By != "w-1" || info.Since.Sub(time.UnixMicro(h.At)).Abs() > 2*time.Millisecond {
			t.Errorf("had by %q since %v, and was handed over at %v", info.By, info.Since, time.UnixMicro(h.At))
		}
	}
}

// A message that failed before is handed over with what is known of that.
func TestHistoryOfAHandover(t *testing.T) {
	db := storetest.Open(t)
	one := newHand(t, db, "one")
	storetest.Publish(t, db, body("a"))
	h := one.taken()
	storetest.Must(t, storetest.ErrOf(db.Of(topic).Nack(t.Context(), topic, store.Nack{Lease: h.Lease, Delay: time.Millisecond, Reason: "not yet"})))
	one.claim(h.At)
	carry(t, db)
	again := one.taken()
	if again.Used != 1 || len(again.History) != 1 || again.History[0].Reason != "not yet" || !strings.HasSuffix(again.Record, "\na") {
		t.Errorf("handed over: %+v", again)
	}
}

// The housekeeping forgets who claimed what is leased no more, and nobody else.
func TestClaimsAreForgotten(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := called(t, db, "w-1")
	const n = 50
	var kept subscribers.Delivery
	for i := range n {
		storetest.Publish(t, db, body(fmt.Sprint(i)))
		if d := claimOne(t, c, time.Minute+time.Duration(i)*time.Second); i == n/2 {
			kept = d
		} else if err := d.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	claims := func() int64 { return db.Client().ZCard(t.Context(), db.KeysOf(topic).Claims()).Val() }
	if got := claims(); got != n {
		t.Fatalf("%d claims are noted", got)
	}
	carry(t, db, carrier.Options{Lease: carrier.MinLease, Sweep: carrier.MinSweep})
	storetest.Eventually(t, "most are forgotten", func() bool { return claims() <= 8 })
	if info := inspect(t, db, kept.ID); info.By != "w-1" {
		t.Errorf("who has %s is forgotten", kept.ID)
	}
	storetest.Must(t, kept.Ack(t.Context()))
	storetest.Eventually(t, "all are forgotten", func() bool { return claims() == 0 })
}

func TestNamesOfWorkers(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for _, name := range []string{"a b", "-", "ä", strings.Repeat("x", record.MaxWorkerName+1), "a\n"} {
		_, errSubscriber := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Name: name})
		_, errClaimer := subscribers.NewClaimer(db, subscribers.ClaimerOptions{Name: name})
		_, errListener := subscribers.NewListener(db, subscribers.ListenerOptions{Name: name})
		_, errClaim := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Worker: name})
		for _, err := range []error{errSubscriber, errClaimer, errListener, errClaim} {
			if faults := fault.All(err); len(faults) != 1 || !strings.Contains(err.Error(), "without spaces") {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if _, err := subscribers.NewClaimer(db, subscribers.ClaimerOptions{Kind: "boss"}); len(fault.All(err)) != 1 {
		t.Errorf("kind boss: %v", err)
	}
	storetest.Publish(t, db, body("a"))
	ds, err := called(t, db, "w-1").Claim(t.Context(), topic, subscribers.ClaimOptions{Worker: "w-2"})
	if err != nil || len(ds) != 1 || inspect(t, db, "a").By != "w-2" {
		t.Errorf("claimed %d, %v, had by %q", len(ds), err, inspect(t, db, "a").By)
	}
}
