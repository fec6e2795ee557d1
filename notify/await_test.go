package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
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

// Each end of a message is announced to those who await it, in each process, and they
// get what is kept of it, or ErrGone.
func TestAwait(t *testing.T) {
	t.Parallel()
	var answers sync.Map // of each player
	s := storetest.Scenario{Topic: topic, Verbs: map[string]func(*storetest.Player, []string) string{
		"awaited": func(p *storetest.Player, words []string) string { // ID: in this process, and in another
			events, _ := hear(p.T, p.Store, p.Store.Of(topic).EndedChannel())
			skipTo(p.T, events, reach.Subscribed)
			both := int64(2) // of one shard, each subscription has a connection; of several, they share that of their store
			if storetest.Shards() > 1 {
				both = 1
			}
			other := storetest.At(p, storetest.URL(), p.Store.KeysOf(topic).Prefix())
			all := []<-chan awaited{await(p.T, p.Context(), p.Store, words[0], both), await(p.T, p.Context(), other, words[0], both+1)}
			answers.Store(p, func() (got []string) {
				for event := (store.Event{}); event.Payload != topic+":"+words[0]; {
					event = storetest.Receive(p, "the announcement", events)
				}
				for _, answer := range all {
					one := storetest.Receive(p, "an answer", answer)
					switch {
					case errors.Is(one.err, notify.ErrGone):
						got = append(got, "gone")
					case one.State == notify.Done && (one.Ended.IsZero() || one.Published.IsZero()):
						got = append(got, fmt.Sprint(one.Info))
					default:
						got = append(got, fmt.Sprintf("%v, %s, %v", one.State, one.Result, one.err))
					}
				}
				if got[0] != "gone" { // and so it is when it is awaited once more
					again, err := p.Inspector.Await(p.Context(), topic, words[0])
					got = append(got, fmt.Sprintf("%v, %s, %v", again.State, again.Result, err))
				}
				return slices.Compact(got)
			})
			return "ok"
		},
		"answers": func(p *storetest.Player, _ []string) string { // what both got
			got, _ := answers.Load(p)
			return strings.Join(got.(func() []string)(), ", ")
		},
	}}
	storetest.Play(t, `
== acknowledged with a result
	publish a
	awaited a
	claim 1 = a
	ack a result=42 keep=1h
	answers = done, 42, <nil>
== acknowledged
	publish a
	awaited a
	claim 1 = a
	ack a
	answers = gone
== acknowledged by its claim
	publish a
	awaited a
	claim 1 ack = a
	answers = gone
== acknowledged, and its id stays taken
	publish a unique_for=1h
	awaited a
	claim 1 = a
	ack a
	answers = gone
== followed
	publish a
	awaited a
	claim 1 = a
	publish a then=after = leased
	ack a
	answers = gone
== dead
	publish a
	awaited a
	claim 1 = a
	bury a
	answers = dead, , <nil>
== dropped
	publish a fail=drop attempts=1
	awaited a
	claim 1 = a
	nack a delay=0s = dropped
	answers = gone
== late, and dropped
	publish a late_after=1ms late=drop
	awaited a
	pass 2ms
	claim 1 = dropped:a
	answers = gone
== cancelled
	publish a
	awaited a
	cancel a = ready
	answers = gone
== expired
	publish a delay=1h ttl=1h
	awaited a
	expire a
	carry = dead:a
	answers = dead, , <nil>
== sent
	publish a delay=1h mode=broadcast
	awaited a
	reschedule a delay=0s = scheduled
	pass 2ms
	carry
	answers = gone
== handled after another one of its key
	publish b key=acct-7
	publish a key=acct-7 = blocked
	claim 1 = b
	awaited a
	ack b
	redis HEXISTS extras order.timeout:a = 1      # it is awaited still
	claim 1 = a
	ack a keep=1h
	answers = done, , <nil>
== cancelled while it waits for another one of its key
	publish b key=acct-7
	publish a key=acct-7 = blocked
	awaited a
	cancel a = blocked
	answers = gone
	`, s)
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
	storetest.Fails(t, "unknown", storetest.ErrOf(pub.Await(t.Context(), topic, "a")), notify.ErrNotFound)
	storetest.Fails(t, "invalid", storetest.ErrOf(pub.Await(t.Context(), "no topic", "")), notify.ErrInvalid)
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
