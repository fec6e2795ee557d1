package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// keep publishes a message and acknowledges it with a result.
func keep(t *testing.T, db *notify.Store, m notify.Message, r notify.AckResult) (forgotten bool) {
	t.Helper()
	publish(t, clientOf(t, db), m)
	forgotten, err := one(t, db).AckWith(t.Context(), r)
	storetest.Must(t, err)
	return forgotten
}

// sweep does one step of the housekeeping, in which topics keep some that succeeded.
func sweep(t *testing.T, db *notify.Store, keeps int) store.Swept {
	t.Helper()
	elected, err := db.Of(topic).Elect(t.Context(), "me", time.Minute, 0)
	storetest.Must(t, err)
	token := elected.Token
	if !elected.Won {
		token = db.Client().Get(t.Context(), db.KeysOf(topic).Carrier()).Val()
	}
	swept, err := db.Of(topic).Sweep(t.Context(), store.Sweep{
		Token: token, KeepDeadCount: 10, KeepDeadAge: anHour, KeepDoneCount: keeps, KeepDoneAge: anHour, KeepTopics: anHour, KeepAge: anHour,
	})
	storetest.Must(t, err)
	return swept
}

// What an acknowledgement keeps of a message is inspected and listed, with the attempts
// that failed, and holds the id until its time is over, or it is cancelled. It is no
// message any more: nothing counts or exports it.
func TestAckWith(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	before := redisTime(t, db).Truncate(time.Millisecond)
	publish(t, pub, message("a", time.Time{}))
	storetest.Must(t, storetest.ErrOf(one(t, db).Nack(t.Context(), 0, "not yet")))
	carrying := carry(t, db)
	storetest.Eventually(t, "it is ready again", func() bool { return stateOf(t, pub, "a") == notify.Ready })
	carrying()
	if forgotten, err := one(t, db).AckWith(t.Context(), notify.AckResult{Body: []byte("42\n"), Keep: anHour}); forgotten || err != nil {
		t.Fatal(forgotten, err)
	}
	after := redisTime(t, db)

	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Done || string(info.Result) != "42\n" || info.Attempts != 1 || len(info.History) != 1 || info.Body != nil {
		t.Errorf("inspected %+v, %v", info, err)
	}
	if info.Ended.Before(before) || info.Ended.After(after) || info.Until.Before(before.Add(anHour)) || info.Until.After(after.Add(anHour+time.Millisecond)) ||
		info.Published.Before(before) || info.Published.After(info.Ended) {
		t.Errorf("inspected %+v, between %v and %v", info, before, after)
	}
	page, err := pub.List(t.Context(), topic, notify.Done, 10, "")
	if err != nil || len(page.Messages) != 1 || cmp.Diff(page.Messages[0], info) != "" {
		t.Errorf("listed %+v, %v", page, err)
	}
	if sum, err := pub.Survey(t.Context(), 1); err != nil || sum.Messages != 0 || sum.Acked != 1 {
		t.Errorf("surveyed %+v, %v", sum, err)
	}
	wantCounts(t, pub, notify.Counts{Published: 1, Acked: 1})
	var lines bytes.Buffer
	if e, err := pub.Export(t.Context(), &lines, nil); err != nil || e.Total() != 0 || lines.Len() > 0 {
		t.Errorf("exported %+v, %v: %s", e, err, &lines)
	}

	if _, err := pub.Publish(t.Context(), message("a", future)); !errors.Is(err, notify.ErrExists) {
		t.Errorf("published: %v", err)
	}
	m := message("a", future)
	m.IfExists = notify.Keep
	if p := publish(t, pub, m); p.Outcome != notify.Kept || p.State != notify.Done {
		t.Errorf("published %+v", p)
	}
	if state, err := pub.Cancel(t.Context(), topic, "a"); state != notify.Done || err != nil {
		t.Errorf("cancelled %v, %v", state, err)
	}
	publish(t, pub, message("a", time.Time{}))
	if d := one(t, db); d.Attempt != 1 || len(d.History) != 0 {
		t.Errorf("published anew it has %+v", d)
	} else if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	storetest.Empty(t, db)
}

