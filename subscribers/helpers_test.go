package subscribers_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const topic = "orders"

func body(s string) notify.Message { return notify.Message{Topic: topic, ID: s, Body: []byte(s)} }

// of returns a message of a topic.
func of(topic, id string) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte(id)}
}

func asking(id string, m notify.Message) notify.Message {
	m.Topic, m.ID, m.Body = topic, id, []byte(id)
	return m
}

// dueBefore returns a message of a topic that is due for some time.
func dueBefore(topic, id string, ago time.Duration) notify.Message {
	m := of(topic, id)
	m.Due, m.Restore = time.Now().Add(-ago), &notify.Restore{}
	return m
}

func numbered(n int) (messages []notify.Message) {
	for i := range n {
		messages = append(messages, body(fmt.Sprintf("%04d", i)))
	}
	return messages
}

// topicsOf returns the first n of some topics.
func topicsOf(n int) (topics []string) {
	for i := range n {
		topics = append(topics, fmt.Sprintf("several.%d", i))
	}
	return topics
}

// across returns topics in as many different shards.
func across(db *notify.Store, n int) (topics []string) {
	for i := 0; len(topics) < n; i++ {
		topic := fmt.Sprint("across.", i)
		if !slices.ContainsFunc(topics, func(other string) bool { return db.Of(other) == db.Of(topic) }) {
			topics = append(topics, topic)
		}
	}
	return topics
}

// alone returns a store on a server that the test has for itself.
func alone(t *testing.T) *notify.Store {
	t.Helper()
	return storetest.At(t, storetest.Lend(t), "test-"+notify.NewID())
}

// inBubble tests what takes its time on a store in memory, beside which a carrier runs, and in which time passes while all wait.
func inBubble(t *testing.T, test func(t *testing.T, db *notify.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, belltest.New(t)) })
}

// holdable returns a store for hold, on a server that the test has for itself: what is held back is waited for.
func holdable(t *testing.T) *notify.Store {
	t.Helper()
	return storetest.Unhurried(alone(t))
}

func shardsAt(t *testing.T, url, prefix string, n int) *notify.Store {
	t.Helper()
	db := storetest.With(t, notify.Config{URL: url, Prefix: prefix, Shards: n})
	storetest.Found(t, db)
	return db
}

// redisNow returns the time by Redis's clock.
func redisNow(t *testing.T, db *notify.Store) time.Time {
	t.Helper()
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

// carry runs a carrier until stop is called or the test ends.
func carry(t testing.TB, db *notify.Store, o ...carrier.Options) (stop func()) {
	t.Helper()
	c, err := carrier.New(db, o...)
	storetest.Must(t, err)
	return storetest.Run(t, c.Run)
}

// carrying runs a carrier.
func carrying(t *testing.T, db *notify.Store) *carrier.Carrier {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	return c
}

// lapsed returns how many hand-overs ended before their subscriber confirmed them, as on a machine that stands still.
func lapsed(c *carrier.Carrier) (n int64) {
	for _, state := range c.States() {
		n += state.Lapsed
	}
	return n
}

// beating has beats that name nothing received on a store until the test ends.
// There is no carrier in most of these tests, so that no beat repeats a ring
// that got lost; and where none is received connections are made anew, which has
// those who wait look for themselves. The beats name no epoch, since one of another
// carrier would have every worker call.
func beating(t *testing.T, db *notify.Store) *notify.Store {
	t.Helper()
	storetest.Beat(t, db)
	return db
}

// quiet is beating where nothing of topics and of topic is handed over: without a carrier, what is not confirmed
// in time would be lost for good.
func quiet(t *testing.T, db *notify.Store, topics ...string) *notify.Store {
	t.Helper()
	storetest.RingAlone(t, db, append(topics, topic)...)
	return beating(t, db)
}

// lapsing is beating with a carrier that does not beat. lapsed counts the hand-overs that
// were not confirmed in time, since the machine stood still: each may come again.
func lapsing(t *testing.T, db *notify.Store) (lapsed *atomic.Int64) {
	t.Helper()
	lapsed = new(atomic.Int64)
	tokens := make(map[store.Shard]string)
	storetest.BeatWith(t, db, func(script.Keys) string { return "0 1" }, func(ctx context.Context) {
		shards, _ := db.Shards(ctx) // what fails is done the next time
		for _, shard := range shards {
			carried, err := shard.Carry(ctx, store.Carry{Token: tokens[shard], Batch: 100, KeepCount: 1000, KeepAge: time.Hour, Ready: "0"})
			lapsed.Add(carried.Lapsed)
			if deposed := (*store.DeposedError)(nil); !errors.As(err, &deposed) {
				continue
			}
			if elected, err := shard.Elect(ctx, "mute", store.MaxCarrierLease, 0); err == nil {
				tokens[shard] = elected.Token
			}
		}
	})
	return lapsed
}

// beats waits until the carrier's heart has beaten a few times.
func beats(t testing.TB, db *notify.Store, n int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), storetest.Deadline)
	defer stop()
	db.Subscribe(ctx, func(e store.Event) {
		if e.Kind != reach.Beat {
			return
		}
		if n--; n == 0 {
			stop()
		}
	}, db.Home().BeatChannel())
	if n > 0 {
		t.Fatalf("%d beats are missing", n)
	}
}

