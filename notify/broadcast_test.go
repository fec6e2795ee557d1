package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// announcement is a broadcast that is due at a time; the zero time is at once.
func announcement(id string, due time.Time) notify.Message {
	m := message(id, due)
	m.Broadcast = true
	return m
}

// carry runs a carrier until stop is called or the test ends.
func carry(t *testing.T, db *notify.Store) (stop func()) {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MinLease})
	storetest.Must(t, err)
	return storetest.Run(t, c.Run)
}

// A broadcast waits for the carrier, whenever it is due, and is inspected as messages
// are.
func TestBroadcastWaits(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	m := announcement("a", future)
	m.ContentType, m.Headers, m.Broadcast = "text/plain", map[string]string{"k": "v"}, false
	before := redisTime(t, db).Truncate(time.Millisecond)
	p, err := pub.Broadcast(t.Context(), m)
	want := notify.Publication{Topic: topic, ID: "a", Due: future.Local(), State: notify.Scheduled, Outcome: notify.Created}
	if diff := cmp.Diff(want, p); diff != "" || err != nil {
		t.Errorf("publication (-want +got), %v:\n%s", err, diff)
	}
	for id, due := range map[string]time.Time{"b": {}, "c": past} {
		p, err := pub.Broadcast(t.Context(), announcement(id, due))
		if err != nil || p.State != notify.Scheduled || p.Due.After(time.Now().Add(time.Minute)) {
			t.Errorf("%s: %+v, %v", id, p, err)
		}
	}
	wantCounts(t, pub, notify.Counts{Broadcasts: 3})
	info, err := pub.Inspect(t.Context(), topic, "a")
	storetest.Must(t, err)
	if info.Published.Before(before) {
		t.Errorf("published %v", info.Published)
	}
	wantInfo := notify.Info{Topic: topic, ID: "a", State: notify.Scheduled, Due: future.Local(), Record: notify.Record{
		Published: info.Published, ContentType: m.ContentType, Headers: m.Headers, Broadcast: true, Body: m.Body,
	}}
	if diff := cmp.Diff(wantInfo, info); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	raw, err := db.Client().HGet(t.Context(), db.KeysOf(topic).Messages(), record.Member(topic, "a")).Result()
	if want := fmt.Sprintf(`%d,{"type":"text/plain","headers":{"k":"v"},"mode":"broadcast"}`+"\nbody of a", info.Published.UnixMilli()); err != nil || raw != want {
		t.Errorf("the record is %q, %v; want %q", raw, err, want)
	}
	page, err := pub.Broadcasts(t.Context(), topic, 10, "")
	if err != nil || len(page.Messages) != 3 || page.Messages[0].ID != "c" || page.Messages[1].ID != "b" {
		t.Errorf("list %+v, %v", page, err)
	} else if diff := cmp.Diff(wantInfo, page.Messages[2]); diff != "" {
		t.Errorf("the last of the list (-want +got):\n%s", diff)
	}
	for _, state := range states {
		if page, err := pub.List(t.Context(), topic, state, 10, ""); err != nil || len(page.Messages) != 0 {
			t.Errorf("%v: %+v, %v", state, page, err)
		}
	}
	// Its export can be published, and makes the same broadcast.
	line, err := json.Marshal(info.Line())
	storetest.Must(t, err)
	again, err := notify.ParseLine(line)
	m.Due, m.Broadcast = time.Time{}, true
	if diff := cmp.Diff(m, again); diff != "" || err != nil {
		t.Errorf("read from %s (-want +got), %v:\n%s", line, err, diff)
	}
}

func TestBadBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	ttl, attempts, both := announcement("a", time.Time{}), announcement("a", time.Time{}), announcement("a", future)
	ttl.TTL, attempts.MaxAttempts, both.Delay = -1, 3, anHour
	large := announcement("a", time.Time{})
	large.Body = make([]byte, notify.DefaultMaxBody+1)
	past := announcement("a", time.Time{})
	past.Delay = -1
	unchanged(t, db, func() {
		for want, m := range map[string]notify.Message{"ttl": ttl, "attempts": attempts, "delay and due": both, "262145 bytes": large, "delay": past} {
			if _, err := pub.Broadcast(t.Context(), m); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want an ErrInvalid about %s", err, want)
			}
		}
	})
}

