package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestDelayedMessageIsHandledOnceAndGone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	got := make(chan subscribers.Delivery, 10)
	handle(t, db, allInto(got))
	m := body("a")
	m.Delay = 50 * time.Millisecond
	m.ContentType, m.Headers = "text/plain", map[string]string{"Trace": "7"}
	storetest.Publish(t, db, m)

	d := storetest.Receive(t, "the message is handled", got)
	now := redisNow(t, db)
	if d.Due.After(now) {
		t.Errorf("handled at %v, before it was due at %v", now, d.Due)
	}
	if d.ID != "a" || d.Attempt != 1 || string(d.Body) != "a" || d.ContentType != "text/plain" || d.Headers["Trace"] != "7" {
		t.Errorf("got %+v", d)
	}
	settled(t, db)
	storetest.Empty(t, db)
	if len(got) > 0 {
		t.Error("it was handled again")
	}
}

func TestOrderAtConcurrencyOne(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	const n = 3000
	got := make(chan string, n)
	var messages []notify.Message
	var want []string
	start := time.Now().Add(200 * time.Millisecond)
	for i := range n {
		m := body(fmt.Sprintf("%05d", i))
		m.Due = start.Add(time.Duration(i/10) * time.Millisecond)
		messages, want = append(messages, m), append(want, m.ID)
	}
	storetest.Publish(t, db, messages...)
	handle(t, db, idsInto(got))
	var ids []string
	for range n {
		ids = append(ids, storetest.Receive(t, "all are handled", got))
	}
	storetest.Same(t, "order", want, ids)
}

func TestFailureIsRetriedWithItsAttempts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	attempts := make(chan int, 10)
	storetest.Set(t, db, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(5 * time.Millisecond)})
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		select {
		case attempts <- d.Attempt:
		case <-ctx.Done(): // there are more than the test reads
			return ctx.Err()
		}
		switch d.Attempt {
		case 1:
			return errors.New("not yet")
		case 2:
			panic("worse")
		case 3:
			return subscribers.RetryAfter(errors.New("later"), 20*time.Millisecond)
		}
		return nil
	})
	storetest.Publish(t, db, body("a"))
	for want := 1; want <= 4; want++ {
		if got := storetest.Receive(t, "the next attempt", attempts); got != want {
			t.Errorf("attempt %d, want %d", got, want)
		}
	}
	settled(t, db)
	storetest.Empty(t, db)
}

func TestDeath(t *testing.T) {
	t.Parallel()
	fail := errors.New("no stock")
	for _, test := range []struct {
		name     string
		attempts int // the message's own limit
		err      error
		want     string
		used     int
	}{
		{"out of attempts", 0, fail, "no stock", 2},
		{"out of its own attempts", 3, fail, "no stock", 3},
		{"refused for good", 0, fmt.Errorf("%w: %w", subscribers.ErrBury, fail), "buried by the handler: no stock", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := storetest.Open(t)
			carry(t, db)
			deaths := make(chan subscribers.Death, 1)
			storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(2), BackoffMin: new(time.Millisecond), BackoffMax: new(time.Millisecond)})
			handle(t, db, func(context.Context, *subscribers.Delivery) error { return test.err },
				subscribers.HandleOptions{OnDead: func(d subscribers.Death) { deaths <- d }})
			m := body("a")
			m.MaxAttempts = test.attempts
			storetest.Publish(t, db, m)
			death := storetest.Receive(t, "the message dies", deaths)
			if death.ID != "a" || string(death.Body) != "a" || death.Reason != test.want || death.Attempts != test.used {
				t.Errorf("got %+v, want the reason %q after %d attempts", death, test.want, test.used)
			}
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
			if err != nil || info.State != notify.Dead || info.Reason != test.want || info.Attempts != test.used {
				t.Errorf("got %+v, %v", info, err)
			}
			if c := counts(t, db); c.Dead != 1 || c.Leased+c.Ready+c.Scheduled != 0 {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// A record that is not what Bellhop writes is buried with the reason, and the rest goes on.
func TestForeignRecordIsBuried(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	deaths := make(chan subscribers.Death, 10)
	got := make(chan string, 10)
	storetest.Publish(t, db, body("a"), body("b"), body("c"), body("d"))
	records := db.KeysOf(topic).Messages()
	client := db.Client()
	client.HSet(t.Context(), records, "orders:a", "no json at all")
	client.HSet(t.Context(), records, "orders:b", "{\"at\":12")
	client.HDel(t.Context(), records, "orders:c")
	handle(t, db, idsInto(got), subscribers.HandleOptions{OnDead: func(d subscribers.Death) { deaths <- d }})
	if id := storetest.Receive(t, "the good one is handled", got); id != "d" {
		t.Errorf("handled %s", id)
	}
	for range 2 {
		if d := storetest.Receive(t, "the unreadable ones die", deaths); !strings.Contains(d.Reason, "unreadable record") {
			t.Errorf("%s died of %q", d.ID, d.Reason)
		}
	}
	inspector := storetest.Inspector(t, db)
	info, err := inspector.Inspect(t.Context(), topic, "c")
	if err != nil || info.State != notify.Dead || info.Reason != "record is missing" {
		t.Errorf("got %+v, %v", info, err)
	}
	settled(t, db)
	if c := counts(t, db); c.Dead != 3 {
		t.Errorf("got %+v", c)
	}
}

// extendsOf returns what reports whether the lease of a message that is in hand now was extended since.
func extendsOf(t *testing.T, db *notify.Store, id string) (extended func() bool) {
	t.Helper()
	began := redisNow(t, db)
	return func() bool { return currentReceipt(t, db, id).Until().After(began.Add(brief + time.Second)) }
}

func TestLeaseIsExtendedWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(brief)})
	began, end := keep(t, db, 4)
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "the handler begins", began)
	storetest.Eventually(t, "its lease is extended", extendsOf(t, db, "a"))
	close(end)
	settled(t, db)
	storetest.Empty(t, db)
	if len(began) > 0 {
		t.Error("it was handled again")
	}
}

