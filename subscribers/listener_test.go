package subscribers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

func TestListen(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	one, _ := listen(t, l, "prices.gold")
	many, _ := listen(t, l, "prices.*")
	all, _ := listen(t, l, ">")
	broadcast(t, store, "prices.gold", "a", "b")
	broadcast(t, store, "prices.silver", "c")
	broadcast(t, store, "news", "d")
	wantIDs(t, one, "a", "b")
	wantIDs(t, many, "a", "b", "c")
	wantIDs(t, all, "a", "b", "c", "d")
	if body := string(all.all[2].Body); body != "body of c" || all.all[2].Topic != "prices.silver" || all.all[2].Attempt != 1 || !all.all[2].Broadcast {
		t.Errorf("%+v", all.all[2])
	}
	if n := l.Stats(); n.Handled != 9 || n.Lagged+n.Gaps+n.Unreadable+n.GivenUp != 0 {
		t.Errorf("%+v", n)
	}
}

// A broadcast comes as it was published, never before it is due.
func TestBroadcastIsWhatWasPublished(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	h, _ := listen(t, newListener(t, store), topic)
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	m := notify.Message{
		Topic: topic, ID: "a:b.c~d", Body: every, Delay: 30 * time.Millisecond,
		ContentType: "application/x", Headers: map[string]string{"Trace": "7", "Ümlaut": "no"},
	}
	delete(m.Headers, "Ümlaut")
	before := time.Now().Truncate(time.Millisecond)
	p, err := storetest.Publisher(t, store).Broadcast(t.Context(), m)
	storetest.Must(t, err)
	storetest.Eventually(t, "it is received", func() bool { return h.size() == 1 })
	b := h.all[0]
	want := subscribers.Broadcast{Topic: topic, ID: m.ID, Due: p.Due, Position: b.Position, Attempt: 1, Record: notify.Record{
		Published: b.Published, ContentType: m.ContentType, Headers: m.Headers, Broadcast: true, Body: every,
	}}
	storetest.Same(t, "broadcast", want, b, cmpopts.IgnoreUnexported(b))
	if b.Published.Before(before) || b.Position.Time().Before(b.Due) || len(h.early) > 0 {
		t.Errorf("published %v, due %v, sent %v", b.Published, b.Due, b.Position.Time())
	}
}

func TestWhereToBegin(t *testing.T) {
	storetest.OneShard(t, "topics have an order in one, where a position is the bookmark of any pattern")
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	broadcast(t, store, "prices.gold", "a", "b")
	broadcast(t, store, "prices.silver", "c")
	broadcast(t, store, "news", "d")
	all := sentTo(t, store)
	for _, test := range []struct {
		from string
		want []string
	}{
		{"", nil},
		{"now", nil},
		{"beginning", []string{"a", "b", "c", "d"}},
		{all[0].at.String(), []string{"b", "c", "d"}},
		{all[2].at.String(), []string{"d"}},
		{all[3].at.String(), nil},
		{(all[1].at - 1).String(), []string{"b", "c", "d"}},
		{"0-0", []string{"a", "b", "c", "d"}},
		{all[1].at.Time().UTC().Format(time.RFC3339Nano), []string{"b", "c", "d"}},
		{all[1].at.Time().Add(time.Microsecond).UTC().Format(time.RFC3339Nano), []string{"c", "d"}},
		{all[3].at.Time().In(time.FixedZone("", 3600)).Format(time.RFC3339Nano), []string{"d"}},
		{"1970-01-01T00:00:00Z", []string{"a", "b", "c", "d"}},
	} {
		from := subscribers.From{}
		if test.from != "" {
			var err error
			if from, err = subscribers.ParseFrom(test.from); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"", "n-" + strings.NewReplacer(":", "-", "+", "-").Replace(test.from)} {
			h, stop := listen(t, l, ">", subscribers.ListenOptions{From: from, Name: strings.TrimSuffix(name, ".")})
			broadcast(t, store, "last", "last")
			if name == "" {
				wantIDs(t, h, append(slices.Clone(test.want), "last")...)
			} else {
				wantSet(t, h, append(slices.Clone(test.want), "last")...)
			}
			if got := h.missed(); len(got) > 0 {
				t.Errorf("from %q: gaps %v", test.from, got)
			}
			stop()
			storetest.Must(t, store.Client().Del(t.Context(), store.Keys().Log("last")).Err())
			storetest.Must(t, store.Client().ZRem(t.Context(), store.Keys().Logs(), "last").Err())
		}
	}
}

