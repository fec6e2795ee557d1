package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// working returns a subscriber that runs, with a handler of the topic, and what sets that of another one, which says what it handled.
func working(t *testing.T, db *notify.Store) (add func(topic string, o ...subscribers.HandleOptions) error, got chan string, stop func()) {
	t.Helper()
	sub := subscriberstest.Subscriber(t, db)
	got = make(chan string, 10_000)
	add = func(topic string, o ...subscribers.HandleOptions) error {
		return sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
			got <- d.Topic + ":" + d.ID
			return nil
		}, o...)
	}
	storetest.Must(t, add(topic))
	stop = storetest.Run(t, sub.Run)
	waitsIn(t, db, []string{topic}, 1)
	return add, got, stop
}

// handles publishes a message of a topic, and waits until it is handled.
func handles(t *testing.T, db *notify.Store, got chan string, topic, id string) {
	t.Helper()
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: id})
	wantHandled(t, got, topic+":"+id)
}

// A topic that gets its handler while the subscriber runs is rung as the others, in each shard: there is no beat.
func TestHandleWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			db := storetest.Unhurried(storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: "test-" + notify.NewID(), Shards: shards}))
			storetest.Found(t, db)
			add, got, _ := working(t, db)
			storetest.Publish(t, db, notify.Message{Topic: "ready.0", ID: "before"})
			for i := range 20 {
				topic := fmt.Sprintf("ready.%d", i)
				storetest.Must(t, add(topic, subscribers.HandleOptions{Concurrency: 2}))
				if i == 0 {
					wantHandled(t, got, "ready.0:before")
				}
				waitsIn(t, db, []string{topic}, 1)
				handles(t, db, got, topic, "a")
			}
			handles(t, db, got, topic, "b")
			for i := range 20 {
				handles(t, db, got, fmt.Sprintf("ready.%d", i), "c")
			}
		})
	}
}

// Where the subscription is renewed, what became ready meanwhile is claimed for added topics, too.
func TestHandleWhileItRunsOverAReconnect(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: storetest.Lend(t), Prefix: "test", Shards: 8}))
	storetest.Found(t, db)
	add, got, _ := working(t, db)
	for i := range 20 {
		storetest.Must(t, add(fmt.Sprintf("ready.%d", i)))
		waitsIn(t, db, []string{fmt.Sprintf("ready.%d", i)}, 1)
	}
	storetest.Must(t, db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	for i := range 20 {
		handles(t, db, got, fmt.Sprintf("ready.%d", i), "a")
	}
}

// The end of Until ends the work for that topic alone: its inbox leaves the waiting list, and its messages stay. Another handler
// follows, whenever it comes: also while a message of the one before is handled.
func TestUntil(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	add, got, _ := working(t, db)
	for round := range 3 {
		until, end := context.WithCancel(t.Context())
		storetest.Must(t, add("other", subscribers.HandleOptions{Until: until}))
		waitsIn(t, db, []string{"other"}, 1)
		handles(t, db, got, "other", fmt.Sprint("during-", round))
		waitsIn(t, db, []string{"other"}, 1)
		end()
		waitsIn(t, db, []string{"other"}, 0)
		handles(t, db, got, topic, fmt.Sprint("beside-", round))
		storetest.Publish(t, db, notify.Message{Topic: "other", ID: "left"})
		if err := add("other", subscribers.HandleOptions{Until: until}); err != nil { // it has ended before
			t.Fatal(err)
		}
		if c, err := storetest.Count(db, "other"); err != nil || c.Ready != 1 {
			t.Fatalf("got %+v, %v", c, err)
		}
		until, end = context.WithCancel(t.Context())
		storetest.Must(t, add("other", subscribers.HandleOptions{Until: until}))
		wantHandled(t, got, "other:left")
		waitsIn(t, db, []string{"other"}, 1)
		end()
		waitsIn(t, db, []string{"other"}, 0)
	}
}

// An inbox that is in the waiting list of a topic without a worker, since the release at the end of the last one was lost, leaves the list
// when it is rung, or is handed a message: so beats name the topic, and others are rung.
func TestRungAfterUntil(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	add, got, _ := working(t, db)
	waiting := db.KeysOf("other").Waiting("other")
	var inbox []string
	for _, m := range []notify.Message{{ID: "handed", Delay: 100 * time.Millisecond}, {ID: "rung"}} {
		until, end := context.WithCancel(t.Context())
		defer end()
		storetest.Must(t, add("other", subscribers.HandleOptions{Until: until}))
		waitsIn(t, db, []string{"other"}, 1)
		if inbox == nil {
			var err error
			if inbox, err = db.Client().ZRange(t.Context(), waiting, 0, 0).Result(); err != nil {
				t.Fatal(err)
			}
		}
		end()
		waitsIn(t, db, []string{"other"}, 0)
		storetest.Must(t, db.Client().ZAdd(t.Context(), waiting, redis.Z{Member: inbox[0], Score: 1}).Err())
		m.Topic = "other"
		storetest.Publish(t, db, m)
		waitsIn(t, db, []string{"other"}, 0)
	}
	storetest.Must(t, add("other"))
	all := []string{storetest.Receive(t, "a message is handled", got), storetest.Receive(t, "the other one is handled", got)}
	if slices.Sort(all); !slices.Equal(all, []string{"other:handed", "other:rung"}) {
		t.Errorf("handled %q", all)
	}
}

