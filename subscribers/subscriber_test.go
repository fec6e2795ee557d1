package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// hear subscribes to a channel as another program does, until the test ends.
func hear(t testing.TB, db *notify.Store, channel string) *redis.PubSub {
	t.Helper()
	subscribe := db.Client().Subscribe
	if storetest.Shards() > 1 {
		subscribe = db.Client().SSubscribe
	}
	line := subscribe(t.Context(), channel)
	t.Cleanup(func() { line.Close() })
	storetest.Must(t, storetest.ErrOf(line.Receive(t.Context())))
	return line
}

// shout publishes on a channel as another program does, and returns how many heard it.
func shout(ctx context.Context, db *notify.Store, channel, payload string) (int64, error) {
	if storetest.Shards() > 1 {
		return db.Client().SPublish(ctx, channel, payload).Result()
	}
	return db.Client().Publish(ctx, channel, payload).Result()
}

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
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
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

func TestConcurrencyIsReachedAndKept(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const hands, n = 8, 40
	var now, most atomic.Int64
	all := make(chan struct{}) // closed when all hands are busy at once
	atOnce := sync.OnceFunc(func() { close(all) })
	handle(t, db, func(ctx context.Context, _ *subscribers.Delivery) error {
		k := now.Add(1)
		defer now.Add(-1)
		if k > most.Load() {
			most.Store(k)
		}
		if k == hands {
			atOnce()
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
		return nil
	}, subscribers.HandleOptions{Concurrency: hands})
	var messages []notify.Message
	for i := range n {
		messages = append(messages, body(fmt.Sprint(i)))
	}
	storetest.Publish(t, db, messages...)
	storetest.Receive(t, "all hands are busy", all)
	settled(t, db)
	if most.Load() != hands {
		t.Errorf("%d handlers ran at once, want %d", most.Load(), hands)
	}
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
	began, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
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

func TestHandlerContextEndsWithItsLease(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	causes := make(chan error, 1)
	began := make(chan subscribers.Delivery, 1)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(brief)})
	storetest.RingAlone(t, db, topic)
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		began <- *d
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	storetest.Publish(t, db, body("a"))
	d := storetest.Receive(t, "the handler begins", began)
	// Somebody else settles it, under the receipt of the moment.
	storetest.Must(t, db.Client().ZRem(t.Context(), db.KeysOf(topic).Leased(), record.Member(topic, d.ID)).Err())
	if cause := storetest.Receive(t, "the handler's context ends", causes); !errors.Is(cause, notify.ErrLeaseLost) {
		t.Errorf("its context ended because of %v", cause)
	}
}

// When it stops, a subscriber finishes what it handles and gives back what it
// did not begin, with no attempt used up.
func TestStopReleasesWhatWasNotBegun(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	began, end := make(chan string, 100), make(chan struct{})
	stop := handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
		if d.ID == "last" {
			began <- d.ID
			<-end
		}
		return nil
	})
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

	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	storetest.Eventually(t, "all but the one in hand are ready again", func() bool {
		c := counts(t, db)
		return c.Ready == 30 && c.Leased == 1 && c.Waiting == 0
	})
	close(end)
	storetest.Receive(t, "the subscriber stops", stopped)
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