// counts returns the counts of the topic, less those that only grow, and those of time.
func counts(t *testing.T, db *notify.Store) notify.Counts {
	t.Helper()
	c, err := storetest.Count(db, topic)
	storetest.Must(t, err)
	c.Overdue, c.Lateness, c.Published, c.Acked, c.Died = 0, 0, 0, 0, 0
	return c
}

// counter returns a counter of the topic, or of all by the name *.
func counter(t *testing.T, db *notify.Store, of, what string) (n int) {
	t.Helper()
	n, err := db.Client().HGet(t.Context(), db.KeysOf(topic).Topics(), of+":"+what).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

// settled waits until every message of the topic is gone.
func settled(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "all messages are settled", func() bool {
		c := counts(t, db)
		return c.Scheduled+c.Ready+c.Leased == 0
	})
}

// inspect returns what is known about a message of the topic.
func inspect(t *testing.T, db *notify.Store, id string) notify.Info {
	t.Helper()
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id)
	storetest.Must(t, err)
	return info
}

// leased returns the score of a message's lease, as text; empty if it has none.
func leased(t *testing.T, db *notify.Store, id string) string {
	t.Helper()
	score, _ := db.Client().Do(t.Context(), "ZSCORE", db.KeysOf(topic).Leased(), record.Member(topic, id)).Text()
	return score
}

func currentReceipt(t *testing.T, db *notify.Store, id string) subscribers.Receipt {
	t.Helper()
	score, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), topic+":"+id).Result()
	storetest.Must(t, err)
	return subscribers.Receipt(score)
}

// waits waits until so many inboxes stand in the topic's waiting list.
func waits(t testing.TB, db *notify.Store, n int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d stand in the waiting list", n), func() bool {
		now, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Waiting(topic)).Result()
		return err == nil && now == n
	})
}

// waitsIn waits until so many inboxes stand in the waiting list of each of some topics.
func waitsIn(t testing.TB, db *notify.Store, topics []string, n int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d stand in each waiting list", n), func() bool {
		for _, topic := range topics {
			if now, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Waiting(topic)).Result(); err != nil || now != n {
				return false
			}
		}
		return true
	})
}

// workers returns those that are there, and of each its name, version, kind and topics.
func workers(t *testing.T, db *notify.Store) (found []notify.Worker, all []string) {
	t.Helper()
	found, err := storetest.Inspector(t, db).Workers(t.Context())
	storetest.Must(t, err)
	for _, w := range found {
		if w.ID == "" || w.Host == "" && len(w.Via) == 0 || w.Since.IsZero() || time.Since(w.Since).Abs() > time.Hour {
			t.Errorf("got %+v", w)
		}
		all = append(all, strings.Join([]string{w.Name, w.Version, w.Kind, strings.Join(w.Topics, ",")}, " "))
	}
	return found, all
}

// expire ends the time to live of a message: a carrier that is started then learns of it.
func expire(t *testing.T, db *notify.Store, id string) {
	t.Helper()
	storetest.Must(t, db.Client().ZAddXX(t.Context(), db.KeysOf(topic).Expiries(), redis.Z{Score: 1, Member: record.Member(topic, id)}).Err())
}

