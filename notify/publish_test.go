package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestPublishAtOnce(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	before := redisTime(t, db).Truncate(time.Millisecond)
	p := publish(t, pub, message("a", time.Time{}))
	after := redisTime(t, db)

	if p.State != notify.Ready || p.Topic != topic || p.ID != "a" {
		t.Errorf("published %+v", p)
	}
	if p.Due.Before(before) || p.Due.After(after) {
		t.Errorf("due %v is not between %v and %v", p.Due, before, after)
	}
	if got := score(t, db, "ready:"+topic, topic+":a"); !got.Equal(p.Due) {
		t.Errorf("ready since %v, published as due %v", got, p.Due)
	}
	wantCounts(t, pub, notify.Counts{Ready: 1, Published: 1})
}

func TestPublishDue(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== in the future
	publish a due=2199-01-02T03:04:05.678Z = scheduled
	has a due=future
== in the future, finer than a millisecond
	publish a due=2199-01-02T03:04:05.677001Z = scheduled
	has a due=future
== in another time zone
	publish a due=2199-01-02T04:04:05.678+01:00 = scheduled
	has a due=future
== at the end of the year 9999
	publish a due=9999-12-31T23:59:59.999Z ttl=1h = scheduled
	redis ZSCORE scheduled:orders orders:a = 253402300799999
	redis ZSCORE expiries orders:a = 253402300799999
	`)
}

func TestDelayIsNeverShort(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for _, delay := range []time.Duration{
		1, 999, time.Microsecond, 999999, time.Millisecond, time.Millisecond + 1, 1500 * time.Microsecond, anHour, 1<<63 - 1,
	} {
		for range 20 {
			before := redisTime(t, db)
			p := publish(t, pub, notify.Message{Topic: topic, Body: []byte("x"), Delay: delay})
			after := redisTime(t, db)
			if p.Due.Before(before.Add(delay)) {
				t.Errorf("delay %v: due %v, %v too early", delay, p.Due, before.Add(delay).Sub(p.Due))
			}
			if latest := after.Add(delay).Add(2 * time.Millisecond); p.Due.After(latest) {
				t.Errorf("delay %v: due %v is later than %v", delay, p.Due, latest)
			}
			if got := score(t, db, "scheduled:"+topic, topic+":"+p.ID); !got.Equal(p.Due) || p.State != notify.Scheduled {
				t.Errorf("delay %v: %+v, due %v in Redis", delay, p, got)
			}
		}
	}
}

func TestGeneratedIDsSortByTime(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	last := ""
	for range 100 {
		p := publish(t, pub, notify.Message{Topic: topic, Body: []byte("x")})
		if err := record.CheckID(p.ID); err != nil || p.ID <= last {
			t.Fatalf("id %q after %q (%v)", p.ID, last, err)
		}
		last = p.ID
	}
}

func TestTimeToLiveCountsFromTheDueTime(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a ttl=1h
	has a due=now expires=due+1h
	publish b delay=1h ttl=1ms
	has b due=now+1h expires=due+1ms
	publish c due=future ttl=24h
	has c due=future expires=due+24h
	`)
}