// A topic has an id only once, whether of a message or of a broadcast.
func TestIDOfMessageAndBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for _, state := range states {
		id := state.String()
		inState(t, db, message(id, time.Time{}), state)
		if _, err := pub.Broadcast(t.Context(), announcement(id, time.Time{})); !errors.Is(err, notify.ErrExists) {
			t.Errorf("%s: %v", id, err)
		}
	}
	publish(t, pub, announcement("all", future))
	for _, m := range []notify.Message{message("all", future), announcement("all", future)} {
		if _, err := pub.Publish(t.Context(), m); !errors.Is(err, notify.ErrExists) {
			t.Error(err)
		}
	}
	results := pub.PublishMany(t.Context(), []notify.Message{announcement("x", future), message("x", future), message("y", future), announcement("y", future)})
	for i, r := range results {
		if exists := errors.Is(r.Err, notify.ErrExists); exists != (i%2 == 1) {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
	// Once it is sent, its id is free.
	publish(t, pub, announcement("sent", time.Time{}))
	carry(t, db)
	storetest.Eventually(t, "its id is free", func() bool {
		_, err := pub.Publish(t.Context(), message("sent", future))
		return err == nil
	})
	if state := stateOf(t, pub, "sent"); state != notify.Scheduled {
		t.Errorf("it is %v", state)
	}
}

func TestCancelBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, announcement("a", future))
	publish(t, pub, announcement("b", past))
	for _, id := range []string{"a", "b"} {
		if was, err := pub.Cancel(t.Context(), topic, id); err != nil || was != notify.Scheduled {
			t.Errorf("it was %v, %v", was, err)
		}
	}
	wantCounts(t, pub, notify.Counts{})
	storetest.Empty(t, db)
	if _, err := pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
		t.Error(err)
	}
}

func TestRescheduleBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, announcement("a", future))
	nudges := recording(t, db, db.KeysOf(topic).Nudge())
	for _, test := range []struct {
		delay time.Duration
		due   time.Time
	}{{0, future.Add(-anHour)}, {anHour, time.Time{}}, {0, past}, {0, time.Time{}}, {0, future.Add(anHour)}} {
		before := redisTime(t, db).Truncate(time.Millisecond)
		p, err := pub.reschedule(t.Context(), topic, "a", test.delay, test.due)
		want := test.due
		if want.IsZero() {
			want = before.Add(test.delay)
		}
		if err != nil || p.State != notify.Scheduled || p.Due.Sub(want).Abs() > time.Minute {
			t.Errorf("%+v, %v; want it at %v", p, err, want)
		}
		if got := score(t, db, "broadcasts", record.Member(topic, "a")); !got.Equal(p.Due) {
			t.Errorf("it waits until %v, told was %v", got, p.Due)
		}
	}
	if n := len(nudges.recorded()); n != 3 { // each time that it came to be earlier
		t.Errorf("%d nudges", n)
	}
	wantCounts(t, pub, notify.Counts{Broadcasts: 1})
}

// The carrier is nudged when a broadcast becomes the first that is due.
func TestBroadcastNudges(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	nudges := recording(t, db, db.KeysOf(topic).Nudge())
	for i, test := range []struct {
		due   time.Time
		nudge bool
	}{{future, true}, {future.Add(anHour), false}, {future, false}, {future.Add(-anHour), true}, {past, true}, {time.Time{}, false}} {
		p := publish(t, pub, announcement(fmt.Sprint(i), test.due))
		var want []string
		if test.nudge {
			want = []string{fmt.Sprintf("nudge %d", p.Due.UnixMilli())}
		}
		if diff := cmp.Diff(want, nudges.recorded()); diff != "" {
			t.Errorf("%d: nudges (-want +got):\n%s", i, diff)
		}
	}
}