// Listeners come and go on one hub, of topics and patterns, from here and there,
// some slow, while broadcasts flow and connections are cut:
// each receives from where it begins all that is sent, in order, once.
func TestListenersComeAndGo(t *testing.T) {
	storetest.OneShard(t, "topics have an order in one")
	t.Parallel()
	store := alone(t)
	carry(t, store)
	var topics []string
	for i := range 30 {
		topics = append(topics, fmt.Sprintf("t.%d.%d", i%5, i))
	}
	patterns := append([]string{">", "t.>", "t.*.*", "t.1.*", "t.*.7", "none", "t.2.>"}, topics...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			var batch []notify.Message
			for j := range rand.IntN(60) {
				batch = append(batch, notify.Message{Topic: topics[rand.IntN(len(topics))], ID: fmt.Sprintf("%d-%d", i, j), Body: []byte("x"), Broadcast: true, Delay: rand.N(20 * time.Millisecond)})
			}
			for _, r := range storetest.Publisher(t, store).PublishMany(t.Context(), batch) {
				if r.Err != nil && !notify.Retryable(r.Err) {
					t.Error(r.Err) // where the connection was cut it happened or not: the logs tell
				}
			}
			for waiting := int64(1); i%2 == 0 && waiting > 0 && ctx.Err() == nil; runtime.Gosched() { // for a moment of rest
				if n, err := store.Client().ZCard(ctx, store.Keys().Broadcasts()).Result(); err == nil {
					waiting = n
				}
			}
		}
	})
	all.Go(func() { disturb(ctx, store) })
	type run struct {
		h       *received
		pattern string
	}
	var mu sync.Mutex
	var runs []run
	var last atomic.Int64
	hubs := []*subscribers.Listener{newListener(t, store), newListener(t, store)}
	for i := range 12 {
		l := hubs[i%len(hubs)]
		all.Go(func() {
			for ctx.Err() == nil {
				r := run{&received{}, patterns[rand.IntN(len(patterns))]}
				o, _ := r.h.options(subscribers.ListenOptions{})
				switch rand.IntN(4) {
				case 0:
					o.From = subscribers.FromBeginning()
				case 1:
					o.From = subscribers.After(subscribers.At(notify.Position(last.Load())))
				}
				slow := rand.IntN(5) == 0
				life, end := context.WithTimeout(ctx, rand.N(700*time.Millisecond))
				err := l.Listen(life, r.pattern, func(ctx context.Context, b *subscribers.Broadcast) error {
					if slow && rand.IntN(10) == 0 {
						<-time.After(rand.N(5 * time.Millisecond)) // what slow handlers take
					}
					last.Store(int64(b.Position))
					return r.h.handle(ctx, b)
				}, o)
				end()
				storetest.Should(t, err)
				mu.Lock()
				if runs = append(runs, r); len(runs) == 150 {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	steady := run{&received{}, ">"} // and one that stays
	o, started := steady.h.options(subscribers.ListenOptions{})
	stopSteady := storetest.Run(t, func(ctx context.Context) error { return hubs[0].Listen(ctx, ">", steady.h.handle, o) })
	storetest.Receive(t, "it listens", started)
	all.Wait()
	storetest.Eventually(t, "all are sent", func() bool {
		n, err := store.Client().ZCard(t.Context(), store.Keys().Broadcasts()).Result()
		return err == nil && n == 0
	})
	were := sentTo(t, store)
	storetest.Eventually(t, "the one that stays receives the last", func() bool {
		steady.h.mu.Lock()
		defer steady.h.mu.Unlock()
		n := len(steady.h.all)
		return n > 0 && steady.h.all[n-1].Position == were[len(were)-1].at
	})
	stopSteady()
	total := 0
	for i, r := range append(runs, steady) {
		total += r.h.size()
		r.h.check(t, fmt.Sprint("listener ", i), were, r.pattern)
	}
	t.Logf("%d were sent; %d listeners received %d; %+v", len(were), len(runs)+1, total, hubs[0].Stats())
	if total == 0 {
		t.Error("none received anything")
	}
}

// disturb cuts connections and makes Redis pause, until ctx ends.
func disturb(ctx context.Context, store *notify.Store) {
	faults := [][]any{
		{"CLIENT", "KILL", "TYPE", "pubsub"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", "50"},
	}
	for ctx.Err() == nil {
		store.Client().Do(ctx, faults[rand.IntN(len(faults))]...)
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(400 * time.Millisecond)):
		}
	}
}

// More topics than one call reads, than one carry sends, and than a hub subscribes to one by one
// one by one: the order is that in which all of them were sent.
func TestManyTopics(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	var topics []string
	for i := range 250 {
		topics = append(topics, storetest.Beside(store, "many", fmt.Sprintf("many.%03d", i)))
	}
	l := newListener(t, store)
	all, _ := listen(t, l, "many.*")
	ids := numbers("n", 3000)
	flood(t, store, topics, ids...)
	wantIDs(t, all, ids...)
	late, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.FromBeginning()})
	wantIDs(t, late, ids...)

	// And of each topic by itself.
	var each []*received
	for _, topic := range topics[:40] {
		h, _ := listen(t, l, topic, subscribers.ListenOptions{From: subscribers.FromBeginning()})
		each = append(each, h)
	}
	flood(t, store, topics, numbers("o", 250)...)
	for i, h := range each {
		var want []string
		for j := i; j < len(ids); j += len(topics) {
			want = append(want, ids[j])
		}
		wantIDs(t, h, append(want, fmt.Sprintf("o%05d", i))...)
	}
	if n := l.Stats(); n.Gaps+n.Unreadable > 0 {
		t.Errorf("%+v", n)
	}
}

// A slow listener holds up nobody: not the carrier, not those that share its hub. It is counted, and misses nothing.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	fast, _ := listen(t, l, topic)
	slow := &received{hold: make(chan struct{})}
	listenInto(t, l, topic, slow)
	other, _ := listen(t, l, "other")
	ids := numbers("n", 5000)             // more than the window holds
	for n := 0; n < len(ids); n += 1000 { // which the fast one need not fill while it is held up
		flood(t, store, []string{topic}, ids[n:n+1000]...)
		wantIDs(t, fast, ids[:n+1000]...)
	}
	broadcast(t, store, "other", "o")
	wantIDs(t, other, "o")
	if slow.size() > 0 {
		t.Fatal("the slow one handled some")
	}
	if c := counts(t, store); c.Broadcasts != 0 {
		t.Errorf("the carrier was held up: %+v", c)
	}
	close(slow.hold)
	wantIDs(t, slow, ids...)
	flood(t, store, []string{topic}, "z")
	wantIDs(t, slow, append(ids, "z")...)
	wantIDs(t, fast, append(ids, "z")...)
	if n := l.Stats(); n.Lagged != 1 || n.Gaps != 0 || n.Handled != int64(2*len(ids)+3) {
		t.Errorf("%+v", n)
	}
}