func TestRecordIsReadableByPeople(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		m      notify.Message
		object map[string]any
	}{
		{"text", notify.Message{Body: []byte("hello")}, nil},
		{"one byte", notify.Message{Body: []byte{0}}, nil},
		{"newlines", notify.Message{Body: []byte("\n\nfirst\nsecond\n")}, nil},
		{"every byte", notify.Message{Body: everyByte()}, nil},
		{"the largest body", notify.Message{Body: []byte(strings.Repeat("x", notify.DefaultMaxBody))}, nil},
		{"looks like a record", notify.Message{Body: []byte("1700000000000,1\nbody")}, nil},
		{
			"everything",
			notify.Message{
				Body: []byte("<a>&</a>"), ContentType: "text/html; charset=utf-8", TTL: 90 * time.Second, MaxAttempts: 3,
				Headers: map[string]string{"X-Trace": "a\u2028b \"quoted\" \\ ü 界 <&>", "empty": ""},
			},
			map[string]any{
				"type": "text/html; charset=utf-8", "ttl": 90000.0, "attempts": 3.0,
				"headers": map[string]any{"X-Trace": "a\u2028b \"quoted\" \\ ü 界 <&>", "empty": ""},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pub, db := open(t)
			m := test.m
			m.Topic, m.ID = topic, "a"
			before := redisTime(t, db)
			publish(t, pub, m)
			after := redisTime(t, db)

			raw, err := db.Client().HGet(t.Context(), db.KeysOf(topic).Messages(), topic+":a").Result()
			storetest.Must(t, err)
			head, body, _ := strings.Cut(raw, "\n")
			if body != string(m.Body) {
				t.Errorf("body %.100q, want %.100q", body, m.Body)
			}
			times, object, _ := strings.Cut(head, ",{")
			at, err := strconv.ParseInt(times, 10, 64)
			if published := time.UnixMilli(at); err != nil || published.Before(before.Truncate(time.Millisecond)) || published.After(after) {
				t.Errorf("published %v, %v, not between %v and %v", published, err, before, after)
			}
			var got map[string]any
			if object != "" {
				err = json.Unmarshal([]byte("{"+object), &got)
			}
			if diff := cmp.Diff(test.object, got); diff != "" || err != nil {
				t.Errorf("object (-want +got), %v:\n%s", err, diff)
			}
			wantRecord(t, pub, m)
		})
	}
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// wantRecord checks that Inspect returns what was published.
func wantRecord(t *testing.T, pub client, m notify.Message) {
	t.Helper()
	info, err := pub.Inspect(t.Context(), m.Topic, m.ID)
	if err != nil || info.Fault != nil {
		t.Fatal(err, info.Fault)
	}
	first := info.Published
	if m.Due.After(first) {
		first = m.Due.Local()
	}
	want := notify.Record{
		Published: info.Published, FirstDue: first, ContentType: m.ContentType, Headers: m.Headers, TTL: m.TTL, MaxAttempts: m.MaxAttempts, Body: m.Body,
	}
	storetest.Same(t, "record", want, info.Record)
}

func TestPublishManyLargeBodies(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	body := make([]byte, notify.DefaultMaxBody)
	messages := make([]notify.Message, 40) // 10 MiB
	for i := range messages {
		messages[i] = notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: body}
	}
	storetest.Publish(t, db, messages...)
	page, err := pub.List(t.Context(), topic, notify.Ready, notify.MaxPage, "")
	if err != nil || len(page.Messages) != len(messages) {
		t.Errorf("%d messages, %v; want %d", len(page.Messages), err, len(messages))
	}
	db.Client().Del(t.Context(), db.KeysOf(topic).Messages())
}

func TestPublishNothing(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	unchanged(t, db, func() {
		if results := pub.PublishMany(t.Context(), nil); len(results) != 0 {
			t.Errorf("%d results for no message", len(results))
		}
	})
}