// When it stops, a subscriber finishes what it handles and gives back what it
// did not begin, with no attempt used up.
func TestStopReleasesWhatWasNotBegun(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	began, end := make(chan string, 100), make(chan struct{})
	sub := subscriberstest.Subscriber(t, db)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		if d.ID == "last" {
			began <- d.ID
			<-end
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	wait := storetest.Run(t, func(context.Context) error { return sub.Run(ctx) })
	// Fast ones first, so that it claims ahead of its hand.
	var messages []notify.Message
	for i := range 400 {
		messages = append(messages, body(fmt.Sprintf("%03d", i)))
	}
	storetest.Publish(t, db, messages...)
	settled(t, db)
	messages = []notify.Message{body("last")}
	now := time.Now()
	messages[0].Due = now.Add(-time.Hour)
	for i := range 30 {
		messages = append(messages, body(fmt.Sprintf("x%02d", i)))
	}
	storetest.Publish(t, db, messages...)
	storetest.Receive(t, "the last one begins", began)
	cancel()
	storetest.Eventually(t, "all but the one in hand are ready again", func() bool {
		c := counts(t, db)
		return c.Ready == 30 && c.Leased == 1 && c.Waiting == 0
	})
	close(end)
	wait()
	if c := counts(t, db); c.Leased != 0 || c.Ready != 30 {
		t.Errorf("got %+v", c)
	}
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 100, Lease: time.Minute})
	if err != nil || len(ds) != 30 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	for i, d := range ds {
		if d.Attempt != 1 || d.ID != fmt.Sprintf("x%02d", i) {
			t.Errorf("message %d is %s in attempt %d", i, d.ID, d.Attempt)
		}
	}
}

func TestGraceEndsHandlersWithoutUsingUpAnAttempt(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	began := make(chan struct{}, 1)
	var cause error
	stop := handleAs(t, db, subscribers.SubscriberOptions{Grace: 50 * time.Millisecond}, func(ctx context.Context, _ *subscribers.Delivery) error {
		began <- struct{}{}
		<-ctx.Done()
		cause = context.Cause(ctx)
		return ctx.Err()
	})
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "the handler begins", began)
	stop()
	if !errors.Is(cause, subscribers.ErrStopping) {
		t.Errorf("the handler's context ended because of %v", cause)
	}
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Ready || info.Attempts != 0 {
		t.Errorf("got %+v, %v", info, err)
	}
}

// A waiting list that is lost, with the connection whole, is made again by the beat.
func TestWaitingListIsLost(t *testing.T) {
	t.Parallel()
	db := storetest.At(t, storetest.Lend(t), "")
	carry(t, db)
	got := make(chan string, 10)
	handle(t, db, idsInto(got))
	storetest.Eventually(t, "the subscriber waits", func() bool { return counts(t, db).Waiting == 1 })
	storetest.Must(t, db.Client().FlushAll(t.Context()).Err())
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "the message is handled", got)
}

// A subscriber that hangs, but whose connection stands, does not keep messages from one that waits beside it.
func TestHungSubscriberIsRungLast(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	hung := db.KeysOf(topic).Inbox("hung")
	storetest.Subscribe(t, db, hung)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Waiting(topic), 1, hung).Err())
	storetest.Publish(t, db, body("first"))
	got := make(chan string, 10)
	handle(t, db, idsInto(got))
	storetest.Receive(t, "the first is handled", got)
	for i := range 5 { // with no carrier there is no beat that would help
		storetest.Eventually(t, "both wait", func() bool { return counts(t, db).Waiting == 2 })
		storetest.Publish(t, db, body(fmt.Sprint(i)))
		storetest.Receive(t, "the next is handled", got)
	}
}