// Bodies that fill the window before the number does, and a reply before either.
func TestSlowListenerOfLargeBodies(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	fast, _ := listen(t, l, ">")
	slow := &received{hold: make(chan struct{})}
	listenInto(t, l, ">", slow)
	ids := numbers("n", 120)
	var messages []notify.Message
	for i, id := range ids {
		messages = append(messages, notify.Message{
			Topic: storetest.Beside(store, "big", fmt.Sprintf("big.%d", i%7)), ID: id, Broadcast: true, Body: bytes.Repeat([]byte{byte(i)}, notify.DefaultMaxBody-i%3),
			Due: time.Now().Add(-time.Hour + time.Duration(i)*time.Millisecond),
		})
	}
	portion := 0 // less than the window at a time, so that the fast one stays within it
	for ; portion < len(ids)/2; portion += 10 {
		storetest.Publish(t, store, messages[portion:portion+10]...)
		wantIDs(t, fast, ids[:portion+10]...)
	}
	close(slow.hold)
	wantIDs(t, slow, ids[:portion]...)
	if n := l.Stats(); n.Lagged != 1 || n.Gaps != 0 {
		t.Errorf("%+v", n)
	}
	storetest.Publish(t, store, messages[portion:]...) // more than the window, at which anybody may fall behind
	wantIDs(t, fast, ids...)
	wantIDs(t, slow, ids...)
	late, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.FromBeginning()})
	wantIDs(t, late, ids...)
	for _, h := range []*received{fast, slow, late} {
		for i, b := range h.all {
			if !bytes.Equal(b.Body, messages[i].Body) {
				t.Fatalf("%s has another body", b.ID)
			}
		}
	}
	if n := l.Stats(); n.Gaps != 0 {
		t.Errorf("%+v", n)
	}
}