// What was claimed ahead of a hand that got stuck goes to somebody else.
func TestStalledHandlerReleasesWhatWasClaimedAhead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	end := make(chan struct{})
	defer close(end)
	stuck := make(chan struct{}, 1)
	slow := func(_ context.Context, d *subscribers.Delivery) error {
		if d.ID == "stuck" {
			stuck <- struct{}{}
			<-end
		}
		return nil
	}
	handleAs(t, db, subscribers.SubscriberOptions{Grace: time.Minute}, slow)
	var messages []notify.Message
	for i := range 500 {
		messages = append(messages, body(fmt.Sprintf("%03d", i)))
	}
	storetest.Publish(t, db, messages...)
	settled(t, db) // it knows now that its hand is fast
	first := body("stuck")
	first.Due = time.Now().Add(-time.Hour)
	messages = []notify.Message{first}
	for i := range 20 {
		messages = append(messages, body(fmt.Sprintf("x%02d", i)))
	}
	storetest.Publish(t, db, messages...)
	storetest.Receive(t, "the hand gets stuck", stuck)

	var mu sync.Mutex
	got := make(map[string]int)
	handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		got[d.ID] = d.Attempt
		return nil
	})
	storetest.Eventually(t, "the other one handles the rest", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 20
	})
	for id, attempt := range got {
		if attempt != 1 {
			t.Errorf("%s was handled in attempt %d", id, attempt)
		}
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
	hear(t, db, hung)
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

func TestRetryAfterNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	attempts := make(chan int, 10)
	handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
		attempts <- d.Attempt
		if d.Attempt == 1 {
			return subscribers.RetryAfter(nil, time.Millisecond)
		}
		return nil
	})
	storetest.Publish(t, db, body("a"))
	for range 2 {
		storetest.Receive(t, "the next attempt", attempts)
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

// With Redis away, a subscriber stops soon after its grace, not when its leases end.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	began, end := make(chan struct{}, 10), make(chan struct{})
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(time.Hour)})
	stop := handleAs(t, db, subscribers.SubscriberOptions{Grace: 100 * time.Millisecond}, func(_ context.Context, d *subscribers.Delivery) error {
		began <- struct{}{}
		<-end
		if d.ID == "fails" {
			return errors.New("no")
		}
		return nil
	}, subscribers.HandleOptions{Concurrency: 4})
	storetest.Publish(t, db, body("fails"), body("succeeds"))
	for range 2 {
		storetest.Receive(t, "the handlers begin", began)
	}
	server.Kill()
	close(end)
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	storetest.Receive(t, "the subscriber stops", stopped)
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	nothing := succeeds
	for _, test := range []struct {
		name, field, want string
		call              func(*subscribers.Subscriber) error
	}{
		{"topic", "topic", "topic", func(s *subscribers.Subscriber) error {
			return s.Handle("a b", nothing)
		}},
		{"no handler", "handler", "nil", func(s *subscribers.Subscriber) error { return s.Handle("b", nil) }},
		{"twice", "topic", "already", func(s *subscribers.Subscriber) error {
			return s.Handle(topic, nothing)
		}},
		{"concurrency", "concurrency", "concurrency -1", func(s *subscribers.Subscriber) error {
			return s.Handle("b", nothing, subscribers.HandleOptions{Concurrency: -1})
		}},
		{"two options", "options", "2 are given", func(s *subscribers.Subscriber) error {
			return s.Handle("b", nothing, subscribers.HandleOptions{}, subscribers.HandleOptions{})
		}},
		{"JSON of no handler", "handler", "nil", func(s *subscribers.Subscriber) error {
			return subscribers.HandleJSON[order](s, "b", nil)
		}},
		{"JSON of no subscriber", "subscriber", "use one of NewSubscriber", func(*subscribers.Subscriber) error {
			return subscribers.HandleJSON(nil, "b", func(context.Context, *subscribers.Delivery, order) error { return nil })
		}},
		{"JSON with two options", "options", "2 are given", func(s *subscribers.Subscriber) error {
			return subscribers.HandleJSON[order](s, "b", nil, subscribers.HandleOptions{}, subscribers.HandleOptions{})
		}},
		{"OnBadJSON without JSON", "on_bad_json", "HandleJSON", func(s *subscribers.Subscriber) error {
			return s.Handle("b", nothing, subscribers.HandleOptions{OnBadJSON: func(_ context.Context, _ *subscribers.Delivery, err error) error { return err }})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			sub := subscriberstest.Subscriber(t, db)
			storetest.Must(t, sub.Handle(topic, nothing))
			wantFault(t, test.call(sub), test.field, test.want)
		})
	}
	if _, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Grace: -1}); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("negative grace: %v", err)
	}
	sub := subscriberstest.Subscriber(t, db)
	storetest.Fails(t, "no handler", sub.Run(t.Context()), notify.ErrInvalid)
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
		"Handle":     {sub.Handle("a b", nil, subscribers.HandleOptions{Concurrency: -1, OnBadJSON: onBad}), "topic on_bad_json concurrency handler"},
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
	sub, err := subscribers.NewSubscriber(storetest.At(t, server.URL(), ""))
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(topic, succeeds))
	storetest.Fails(t, "run", sub.Run(t.Context()), notify.ErrUnfit)
}