// becomeOverdue publishes a message, and waits until it is overdue in its
// scheduled set, and a millisecond more; besides there is one that is due much later.
func becomeOverdue(t *testing.T, store *notify.Store, id string) {
	t.Helper()
	soon, later := body(id), body("later")
	soon.Delay, later.Delay = time.Millisecond, time.Hour
	storetest.Publish(t, store, soon, later)
	storetest.Eventually(t, "it is overdue", func() bool {
		info := inspect(t, store, id)
		now, err := store.Client().Time(t.Context()).Result()
		return err == nil && now.Sub(info.Due) > 2*time.Millisecond
	})
}

// wantDropped checks that so many messages were dropped, none died, and nothing is left of them.
func wantDropped(t *testing.T, db *notify.Store, n int) {
	t.Helper()
	for _, of := range []string{topic, "*"} {
		if dropped, died := counter(t, db, of, "dropped"), counter(t, db, of, "died"); dropped != n || died != 0 {
			t.Errorf("of %s %d were dropped, want %d, and %d died", of, dropped, n, died)
		}
	}
	storetest.Empty(t, db)
}

// wantFault checks that an error is the Fault of a field.
func wantFault(t *testing.T, err error, field, want string) {
	t.Helper()
	var fault *notify.Fault
	if !errors.As(err, &fault) || fault.Field != field || !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an ErrInvalid of the field %s about %q", err, field, want)
	}
}

// succeeds is a handler to which all messages are right, and hears one of broadcasts.
func succeeds(context.Context, *subscribers.Delivery) error { return nil }
func hears(context.Context, *subscribers.Broadcast) error   { return nil }

// idsInto returns a handler that tells the ids of its messages, and allInto one that tells all of them.
func idsInto(to chan<- string) subscribers.Handler {
	return func(_ context.Context, d *subscribers.Delivery) error {
		to <- d.ID
		return nil
	}
}

func allInto(to chan<- subscribers.Delivery) subscribers.Handler {
	return func(_ context.Context, d *subscribers.Delivery) error {
		to <- *d
		return nil
	}
}

// handle runs a subscriber with one handler until stop is called or the test ends.
func handle(t testing.TB, db *notify.Store, h subscribers.Handler, o ...subscribers.HandleOptions) (stop func()) {
	t.Helper()
	return handleAs(t, db, subscribers.SubscriberOptions{}, h, o...)
}

// handleAs is handle with options of the subscriber.
func handleAs(t testing.TB, db *notify.Store, as subscribers.SubscriberOptions, h subscribers.Handler, o ...subscribers.HandleOptions) (stop func()) {
	t.Helper()
	sub := subscriberstest.Subscriber(t, db, as)
	storetest.Must(t, sub.Handle(topic, h, o...))
	return storetest.Run(t, sub.Run)
}

// keep handles messages of the topic for as long as end is open and they are
// leased. It returns where they are told as they begin.
func keep(t *testing.T, db *notify.Store, hands int) (began chan subscribers.Delivery, end chan struct{}) {
	t.Helper()
	began, end = make(chan subscribers.Delivery, 10), make(chan struct{})
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		began <- *d
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, subscribers.HandleOptions{Concurrency: hands})
	return began, end
}

func wantHandled(t *testing.T, got chan string, want string) {
	t.Helper()
	if one := storetest.Receive(t, want+" is handled", got); one != want {
		t.Errorf("%s is handled, want %s", one, want)
	}
}

// brief is a lease that ends during a test, and lasts longer than a machine stands still.
const brief = 12 * time.Second

var errBarred = errors.New("the way is barred")

// runClaimer returns a claimer that runs until stop is called or the test ends, whose connection stands, and which
// is among the workers, so that it makes no call before it is claimed from.
func runClaimer(t *testing.T, db *notify.Store) (p *subscribers.Claimer, stop func()) {
	t.Helper()
	inspector := storetest.Inspector(t, db)
	others, err := inspector.Workers(t.Context())
	storetest.Must(t, err)
	p = subscriberstest.Claimer(t, db)
	stop = storetest.Run(t, func(ctx context.Context) error { p.Run(ctx); return nil })
	storetest.Eventually(t, "the claimer receives itself", func() bool { return p.Ping(t.Context()) == nil })
	storetest.Eventually(t, "the claimer is among the workers", func() bool {
		all, err := inspector.Workers(t.Context())
		return err == nil && len(all) > len(others)
	})
	return p, stop
}

