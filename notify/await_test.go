package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// awaited is what an Await ended with.
type awaited struct {
	notify.Info
	err error
}

// await awaits a message, until ctx ends, and returns once n subscriptions hear of its
// end.
func await(t *testing.T, ctx context.Context, db *notify.Store, id string, n int64) <-chan awaited {
	t.Helper()
	answer := make(chan awaited, 1)
	storetest.Run(t, func(running context.Context) error {
		until, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(running, end)()
		info, err := storetest.Inspector(t, db).Await(until, topic, id)
		answer <- awaited{info, err}
		return nil
	})
	storetest.Eventually(t, "it is awaited", func() bool {
		listening, err := db.Listening(t.Context(), db.Of(topic).EndedChannel())
		return err == nil && listening == n && isNoted(t, db, id, "await")
	})
	return answer
}

// isNoted reports whether something is noted of a message of the topic.
func isNoted(t *testing.T, db *notify.Store, id, name string) bool {
	t.Helper()
	noted, _ := db.Client().HGet(t.Context(), db.KeysOf(topic).Extras(), topic+":"+id).Result()
	line, _, _ := strings.Cut(noted, "\n")
	return strings.Contains(line, " "+name+"=")
}

// one claims the one message that is ready.
func one(t *testing.T, db *notify.Store) *subscribers.Delivery {
	t.Helper()
	return &claim(t, db, 1)[0]
}

// An ending is one way in which a message ends.
type ending struct {
	name    string
	message notify.Message // with the topic and an id
	needs   string         // "carrier": its carrier ends it
	end     func(t *testing.T, db *notify.Store)
	state   notify.State // of what Await returns; zero: it is gone
}

var endings = []ending{
	{name: "acknowledged with a result", state: notify.Done, end: func(t *testing.T, db *notify.Store) {
		if forgotten, err := one(t, db).AckWith(t.Context(), notify.AckResult{Body: []byte("done"), Keep: anHour}); forgotten || err != nil {
			t.Fatal(forgotten, err)
		}
	}},
	{name: "acknowledged", end: func(t *testing.T, db *notify.Store) {
		storetest.Must(t, one(t, db).Ack(t.Context()))
	}},
	{name: "acknowledged by its claim", end: func(t *testing.T, db *notify.Store) {
		ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, AckNow: true})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
	}},
	{name: "acknowledged, and its id stays taken", message: notify.Message{UniqueFor: anHour}, end: func(t *testing.T, db *notify.Store) {
		storetest.Must(t, one(t, db).Ack(t.Context()))
	}},
	{name: "followed", end: func(t *testing.T, db *notify.Store) {
		d := one(t, db)
		publish(t, clientOf(t, db), notify.Message{Topic: topic, ID: "a", Then: notify.After})
		storetest.Must(t, d.Ack(t.Context()))
	}},
	{name: "dead", state: notify.Dead, end: func(t *testing.T, db *notify.Store) { bury(t, db, 1) }},
	{name: "dropped", message: notify.Message{Fail: notify.FailDrop, MaxAttempts: 1}, end: func(t *testing.T, db *notify.Store) {
		if out, err := one(t, db).Nack(t.Context(), 0, "no"); !out.Dropped || err != nil {
			t.Fatal(out, err)
		}
	}},
	{name: "late, and dropped", message: notify.Message{LateAfter: time.Millisecond, Late: notify.LateDrop}, end: func(t *testing.T, db *notify.Store) {
		storetest.Eventually(t, "it is late", func() bool {
			ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
			storetest.Must(t, err)
			for _, d := range ds {
				storetest.Must(t, d.Release(t.Context()))
			}
			return stateOf(t, clientOf(t, db), "a") == 0
		})
	}},
	{name: "cancelled", end: func(t *testing.T, db *notify.Store) {
		storetest.Must(t, storetest.ErrOf(clientOf(t, db).Cancel(t.Context(), topic, "a")))
	}},
	{name: "expired", message: notify.Message{Delay: anHour, TTL: time.Millisecond}, needs: "carrier", state: notify.Dead, end: func(t *testing.T, db *notify.Store) {
		storetest.Must(t, storetest.ErrOf(clientOf(t, db).RescheduleIn(t.Context(), topic, "a", 0)))
	}},
	{name: "sent", message: notify.Message{Delay: anHour, Broadcast: true}, needs: "carrier", end: func(t *testing.T, db *notify.Store) {
		storetest.Must(t, storetest.ErrOf(clientOf(t, db).RescheduleIn(t.Context(), topic, "a", 0)))
	}},
}