// No result and an empty one differ; without keep it is an acknowledgement as any.
func TestAckWithout(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for id, body := range map[string][]byte{"none": nil, "empty": {}, "null": {0, '\n', 0xff}} {
		keep(t, db, message(id, time.Time{}), notify.AckResult{Body: body, Keep: anHour})
		info, err := pub.Inspect(t.Context(), topic, id)
		if err != nil || !bytes.Equal(info.Result, body) || (info.Result == nil) != (body == nil) {
			t.Errorf("%s: %+v, %v", id, info, err)
		}
		storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, id)))
	}
	if keep(t, db, message("gone", time.Time{}), notify.AckResult{}) {
		t.Error("what was not to be kept was forgotten")
	}
	if state := stateOf(t, pub, "gone"); state != 0 {
		t.Errorf("it is %v", state)
	}
	storetest.Empty(t, db)
}

// What cannot be kept is refused, and the lease goes on.
func TestAckWithFaults(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	publish(t, clientOf(t, db), message("a", time.Time{}))
	d := one(t, db)
	for _, bad := range []struct {
		notify.AckResult
		want string
	}{
		{notify.AckResult{Body: make([]byte, store.MaxResult+1), Keep: anHour}, "65537 bytes"},
		{notify.AckResult{Keep: store.MaxKeep + 1}, "up to 720h"},
		{notify.AckResult{Keep: -1}, "more than zero"},
		{notify.AckResult{Body: []byte("x")}, "keep is missing"},
		{notify.AckResult{Body: make([]byte, store.MaxResult+1)}, "keep is missing"},
	} {
		if _, err := d.AckWith(t.Context(), bad.AckResult); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("got %v; want %q", err, bad.want)
		}
	}
	largest := notify.AckResult{Body: bytes.Repeat([]byte{'x'}, store.MaxResult), Keep: store.MaxKeep}
	if forgotten, err := d.AckWith(t.Context(), largest); forgotten || err != nil {
		t.Error(forgotten, err)
	}
	if _, err := d.AckWith(t.Context(), largest); !errors.Is(err, notify.ErrLeaseLost) {
		t.Errorf("twice: %v", err)
	}
}

// The id stays taken as long as its publisher wants, or as it is kept: whichever is
// longer.
func TestKeepAndUniqueFor(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for id, one := range map[string]struct{ unique, keep, want time.Duration }{
		"unique": {2 * anHour, anHour, 2 * anHour},
		"kept":   {anHour, 2 * anHour, 2 * anHour},
	} {
		before := redisTime(t, db)
		m := message(id, time.Time{})
		m.UniqueFor = one.unique
		keep(t, db, m, notify.AckResult{Keep: one.keep})
		info, err := pub.Inspect(t.Context(), topic, id)
		if err != nil || info.Ended.IsZero() || info.Until.Before(before.Add(one.want)) || info.Until.After(redisTime(t, db).Add(one.want+time.Millisecond)) {
			t.Errorf("%s: %+v, %v", id, info, err)
		}
	}
}

// A message that another follows is not kept: that one has its id.
func TestAckWithOfOneThatIsFollowed(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", time.Time{}))
	d := one(t, db)
	publish(t, pub, notify.Message{Topic: topic, ID: "a", Body: []byte("next"), Then: notify.After})
	if forgotten, err := d.AckWith(t.Context(), notify.AckResult{Body: []byte("x"), Keep: anHour}); !forgotten || err != nil {
		t.Error(forgotten, err)
	}
	if info, err := pub.Inspect(t.Context(), topic, "a"); err != nil || info.State != notify.Ready || string(info.Body) != "next" {
		t.Errorf("got %+v, %v", info, err)
	}
}