// called returns a claimer with a name.
func called(t *testing.T, db *notify.Store, name string) *subscribers.Claimer {
	t.Helper()
	return subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: name})
}

// got is what a claim returned.
type got struct {
	ds  []subscribers.Delivery
	err error
}

func (g got) ids() string {
	var ids []string
	for _, d := range g.ds {
		ids = append(ids, d.ID)
	}
	return strings.Join(ids, " ")
}

// long is a claim of one message that waits for longer than a test.
func long() subscribers.ClaimOptions {
	return subscribers.ClaimOptions{Max: 1, Lease: time.Minute, Wait: record.MaxWait}
}

// claimLater claims in the background, and returns when the call is known to the claimer.
func claimLater(ctx context.Context, t *testing.T, p *subscribers.Claimer, o subscribers.ClaimOptions) <-chan got {
	t.Helper()
	before := p.Stats().Waiting
	answer := make(chan got, 1)
	go func() {
		ds, err := p.Claim(ctx, topic, o)
		answer <- got{ds, err}
	}()
	storetest.Eventually(t, "the caller waits, or has an answer", func() bool { return p.Stats().Waiting > before || len(answer) > 0 })
	return answer
}

// claimAnyLater claims in the background, and returns when the call is known to the claimer.
func claimAnyLater(ctx context.Context, t *testing.T, p *subscribers.Claimer, topics []string, o subscribers.ClaimOptions) <-chan got {
	t.Helper()
	before := p.Stats().Waiting
	answer := make(chan got, 1)
	go func() {
		ds, err := p.ClaimAny(ctx, topics, o)
		answer <- got{ds, err}
	}()
	storetest.Eventually(t, "the caller waits, or has an answer", func() bool { return p.Stats().Waiting > before || len(answer) > 0 })
	return answer
}

// want waits for the answer of a claim, and fails the test if it is not those messages.
func want(t *testing.T, what string, answer <-chan got, ids string) got {
	t.Helper()
	g := storetest.Receive(t, what, answer)
	if g.err != nil || g.ids() != ids {
		t.Fatalf("%s: got %q, %v, want %q", what, g.ids(), g.err, ids)
	}
	return g
}

// claimOne claims one message and fails the test if there is none.
func claimOne(t *testing.T, c *subscribers.Claimer, lease time.Duration) subscribers.Delivery {
	t.Helper()
	ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: lease})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %d messages, %v", len(ds), err)
	}
	return ds[0]
}

// claimMany claims up to 500 messages of the topic, on the options' terms.
func claimMany(t *testing.T, c *subscribers.Claimer, o subscribers.ClaimOptions) []subscribers.Delivery {
	t.Helper()
	o.Max = cmp.Or(o.Max, 500)
	ds, err := c.Claim(t.Context(), topic, o)
	storetest.Must(t, err)
	return ds
}

// claimed claims a message as soon as one is ready.
func claimed(t *testing.T, c *subscribers.Claimer, o subscribers.ClaimOptions) (d subscribers.Delivery) {
	t.Helper()
	o.Max = 1
	storetest.Eventually(t, "there is one to claim", func() bool {
		ds := claimMany(t, c, o)
		if len(ds) == 1 {
			d = ds[0]
		}
		return len(ds) == 1
	})
	return d
}

// handouts counts how often each message was handed out, and how often it was another's when it was acknowledged.
type handouts struct {
	mu   sync.Mutex
	all  map[string]int
	lost int64
}

func (h *handouts) note(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[string]int)
	}
	h.all[id]++
}

// acked notes how acknowledging a message went.
func (h *handouts) acked(t *testing.T, err error) {
	t.Helper()
	switch {
	case errors.Is(err, notify.ErrLeaseLost):
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lost++
	case err != nil:
		t.Error(err)
	}
}

func (h *handouts) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// once checks that each message was handed out once, but for those whose hand-over lapsed.
func (h *handouts) once(t *testing.T, lapsed *atomic.Int64) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var again []string
	for id, n := range h.all {
		for range n - 1 {
			again = append(again, id)
		}
	}
	if n := lapsed.Load(); int64(len(again)) > n || h.lost > n {
		t.Errorf("handed out again %v, and %d were lost, while %d hand-overs lapsed", again, h.lost, n)
	}
}