// Each end of a message is announced to those who await it, in each process, and they
// get what is kept of it, or ErrGone.
func TestAwait(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			_, db := open(t)
			other := storetest.At(t, storetest.URL(), db.KeysOf(topic).Prefix())
			events, _ := hear(t, db, db.Of(topic).EndedChannel())
			skipTo(t, events, 1)
			e.message.Topic, e.message.ID = topic, "a"
			publish(t, clientOf(t, db), e.message)
			both := int64(2) // of one shard, each subscription has a connection; of several, they share that of their store
			if storetest.Shards() > 1 {
				both = 1
			}
			answers := []<-chan awaited{await(t, t.Context(), db, "a", both), await(t, t.Context(), other, "a", both+1)}
			if e.needs == "carrier" {
				carry(t, db)
			}
			e.end(t, db)
			for {
				if event := storetest.Receive(t, "the announcement", events); event.Payload == topic+":a" {
					break
				}
			}
			for _, answer := range answers {
				got := storetest.Receive(t, "an answer", answer)
				if got.State != e.state || (e.state == 0) != errors.Is(got.err, notify.ErrGone) || e.state != 0 && got.err != nil {
					t.Errorf("got %+v, %v; want the state %v", got.Info, got.err, e.state)
				}
				if e.state == notify.Done && (string(got.Result) != "done" || got.Ended.IsZero() || got.Published.IsZero()) {
					t.Errorf("got %+v", got.Info)
				}
			}
			if e.state == 0 {
				return
			}
			if again, err := storetest.Inspector(t, db).Await(t.Context(), topic, "a"); err != nil || again.State != e.state {
				t.Errorf("awaited again: %+v, %v", again, err)
			}
		})
	}
}

// One that waits for another of its key is awaited, too, until it ends itself.
func TestAwaitBlocked(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		name  string
		end   func(t *testing.T, db *notify.Store)
		state notify.State // of what Await returns; zero: it is gone
	}{
		{"handled after the one before it", func(t *testing.T, db *notify.Store) {
			storetest.Must(t, one(t, db).Ack(t.Context()))
			if !isNoted(t, db, "b", "await") {
				t.Error("it is awaited no more, though it is ready only now")
			}
			if forgotten, err := one(t, db).AckWith(t.Context(), notify.AckResult{Keep: anHour}); forgotten || err != nil {
				t.Fatal(forgotten, err)
			}
		}, notify.Done},
		{"cancelled before that", func(t *testing.T, db *notify.Store) {
			storetest.Must(t, storetest.ErrOf(clientOf(t, db).Cancel(t.Context(), topic, "b")))
		}, 0},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			pub, db := open(t)
			for _, id := range []string{"a", "b"} {
				publish(t, pub, notify.Message{Topic: topic, ID: id, Key: "acct-7"})
			}
			if got := stateOf(t, pub, "b"); got != notify.Blocked {
				t.Fatalf("it is %v", got)
			}
			answer := await(t, t.Context(), db, "b", 1)
			select {
			case got := <-answer:
				t.Fatalf("it is answered while it waits: %+v, %v", got.Info, got.err)
			default:
			}
			e.end(t, db)
			got := storetest.Receive(t, "an answer", answer)
			if got.State != e.state || (e.state == 0) != errors.Is(got.err, notify.ErrGone) || e.state != 0 && got.err != nil {
				t.Errorf("got %+v, %v; want the state %v", got.Info, got.err, e.state)
			}
		})
	}
}

// A wait that is over returns the error of its context, and the message as it is. The subscription is gone with the
// last wait.
func TestAwaitUntil(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", future))
	for _, end := range []func(context.Context) (context.Context, context.CancelFunc){
		context.WithCancel,
		func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Nanosecond)
		},
		func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		ctx, cancel := end(t.Context())
		answer := make(chan awaited, 1)
		go func() {
			info, err := pub.Await(ctx, topic, "a")
			answer <- awaited{info, err}
		}()
		if _, limited := ctx.Deadline(); !limited {
			storetest.Eventually(t, "it is awaited", func() bool { return isNoted(t, db, "a", "await") })
		} else {
			<-ctx.Done()
		}
		cancel()
		if got := storetest.Receive(t, "an answer", answer); !errors.Is(got.err, ctx.Err()) || got.State != notify.Scheduled || string(got.Body) != "body of a" {
			t.Errorf("got %+v, %v", got.Info, got.err)
		}
	}
	storetest.Eventually(t, "nobody is subscribed", func() bool {
		listening, err := db.Listening(t.Context(), db.Of(topic).EndedChannel())
		return err == nil && listening == 0
	})
}

// What cannot be awaited is told at once.
func TestAwaitNothing(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	if _, err := pub.Await(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := pub.Await(t.Context(), "no topic", ""); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("invalid: %v", err)
	}
	publish(t, pub, message("a", time.Time{}))
	bury(t, db, 1)
	if info, err := pub.Await(t.Context(), topic, "a"); err != nil || info.State != notify.Dead || info.Reason == "" {
		t.Errorf("dead: %+v, %v", info, err)
	}
	publish(t, pub, message("b", future))
	answer := await(t, t.Context(), db, "b", 1)
	storetest.Must(t, db.Close())
	if got := storetest.Receive(t, "an answer", answer); got.err == nil {
		t.Errorf("a closed store: %+v", got.Info)
	}
}

// endUnheard ends a message of the topic without a ring, as if that was lost.
func endUnheard(t *testing.T, db *notify.Store, id string) {
	t.Helper()
	keys, member := db.KeysOf(topic), topic+":"+id
	pipe := db.Client().TxPipeline()
	pipe.HDel(t.Context(), keys.Extras(), member)
	pipe.HDel(t.Context(), keys.Messages(), member)
	pipe.ZRem(t.Context(), keys.Scheduled(topic), member)
	storetest.Must(t, storetest.ErrOf(pipe.Exec(t.Context())))
}