// One hub reads once for all of its listeners.
func TestListenersShareOneReader(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	own := storetest.At(t, storetest.URL(), store.Keys().Prefix())
	var reads atomic.Int64
	own.Observe(func(string, time.Duration, error) { reads.Add(1) })
	l := newListener(t, own)
	var all []*received
	for range 200 {
		h, _ := listen(t, l, topic)
		all = append(all, h)
	}
	if n, err := store.Listening(t.Context(), store.Of(topic).LogChannel(topic)); err != nil || n != 1 {
		t.Errorf("%d listen in Redis, %v", n, err)
	}
	before := reads.Load()
	ids := numbers("n", 20)
	broadcast(t, store, topic, ids...)
	for _, h := range all {
		wantIDs(t, h, ids...)
	}
	if n := reads.Load() - before; n > 20*10 { // each may take a look beside, and not one for each listener
		t.Errorf("%d calls to read 20 broadcasts", n)
	}
}

func scriptCalls(t testing.TB, store *notify.Store) (n int) {
	t.Helper()
	return commandCalls(t, store, "fcall")
}

// commandCalls returns how often Redis was called with a command; of all of them without a name.
func commandCalls(t testing.TB, store *notify.Store, command string) (n int) {
	t.Helper()
	info, err := store.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || command != "" && name != "cmdstat_"+command {
			continue
		}
		var calls int
		storetest.Must(t, storetest.ErrOf(fmt.Sscanf(rest, "%d", &calls)))
		n += calls
	}
	return n
}

// Listeners that have nothing to hear cost Redis nothing: there is the carrier's one call a second.
func TestIdleListenersCostNothing(t *testing.T) {
	storetest.OneShard(t, "the calls of one are counted")
	t.Parallel()
	store := alone(t)
	carry(t, store)
	for i := range 100 {
		o := subscribers.ListenOptions{}
		if i%4 == 0 {
			o.Name = fmt.Sprintf("name-%d", i)
		}
		l := newListener(t, store)
		listen(t, l, []string{topic, "prices.*", ">", fmt.Sprintf("t.%d", i)}[i%4], o)
	}
	broadcast(t, store, topic, "a") // once they are awake
	beats := store.Client().Subscribe(t.Context(), store.KeysOf(topic).Beat())
	defer beats.Close()
	beat := func() {
		storetest.Must(t, storetest.ErrOf(beats.ReceiveMessage(t.Context())))
	}
	const n = 3
	beat() // after which nobody takes anything any more
	beat()
	storetest.Eventually(t, "nothing but the carrier's calls", func() bool { // an election or a new connection costs more, once
		scripts, commands := scriptCalls(t, store), commandCalls(t, store, "")
		for range n {
			beat()
		}
		gotScripts, gotCommands := scriptCalls(t, store)-scripts, commandCalls(t, store, "")-commands
		// The script of a beat makes some 14 calls of its own; three more are this test's INFO.
		if gotScripts > n || gotCommands > n*20+3 {
			t.Logf("%d calls of scripts, %d of all commands in %d beats", gotScripts, gotCommands, n)
			return false
		}
		return true
	})
}

// An error of the handler ends its listener, and no other.
func TestHandlerEndsItsListener(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	h, _ := listen(t, l, topic)
	enough := errors.New("enough")
	ended := make(chan error, 1)
	var calls atomic.Int64
	started := make(chan struct{})
	go func() {
		ended <- l.Listen(t.Context(), topic, func(context.Context, *subscribers.Broadcast) error {
			if calls.Add(1) == 2 {
				return enough
			}
			return nil
		}, subscribers.ListenOptions{OnStart: func(subscribers.Bookmark) { close(started) }})
	}()
	storetest.Receive(t, "it listens", started)
	broadcast(t, store, topic, "a", "b", "c")
	storetest.Fails(t, "it ended with", storetest.Receive(t, "it ends", ended), enough)
	wantIDs(t, h, "a", "b", "c")
	if n := calls.Load(); n != 2 {
		t.Errorf("it was called %d times", n)
	}
}