func newListener(t testing.TB, store *notify.Store) *subscribers.Listener {
	t.Helper()
	return subscriberstest.Listener(t, store)
}

// died returns what the deaths that were received tell of: topic, id and reason.
func (h *received) died(t *testing.T) (all []string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all {
		var death struct {
			Topic, ID, Reason string
			Attempts          int
			DiedAt            time.Time `json:"died_at"`
		}
		if err := json.Unmarshal(b.Body, &death); err != nil || b.ContentType != "application/json" {
			t.Errorf("%s, %s: %v", b.ContentType, b.Body, err)
		}
		if age := time.Since(death.DiedAt); age < -time.Hour || age > time.Hour {
			t.Errorf("it died %v ago", age)
		}
		if b.Topic != "$dead."+death.Topic {
			t.Errorf("the death of %s is told in %s", death.Topic, b.Topic)
		}
		all = append(all, fmt.Sprintf("%s:%s %d %s", death.Topic, death.ID, death.Attempts, death.Reason))
	}
	return all
}

// received collects what a listener received.
type received struct {
	mu    sync.Mutex
	start subscribers.Bookmark
	all   []subscribers.Broadcast
	gaps  []subscribers.Gap
	early []string
	begun int           // how many broadcasts the handler got
	hold  chan struct{} // if there is one, each broadcast waits for it
}

func (h *received) handle(ctx context.Context, b *subscribers.Broadcast) error {
	h.mu.Lock()
	h.begun++
	h.mu.Unlock()
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
			return nil // it does not count as handled
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, *b)
	if time.Now().Before(b.Due) {
		h.early = append(h.early, b.ID)
	}
	return nil
}

// has reports whether the handler got n broadcasts so far.
func (h *received) has(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun == n
}

func (h *received) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func (h *received) list() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all {
		ids = append(ids, b.ID)
	}
	return ids
}

func (h *received) missed() []subscribers.Gap {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.gaps)
}

// options fills in what a listener tells, and started is closed when it listens.
func (h *received) options(given ...subscribers.ListenOptions) (o subscribers.ListenOptions, started chan struct{}) {
	if len(given) > 0 {
		o = given[0]
	}
	started = make(chan struct{})
	o.OnStart = func(p subscribers.Bookmark) {
		h.mu.Lock()
		h.start = p
		h.mu.Unlock()
		close(started)
	}
	o.OnGap = func(g subscribers.Gap) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gaps = append(h.gaps, g)
	}
	return o, started
}

// check fails the test unless what was received is, from where the listener began,
// the beginning of what was sent to a pattern: nothing is missing, twice, or out of its order.
func (h *received) check(t *testing.T, who string, all []sent, pattern string) {
	t.Helper()
	p, err := notify.ParsePattern(pattern)
	storetest.Must(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	i := 0
	for _, s := range all {
		if s.at <= h.start.Position() || !p.Match(s.topic) {
			continue
		}
		if i == len(h.all) {
			break
		}
		if b := h.all[i]; b.ID != s.id || b.Topic != s.topic || b.Position != s.at {
			t.Errorf("%s on %s, behind %v: the %dth that it received is %s:%s at %v, want %s:%s at %v", who, pattern, h.start, i, b.Topic, b.ID, b.Position, s.topic, s.id, s.at)
			return
		}
		i++
	}
	if i < len(h.all) {
		t.Errorf("%s on %s: it received %d, and %d were sent", who, pattern, len(h.all), i)
	}
	if len(h.early)+len(h.gaps) > 0 {
		t.Errorf("%s on %s: early %v, gaps %v", who, pattern, h.early, h.gaps)
	}
}

// listen listens until stop is called or the test ends, and returns when it does.
func listen(t *testing.T, l *subscribers.Listener, pattern string, o ...subscribers.ListenOptions) (h *received, stop func()) {
	t.Helper()
	h = &received{}
	return h, listenInto(t, l, pattern, h, o...)
}

func listenInto(t *testing.T, l *subscribers.Listener, pattern string, h *received, o ...subscribers.ListenOptions) (stop func()) {
	t.Helper()
	with, started := h.options(o...)
	stop = storetest.Run(t, func(ctx context.Context) error { return l.Listen(ctx, pattern, h.handle, with) })
	storetest.Receive(t, "it listens", started)
	return stop
}

// listenBy listens with a handler until stop is called or the test ends, and returns when it does.
func listenBy(t *testing.T, l *subscribers.Listener, handler func(context.Context, *subscribers.Broadcast) error, o subscribers.ListenOptions) (stop func()) {
	t.Helper()
	o, started := (&received{}).options(o)
	stop = storetest.Run(t, func(ctx context.Context) error { return l.Listen(ctx, topic, handler, o) })
	storetest.Receive(t, "it listens", started)
	return stop
}

// broadcast publishes broadcasts that are due at once, one after the other, and waits until they are sent.
func broadcast(t *testing.T, store *notify.Store, topic string, ids ...string) {
	t.Helper()
	pub := storetest.Publisher(t, store)
	for _, id := range ids {
		storetest.Must(t, storetest.ErrOf(pub.Broadcast(t.Context(), notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id)})))
		storetest.Eventually(t, id+" is sent", func() bool {
			_, err := storetest.Inspector(t, store).Inspect(context.Background(), topic, id)
			return errors.Is(err, notify.ErrNotFound)
		})
	}
}