// A lost ring is found by a heartbeat, for as many as wait.
func TestAwaitWithoutARing(t *testing.T) {
	t.Parallel()
	const n = 1201 // three calls
	pub, db := open(t)
	carry(t, db)
	answers := make(chan awaited, n)
	storetest.Fill(t, db, n, func(i int) notify.Message { return message(fmt.Sprint(i), future) })
	storetest.Run(t, func(ctx context.Context) error {
		for i := range n {
			go func() {
				info, err := pub.Await(ctx, topic, fmt.Sprint(i))
				answers <- awaited{info, err}
			}()
		}
		return nil
	})
	storetest.Eventually(t, "all are awaited", func() bool {
		return db.Client().HLen(t.Context(), db.KeysOf(topic).Extras()).Val() == n
	})
	if listening, err := db.Listening(t.Context(), db.Of(topic).EndedChannel()); err != nil || listening > 1 {
		t.Errorf("%d subscriptions, %v", listening, err)
	}
	for i := range n {
		endUnheard(t, db, fmt.Sprint(i))
	}
	for range n {
		if got := storetest.Receive(t, "an answer", answers); !errors.Is(got.err, notify.ErrGone) {
			t.Fatalf("got %+v, %v", got.Info, got.err)
		}
	}
}

// A silence ends: whatever becomes of the message or of the subscription, the one who
// awaits the message gets its answer.
func TestAwaitSilences(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		during func(t *testing.T, pub client, db *notify.Store) // once it is awaited
		state  notify.State
	}{
		"the subscription is cut": {func(t *testing.T, _ client, db *notify.Store) {
			storetest.Must(t, db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
			bury(t, db, 1)
		}, notify.Dead},
		"published anew": {func(t *testing.T, pub client, db *notify.Store) {
			endUnheard(t, db, "a")
			db.Client().ZRem(t.Context(), db.KeysOf(topic).Ready(topic), topic+":a")
			publish(t, pub, message("a", future))
		}, 0},
		"dead and requeued": {func(t *testing.T, pub client, db *notify.Store) {
			bury(t, db, 1)
			if n, err := pub.Requeue(t.Context(), topic, "a"); err != nil {
				t.Fatal(n, err)
			}
			bury(t, db, 1)
		}, notify.Dead},
		"dead and purged": {func(t *testing.T, pub client, db *notify.Store) {
			endUnheard(t, db, "a")
			db.Client().ZRem(t.Context(), db.KeysOf(topic).Ready(topic), topic+":a")
		}, 0},
		"replaced": {func(t *testing.T, pub client, db *notify.Store) {
			publish(t, pub, notify.Message{Topic: topic, ID: "a", Body: []byte("other"), IfExists: notify.Replace})
			bury(t, db, 1)
		}, notify.Dead},
		"debounced": {func(t *testing.T, pub client, db *notify.Store) {
			publish(t, pub, notify.Message{Topic: topic, ID: "a", Body: []byte("other"), IfExists: notify.Debounce, Delay: anHour})
			storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "a", 0)))
			bury(t, db, 1)
		}, notify.Dead},
		"Redis loses all": {func(t *testing.T, _ client, db *notify.Store) {
			storetest.Must(t, db.Client().FlushAll(t.Context()).Err())
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.At(t, storetest.Lend(t), "own")
			pub := clientOf(t, db)
			carry(t, db)
			publish(t, pub, message("a", time.Time{}))
			answer := await(t, t.Context(), db, "a", 1)
			one.during(t, pub, db)
			got := storetest.Receive(t, "an answer", answer)
			if got.State != one.state || (one.state == 0) != errors.Is(got.err, notify.ErrGone) {
				t.Errorf("got %+v, %v; want the state %v", got.Info, got.err, one.state)
			}
		})
	}
}

// A result can be read, though something is noted of another message, or of all: then there
// is more to look at when it is kept.
func TestResultBesideWhatIsNoted(t *testing.T) {
	for name, note := range map[string]func(t *testing.T, db *notify.Store){
		"of another": func(t *testing.T, db *notify.Store) {
			publish(t, clientOf(t, db), notify.Message{Topic: topic, ID: "z", Delay: anHour, UniqueFor: anHour})
		},
		"of all": func(t *testing.T, db *notify.Store) {
			storetest.Must(t, db.Of(topic).OpenArchive(t.Context(), 10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t)
			publish(t, clientOf(t, db), notify.Message{Topic: topic, ID: "a"})
			note(t, db)
			if forgotten, err := one(t, db).AckWith(t.Context(), notify.AckResult{Body: []byte("done"), Keep: anHour}); forgotten || err != nil {
				t.Fatal(forgotten, err)
			}
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
			if err != nil || info.Fault != nil || string(info.Result) != "done" {
				t.Errorf("got %+v, %v", info, err)
			}
		})
	}
}