// What one handler does to its broadcast is not seen by another, as far as the type promises.
func TestListenersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	listenBy(t, l, func(_ context.Context, b *subscribers.Broadcast) error {
		b.ID, b.Body, b.Topic = "spoiled", nil, ""
		return nil
	}, subscribers.ListenOptions{})
	h, _ := listen(t, l, topic)
	broadcast(t, store, topic, "a", "b")
	wantIDs(t, h, "a", "b")
	if string(h.all[1].Body) != "body of b" {
		t.Errorf("got %+v", h.all[1])
	}
}

// A listener that is started before Redis is there waits for it.
func TestListenBeforeRedisIsThere(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	server.Stop()
	l := newListener(t, store)
	plain, named := &received{}, &received{}
	o, started := plain.options(subscribers.ListenOptions{})
	storetest.Run(t, func(ctx context.Context) error { return l.Listen(ctx, topic, plain.handle, o) })
	on, startedNamed := named.options(subscribers.ListenOptions{Name: "n"})
	storetest.Run(t, func(ctx context.Context) error { return l.Listen(ctx, topic, named.handle, on) })
	again, err := server.Restart(t.Context())
	storetest.Must(t, err)
	t.Cleanup(again.Stop)
	carry(t, store)
	storetest.Receive(t, "it listens", started)
	storetest.Receive(t, "the named one listens", startedNamed)
	broadcast(t, store, topic, "a", "b")
	wantIDs(t, plain, "a", "b")
	wantSet(t, named, "a", "b")
}

// The context may end before Redis is there.
func TestStopBeforeRedisIsThere(t *testing.T) {
	t.Parallel()
	l := newListener(t, storetest.At(t, fmt.Sprint("redis://127.0.0.1:", storetest.Port(t)), ""))
	for _, name := range []string{"", "n"} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- l.Listen(ctx, topic, new(received).handle, subscribers.ListenOptions{Name: name})
		}()
		cancel()
		if err := storetest.Receive(t, "it ends", ended); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

func TestBadListen(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	l := newListener(t, store)
	good := new(received).handle
	for _, test := range []struct {
		field   string
		want    string
		pattern string
		handler func(context.Context, *subscribers.Broadcast) error
		o       subscribers.ListenOptions
	}{
		{"pattern", "topic", "", good, subscribers.ListenOptions{}},
		{"pattern", "topic", "a b", good, subscribers.ListenOptions{}},
		{"pattern", "pattern", "a.>.b", good, subscribers.ListenOptions{}},
		{"pattern", "pattern", "a*", good, subscribers.ListenOptions{}},
		{"handler", "handler of a: it is nil", "a", nil, subscribers.ListenOptions{}},
		{"name", "name", "a", good, subscribers.ListenOptions{Name: "two words"}},
		{"name", "name", "a", good, subscribers.ListenOptions{Name: "a..b"}},
		{"name", "name", "a", good, subscribers.ListenOptions{Name: strings.Repeat("a", 129)}},
		{"name", "options of a: concurrency", "a", good, subscribers.ListenOptions{Concurrency: 2}},
		{"name", "options of a: concurrency", "a", good, subscribers.ListenOptions{Lease: time.Second}},
		{"name", "options of a: concurrency", "a", good, subscribers.ListenOptions{MaxAttempts: 3}},
		{"name", "options of a: concurrency", "a", good, subscribers.ListenOptions{BackoffMin: time.Second}},
		{"name", "options of a: concurrency", "a", good, subscribers.ListenOptions{OnGivenUp: func(*subscribers.Broadcast, string) {}}},
		{"concurrency", "concurrency -1", "a", good, subscribers.ListenOptions{Name: "n", Concurrency: -1}},
		{"lease", "lease 1ms", "a", good, subscribers.ListenOptions{Name: "n", Lease: time.Millisecond}},
		{"attempts", "attempts -1", "a", good, subscribers.ListenOptions{Name: "n", MaxAttempts: -1}},
		{"backoff_max", "backoff_max 1s: it is less than backoff_min, 1h", "a", good, subscribers.ListenOptions{Name: "n", BackoffMin: time.Hour, BackoffMax: time.Second}},
	} {
		wantFault(t, l.Listen(t.Context(), test.pattern, test.handler, test.o), test.field, test.want)
	}
	if n, err := store.Client().Exists(t.Context(), store.Keys().Listeners()).Result(); err != nil || n != 0 {
		t.Errorf("a name was registered, %v", err)
	}
}

