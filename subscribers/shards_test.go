package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// eightShards opens a store of eight shards, whose carrier runs.
func eightShards(t *testing.T) *notify.Store {
	t.Helper()
	db := storetest.Sharded(t, 8)
	carry(t, db)
	return db
}

// manyTopics are in all of eight shards.
func manyTopics() (topics []string) {
	for i := range 24 {
		topics = append(topics, fmt.Sprintf("news.%d", i))
	}
	return topics
}

// A listener that hears its shards misses none for good, whichever shards these are, and one whose shard is away names it.
func TestListenersOfShardsAreQuiet(t *testing.T) {
	t.Parallel()
	eight := eightShards(t)
	logs := make(map[string]*journal)
	for _, pattern := range append(manyTopics(), ">") {
		logs[pattern] = &journal{}
		l := subscriberstest.Listener(t, eight, subscribers.ListenerOptions{Logger: slog.New(slog.NewTextHandler(logs[pattern], nil))})
		storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, hears)
		})
	}
	beats(t, eight, 4) // by then it is logged that nothing is heard
	for pattern, log := range logs {
		storetest.Eventually(t, pattern+" misses nothing that it logs", func() bool { // a machine that stands still breaks connections
			all := log.String()
			begun := max(strings.LastIndex(all, "no carrier is heard"), strings.LastIndex(all, "cannot subscribe to redis"))
			return begun <= max(strings.LastIndex(all, "a carrier is heard again"), strings.LastIndex(all, "subscribed to redis again"))
		})
	}

	log := &journal{}
	db := storetest.ShardAway(t, 8, 3)
	carry(t, db)
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Logger: slog.New(slog.NewTextHandler(log, nil))})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, ">", hears)
	})
	storetest.Eventually(t, "it is logged", func() bool { return log.count("shard=3/8") > 0 })
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "no answer within") { // of a machine that stands still
			continue
		}
		if strings.Count(line, "shard=") > 1 || strings.Contains(line, "cannot subscribe") && !strings.Contains(line, "shard=3/8") {
			t.Errorf("logged %s", line)
		}
	}
}

// wantEach checks that of each topic the broadcasts came once, in the order in which flood sent them.
func wantEach(t *testing.T, h *received, topics []string, ids ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d are received", len(ids)), func() bool { return h.size() >= len(ids) })
	h.mu.Lock()
	defer h.mu.Unlock()
	got := make(map[string][]string)
	for _, b := range h.all {
		got[b.Topic] = append(got[b.Topic], b.ID)
	}
	for i, topic := range topics {
		var want []string
		for j := i; j < len(ids); j += len(topics) {
			want = append(want, ids[j])
		}
		if !slices.Equal(got[topic], want) {
			t.Errorf("of %s came %v, want %v", topic, got[topic], want)
		}
	}
}