// A handler that follows one whose message is still being handled begins at once, and a message of either can be stopped.
func TestHandlerFollowsABusyOne(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	sub := subscriberstest.Subscriber(t, db)
	began := make(chan string, 100)
	busy := func(name string) subscribers.Handler {
		return func(ctx context.Context, d *subscribers.Delivery) error {
			began <- name + " " + d.ID
			if d.ID != "busy" {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	until, end := context.WithCancel(t.Context())
	storetest.Must(t, sub.Handle(topic, busy("0"), subscribers.HandleOptions{Until: until}))
	wantFault(t, sub.Handle(topic, busy("1")), "topic", "it has a handler already")
	storetest.Run(t, sub.Run)
	storetest.Publish(t, db, body("busy"))
	storetest.Receive(t, "the first is busy", began)
	wantFault(t, sub.Handle(topic, busy("1")), "topic", "it has a handler already")
	for i := 1; i < 4; i++ {
		end()
		until, end = context.WithCancel(t.Context())
		storetest.Must(t, sub.Handle(topic, busy(fmt.Sprint(i)), subscribers.HandleOptions{Until: until}))
		wantFault(t, sub.Handle(topic, busy("5")), "topic", "it has a handler already")
		for id, by := 0, ""; by != fmt.Sprint(i); id++ { // the end of a context takes effect a moment later
			storetest.Publish(t, db, body(fmt.Sprintf("%d-%d", i, id)))
			by, _, _ = strings.Cut(storetest.Receive(t, "it is handled", began), " ")
		}
	}
	defer end()
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "busy", store.CancelOptions{Stop: true})))
	settled(t, db)
}

// What a handler that is set while the subscriber runs may not be is refused, and so is one that comes too late.
func TestHandleIsRefusedWhileItRuns(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	add, got, stop := working(t, db)
	wantFault(t, add(topic), "topic", "it has a handler already")
	wantFault(t, add("old", subscribers.HandleOptions{MinAge: 1}), "call", "with a MinAge, call it before Run")
	wantFault(t, add("a b"), "topic", "a b")
	handles(t, db, got, topic, "a")
	stop()
	wantFault(t, add("late"), "call", "has ended; make a new one")
}

// Middleware is around handlers that are set later, too; one that gives no handler for a topic is refused.
func TestMiddlewareOfALaterHandler(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	sub := subscriberstest.Subscriber(t, db)
	calls := make(chan string, 10)
	handler := func(_ context.Context, d *subscribers.Delivery) error {
		calls <- "handler of " + d.Topic
		return nil
	}
	wraps := 0
	storetest.Must(t, errors.Join(sub.Handle(topic, handler), sub.Use(func(next subscribers.Handler) subscribers.Handler {
		if wraps++; wraps == 3 {
			return nil
		}
		return func(ctx context.Context, d *subscribers.Delivery) error {
			calls <- "middleware of " + d.Topic
			return next(ctx, d)
		}
	})))
	carry(t, db)
	storetest.Run(t, sub.Run)
	waitsIn(t, db, []string{topic}, 1)
	storetest.Must(t, sub.Handle("later", handler))
	wantFault(t, sub.Handle("third", handler), "middleware", "returned no handler for third")
	storetest.Publish(t, db, notify.Message{Topic: "later", ID: "a"})
	wantHandled(t, calls, "middleware of later")
	wantHandled(t, calls, "handler of later")
}

// Handlers may come and go while the subscriber stops: each is refused or ends with it, nothing is handled afterwards, and what was not
// handled is ready.
func TestHandleWhileItStops(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			db := storetest.Sharded(t, shards)
			carry(t, db)
			add, got, stop := working(t, db)
			var all sync.WaitGroup
			var added atomic.Int64
			for i := range 4 {
				all.Go(func() {
					for n := 0; ; n++ {
						until, end := context.WithCancel(t.Context())
						topic := fmt.Sprintf("t.%d.%d", i, n%50)
						err := add(topic, subscribers.HandleOptions{Until: until})
						if added.Add(1); err != nil {
							end()
							wantFault(t, err, "call", "has ended")
							return
						}
						storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint(n)})
						end()
					}
				})
			}
			storetest.Eventually(t, "handlers come and go", func() bool { return added.Load() > 200 })
			stop()
			all.Wait()
			n := len(got)
			for i := range 4 {
				for n := range 50 {
					c, err := storetest.Count(db, fmt.Sprintf("t.%d.%d", i, n))
					if err != nil || c.Leased+c.Waiting > 0 {
						t.Errorf("got %+v, %v", c, err)
					}
				}
			}
			if len(got) != n {
				t.Error("a message was handled after the end")
			}
		})
	}
}