// A topic keeps as many as it may, for as long as it may at the most. Those that would go
// first make room: by acknowledgements, and the rest by the housekeeping. Ids that are to
// be unique for longer stay taken.
func TestKeepBounds(t *testing.T) {
	t.Parallel()
	const most, n = 3, 9
	pub, db := open(t)
	for i := range n { // the bound is not known yet
		m := message(fmt.Sprint(i), time.Time{})
		if i == 0 {
			m.UniqueFor = 2 * anHour
		}
		keep(t, db, m, notify.AckResult{Keep: anHour + time.Duration(i)*time.Minute})
	}
	kept := func() (ids []string) {
		for info, err := range pub.Messages(t.Context(), topic, notify.Done) {
			storetest.Must(t, err)
			ids = append(ids, info.ID)
		}
		return ids
	}
	if got := kept(); len(got) != n {
		t.Fatalf("without a bound it keeps %v", got)
	}
	if got := sweep(t, db, n); got.TooMany != 0 {
		t.Errorf("it removed %d", got.TooMany)
	}
	before := redisTime(t, db)
	keep(t, db, message("long", time.Time{}), notify.AckResult{Keep: 24 * anHour})
	if info, err := pub.Inspect(t.Context(), topic, "long"); err != nil || info.Until.Before(before.Add(anHour)) || info.Until.After(redisTime(t, db).Add(anHour+time.Millisecond)) {
		t.Errorf("a keep beyond the bound: %+v, %v", info, err)
	}
	if got := kept(); len(got) != n || got[0] != "long" { // the shortest, which was just added, stays
		t.Errorf("it keeps %v", got)
	}
	if got := sweep(t, db, most); got.TooMany != 1+n-most {
		t.Errorf("it removed %d", got.TooMany)
	}
	if diff := cmp.Diff([]string{"8", "0"}, kept()[1:]); diff != "" {
		t.Error(diff)
	}
	keep(t, db, message("more", time.Time{}), notify.AckResult{Keep: time.Minute})
	keep(t, db, message("evenmore", time.Time{}), notify.AckResult{Keep: time.Minute})
	if got := kept(); len(got) != most {
		t.Errorf("it keeps %v", got)
	}
	sweep(t, db, 1)
	if diff := cmp.Diff([]string{"0"}, kept()); diff != "" {
		t.Error(diff)
	}
	sweep(t, db, 1)
	if taken := db.Client().ZCard(t.Context(), db.KeysOf(topic).Taken()).Val(); taken != 1 {
		t.Errorf("%d ids are taken", taken)
	}
}

// What a bound removes keeps its id taken, where the publisher wants that for longer.
func TestKeepBoundLeavesIDsTaken(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	sweep(t, db, 1)
	m := message("a", time.Time{})
	m.UniqueFor = 30 * time.Minute
	keep(t, db, m, notify.AckResult{Body: []byte("x"), Keep: time.Minute})
	keep(t, db, message("b", time.Time{}), notify.AckResult{Keep: anHour})
	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Done || !info.Ended.IsZero() || info.Result != nil {
		t.Errorf("got %+v, %v", info, err)
	}
	if _, err := pub.Await(t.Context(), topic, "a"); !errors.Is(err, notify.ErrGone) {
		t.Errorf("awaited: %v", err)
	}
}

// When its time is over, a message that was kept is gone, and its id is free: for
// whoever asks, and in the housekeeping.
func TestKeepIsOver(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	sweep(t, db, 10)
	for _, id := range []string{"asked", "published", "swept"} {
		keep(t, db, message(id, time.Time{}), notify.AckResult{Body: []byte("x"), Keep: 100 * time.Microsecond})
	}
	storetest.Eventually(t, "its time is over", func() bool { return stateOf(t, pub, "asked") == 0 })
	storetest.Eventually(t, "its id is free", func() bool {
		_, err := pub.Publish(t.Context(), message("published", time.Time{}))
		return err == nil
	})
	storetest.Should(t, one(t, db).Ack(t.Context()))
	keys := db.KeysOf(topic)
	storetest.Eventually(t, "all are swept", func() bool {
		sweep(t, db, 10)
		return db.Client().Exists(t.Context(), keys.Taken(), keys.Done(topic), keys.DoneTopics(), keys.Messages()).Val() == 0
	})
	storetest.Empty(t, db)
}