// flood publishes broadcasts, in few calls, to topics in turn; they are sent in this order.
func flood(t testing.TB, store *notify.Store, topics []string, ids ...string) {
	t.Helper()
	var messages []notify.Message
	for i, id := range ids {
		messages = append(messages, notify.Message{
			Topic: topics[i%len(topics)], ID: id, Body: []byte("body of " + id), Broadcast: true,
			Due: time.Now().Add(-time.Hour + time.Duration(i)*time.Millisecond),
		})
	}
	storetest.Publish(t, store, messages...)
}

func numbers(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return ids
}

// wantIDs waits until a listener has received as many as it should, and checks that it was these, in order.
func wantIDs(t *testing.T, h *received, want ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d are received", len(want)), func() bool { return h.size() >= len(want) })
	storetest.Same(t, "received", want, h.list())
}

// wantSet is wantIDs in any order.
func wantSet(t *testing.T, h *received, want ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d are received", len(want)), func() bool { return h.size() >= len(want) })
	got := h.list()
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	storetest.Same(t, "received", want, got)
}

// A sent broadcast is what a log in Redis holds of it.
type sent struct {
	topic, id string
	at        notify.Position
}

// sentTo returns all that was sent, as the logs in Redis hold it, in order.
func sentTo(t *testing.T, store *notify.Store) (all []sent) {
	t.Helper()
	client := store.Client()
	for _, keys := range store.KeysOfAll() {
		topics, err := client.ZRange(t.Context(), keys.Logs(), 0, -1).Result()
		storetest.Must(t, err)
		for _, topic := range topics {
			entries, err := client.XRange(t.Context(), keys.Log(topic), "-", "+").Result()
			storetest.Must(t, err)
			for _, e := range entries {
				at, err := record.ParsePosition(e.ID)
				storetest.Must(t, err)
				all = append(all, sent{topic, e.Values["id"].(string), at})
			}
		}
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Compare(a.at, b.at) })
	return all
}