// Redis loses all its data while listeners run: each gets a gap, also an idle one, and what is sent
// afterwards is received, once.
func TestRedisLosesItsData(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	carry(t, store)
	l := newListener(t, store)
	h, _ := listen(t, l, ">")
	quiet, _ := listen(t, newListener(t, store), "quiet")
	slow := &received{hold: make(chan struct{})}
	listenInto(t, l, "a", slow)
	broadcast(t, store, "a", "1")
	want := []string{"1"}
	wantIDs(t, h, want...)
	for i, lose := range []func(){
		func() { emptied(t, store, server, false) },
		func() { emptied(t, store, server, false); killListeners(t, store) },
		func() { server = emptied(t, store, server, true) },
		func() { emptied(t, store, server, false) },
	} {
		lose()
		if i < 3 {
			storetest.Eventually(t, "the idle listener gets its gap", func() bool { return len(quiet.missed()) == i+1 })
		}
		id := fmt.Sprint(i + 2)
		broadcast(t, store, []string{"a", storetest.Beside(store, "a", "b")}[i%2], id)
		want = append(want, id)
		wantIDs(t, h, want...)
		shards := storetest.Shards() // each has a gap
		storetest.Eventually(t, "each shard has told of its gap", func() bool { return len(h.missed()) >= (i+1)*shards })
		gaps := h.missed()
		if len(gaps) != (i+1)*shards {
			t.Fatalf("got the gaps %v", gaps)
		}
		between := 0
		for _, g := range gaps[i*shards:] {
			if g.Topic != ">" || g.After >= g.UpTo {
				t.Errorf("got the gap %+v", g)
			}
			if g.After >= h.all[i].Position && g.UpTo < h.all[i+1].Position {
				between++
			}
		}
		if between == 0 {
			t.Errorf("none of the gaps %v is between %v and %v", gaps[i*shards:], h.all[i].Position, h.all[i+1].Position)
		}
	}
	if g := quiet.missed()[0]; g.Topic != "quiet" || g.After >= g.UpTo {
		t.Errorf("the idle listener got %+v", g)
	}
	close(slow.hold)
	broadcast(t, store, "a", "6")
	wantIDs(t, slow, "1", "6")
	if g := slow.missed(); len(g) != 1 || g[0].Topic != "a" || g[0].After != slow.all[0].Position || g[0].UpTo >= slow.all[1].Position {
		t.Errorf("the slow one got %v", g)
	}
}

// killListeners cuts the connections that listen, and waits until they stand again.
func killListeners(t *testing.T, store *notify.Store) {
	t.Helper()
	shards, err := store.Shards(t.Context())
	storetest.Must(t, err)
	listening := func() (all int64) {
		for _, shard := range shards {
			n, err := store.Listening(t.Context(), shard.BeatChannel())
			if err != nil {
				return -1
			}
			all += n
		}
		return all
	}
	before := listening()
	storetest.Must(t, store.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	storetest.Eventually(t, "they listen again", func() bool { return listening() >= before })
}

// The set of positions is lost, or foreign: nobody who listens receives anything twice, or misses anything.
func TestPositionsAreLost(t *testing.T) {
	t.Parallel()
	url := storetest.Lend(t)
	for _, foreign := range []bool{false, true} {
		store := storetest.At(t, url, fmt.Sprint("foreign-", foreign))
		carry(t, store)
		l := newListener(t, store)
		h, _ := listen(t, l, ">")
		one, _ := listen(t, l, "a")
		named, _ := listen(t, l, "a", subscribers.ListenOptions{Name: "n"})
		broadcast(t, store, "a", "1", "2")
		wantIDs(t, h, "1", "2")
		want := []string{"1", "2"}
		for i, then := range []func(){func() {}, func() { killListeners(t, store) }} {
			storetest.Must(t, store.Client().Del(t.Context(), store.KeysOf("a").Logs()).Err())
			if foreign {
				storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf("a").Logs(), "x", 0).Err())
			}
			then()
			want = append(want, fmt.Sprint("again-", i))
			broadcast(t, store, "a", want[len(want)-1])
			for _, h := range []*received{h, one} { // before its position is lost, too
				wantIDs(t, h, want...)
			}
			wantSet(t, named, want...)
		}
		if n := l.Stats(); n.Gaps > 0 || n.Handled != 12 {
			t.Errorf("%+v", n)
		}
	}
}

