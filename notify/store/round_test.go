package store_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var roundTime = time.Unix(1_800_000_000, 0)

// atRoundTime returns a store in the trial server, whose clock stands still at a whole multiple of 100,000 s: it writes such a time as
// a score with an exponent.
func atRoundTime(t *testing.T) *notify.Store {
	t.Helper()
	storetest.OneShard(t, "the trial server has no other")
	server, db := storetest.Trial(t, "round")
	server.Set(roundTime)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", "score", roundTime.UnixMicro(), "now").Err())
	text, err := db.Client().Do(t.Context(), "ZSCORE", "score", "now").Text()
	if err != nil || text == strconv.FormatInt(roundTime.UnixMicro(), 10) {
		t.Fatalf("the server writes the score as %q, %v", text, err)
	}
	return db
}

// A lease that ends at a round time is known by its receipt.
func TestLeaseEndsAtRoundTime(t *testing.T) {
	t.Parallel()
	shard := atRoundTime(t).Of("t")
	const lease = 100 * time.Second
	claim := func(n int) (leases []store.Lease) {
		t.Helper()
		for range n {
			storetest.Publish(t, shard.Store(), notify.Message{Topic: "t", Body: []byte("x")})
		}
		got, err := shard.Claim(t.Context(), store.Claim{Topic: "t", Max: n, Lease: lease})
		if err != nil || len(got.Messages) != n {
			t.Fatal(got, err)
		}
		for _, m := range got.Messages {
			leases = append(leases, m.Lease)
		}
		return leases
	}
	one := claim(1)
	if e, err := shard.Extend(t.Context(), "t", "", one, lease); err != nil || e.Lost != nil || !slices.Equal(e.Receipts, []int64{one[0].Receipt}) {
		t.Errorf("extended: %+v, %v", e, err)
	}
	e, err := shard.ExtendByClaim(t.Context(), "t", "", one, 2*lease)
	if err != nil || e.Lost != nil {
		t.Errorf("extended by the claim: %+v, %v", e, err)
	}
	if lost, err := shard.Ack(t.Context(), "t", one); err != nil || lost != nil { // the lease ends at another round time
		t.Errorf("acknowledged by the claim: %v, %v", lost, err)
	}
	for _, n := range []int{1, 2, 9} {
		if lost, err := shard.Ack(t.Context(), "t", claim(n)); err != nil || lost != nil {
			t.Errorf("acknowledged %d: %v, %v", n, lost, err)
		}
	}
	if lost, _, err := shard.AckWith(t.Context(), "t", claim(1)[0], store.Result{Keep: time.Hour}); err != nil || lost {
		t.Errorf("acknowledged with a result: %v, %v", lost, err)
	}
	if nacked, err := shard.Nack(t.Context(), "t", store.Nack{Lease: claim(1)[0], Delay: time.Hour}); err != nil || nacked.Lost {
		t.Errorf("rejected: %+v, %v", nacked, err)
	}
	if lost, err := shard.Release(t.Context(), "t", reach.Inbox{}, 0, []store.Return{{Lease: claim(1)[0]}}); err != nil || lost != nil {
		t.Errorf("released: %v, %v", lost, err)
	}
}