// A topic that keeps something is not forgotten.
func TestKeptTopicIsRemembered(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	keep(t, db, message("a", time.Time{}), notify.AckResult{Keep: anHour})
	client, keys := db.Client(), db.KeysOf(topic)
	sweepLater := func() store.Swept { // it was not used for two hours, as far as the housekeeping knows
		client.HSet(t.Context(), keys.Topics(), topic+":idle", fmt.Sprintf("%d 1", redisTime(t, db).Add(-2*anHour).UnixMilli()))
		client.ZAdd(t.Context(), keys.SeenTopics(), redis.Z{Member: topic})
		return sweep(t, db, 10)
	}
	if got := sweepLater(); got.Forgotten != 0 {
		t.Errorf("it forgot %+v", got)
	}
	wantCounts(t, pub, notify.Counts{Published: 1, Acked: 1})
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "a")))
	if got := sweepLater(); got.Forgotten != 1 {
		t.Errorf("it forgot %+v", got)
	}
}

// Where memory is short a message is acknowledged, and what it leaves is not kept: the
// answer says so.
func TestAckWithoutMemory(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.At(t, storetest.Server(t, "--maxmemory-policy", "noeviction").URL(), "own"))
	pub := clientOf(t, db)
	publish(t, pub, message("a", time.Time{}))
	d := one(t, db)
	do(t, db, []any{"CONFIG", "SET", "maxmemory", 1})
	do(t, db, []any{"DEL", db.KeysOf(topic).Room(90)}) // a measure holds for a while
	if forgotten, err := d.AckWith(t.Context(), notify.AckResult{Body: []byte("x"), Keep: anHour}); !forgotten || err != nil {
		t.Error(forgotten, err)
	}
	if state := stateOf(t, pub, "a"); state != 0 {
		t.Errorf("it is %v", state)
	}
	if err := d.Ack(t.Context()); !errors.Is(err, notify.ErrLeaseLost) {
		t.Errorf("it is still leased: %v", err)
	}
}

// A handler that left a result, and returns nil, has settled its message.
func TestHandlerAcknowledgesWith(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	s, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Name: "mailer"})
	storetest.Must(t, err)
	settled := make(chan error, 10)
	err = s.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		_, err := d.AckWith(ctx, notify.AckResult{Body: append([]byte("done: "), d.Body...), Keep: anHour})
		settled <- errors.Join(err, again(ctx, d))
		return nil
	}, subscribers.HandleOptions{})
	storetest.Must(t, err)
	storetest.Run(t, s.Run)
	publish(t, pub, message("a", time.Time{}))
	info, err := pub.Await(t.Context(), topic, "a")
	if err != nil || string(info.Result) != "done: body of a" || info.State != notify.Done || info.By != "mailer" || info.Since.IsZero() || info.Since.After(info.Ended) {
		t.Errorf("got %+v, %v", info, err)
	}
	storetest.Should(t, storetest.Receive(t, "it was settled", settled))
	storetest.Eventually(t, "the worker waits again", func() bool {
		c, err := storetest.Count(db, topic)
		return err == nil && c.Waiting == 1
	})
	wantCounts(t, pub, notify.Counts{Published: 1, Acked: 1, Waiting: 1})
}

// again settles a delivery that is settled, which must be refused.
func again(ctx context.Context, d *subscribers.Delivery) error {
	if _, err := d.AckWith(ctx, notify.AckResult{}); !errors.Is(err, notify.ErrLeaseLost) {
		return fmt.Errorf("settled twice: %w", err)
	}
	return nil
}