// Foreign entries and logs are passed over, and counted; what is beside them is received, by whoever listens.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	client, keys := store.Client(), store.KeysOf("a")
	b, far, foreign := storetest.Beside(store, "a", "b"), storetest.Beside(store, "a", "far"), storetest.Beside(store, "a", "string")
	l := newListener(t, store)
	h, _ := listen(t, l, ">")
	named, _ := listen(t, l, ">", subscribers.ListenOptions{Name: "n"})
	broadcast(t, store, "a", "1")
	wantIDs(t, h, "1")
	for _, entry := range [][]any{
		{"a", "b"},
		{"id", "x"},
		{"id", "x", "record", "none"},
		{"prev", "x"},
		{"prev", "99999999999999999999999-99999", "id", "", "due", "x", "record", ""},
		{"id", "x", "due", "1e400", "prev", "-", "record", "{}"},
	} {
		storetest.Must(t, client.Do(t.Context(), append([]any{"XADD", keys.Log("a"), "*"}, entry...)...).Err())
	}
	storetest.Must(t, client.Do(t.Context(), "XADD", keys.Log("a"), fmt.Sprintf("%d-5000000", time.Now().UnixMilli()), "a", "b").Err())
	storetest.Must(t, client.Do(t.Context(), "XADD", keys.Log(far), "9999999999999999-0", "a", "b").Err())
	storetest.Must(t, client.Do(t.Context(), "ZADD", keys.Logs(), "inf", "no topic", "-inf", "none", "1e300", far, "5", "").Err())
	storetest.Must(t, client.Set(t.Context(), keys.Log(foreign), "x", 0).Err())
	storetest.Must(t, client.Do(t.Context(), "ZADD", keys.Logs(), time.Now().UnixMicro(), foreign).Err())
	broadcast(t, store, "a", "2")
	broadcast(t, store, b, "3")
	wantIDs(t, h, "1", "2", "3")
	wantSet(t, named, "1", "2", "3")
	late, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.FromBeginning()})
	wantIDs(t, late, "1", "2", "3")
	lateNamed, _ := listen(t, l, "a", subscribers.ListenOptions{From: subscribers.FromBeginning(), Name: "late"})
	wantSet(t, lateNamed, "1", "2")
	if n := l.Stats(); n.Unreadable == 0 {
		t.Errorf("%+v", n)
	}
	// The far one is mended: what comes then is received.
	storetest.Must(t, client.Del(t.Context(), keys.Log(far), keys.Log(foreign)).Err())
	storetest.Must(t, client.ZRem(t.Context(), keys.Logs(), far).Err())
	broadcast(t, store, far, "4")
	broadcast(t, store, foreign, "5")
	wantIDs(t, h, "1", "2", "3", "4", "5")
	wantSet(t, named, "1", "2", "3", "4", "5")
}

// The clock was set back: positions go on behind the last, and everybody receives what is sent.
func TestClockWasSetBack(t *testing.T) {
	t.Parallel()
	store := alone(t)
	storetest.Found(t, store)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	storetest.Must(t, store.Client().Do(t.Context(), "ZADD", store.KeysOf("a").Logs(), ahead, "other").Err())
	carry(t, store)
	l := newListener(t, store)
	h, _ := listen(t, l, ">")
	named, _ := listen(t, l, "a", subscribers.ListenOptions{Name: "n"})
	broadcast(t, store, "a", "1", "2")
	killListeners(t, store)
	broadcast(t, store, "a", "3")
	wantIDs(t, h, "1", "2", "3")
	wantIDs(t, named, "1", "2", "3")
	late, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.After(h.all[0].Bookmark())})
	wantIDs(t, late, "2", "3")
	if n := l.Stats(); n.Gaps > 0 || h.start.Position() < notify.Position(ahead) || h.all[0].Position <= h.start.Position() {
		t.Errorf("%+v, from %v: %v", n, h.start, h.all[0].Position)
	}
}

