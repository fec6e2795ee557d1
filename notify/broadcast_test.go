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
	"github.com/bellhopd/bellhop/carrier/carriertest"
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
	return carriertest.Run(t, db, carrier.Options{Lease: carrier.MinLease})
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
	storetest.Same(t, "message", wantInfo, info)
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
	pub, _ := open(t)
	results := pub.PublishMany(t.Context(), []notify.Message{announcement("x", future), message("x", future), message("y", future), announcement("y", future)})
	for i, r := range results {
		if exists := errors.Is(r.Err, notify.ErrExists); exists != (i%2 == 1) {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
	storetest.Play(t, `
	publish a mode=broadcast due=future
	publish a due=future = refused:exists
	publish a mode=broadcast due=future = refused:exists
	publish sent mode=broadcast
	pass 2ms
	carry
	is sent=none
	publish sent due=future = scheduled             # its id is free
	`)
}

func TestCancelBroadcast(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a mode=broadcast due=future
	publish b mode=broadcast due=past
	cancel a = scheduled
	cancel b = scheduled
	counts
	empty
	cancel a = none
	`)
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
		storetest.Same(t, fmt.Sprintf("%d: nudges", i), want, nudges.recorded())
	}
}

// Messages and broadcasts are published together, in several calls; each gets its own result, an invalid one its own error.
func TestPublishMany(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const n, wrong = 1203, 12
	var messages []notify.Message
	for i := range n {
		m := notify.Message{Topic: fmt.Sprintf("t.%d", i%7), ID: fmt.Sprint(i), Body: []byte("x"), Broadcast: i%3 == 0, Delay: time.Duration(i%2) * anHour}
		if i%100 == 99 {
			m.Topic = "no topic"
		}
		messages = append(messages, m)
	}
	want := make(map[string]notify.Counts)
	for i, r := range pub.PublishMany(t.Context(), messages) {
		m, c := messages[i], want[messages[i].Topic]
		c.Topic = m.Topic
		state := notify.Scheduled
		switch {
		case m.Broadcast:
			c.Broadcasts++
		case m.Delay > 0:
			c.Scheduled, c.Published = c.Scheduled+1, c.Published+1
		default:
			c.Ready, c.Published, state = c.Ready+1, c.Published+1, notify.Ready
		}
		if r.Topic != m.Topic || r.ID != m.ID {
			t.Fatalf("result %d is of %s:%s, want %s:%s", i, r.Topic, r.ID, m.Topic, m.ID)
		}
		if i%100 == 99 {
			if !errors.Is(r.Err, notify.ErrInvalid) {
				t.Errorf("%d: %v", i, r.Err)
			}
			continue
		}
		if want[m.Topic] = c; r.Err != nil || r.State != state {
			t.Errorf("%d: %+v", i, r)
		}
	}
	for topic, want := range want {
		got := count(t, pub, topic)
		got.Overdue = 0
		storetest.Same(t, "counts", want, got)
	}
	var records int64
	for _, keys := range db.KeysOfAll() {
		records += db.Client().HLen(t.Context(), keys.Messages()).Val()
	}
	if records != n-wrong {
		t.Errorf("%d records, want %d", records, n-wrong)
	}
}

func TestListBroadcastsPages(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
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
	storetest.Publish(t, db, messages...)
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
	storetest.Same(t, "list", want, got)
	for _, bad := range []func() (notify.Page, error){
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), "no topic", 1, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, 0, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, notify.MaxPage+1, "") },
		func() (notify.Page, error) { return pub.Broadcasts(t.Context(), topic, 1, "!") },
	} {
		storetest.Fails(t, "it", storetest.ErrOf(bad()), notify.ErrInvalid)
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
	storetest.Publish(t, db, messages...)
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
	storetest.Play(t, `
	redis SET log:orders x
	publish a mode=broadcast
	publish b mode=broadcast
	pass 2ms
	carry = dead:a dead:b
	has a state=dead reason="~log is foreign" fault=
	redis DEL log:orders
	cancel b = dead
	requeue a
	pass 2ms
	carry
	counts sent=1 log=1 died=2
	empty
	`)
}

// If the set of all broadcasts is foreign, each broadcast is refused as a whole, and
// messages are not affected.
func TestForeignSetOfBroadcasts(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	publish cancel later
	redis SET broadcasts x
	freeze
	publish a mode=broadcast due=future = ~set of broadcasts is foreign
	is a=none
	cancel a = none
	reschedule a delay=1h = none
	frozen
	`)
	for i, r := range p.Publisher.PublishMany(t.Context(), []notify.Message{message("1", future), announcement("a", future), message("2", time.Time{}), announcement("b", past)}) {
		if (r.Err != nil) != (i%2 == 1) {
			t.Errorf("%d: %v", i, r.Err)
		}
	}
	p.Play(`
	cancel cancel = ready
	reschedule later delay=1h = scheduled
	counts scheduled=2 ready=1 published=4
	redis DEL broadcasts                            # once it is repaired, the same ids can be published
	publish a b mode=broadcast due=future = scheduled scheduled
	`)
}

// Dead letters that cannot be put into their place stay dead, and each requeued message
// is in one place.
func TestRequeueIntoForeignPlaces(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	redis SET log:order.timeout x
	publish all mode=broadcast
	pass 2ms
	carry = dead:all
	publish one
	claim 1 = one
	bury one
	redis SET broadcasts x
	freeze
	requeue all one = ~the set of broadcasts is foreign
	requeue all one = ~the set of broadcasts is foreign
	frozen
	redis DEL broadcasts
	redis SET ready:order.timeout x
	requeue all one = ~the ready set of order.timeout is foreign
	redis ZCARD broadcasts = 1
	requeue one = ~the ready set of order.timeout is foreign
	redis ZCARD broadcasts = 1
	counts published=1 died=2 dead=1 broadcasts=1
	redis DEL ready:order.timeout
	requeue one
	counts published=1 died=2 ready=1 broadcasts=1
	`, scenario())
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
	storetest.Same(t, "keys", want, got)
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
	storetest.Same(t, "commands (-used +allowed)", used, allowed)
	if err := db.Client().Get(t.Context(), "another").Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a key of somebody else: %v; want NOPERM", err)
	}
}