// A listener to topics in all shards gets each broadcast once, the topics' order holds, and it goes on behind any bookmark.
func TestResumeInManyShards(t *testing.T) {
	t.Parallel()
	db := eightShards(t)
	l := newListener(t, db)
	begun, stop := listen(t, l, "news.*")
	stop()
	topics, ids := manyTopics(), numbers("n", 1200)
	flood(t, db, topics, ids...)
	h := &received{}
	at := begun.start
	for h.size() < len(ids) {
		enough := errors.New("enough")
		left := 37
		err := l.Listen(t.Context(), "news.*", func(ctx context.Context, b *subscribers.Broadcast) error {
			at = b.Bookmark()
			if left--; left == 0 || h.size() == len(ids)-1 {
				return errors.Join(enough, h.handle(ctx, b))
			}
			return h.handle(ctx, b)
		}, subscribers.ListenOptions{From: subscribers.After(at)})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	wantEach(t, h, topics, ids...)
	if again, err := subscribers.ParseFrom(string(at)); err != nil || again != subscribers.After(at) || !strings.HasPrefix(string(at), "8.") {
		t.Errorf("the bookmark is %q, %v", at, err)
	}
	one, _ := listen(t, l, topics[3], subscribers.ListenOptions{From: subscribers.FromBeginning()})
	storetest.Eventually(t, "those of one topic are received", func() bool { return one.size() == len(ids)/len(topics) })
	if b := one.all[0]; b.Bookmark() != subscribers.At(b.Position) {
		t.Errorf("the bookmark of a topic's listener is %q at %v", b.Bookmark(), b.Position)
	}
}

// A bookmark is refused by a store that has another number of shards, and a position where many shards are meant.
func TestBookmarkOfAnotherStore(t *testing.T) {
	t.Parallel()
	one, four := storetest.Sharded(t, 1), storetest.Sharded(t, 4)
	eight := eightShards(t)
	h, _ := listen(t, newListener(t, eight), ">")
	for _, test := range []struct {
		db            *notify.Store
		pattern, want string
		from          subscribers.Bookmark
	}{
		{one, ">", "a store of 8 shards, and this one has 1;", h.start},
		{four, ">", "a store of 8 shards, and this one has 4;", h.start},
		{four, "t", "a store of 8 shards, and this one has 4;", h.start},
		{four, ">", "the position of one broadcast, and this store has 4 shards", "1732128000123-456"},
		{eight, ">", "use one that a listener returned", "8.AAAA"},
	} {
		for _, name := range []string{"", "n"} {
			err := newListener(t, test.db).Listen(t.Context(), test.pattern, h.handle, subscribers.ListenOptions{From: subscribers.After(test.from), Name: name})
			var fault *fault.Fault
			if !errors.As(err, &fault) || fault.Field != "from" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("from %q: %v, want %q", test.from, err, test.want)
			}
		}
	}
}

// The processes of a name share what is sent in all shards, and what is sent while none is there waits.
func TestNameInManyShards(t *testing.T) {
	t.Parallel()
	db := eightShards(t)
	topics, ids := manyTopics(), numbers("n", 480)
	before, _ := listen(t, newListener(t, db), ">")
	flood(t, db, topics, numbers("before", 48)...)
	storetest.Eventually(t, "those before are sent", func() bool { return before.size() == 48 })
	options := subscribers.ListenOptions{Name: "n"}
	none, stop := listen(t, newListener(t, db), "news.*", options)
	stop()
	flood(t, db, topics, ids...)
	h := &received{}
	listenInto(t, newListener(t, db), "news.*", h, options)
	wantEach(t, h, topics, ids...)
	if none.size() > 0 {
		t.Errorf("it received %v, sent before it began", none.list())
	}
	other := &received{}
	listenInto(t, newListener(t, db), "news.*", other, options)
	flood(t, db, topics, numbers("m", 480)...)
	storetest.Eventually(t, "both received all", func() bool { return h.size()+other.size() == 960 })
	storetest.Eventually(t, "nothing is left", func() bool {
		all, err := storetest.Inspector(t, db).Listeners(t.Context())
		return err == nil && len(all) == 1 && all[0].Held == 0 && all[0].Behind == 0 && all[0].Active
	})
}

// The concurrency of a name holds over all shards together, and what fails in one comes again there.
func TestConcurrencyOfANameInManyShards(t *testing.T) {
	t.Parallel()
	db := eightShards(t)
	topics := manyTopics()
	var mu sync.Mutex
	now, most, failed, done := 0, 0, map[string]bool{}, map[string]int{}
	h := &received{}
	o, started := h.options(subscribers.ListenOptions{Name: "n", Concurrency: 2, BackoffMin: time.Millisecond})
	storetest.Run(t, func(ctx context.Context) error {
		return newListener(t, db).Listen(ctx, "news.*", func(_ context.Context, b *subscribers.Broadcast) error {
			mu.Lock()
			now++
			most = max(most, now)
			again := !failed[b.ID]
			failed[b.ID] = true
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if now--; !again {
					done[b.ID]++
				}
			}()
			if again {
				return errors.New("not this time")
			}
			return nil
		}, o)
	})
	storetest.Receive(t, "it listens", started)
	flood(t, db, topics, numbers("n", 240)...)
	storetest.Eventually(t, "all are done", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == 240
	})
	mu.Lock()
	defer mu.Unlock()
	if most > 2 {
		t.Errorf("%d were handled at a time", most)
	}
}