// Redis loses all its data, and a name with it: its listener gets a gap, and goes on.
func TestRedisLosesAName(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		for _, pattern := range []string{topic, ">"} {
			t.Run(fmt.Sprint(pattern, " restart ", restart), func(t *testing.T) {
				server := storetest.Server(t)
				store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
				carry(t, store)
				gaps := 1
				if pattern == ">" {
					gaps = storetest.Shards()
				}
				o := subscribers.ListenOptions{Name: "n", Lease: time.Minute}
				busy, idle := &received{hold: make(chan struct{})}, &received{}
				listenInto(t, newListener(t, store), pattern, busy, o)
				broadcast(t, store, topic, "in-hand")
				storetest.Eventually(t, "one is in hand", func() bool { return held(t, store, "n") == 1 })
				listenInto(t, newListener(t, store), pattern, idle, o) // which never had any
				emptied(t, store, server, restart)
				storetest.Eventually(t, "the idle one gets its gap, though nothing is sent", func() bool { return len(idle.missed()) == gaps })
				for _, g := range idle.missed() {
					if g.Topic != pattern || g.After >= g.UpTo {
						t.Errorf("it got %+v", g)
					}
				}
				storetest.Eventually(t, "the busy one gets its gap", func() bool { return len(busy.missed()) == gaps })
				close(busy.hold) // what it had in hand nobody else has
				wantIDs(t, busy, "in-hand")
				at := busy.all[0].Position
				if !slices.ContainsFunc(busy.missed(), func(g subscribers.Gap) bool { return g.After < at }) {
					t.Errorf("it got %+v, and had %v in hand", busy.missed(), at)
				}
				ids := numbers("n", 20)
				broadcast(t, store, topic, ids...)
				storetest.Eventually(t, "they share what is sent then", func() bool { return idle.size()+busy.size() == 21 })
				nothingHeld(t, store, "n")
				if names, err := storetest.Inspector(t, store).Listeners(t.Context()); err != nil || len(names) != 1 || !names[0].Active {
					t.Errorf("%+v, %v", names, err)
				}
			})
		}
	}
}

// One that goes on behind its bookmark gets a gap where Redis lost all its data while it was away, whether or not anything was sent
// since, and none else. Of a shard that had nothing when the bookmark was made nothing is known.
func TestRedisLosesItsDataBeforeABookmarkIsUsed(t *testing.T) {
	t.Parallel()
	db := holdable(t)
	carry(t, db)
	h, stop := listen(t, newListener(t, db), ">")
	start := h.start
	broadcast(t, db, topic, "1")
	wantIDs(t, h, "1")
	stop()
	after := func(b subscribers.Bookmark) *received {
		h, _ := listen(t, newListener(t, db), ">", subscribers.ListenOptions{From: subscribers.After(b)})
		return h
	}
	noGap := func(behind string, h *received, ids ...string) {
		t.Helper()
		wantIDs(t, h, ids...)
		if gaps := h.missed(); len(gaps) > 0 {
			t.Errorf("behind %s: got the gaps %+v", behind, gaps)
		}
	}
	noGap("the start", after(start), "1")
	at := h.all[0].Bookmark()
	emptied(t, db, nil, false)
	idle := after(at)
	broadcast(t, db, topic, "2")
	late := after(at)
	for _, h := range []*received{idle, late} {
		wantIDs(t, h, "2")
		if gaps := h.missed(); len(gaps) != 1 || gaps[0].Topic != ">" || gaps[0].After != at.Position() || gaps[0].After >= gaps[0].UpTo {
			t.Errorf("got the gaps %+v behind %v", gaps, at)
		}
	}
	noGap("the gap", after(late.missed()[0].Bookmark()), "2")
	known := after(late.all[0].Bookmark())
	broadcast(t, db, topic, "3")
	noGap("a broadcast of the new store", known, "3")
}

// A name whose beginning was told begins there in the empty Redis, too, so that it may be told again.
func TestRedisLosesANameThatBeganElsewhere(t *testing.T) {
	t.Parallel()
	store := alone(t)
	carry(t, store)
	o := subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning()}
	h, stop := listen(t, newListener(t, store), topic, o)
	broadcast(t, store, topic, "1")
	wantIDs(t, h, "1")
	emptied(t, store, nil, false)
	broadcast(t, store, topic, "2", "3")
	wantSet(t, h, "1", "2", "3")
	storetest.Eventually(t, "the gap is reported", func() bool { return len(h.missed()) == 1 })
	stop()
	again, _ := listen(t, newListener(t, store), topic, o)
	broadcast(t, store, topic, "4")
	wantIDs(t, again, "4")
}