// Messages and broadcasts are published together; an invalid one gets its own error.
func TestPublishManyOfBoth(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	var messages []notify.Message
	for i := range 1200 {
		m := notify.Message{Topic: fmt.Sprintf("t.%d", i%7), ID: fmt.Sprint(i), Body: []byte("x"), Broadcast: i%3 == 0, Delay: time.Duration(i%2) * anHour}
		if i%100 == 99 {
			m.Topic = "no topic"
		}
		messages = append(messages, m)
	}
	results := pub.PublishMany(t.Context(), messages)
	for i, r := range results {
		m := messages[i]
		want := notify.Ready
		if m.Broadcast || m.Delay > 0 {
			want = notify.Scheduled
		}
		switch {
		case i%100 == 99:
			if !errors.Is(r.Err, notify.ErrInvalid) {
				t.Errorf("%d: %v", i, r.Err)
			}
		case r.Err != nil || r.ID != m.ID || r.State != want:
			t.Errorf("%d: %+v", i, r)
		}
	}
	var n int64
	for _, keys := range db.KeysOfAll() {
		n += db.Client().ZCard(t.Context(), keys.Broadcasts()).Val()
	}
	if n != 400-4 {
		t.Errorf("%d wait", n)
	}
	all, err := storetest.Collect(pub.Topics(t.Context()))
	var broadcasts int64
	for _, c := range all {
		broadcasts += c.Broadcasts
	}
	if err != nil || broadcasts != 400-4 || len(all) != 7 {
		t.Errorf("%d are counted, %v", broadcasts, err)
	}
}

func TestListBroadcastsPages(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	var messages []notify.Message
	var want []string
	for i := range 3000 {
		m := announcement(fmt.Sprintf("%05d", i), future.Add(time.Duration(i/10)*time.Millisecond))
		if i%3 > 0 {
			m.Topic = "another"
		} else {
			want = append(want, m.ID)
		}
		messages = append(messages, m)
	}
	for _, r := range pub.PublishMany(t.Context(), messages) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var got []string
	for cursor := ""; ; {
		page, err := pub.Broadcasts(t.Context(), topic, 70, cursor)
		storetest.Must(t, err)
		for _, info := range page.Messages {
			got = append(got, info.ID)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, bad := range []func() (notify.Page, error){
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), "no topic", 1, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, 0, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, notify.MaxPage+1, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, 1, "!") },
	} {
		if _, err := bad(); !errors.Is(err, notify.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Broadcasts are cancelled or rescheduled while the carrier sends: each is sent or
// cancelled, never both, and a rescheduled one comes at its new time.
func TestChangesRaceWithTheCarry(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	carry(t, db)
	const n = 400
	var messages []notify.Message
	for i := range n {
		m := announcement(fmt.Sprintf("%04d", i), time.Time{})
		m.Delay = time.Duration(100+i/2) * time.Millisecond
		messages = append(messages, m)
	}
	for _, r := range pub.PublishMany(t.Context(), messages) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var mu sync.Mutex
	cancelled, moved := map[string]bool{}, map[string]time.Time{}
	var all sync.WaitGroup
	for i, m := range messages {
		all.Go(func() {
			<-time.After(m.Delay + time.Duration(i%20-10)*100*time.Microsecond) // about when it is due: that is the race
			var err error
			var p notify.Publication
			if i%2 == 0 {
				_, err = pub.Cancel(context.Background(), topic, m.ID)
			} else {
				p, err = pub.RescheduleIn(context.Background(), topic, m.ID, 300*time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, notify.ErrNotFound): // it was sent
			case err != nil:
				t.Error(err)
			case i%2 == 0:
				cancelled[m.ID] = true
			default:
				moved[m.ID] = p.Due
			}
		})
	}
	all.Wait()
	storetest.Eventually(t, "none waits any more", func() bool { return counts(t, pub).Broadcasts == 0 })
	log, err := db.Client().XRange(t.Context(), db.KeysOf(topic).Log(topic), "-", "+").Result()
	storetest.Must(t, err)
	sent := map[string]bool{}
	for _, e := range log {
		id := e.Values["id"].(string)
		if sent[id] || cancelled[id] {
			t.Errorf("%s was sent before: %v, cancelled: %v", id, sent[id], cancelled[id])
		}
		sent[id] = true
		at, err := record.ParsePosition(e.ID)
		if err != nil || at.Time().Before(moved[id]) {
			t.Errorf("%s was sent at %v, and put off until %v; %v", id, at.Time(), moved[id], err)
		}
	}
	t.Logf("%d were cancelled, %d put off", len(cancelled), len(moved))
	if len(sent)+len(cancelled) != n {
		t.Errorf("%d were sent, %d cancelled", len(sent), len(cancelled))
	}
}

// A dead broadcast (its log was foreign) is listed, and sent after a requeue.
func TestRequeueBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Log(topic), "x", 0).Err())
	carry(t, db)
	publish(t, pub, announcement("a", time.Time{}))
	publish(t, pub, announcement("b", time.Time{}))
	storetest.Eventually(t, "they are dead", func() bool { return counts(t, pub).Dead == 2 })
	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Dead || !info.Broadcast || !strings.Contains(info.Reason, "log is foreign") || info.Fault != nil {
		t.Errorf("got %+v, %v", info, err)
	}
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Log(topic)).Err())
	storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "b")))
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); n != 1 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	storetest.Eventually(t, "it is sent", func() bool { return counts(t, pub).Sent == 1 })
	wantCounts(t, pub, notify.Counts{Sent: 1, Log: 1, Died: 2})
	storetest.Empty(t, db)
}