// So is one of a broadcast, in ms.
func TestLeaseOfABroadcastEndsAtRoundTime(t *testing.T) {
	t.Parallel()
	shard := atRoundTime(t).Home()
	registered, _, err := shard.Register(t.Context(), "n", store.Registration{Pattern: "t", From: "beginning"})
	storetest.Must(t, err)
	storetest.Publish(t, shard.Store(), notify.Message{Topic: "t", Body: []byte("x"), Broadcast: true})
	won, err := shard.Elect(t.Context(), "me", time.Minute, 0)
	storetest.Must(t, err)
	storetest.Must(t, storetest.ErrOf(shard.Carry(t.Context(), store.Carry{Token: won.Token, Lease: time.Minute, Batch: 10, KeepCount: 10, KeepAge: time.Hour, Ready: "0"})))
	log, err := shard.Store().Client().XRange(t.Context(), shard.Keys().Log("t"), "-", "+").Result()
	if err != nil || len(log) != 1 || log[0].Values["due"] != strconv.FormatInt(roundTime.UnixMilli(), 10) {
		t.Errorf("the log has %v, %v", log, err)
	}
	const lease = 100_000 * time.Second
	take := store.Take{Name: "n", Registration: registered.Text, Lease: lease, Max: 1, Topics: []string{"t"}}
	got, err := shard.Take(t.Context(), take)
	if err != nil || len(got.Broadcasts) != 1 {
		t.Fatal(got, err)
	}
	held := store.Lease{Member: store.LeasedMember("t", got.Broadcasts[0].Position), Receipt: got.Until}
	if until, lost, err := shard.Hold(t.Context(), "n", "", []store.Lease{held}, lease); err != nil || lost != nil || until != got.Until {
		t.Errorf("extended to %d, %v, %v", until, lost, err)
	}
	take.Back = []store.Unhandled{{Lease: held}}
	if again, err := shard.Take(t.Context(), take); err != nil || len(again.Broadcasts) != 1 {
		t.Errorf("released, and taken again: %+v, %v", again, err)
	}
}

// A message that is due at one is handed over with that time as digits, as in the log: programs of any language read both.
func TestHandoverAtRoundTime(t *testing.T) {
	t.Parallel()
	db := atRoundTime(t)
	shard, inbox, came := db.Of("t"), reach.NewInbox("me", true), make(chan store.Event, 10)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) { came <- e }, shard.InboxChannel(inbox))
		return nil
	})
	for storetest.Receive(t, "the inbox is subscribed", came).Kind != reach.Subscribed {
	}
	storetest.Must(t, storetest.ErrOf(shard.Claim(t.Context(), store.Claim{Topic: "t", Max: 1, Inbox: inbox})))
	storetest.Publish(t, db, notify.Message{Topic: "t", Body: []byte("x"), Delay: time.Hour})
	storetest.Hasten(t, db, time.Hour, "t")
	won, err := shard.Elect(t.Context(), "me", time.Minute, 0)
	storetest.Must(t, err)
	storetest.Must(t, storetest.ErrOf(shard.Carry(t.Context(), store.Carry{Token: won.Token, Lease: time.Minute, Batch: 10, Ready: "0"})))
	e := storetest.Receive(t, "the message is handed over", came)
	if fields := strings.Fields(e.Payload); len(fields) < 4 || fields[3] != strconv.FormatInt(roundTime.UnixMilli(), 10) {
		t.Errorf("got %q", e.Payload)
	}
}

// A list goes on behind a message that is due at a round time.
func TestListGoesOnAtRoundTime(t *testing.T) {
	t.Parallel()
	db := atRoundTime(t)
	for _, id := range []string{"a", "b"} {
		storetest.Publish(t, db, notify.Message{Topic: "t", ID: id, Body: []byte("x"), Due: time.Unix(1_900_000_000, 0)})
	}
	inspector, cursor := storetest.Inspector(t, db), ""
	for _, id := range []string{"a", "b"} {
		page, err := inspector.List(t.Context(), "t", notify.Scheduled, 1, cursor)
		if err != nil || len(page.Messages) != 1 || page.Messages[0].ID != id {
			t.Fatal(page, err)
		}
		cursor = page.Cursor
	}
}

// What waits is listed with its time.
func TestNotableAtRoundTime(t *testing.T) {
	t.Parallel()
	db := atRoundTime(t)
	storetest.Publish(t, db, notify.Message{Topic: "t", Body: []byte("x")})
	page, err := db.Home().Notable(t.Context(), false, 0, 10)
	if err != nil || len(page.Found) != 1 || !page.Found[0].Since.Equal(roundTime) || !page.Last.Equal(roundTime) {
		t.Errorf("%+v, %v", page, err)
	}
}