func TestIDInUseIsRefused(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== scheduled
	publish a due=future
== ready
	publish a
== leased
	publish a
	claim 1 = a
== dead
	publish a
	claim 1 = a
	bury a
==
	freeze
	publish a due=future ttl=1h body=other = refused:exists
	publish a a due=future ttl=1h body=other = refused:exists refused:exists
	publish a mode=broadcast = refused:exists
	frozen
	`, scenario())
}

// drawing makes a publisher generate these ids, in order.
func drawing(pub client, ids ...string) {
	pub.Publisher.DrawFrom(func() string {
		next := ids[0]
		ids = ids[1:]
		return next
	})
}

func TestGeneratedIDInUseIsDrawnAnew(t *testing.T) {
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			inState(t, db, message("a", time.Time{}), state)
			before := dump(t, db)["messages"].(map[string]string)[topic+":a"]
			drawing(pub, "a", "a", "b")
			if p, err := pub.Publish(t.Context(), message("", future)); err != nil || p.ID != "b" || p.State != notify.Scheduled {
				t.Errorf("published as %+v, %v; want the id b", p, err)
			}
			drawing(pub, "b", "c")
			if p, err := pub.Broadcast(t.Context(), message("", future)); err != nil || p.ID != "c" || p.State != notify.Scheduled {
				t.Errorf("broadcast as %+v, %v; want the id c", p, err)
			}
			storetest.Is(t, "the record of a became", dump(t, db)["messages"].(map[string]string)[topic+":a"], before)
		})
	}
}

// In a batch only those are drawn anew whose generated id is in use, there or in the store; a chosen id is refused.
func TestSomeGeneratedIDsOfABatchAreInUse(t *testing.T) {
	pub, _ := open(t)
	publish(t, pub, message("a", future))
	drawing(pub, "a", "b", "b", "d", "c", "a", "e")
	bodies := []string{"0", "1", "2", "3", "4"}
	messages := make([]notify.Message, len(bodies))
	for i, body := range bodies {
		messages[i] = message("", future)
		messages[i].Body = []byte(body)
	}
	messages[1].ID = "a"
	messages[4].Broadcast = true
	r := pub.PublishMany(t.Context(), messages) // draws a, b, b, d; then c for 0 and a for 3; then e for 3
	if !errors.Is(r[1].Err, notify.ErrExists) || r[1].ID != "a" {
		t.Errorf("a chosen id: %+v, want ErrExists", r[1])
	}
	for i, id := range map[int]string{0: "c", 2: "b", 3: "e", 4: "d"} {
		if r[i].Err != nil || r[i].ID != id {
			t.Errorf("message %d: %+v, want the id %s", i, r[i], id)
			continue
		}
		if info, err := pub.Inspect(t.Context(), topic, id); err != nil || string(info.Body) != bodies[i] {
			t.Errorf("message %s: %q, %v; want the body %s", id, info.Body, err, bodies[i])
		}
	}
}

// A call may be abandoned while ids are drawn anew.
func TestAbandonedWhileDrawn(t *testing.T) {
	pub, _ := open(t)
	publish(t, pub, message("a", future))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	draws := 0
	pub.Publisher.DrawFrom(func() string {
		mu.Lock()
		defer mu.Unlock()
		if draws++; draws < 100 {
			return "a"
		}
		cancel()
		return notify.NewID()
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := pub.Publish(ctx, message("", future)); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestIDTwiceInOneBatch(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	first, second, other := message("a", future), message("a", time.Time{}), message("b", future)
	second.TTL = anHour
	r := pub.PublishMany(t.Context(), []notify.Message{first, second, other})
	if r[0].Err != nil || !errors.Is(r[1].Err, notify.ErrExists) || r[2].Err != nil {
		t.Errorf("results %v, %v, %v; want only the second refused", r[0].Err, r[1].Err, r[2].Err)
	}
	wantRecord(t, pub, first)
	wantCounts(t, pub, notify.Counts{Scheduled: 2, Published: 2})
	if left := dump(t, db); left["expiries"] != nil {
		t.Errorf("what was refused left an expiry: %v", left["expiries"])
	}
}

func TestIDIsFreeAgain(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a topic=another due=future              # an id is of its topic
	publish a
== after the acknowledgement
	claim 1 = a
	ack a
== after it was cancelled
	cancel a = ready
== after it was purged
	claim 1 = a
	bury a
	purge a
==
	publish a due=future body="another body"
	has a state=scheduled due=future body="another body" attempts=0
	`)
}

func TestConcurrentPublishersGetTheirOwnResult(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const publishers, each = 64, 40
	var all sync.WaitGroup
	for n := range publishers {
		all.Go(func() {
			for i := range each {
				m := notify.Message{Topic: fmt.Sprintf("topic-%d", i%3), ID: fmt.Sprintf("%d-%d", n, i), Body: []byte("x"), Due: future.Add(time.Duration(n*each+i) * time.Millisecond)}
				p, err := pub.Publish(t.Context(), m)
				want := notify.Publication{Topic: m.Topic, ID: m.ID, Due: m.Due, State: notify.Scheduled, Outcome: notify.Created}
				if diff := cmp.Diff(want, p); diff != "" || err != nil {
					t.Errorf("publication (-want +got), %v:\n%s", err, diff)
				}
			}
		})
	}
	all.Wait()
	topics, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(topics) != 3 || topics[0].Scheduled+topics[1].Scheduled+topics[2].Scheduled != publishers*each {
		t.Errorf("scheduled: %+v, %v; want %d", topics, err, publishers*each)
	}
	storetest.Heads(t, db)
}