// If the set of all broadcasts is foreign, each broadcast is refused as a whole, and
// messages are not affected.
func TestForeignSetOfBroadcasts(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("cancel", time.Time{}))
	publish(t, pub, message("later", time.Time{}))
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Broadcasts(), "x", 0).Err())
	unchanged(t, db, func() {
		if _, err := pub.Broadcast(t.Context(), announcement("a", future)); err == nil || !strings.Contains(err.Error(), "set of broadcasts is foreign") {
			t.Errorf("got %v", err)
		}
		if _, err := pub.Inspect(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("inspect: %v", err)
		}
		if _, err := pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := pub.RescheduleIn(t.Context(), topic, "a", anHour); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("reschedule: %v", err)
		}
	})
	results := pub.PublishMany(t.Context(), []notify.Message{message("1", future), announcement("a", future), message("2", time.Time{}), announcement("b", past)})
	for i, r := range results {
		if (r.Err != nil) != (i%2 == 1) {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
	storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "cancel")))
	storetest.Should(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "later", anHour)))
	wantCounts(t, pub, notify.Counts{Scheduled: 2, Ready: 1, Published: 4})
	// Once the set is repaired, the same ids can be published.
	storetest.Must(t, db.Client().Del(t.Context(), db.KeysOf(topic).Broadcasts()).Err())
	publish(t, pub, announcement("a", future))
	publish(t, pub, announcement("b", future))
}

// Dead letters that cannot be put into their place stay dead, and each requeued message
// is in one place.
func TestRequeueIntoForeignPlaces(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	keys, client, dead := db.KeysOf(topic), db.Client(), storetest.Inspector(t, db)
	do(t, db, []any{"SET", keys.Log(topic), "x"})
	stop := carry(t, db)
	publish(t, pub, announcement("all", time.Time{}))
	storetest.Eventually(t, "it is dead", func() bool { return counts(t, pub).Dead == 1 })
	stop()
	publish(t, pub, message("one", time.Time{}))
	bury(t, db, 1)

	do(t, db, []any{"SET", keys.Broadcasts(), "x"})
	unchanged(t, db, func() {
		for range 2 {
			if n, err := dead.Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); n != 0 || err == nil || !strings.Contains(err.Error(), "the set of broadcasts is foreign: "+keys.Broadcasts()) {
				t.Errorf("requeued %d, %v", n, err)
			}
		}
	})
	do(t, db, []any{"DEL", keys.Broadcasts()}, []any{"SET", keys.Ready(topic), "x"})
	for range 2 {
		if _, err := dead.Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); err == nil || !strings.Contains(err.Error(), "the ready set of "+topic+" is foreign") {
			t.Error(err)
		}
		if n := client.ZCard(t.Context(), keys.Broadcasts()).Val(); n != 1 {
			t.Errorf("%d broadcasts wait", n)
		}
		wantCounts(t, pub, notify.Counts{Published: 1, Died: 2, Dead: 1, Broadcasts: 1})
	}
	do(t, db, []any{"DEL", keys.Ready(topic)})
	if n, err := dead.Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); n != 1 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	wantCounts(t, pub, notify.Counts{Published: 1, Died: 2, Ready: 1, Broadcasts: 1})
}