// A name that was removed from some shards only is registered there anew, or removed by the next removal.
func TestRemovalOfANameIsRepaired(t *testing.T) {
	t.Parallel()
	db := eightShards(t)
	topics := manyTopics()
	options := subscribers.ListenOptions{Name: "n"}
	_, stop := listen(t, newListener(t, db), "news.*", options)
	stop()
	away := slices.IndexFunc(topics, func(topic string) bool { return db.Of(topic) != db.Home() })
	halfway := db.Of(topics[away])
	if there, err := halfway.Unregister(t.Context(), "n"); err != nil || !there {
		t.Fatal(there, err)
	}
	flood(t, db, topics, numbers("n", 48)...)
	h, stop := listen(t, newListener(t, db), "news.*", options)
	wantEach(t, h, topics, numbers("n", 48)...)
	stop()
	storetest.Must(t, storetest.ErrOf(halfway.Unregister(t.Context(), "n")))
	storetest.Should(t, storetest.Inspector(t, db).RemoveListener(t.Context(), "n"))
	for _, keys := range db.KeysOfAll() {
		if n := db.Client().Exists(t.Context(), keys.Listeners(), keys.Places("n"), keys.Held("n")).Val(); n > 0 {
			t.Errorf("%d keys are left of %s", n, keys.Listeners())
		}
	}
	if err := storetest.Inspector(t, db).RemoveListener(t.Context(), "n"); !errors.Is(err, notify.ErrNoListener) {
		t.Error(err)
	}
}

// A name that is removed ends its listeners, also to topics outside the first shard, and where it is removed from one shard alone.
func TestNameIsRemovedInManyShards(t *testing.T) {
	t.Parallel()
	db := eightShards(t)
	all := func() error { return storetest.Inspector(t, db).RemoveListener(t.Context(), "n") }
	one := func() error {
		topics := manyTopics()
		topic := topics[slices.IndexFunc(topics, func(topic string) bool { return db.Of(topic) != db.Home() })]
		_, err := db.Of(topic).Unregister(t.Context(), "n")
		broadcast(t, db, topic, "x") // which it asks for
		return err
	}
	for i, pattern := range []string{"news.*", "news.1", "news.2", "news.*"} {
		remove := []func() error{all, all, all, one}[i]
		h := &received{}
		o, started := h.options(subscribers.ListenOptions{Name: "n"})
		ended := make(chan error, 1)
		go func() { ended <- newListener(t, db).Listen(t.Context(), pattern, h.handle, o) }()
		storetest.Receive(t, "it listens", started)
		storetest.Must(t, remove())
		if err := storetest.Receive(t, "it ends", ended); !errors.Is(err, notify.ErrNoListener) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// An outage of all shards is summed up in a log; outage's own tests count the lines.
func TestOutageOfAllShardsIsSummedUp(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := shardsAt(t, server.URL(), "", 8)
	logs := map[string]*journal{"claimer": {}, "subscriber": {}, "listener": {}}
	logger := func(of string) *slog.Logger { return slog.New(slog.NewTextHandler(logs[of], nil)) }
	storetest.Run(t, subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Logger: logger("claimer")}).Run)
	sub, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Logger: logger("subscriber")})
	storetest.Must(t, err)
	for _, topic := range manyTopics() {
		storetest.Must(t, sub.Handle(topic, succeeds))
	}
	storetest.Run(t, sub.Run)
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Logger: logger("listener")})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, ">", hears)
	})
	storetest.Eventually(t, "all shards are listened to", func() bool {
		for _, keys := range db.KeysOfAll() {
			if db.Client().PubSubShardNumSub(t.Context(), keys.Beat()).Val()[keys.Beat()] == 0 {
				return false
			}
		}
		return true
	})
	server.Kill()
	summed := func(message string) {
		t.Helper()
		for of, log := range logs {
			storetest.Eventually(t, of+" sums up: "+message, func() bool { return log.count(message+`" shards="`) > 0 })
		}
	}
	summed("cannot subscribe to redis; retrying")
	back, err := server.Restart(t.Context())
	storetest.Must(t, err)
	t.Cleanup(back.Stop)
	summed("subscribed to redis again")
}