// One whose lease was lost while it was handled does not keep the others from being acknowledged.
func TestLostLeaseBesideOthers(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	lost, release := make(chan struct{}), make(chan struct{})
	var again atomic.Int64
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(brief)})
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		if d.Attempt > 1 {
			again.Add(1)
		}
		if d.ID == "lost" {
			<-ctx.Done()
			close(lost)
		}
		<-release
		return nil
	}, subscribers.HandleOptions{Concurrency: 20})
	storetest.Publish(t, db, body("lost"))
	storetest.Eventually(t, "it is leased", func() bool { return counts(t, db).Leased == 1 })
	storetest.Must(t, db.Client().ZRem(t.Context(), db.KeysOf(topic).Leased(), "orders:lost").Err())
	storetest.Receive(t, "its handler is told", lost)
	var messages []notify.Message
	for i := range 10 {
		messages = append(messages, body(fmt.Sprint(i)))
	}
	storetest.Publish(t, db, messages...)
	card := func() int64 {
		n, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Leased()).Result()
		storetest.Must(t, err)
		return n
	}
	storetest.Eventually(t, "the others are leased", func() bool { return card() == 10 })
	close(release)
	storetest.Eventually(t, "the others are acknowledged", func() bool { return card() == 0 })
	if n := again.Load(); n > 0 {
		t.Errorf("%d were handled again", n)
	}
}

// What a call may not do, beside what TestAllFaultsOfACall names.
func TestMisuse(t *testing.T) {
	t.Parallel()
	sub := subscriberstest.Subscriber(t, storetest.Open(t))
	wantFault(t, sub.Run(t.Context()), "handler", "call Handle before Run")
	storetest.Must(t, sub.Handle(topic, succeeds))
	wantFault(t, sub.Handle(topic, succeeds), "topic", "already")
	wantFault(t, sub.Handle("b", succeeds, subscribers.HandleOptions{}, subscribers.HandleOptions{}), "options", "2 are given")
	wantFault(t, sub.Handle("b", succeeds, subscribers.HandleOptions{Concurrency: -1}), "concurrency", "concurrency -1")
	wantFault(t, sub.Handle("b", nil), "handler", "nil")
	noJSON := func(_ context.Context, _ *subscribers.Delivery, err error) error { return err }
	wantFault(t, sub.Handle("b", succeeds, subscribers.HandleOptions{OnBadJSON: noJSON}), "on_bad_json", "HandleJSON")
	wantFault(t, subscribers.HandleJSON(nil, "b", func(context.Context, *subscribers.Delivery, order) error { return nil }), "subscriber", "use one of NewSubscriber")
}

// A call names everything that is wrong with it at once, each in a sentence of its own.
func TestAllFaultsOfACall(t *testing.T) {
	db := storetest.Open(t)
	sub := subscriberstest.Subscriber(t, db)
	onBad := func(_ context.Context, _ *subscribers.Delivery, err error) error { return err }
	_, errClaim := subscriberstest.Claimer(t, db).Claim(t.Context(), "a b", subscribers.ClaimOptions{Max: -1, Lease: 1, MinAge: -1, Wait: -1})
	listener := subscriberstest.Listener(t, db)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"Handle":     {sub.Handle("a b", nil, subscribers.HandleOptions{Concurrency: -1, MinAge: -1, OnBadJSON: onBad}), "topic on_bad_json concurrency min_age handler"},
		"HandleJSON": {subscribers.HandleJSON[order](nil, "a b", nil, subscribers.HandleOptions{}, subscribers.HandleOptions{}), "topic options handler subscriber"},
		"Claim":      {errClaim, "topic wait max min_age lease"},
		"Listen":     {listener.Listen(t.Context(), "a..b", nil, subscribers.ListenOptions{Lease: time.Second}), "pattern handler name"},
		"Listen by name": {
			listener.Listen(t.Context(), "a..b", nil, subscribers.ListenOptions{Name: "a b", Concurrency: -1, MaxAttempts: -1, Lease: 1}),
			"pattern handler name concurrency attempts lease",
		},
	} {
		var fields, sentences []string
		for _, fault := range fault.All(test.err) {
			fields, sentences = append(fields, fault.Field), append(sentences, fault.Error())
		}
		if got := strings.Join(fields, " "); got != test.want || test.err.Error() != strings.Join(sentences, "\n") {
			t.Errorf("%s: %s: %v; want %s", name, got, test.err, test.want)
		}
	}
}

func TestEvictingRedisEndsRun(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	for _, name := range []string{"subscriber", "listener", "named listener"} {
		storetest.Fails(t, name, programs[name](t, storetest.At(t, server.URL(), ""))(t.Context()), notify.ErrUnfit)
	}
}