// A foreign counter or log spoils no count but its own.
func TestForeignCountsOfBroadcasts(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for _, command := range [][]any{
		{"HSET", db.KeysOf(topic).Base() + "topics", topic + ":broadcasts", "x", topic + ":sent", "-"}, {"SET", db.KeysOf(topic).Log(topic), "x"},
	} {
		storetest.Must(t, db.Client().Do(t.Context(), command...).Err())
	}
	publish(t, pub, announcement("a", future))
	publish(t, pub, message("b", future))
	wantCounts(t, pub, notify.Counts{Scheduled: 1, Published: 1})
}

func TestKeysOfBroadcasts(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the names of several are another test's")
	keys := storetest.At(t, "redis://127.0.0.1:1", "p").Keys()
	got := []string{
		keys.Broadcasts(), keys.Log("a.b"), keys.Logs(), keys.Listeners(), keys.Places("n"), keys.Held("n"), keys.Tries("n"), keys.Owners("n"), keys.Alarms(),
		keys.Name("n"), keys.Bridge(), keys.Secret(), keys.Logouts(), keys.Mark(), keys.Broadcast("a.b"), keys.Death("a.b"),
	}
	want := strings.Fields(`p:{0}:broadcasts p:{0}:log:a.b p:{0}:logs p:{0}:listeners p:{0}:places:n p:{0}:held:n p:{0}:tries:n p:{0}:owners:n p:{0}:alarms
		p:{0}:name:n p:{0}:bridge p:{0}:secret p:{0}:logouts p:{0}:mark p:broadcast:a.b p:dead:a.b`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(want) {
		t.Error("two are the same")
	}
}

// The rights are exact: a user that has them can do everything, and every one of them is
// used, that of waiting for replicas included.
func TestRightsAreExact(t *testing.T) {
	t.Parallel()
	server, _ := pair(t)
	root := storetest.At(t, server.URL(), "")
	rule := append([]any{"ACL", "SETUSER", "bellhop", "reset", "on", ">secret"}, words(reach.Rights(script.DefaultPrefix, storetest.Shards()))...)
	storetest.Must(t, root.Client().Do(t.Context(), rule...).Err())
	storetest.Must(t, storetest.ErrOf(root.LoadFunctions(t.Context())))
	storetest.Must(t, root.Client().Do(t.Context(), "CONFIG", "RESETSTAT").Err())
	db := confirmed(t, strings.Replace(server.URL(), "redis://", "redis://bellhop:secret@", 1))
	useEverything(t, db)
	hear, stopHearing := hear(t, db, db.Home().Wakes(), db.Home().DeathChannel())
	wantEvent(t, hear, reach.Subscribed)
	stopHearing()
	denied, err := root.Client().ACLLog(t.Context(), 100).Result()
	storetest.Must(t, err)
	for _, entry := range denied {
		t.Errorf("denied: %s %s (%s)", entry.Reason, entry.Object, entry.Context)
	}
	info, err := root.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	used := map[string]bool{}
	for line := range strings.Lines(info) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			used[name] = true
		}
	}
	for _, own := range []string{"acl|log", "config|resetstat", "hello", "client|setinfo", "client|setname", "ping", "auth", "unsubscribe", "punsubscribe", "keys", "replconf", "psync"} {
		delete(used, own) // of the test, or of every connection
	}
	allowed := map[string]bool{}
	for _, right := range strings.Fields(reach.Rights(script.DefaultPrefix, storetest.Shards())) {
		if name, ok := strings.CutPrefix(right, "+"); ok {
			allowed[name] = true
		}
	}
	delete(allowed, "cluster|slots") // of a Cluster
	if diff := cmp.Diff(used, allowed); diff != "" {
		t.Errorf("commands (-used +allowed):\n%s", diff)
	}
}