// sentAll waits until nothing waits to be sent.
func sentAll(t testing.TB, store *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "all are sent", func() bool {
		for _, keys := range store.KeysOfAll() {
			if n, err := store.Client().ZCard(t.Context(), keys.Broadcasts()).Result(); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}

func held(t *testing.T, db *notify.Store, name string) (all int64) {
	t.Helper()
	for _, keys := range db.KeysOfAll() {
		n, err := db.Client().ZCard(t.Context(), keys.Held(name)).Result()
		storetest.Must(t, err)
		all += n
	}
	return all
}

// nothingHeld waits until a name has nothing in hand, and checks that nothing is left of what it had.
func nothingHeld(t *testing.T, db *notify.Store, name string) {
	t.Helper()
	keys := db.KeysOf(topic)
	storetest.Eventually(t, "nothing is in hand", func() bool {
		n, err := db.Client().Exists(t.Context(), keys.Held(name), keys.Tries(name), keys.Owners(name)).Result()
		return err == nil && n == 0
	})
	storetest.Eventually(t, "nothing is handed", func() bool {
		n, err := db.Client().ZCard(t.Context(), keys.Alarms()).Result()
		return err == nil && n == 0
	})
}

// emptied has Redis lose all that it holds: by a command, or by a restart without its data. It returns the server that runs then.
func emptied(t *testing.T, store *notify.Store, server *redisserver.Server, restart bool) *redisserver.Server {
	t.Helper()
	if !restart {
		storetest.Must(t, store.Client().FlushAll(t.Context()).Err())
		return server
	}
	server.Kill()
	again, err := server.Restart(t.Context())
	storetest.Must(t, err)
	t.Cleanup(again.Stop)
	if n, err := store.Client().Exists(t.Context(), store.Keys().Logs()).Result(); err != nil || n > 0 {
		t.Fatalf("the logs are still there, %v", err)
	}
	return again
}

// An absence is a user who may not connect for a while.
type absence struct {
	t           *testing.T
	store, root *notify.Store
}

func (a *absence) do(args ...any) {
	a.t.Helper()
	if err := a.root.Client().Do(a.t.Context(), args...).Err(); err != nil {
		a.t.Fatal(err)
	}
}

func (a *absence) leave() {
	a.do("ACL", "SETUSER", "guest", "off")
	a.do("CLIENT", "KILL", "USER", "guest")
}

func (a *absence) come() { a.do("ACL", "SETUSER", "guest", "on") }

// away returns a store that can be cut off.
func away(t *testing.T, store *notify.Store, url string) *absence {
	t.Helper()
	a := &absence{t: t, root: store, store: storetest.At(t, strings.Replace(url, "redis://", "redis://guest:secret@", 1), store.Keys().Prefix())}
	a.do("ACL", "SETUSER", "guest", "on", ">secret", "~*", "&*", "+@all")
	return a
}

// A hand is a subscriber that does only what a test says.
type hand struct {
	t     *testing.T
	shard store.Shard
	inbox reach.Inbox
	came  chan store.Event
}

// subscribe has the hand receive what is sent to its inbox.
func (h *hand) subscribe(db *notify.Store) {
	h.t.Helper()
	up := make(chan bool, 100)
	storetest.Run(h.t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			switch e.Kind {
			case reach.Subscribed:
				up <- true
			case reach.Received:
				h.came <- e
			}
		}, h.shard.InboxChannel(h.inbox))
		return nil
	})
	storetest.Receive(h.t, "the hand is subscribed", up)
}

// claim claims up to ten messages, after the hand-over that was made at a time; then the hand waits.
func (h *hand) claim(received int64) store.Claimed {
	h.t.Helper()
	got, err := h.shard.Claim(h.t.Context(), store.Claim{Topic: topic, Max: 10, Inbox: h.inbox, Received: received})
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// taken returns the hand-over that the hand receives next.
func (h *hand) taken() store.Handover {
	h.t.Helper()
	e := storetest.Receive(h.t, "the hand is handed a message", h.came)
	got, is := e.Handover()
	if !is {
		h.t.Fatalf("got %q, want a hand-over", e.Payload)
	}
	return got
}

// rung checks that the hand is rung next, and handed nothing.
func (h *hand) rung() {
	h.t.Helper()
	if e := storetest.Receive(h.t, "the hand is rung", h.came); e.Payload != topic {
		h.t.Errorf("got %q, want a ring", e.Payload)
	}
}

// newHand returns a hand that waits for the topic and takes hand-overs, with a store of its own: where no carrier beats, a subscription
// that is made anew would miss one.
func newHand(t *testing.T, db *notify.Store, id string) *hand {
	t.Helper()
	db = storetest.Unhurried(storetest.At(t, storetest.URL(), db.Prefix()))
	h := &hand{t, db.Of(topic), reach.NewInbox(id, true), make(chan store.Event, 100)}
	h.subscribe(db)
	h.claim(0)
	return h
}

// A journal is what a program logged.
type journal struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}

func (j *journal) count(words string) int { return strings.Count(j.String(), words) }

// lines returns how many lines have all of some words.
func (j *journal) lines(with ...string) (n int) {
	for line := range strings.Lines(j.String()) {
		if !slices.ContainsFunc(with, func(words string) bool { return !strings.Contains(line, words) }) {
			n++
		}
	}
	return n
}

func send(t *testing.T, s *redisserver.Server, sig syscall.Signal) {
	t.Helper()
	storetest.Must(t, s.Signal(sig))
}