func TestOneOfManyPublishersWinsAnID(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	pubs := []client{ // as in two processes
		clientOf(t, db), clientOf(t, db),
	}
	const publishers, ids = 32, 50
	var mu sync.Mutex
	won := map[string]string{}
	var all sync.WaitGroup
	for n := range publishers {
		all.Go(func() {
			for _, i := range rand.Perm(ids) {
				id, body := fmt.Sprint(i), fmt.Sprintf("of %d", n)
				_, err := pubs[n%2].Publish(t.Context(), notify.Message{Topic: topic, ID: id, Body: []byte(body)})
				mu.Lock()
				switch {
				case err == nil && won[id] != "":
					t.Errorf("id %s was won %s and %s", id, won[id], body)
				case err == nil:
					won[id] = body
				case !errors.Is(err, notify.ErrExists):
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(won) != ids {
		t.Errorf("%d ids were won, want %d", len(won), ids)
	}
	for id, body := range won {
		if info, err := pubs[0].Inspect(t.Context(), topic, id); err != nil || string(info.Body) != body {
			t.Errorf("id %s was won %s and holds %q (%v)", id, body, info.Body, err)
		}
	}
}

func TestCancelledContextChangesNothing(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", future))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"publish":      func() error { return storetest.ErrOf(pub.Publish(ctx, message("b", future))) },
		"publish many": func() error { return pub.PublishMany(ctx, []notify.Message{message("b", future)})[0].Err },
		"cancel":       func() error { return storetest.ErrOf(pub.Cancel(ctx, topic, "a")) },
		"reschedule":   func() error { return storetest.ErrOf(pub.RescheduleIn(ctx, topic, "a", 0)) },
		"inspect":      func() error { return storetest.ErrOf(pub.Inspect(ctx, topic, "a")) },
		"list":         func() error { return storetest.ErrOf(pub.List(ctx, topic, notify.Scheduled, 1, "")) },
		"count":        func() error { return storetest.ErrOf(pub.Count(ctx, topic)) },
		"topics":       func() error { return storetest.ErrOf(storetest.Collect(pub.Topics(ctx))) },
		"check":        func() error { return db.Check(ctx) },
	}
	for name, call := range calls {
		unchanged(t, db, func() {
			storetest.Fails(t, name, call(), context.Canceled)
		})
	}
}

// A paused Redis carries out what it was sent when it goes on: the outcome is unknown to
// a caller that gave up, and repeating the publish is safe.
func TestContextEndsWhileRedisIsPaused(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	pub := clientOf(t, db)
	publish(t, pub, message("before", future))
	signal(t, server, syscall.SIGSTOP)
	goOn := sync.OnceFunc(func() { signal(t, server, syscall.SIGCONT) })
	t.Cleanup(goOn)

	sent, cancelSent := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelSent()
	queued, cancelQueued := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		_, err := pub.Publish(sent, message("sent", future))
		results <- err
	}()
	<-sent.Done()
	storetest.Fails(t, "publish", storetest.Receive(t, "the end of a publish whose time is up", results), context.DeadlineExceeded)
	go func() {
		_, err := pub.Publish(queued, message("queued", future))
		results <- err
	}()
	cancelQueued()
	storetest.Fails(t, "publish", storetest.Receive(t, "the end of a cancelled publish", results), context.Canceled)

	goOn()
	for _, id := range []string{"sent", "queued"} {
		if _, err := pub.Publish(t.Context(), message(id, future)); err != nil && !errors.Is(err, notify.ErrExists) {
			t.Errorf("publish %s again: %v", id, err)
		}
	}
	wantCounts(t, pub, notify.Counts{Scheduled: 3, Published: 3})
}
