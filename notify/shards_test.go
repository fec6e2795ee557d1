package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const shards = 8

// openAt returns a client of a store of some shards at a URL, and the store.
func openAt(t testing.TB, url, prefix string, shards int) (client, *notify.Store) {
	t.Helper()
	db := storetest.With(t, notify.Config{URL: url, Prefix: prefix, Shards: shards})
	return clientOf(t, db), db
}

// sharded returns a client of a store of several shards of the test's own, and the store.
func sharded(t testing.TB) (client, *notify.Store) {
	t.Helper()
	return openAt(t, storetest.URL(), "test-"+notify.NewID(), shards)
}

// topicsOfAll returns n topics of each shard, shard by shard.
func topicsOfAll(t testing.TB, db *notify.Store, n int) [][]string {
	t.Helper()
	all := make([][]string, shards)
	for i, full := 0, 0; full < shards; i++ {
		name := fmt.Sprintf("topic-%d", i)
		shard, err := db.ShardOf(t.Context(), name)
		storetest.Must(t, err)
		if k := shard.Number(); len(all[k]) < n {
			if all[k] = append(all[k], name); len(all[k]) == n {
				full++
			}
		}
	}
	return all
}

// masters are two masters of a Redis Cluster: the first one has the shards 0 to 3.
type masters [2]*redisserver.Server

// twoMasters starts a Cluster of two masters, of which one goes on without the other.
func twoMasters(t *testing.T) (m masters) {
	t.Helper()
	buses := [2]int{storetest.Port(t), storetest.Port(t)}
	admins := make([]*redis.Client, len(m))
	for i := range m {
		m[i] = storetest.Server(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(buses[i]), "--cluster-announce-ip", "127.0.0.1",
			"--cluster-require-full-coverage", "no", "--cluster-node-timeout", "3600000", "--maxmemory-policy", "noeviction") // with the other one away none has a quorum
		admins[i] = redis.NewClient(&redis.Options{Addr: m[i].Addr()})
		t.Cleanup(func() { admins[i].Close() })
		storetest.Must(t, admins[i].ClusterAddSlotsRange(t.Context(), i*8192, i*8192+8191).Err())
	}
	host, port, err := net.SplitHostPort(m[0].Addr())
	storetest.Must(t, err)
	storetest.Must(t, admins[1].Do(t.Context(), "cluster", "meet", host, port, buses[0]).Err())
	for _, admin := range admins {
		storetest.Eventually(t, "the masters know each other", func() bool {
			return len(admin.ClusterShards(t.Context()).Val()) == 2 && strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
	}
	return m
}

func (m masters) url() string { return m[0].URL() + "," + m[1].URL() }

// wantMissing checks that an error names the shards of the second master as missing.
func wantMissing(t *testing.T, what string, err error) {
	t.Helper()
	var missing *notify.MissingError
	if !errors.As(err, &missing) || !slices.Equal(missing.Shards, []int{4, 5, 6, 7}) {
		t.Errorf("%s: got %v, want the shards 4 to 7 missing", what, err)
	}
}

// Each message gets its own result, in the order of the messages, and those of a topic
// stay in their order.
func TestPublishManyToShards(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 3)...)
	var messages []notify.Message
	for i := range 1500 {
		m := message(fmt.Sprintf("%06d", i), future)
		m.Topic = topics[i%len(topics)]
		switch i % 100 {
		case 7:
			m.Topic = "no topic"
		case 8:
			m.ID = ""
		case 9:
			m.IfExists, m.UniqueFor = notify.Keep, anHour
		}
		messages = append(messages, m)
	}
	for i, r := range pub.PublishMany(t.Context(), messages) {
		m := messages[i]
		if wrong := i%100 == 7; wrong != errors.Is(r.Err, notify.ErrInvalid) || !wrong && r.Err != nil || r.Topic != m.Topic || m.ID != "" && r.ID != m.ID || !wrong && r.ID == "" {
			t.Fatalf("%d: %+v has the result %+v", i, m, r)
		}
	}
	if again := pub.PublishMany(t.Context(), messages[:5]); !errors.Is(again[0].Err, notify.ErrExists) || !errors.Is(again[4].Err, notify.ErrExists) {
		t.Errorf("published again: %+v", again)
	}
	if all := pub.PublishMany(t.Context(), nil); len(all) != 0 {
		t.Errorf("of none there are %d results", len(all))
	}
	for k, keys := range db.KeysOfAll() {
		if n := db.Client().HLen(t.Context(), keys.Messages()).Val(); n == 0 || n > 1485 {
			t.Errorf("shard %d has %d messages", k, n)
		}
	}
	var ids []string
	for info, err := range pub.Messages(t.Context(), topics[0], notify.Scheduled) {
		storetest.Must(t, err)
		ids = append(ids, info.ID)
	}
	if len(ids) < 50 || !slices.IsSorted(ids) {
		t.Errorf("the first topic has %q", ids)
	}
}

// Messages published into many shards at once are all there, each once.
func TestCallersOfManyShards(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 1)...)
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for j := range 20 {
				m := message(fmt.Sprintf("%d-%d", i, j), time.Time{})
				m.Topic = topics[(i+j)%len(topics)]
				if p, err := pub.Publish(t.Context(), m); err != nil || p.Topic != m.Topic || p.ID != m.ID {
					t.Errorf("got %+v, %v", p, err)
				}
			}
		})
	}
	callers.Wait()
	all, err := pub.Count(t.Context(), topics...)
	storetest.Must(t, err)
	for _, c := range all {
		if c.Ready != 160 || c.Published != 160 {
			t.Errorf("got %+v", c)
		}
	}
}

// A store of the most shards works on one server: it is founded, carried and listened to in time, and leaves nothing behind.
func TestMostShards(t *testing.T) {
	t.Parallel()
	const topics = 300
	pub, db := openAt(t, storetest.URL(), "test-"+notify.NewID(), reach.MaxShards)
	stopCarrier := carriertest.Run(t, db)
	heard, started := make(chan string, topics), make(chan struct{})
	stopListener := storetest.Run(t, func(ctx context.Context) error {
		return subscriberstest.Listener(t, db).Listen(ctx, ">", func(_ context.Context, b *subscribers.Broadcast) error {
			heard <- b.Topic
			return nil
		}, subscribers.ListenOptions{OnStart: func(subscribers.Bookmark) { close(started) }})
	})
	storetest.Receive(t, "the listener starts", started)
	var names []string
	var messages []notify.Message
	for i := range topics {
		names = append(names, fmt.Sprintf("topic-%03d", i))
		messages = append(messages, notify.Message{Topic: names[i], ID: "later", Delay: 50 * time.Millisecond}, notify.Message{Topic: names[i], ID: "heard", Broadcast: true})
	}
	storetest.Publish(t, db, messages...)
	told := make(map[string]bool)
	for range topics {
		told[storetest.Receive(t, "a broadcast", heard)] = true
	}
	if len(told) != topics {
		t.Errorf("broadcasts of %d topics came", len(told))
	}
	claimer := subscriberstest.Claimer(t, db)
	storetest.Run(t, claimer.Run)
	for _, topic := range names {
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Wait: storetest.Deadline})
		if err != nil || len(ds) != 1 || ds[0].Ack(t.Context()) != nil {
			t.Fatalf("%s: claimed %+v, %v", topic, ds, err)
		}
	}
	listed, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(listed) != topics {
		t.Errorf("%d topics, %v", len(listed), err)
	}
	for i, one := range listed {
		if one.Topic != names[i] || one.Acked != 1 || one.Sent != 1 {
			t.Errorf("got %+v", one)
		}
	}
	stopListener()
	stopCarrier()
	if workers, err := pub.Workers(t.Context()); err != nil || slices.ContainsFunc(workers, func(w notify.Worker) bool { return w.Kind == "listener" }) {
		t.Errorf("there are %+v, %v", workers, err)
	}
}

// A publisher that does not know the number of shards learns it, and publishes nothing
// before that.
func TestPublishLearnsTheShards(t *testing.T) {
	t.Parallel()
	_, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 1)...)
	storetest.Found(t, db)
	later, _ := openAt(t, storetest.URL(), db.Keys().Prefix(), 0)
	var messages []notify.Message
	for _, topic := range topics {
		messages = append(messages, notify.Message{Topic: topic, ID: "a"})
	}
	for _, r := range later.PublishMany(t.Context(), messages) {
		storetest.Should(t, r.Err)
	}
	for k, topic := range topics {
		if there := db.Client().HExists(t.Context(), db.KeysOfAll()[k].Messages(), topic+":a").Val(); !there {
			t.Errorf("%s is not in shard %d", topic, k)
		}
	}

	nowhere, unknown := openAt(t, "redis://127.0.0.1:"+strconv.Itoa(storetest.Port(t)), "", 0)
	_, err := nowhere.Publish(t.Context(), messages[0])
	if !notify.Retryable(err) || !strings.Contains(err.Error(), "publish "+topics[0]+":a: redis at "+unknown.Address()) {
		t.Errorf("published with %v", err)
	}
	results := nowhere.PublishMany(t.Context(), []notify.Message{{Topic: "no topic"}, messages[1]})
	if !errors.Is(results[0].Err, notify.ErrInvalid) || !notify.Retryable(results[1].Err) || results[1].ID != "a" || results[1].Topic != topics[1] {
		t.Errorf("published with %+v", results)
	}
}

// While a master is full, topics of the others are published to, in one call, too.
func TestOneMasterIsFull(t *testing.T) {
	t.Parallel()
	m := twoMasters(t)
	pub, db := openAt(t, m.url(), "", shards)
	topics := topicsOfAll(t, storetest.Unhurried(db), 1)
	full := redis.NewClient(&redis.Options{Addr: m[1].Addr()})
	defer full.Close()
	storetest.Must(t, full.ConfigSet(t.Context(), "maxmemory", "1").Err())
	var messages []notify.Message
	for i := range 40 {
		messages = append(messages, notify.Message{Topic: topics[i%shards][0], ID: strconv.Itoa(i), Due: future})
	}
	for i, r := range pub.PublishMany(t.Context(), messages) {
		if k := i % shards; k < 4 && r.Err != nil || k >= 4 && (!errors.Is(r.Err, notify.ErrFull) || !strings.Contains(r.Err.Error(), fmt.Sprintf("shard %d/8", k))) {
			t.Errorf("a message of shard %d: %v", k, r.Err)
		}
	}
	storetest.Must(t, full.ConfigSet(t.Context(), "maxmemory", "0").Err())
	publish(t, pub, messages[7])
}

// A master is away: its shards are, and all else goes on. What is read of all shards is
// what is there, and names those that are missing.
func TestOneMasterIsAway(t *testing.T) {
	t.Parallel()
	m := twoMasters(t)
	pub, db := openAt(t, m.url(), "", shards)
	topics := topicsOfAll(t, storetest.Unhurried(db), 2)
	var messages []notify.Message
	for _, topic := range slices.Concat(topics...) {
		messages = append(messages, notify.Message{Topic: topic, ID: "dead", Restore: &notify.Restore{Died: past, Reason: "no"}},
			notify.Message{Topic: topic, ID: "a", Due: future})
	}
	storetest.Publish(t, db, messages...)
	m[1].Kill()
	there := slices.Sorted(slices.Values(slices.Concat(topics[:4]...)))

	publishesWithout(t, pub, topics)
	listsWithout(t, pub, db, there, slices.Concat(topics...))
	wantMissing(t, "set for all", storetest.ErrOf(pub.Set(t.Context(), notify.AllTopics, notify.SettingsChange{Attempts: new(3), Lease: new(time.Minute)})))
	wantMissing(t, "set for all again", storetest.ErrOf(pub.Set(t.Context(), notify.AllTopics, notify.SettingsChange{Lease: new(time.Hour), Default: []string{"attempts"}})))

	storetest.Restart(t, m[1])
	for k := range shards {
		shard := db.Of(topics[k][0])
		storetest.Eventually(t, "the shard takes over the settings", func() bool { return shard.AdoptSettings(t.Context()) == nil })
		got, err := pub.Settings(t.Context(), topics[k][0])
		if err != nil || got.Lease != time.Hour || got.Attempts != store.DefaultSettings.Attempts {
			t.Errorf("shard %d has %+v, %v", k, got, err)
		}
	}
}

// A master hangs that has many shards: the others are read nevertheless, and those of the one wait for it together, not one after the
// other, which would take minutes.
func TestOneMasterHangs(t *testing.T) {
	t.Parallel()
	const shards = 64
	m := twoMasters(t)
	pub, db := openAt(t, m.url(), "", shards)
	there, messages := []string(nil), []notify.Message(nil)
	for i := range 200 {
		topic := fmt.Sprintf("topic-%03d", i)
		messages = append(messages, notify.Message{Topic: topic, ID: "a", Due: future})
		if db.Of(topic).Number() >= shards/2 {
			there = append(there, topic)
		}
	}
	storetest.Publish(t, storetest.Unhurried(storetest.With(t, notify.Config{URL: m.url(), Shards: shards})), messages...)
	storetest.Eventually(t, "both are read", func() bool {
		_, err := pub.Survey(t.Context(), 1)
		return err == nil
	})
	signal(t, m[0], syscall.SIGSTOP)
	defer signal(t, m[0], syscall.SIGCONT)
	read := func(read func() (int, error)) {
		t.Helper()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			n, err := read()
			if missing := store.MissingIn(err); n != len(there) || len(missing) != shards/2 || missing[0] != 0 {
				t.Errorf("got %d topics, want %d, and %v", n, len(there), err)
			}
		}()
		storetest.Receive(t, "what is there", ended)
	}
	read(func() (int, error) {
		s, err := pub.Survey(t.Context(), 1)
		return int(s.Topics), err
	})
	read(func() (int, error) {
		var all []string
		for _, m := range messages {
			all = append(all, m.Topic)
		}
		counts, err := pub.Count(t.Context(), all...)
		return len(counts), err
	})
}

// publishesWithout checks publishes while the shards from the fourth on are away.
func publishesWithout(t *testing.T, pub client, topics [][]string) {
	t.Helper()
	var messages []notify.Message
	for i := range 40 {
		messages = append(messages, notify.Message{Topic: topics[i%shards][i%2], ID: strconv.Itoa(i), Due: future})
	}
	for i, r := range pub.PublishMany(t.Context(), messages) {
		if k := i % shards; (r.Err != nil) != (k >= 4) || k >= 4 && !notify.Retryable(r.Err) || r.ID != messages[i].ID {
			t.Errorf("a message of shard %d: %+v", k, r)
		}
	}
	var callers sync.WaitGroup
	for k := range shards {
		callers.Go(func() {
			_, err := pub.Publish(t.Context(), notify.Message{Topic: topics[k][0], Due: future})
			if (err != nil) != (k >= 4) {
				t.Errorf("a publish to shard %d: %v", k, err)
			}
		})
	}
	callers.Wait()
}

// listsWithout checks what is read of all shards while those of all but some topics are
// away.
func listsWithout(t *testing.T, pub client, db *notify.Store, there, all []string) {
	t.Helper()
	topicsIn := func(counts []notify.Counts) (names []string) {
		for _, c := range counts {
			names = append(names, c.Topic)
		}
		return names
	}
	counted, err := pub.Count(t.Context(), all...)
	wantMissing(t, "count", err)
	if got := topicsIn(counted); !slices.Equal(slices.Sorted(slices.Values(got)), there) {
		t.Errorf("counted %q, want %q", got, there)
	}
	listed, err := storetest.Collect(pub.Topics(t.Context()))
	wantMissing(t, "topics", err)
	storetest.Same(t, "topics", there, topicsIn(listed))
	page, next, err := pub.TopicsAfter(t.Context(), "", 3)
	wantMissing(t, "a page of topics", err)
	if got := topicsIn(page); !slices.Equal(got, there[:3]) || next != there[2] {
		t.Errorf("a page has %q and goes on at %q", got, next)
	}
	s, err := pub.Survey(t.Context(), 100)
	wantMissing(t, "survey", err)
	if s.Topics != 8 || s.Dead != 8 || len(s.Deaths) != 8 {
		t.Errorf("surveyed %+v", s)
	}
	died, err := reasons.Count(t.Context(), db, nil)
	wantMissing(t, "reasons", err)
	if len(died) != 8 {
		t.Errorf("got %+v", died)
	}
	var lines bytes.Buffer
	sum, err := pub.Export(t.Context(), &lines, nil)
	wantMissing(t, "export", err)
	if sum.Dead != 8 || strings.Count(lines.String(), "\n") != sum.Total() {
		t.Errorf("exported %+v", sum)
	}
	storetest.Should(t, storetest.ErrOf(pub.Inspect(t.Context(), there[0], "a")))
}

// The pages of topics over all shards are those of their sorted names.
func TestTopicsOfManyShards(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	want, messages := []string(nil), []notify.Message(nil)
	for i := range 300 {
		want = append(want, fmt.Sprintf("%s.%d", []string{"a", "b", "c"}[i%3], i))
		messages = append(messages, notify.Message{Topic: want[i], ID: "a", Due: future})
	}
	storetest.Publish(t, db, messages...)
	slices.Sort(want)
	for _, test := range []struct {
		limit    int
		patterns []notify.Pattern
		want     []string
	}{
		{limit: 1, want: want[:20]},
		{limit: 7, want: want},
		{limit: 1000, want: want},
		{limit: 7, patterns: []notify.Pattern{pattern(t, "b.*")}, want: slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name[0] != 'b' })},
		{limit: 40, patterns: []notify.Pattern{pattern(t, "c.*"), pattern(t, "a.*")}, want: slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name[0] == 'b' })},
		{limit: 5, patterns: []notify.Pattern{pattern(t, "*.17")}, want: []string{"c.17"}},
	} {
		var got []string
		for after := ""; len(got) < len(test.want); {
			page, next, err := pub.TopicsAfter(t.Context(), after, test.limit, test.patterns...)
			if err != nil || len(page) > test.limit {
				t.Fatal(len(page), err)
			}
			for _, c := range page {
				got = append(got, c.Topic)
			}
			if after = next; after == "" {
				break
			}
		}
		storetest.Same(t, fmt.Sprintf("limit %d, %v", test.limit, test.patterns), test.want, got)
	}
	all, err := storetest.Collect(pub.Topics(t.Context()))
	if err != nil || len(all) != len(want) || all[0].Topic != want[0] || all[299].Topic != want[299] || all[299].Scheduled != 1 {
		t.Errorf("got %d topics, %v", len(all), err)
	}
	twice, err := pub.Count(t.Context(), want[1], want[0], "unused", want[1])
	if err != nil || len(twice) != 4 || twice[0] != twice[3] || twice[2].Published != 0 || twice[1].Topic != want[0] {
		t.Errorf("counted %+v, %v", twice, err)
	}
}

// A survey sums up all shards, and its lists are one list each.
func TestSurveyOfManyShards(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 1)...)
	var messages []notify.Message
	for i, topic := range topics {
		died := past.Add(time.Duration(i) * time.Minute)
		messages = append(messages,
			notify.Message{Topic: topic, ID: "dead", Restore: &notify.Restore{Died: died, Reason: "no such order 47" + strconv.Itoa(i+10)}},
			notify.Message{Topic: topic, ID: "ready", Due: died, Restore: &notify.Restore{}},
			notify.Message{Topic: topic, ID: "later", Due: future})
	}
	storetest.Publish(t, db, messages...)
	for _, topic := range []string{topics[5], topics[2]} {
		storetest.Must(t, pub.Pause(t.Context(), topic))
	}
	names := func(list []notify.Notable) (all []string) {
		for _, n := range list {
			all = append(all, n.Topic)
		}
		return all
	}
	s, err := pub.Survey(t.Context(), 3)
	if err != nil || s.Topics != shards || s.Messages != 3*shards || s.Dead != shards || s.Published != 3*shards || s.Now.IsZero() {
		t.Errorf("got %+v, %v", s, err)
	}
	for what, lists := range map[string][2][]string{
		"overdue": {names(s.Overdue), {topics[0], topics[1], topics[3]}},
		"deaths":  {names(s.Deaths), {topics[7], topics[6], topics[5]}},
		"paused":  {names(s.Paused), {topics[5], topics[2]}},
	} {
		storetest.Same(t, what, lists[1], lists[0])
	}
	if len(s.Busy) != 3 {
		t.Errorf("busy are %+v", s.Busy)
	}
	total := 0
	died, err := reasons.Count(t.Context(), db, func(n int) { total = n })
	if err != nil || len(died) != shards || total != shards || died[0].Reason != "no such order #" {
		t.Errorf("got %+v of %d, %v", died, total, err)
	}
}

// What is exported of all shards is published again in a store of one, and the reverse.
func TestExportOfManyShards(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 2)...)
	var messages []notify.Message
	for i := range 400 {
		messages = append(messages, notify.Message{Topic: topics[i%len(topics)], ID: strconv.Itoa(i), Due: future, Body: []byte("x")})
	}
	storetest.Publish(t, db, messages...)
	storetest.Must(t, pub.Pause(t.Context(), topics[9]))
	set(t, pub, topics[3], notify.SettingsChange{Attempts: new(4)})
	set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(5)})
	one, _ := openAt(t, storetest.URL(), "test-"+notify.NewID(), 1)
	for from, to := pub, one; ; from, to = one, pub {
		var lines bytes.Buffer
		last := 0
		sum, err := from.Export(t.Context(), &lines, func(done, all int) { last = min(done, all) })
		if err != nil || sum.Scheduled != 400 || last != 400 {
			t.Fatalf("exported %+v, %d, %v", sum, last, err)
		}
		if to == pub {
			return
		}
		if !slices.Equal(sum.Paused, []string{topics[9]}) || !slices.Equal(sum.Settings, []string{"*", topics[3]}) {
			t.Errorf("left out %+v", sum)
		}
		for line := range bytes.Lines(lines.Bytes()) {
			m, err := notify.ParseExported(line)
			storetest.Must(t, err)
			publish(t, to, m)
		}
	}
}

// Of many who set settings for all topics at once, each shard ends with what home has; and
// what arrives late changes nothing.
func TestSetForAllAtOnce(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			c := notify.SettingsChange{Attempts: new(i)}
			if i%2 == 0 {
				c = notify.SettingsChange{Lease: new(time.Duration(i+1) * time.Second), Default: []string{"attempts"}}
			}
			storetest.Should(t, storetest.ErrOf(pub.Set(t.Context(), notify.AllTopics, c)))
		})
	}
	callers.Wait()
	wantOneRevision(t, db)
	before := revisions(t, db)[0]
	if got, err := db.SetForAll(t.Context(), notify.SettingsChange{Lease: new(time.Hour), ArchiveAcked: new(true)}, true); err != nil || !got.ArchiveAcked {
		t.Errorf("filled: %+v, %v", got, err)
	}
	wantOneRevision(t, db)
	filled := revisions(t, db)[0]
	if filled == before {
		t.Error("what was filled in is no change")
	}
	if _, err := db.SetForAll(t.Context(), notify.SettingsChange{ArchiveAcked: new(true)}, true); err != nil || revisions(t, db)[0] != filled {
		t.Errorf("filled in again, it is %q, %v", revisions(t, db)[0], err)
	}
}

// A shard that missed changes, or lost all, takes over what home has; and what home lost,
// it takes over from a shard.
func TestAdoptSettings(t *testing.T) {
	t.Parallel()
	pub, db := sharded(t)
	topics := slices.Concat(topicsOfAll(t, db, 1)...)
	set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(3)})
	first := revisions(t, db)[0]
	set(t, pub, notify.AllTopics, notify.SettingsChange{Lease: new(time.Minute), Default: []string{"attempts"}})
	second := revisions(t, db)[0]
	put := func(k int, revision string) {
		t.Helper()
		at, settings, _ := strings.Cut(revision, ":")
		key := db.KeysOfAll()[k].Topics()
		do(t, db, []any{"HSET", key, "*:settings", settings, "*:revised", at})
	}
	put(3, first)
	do(t, db, []any{"DEL", db.KeysOfAll()[5].Topics()})
	for _, topic := range topics {
		storetest.Should(t, db.Of(topic).AdoptSettings(t.Context()))
	}
	wantOneRevision(t, db)

	put(0, first)
	storetest.Should(t, db.Of(topics[6]).AdoptSettings(t.Context()))
	storetest.Is(t, "home has", revisions(t, db)[0], second)
	set(t, pub, notify.AllTopics, notify.SettingsChange{Default: []string{"lease"}})
	wantOneRevision(t, db)
	if got := revisions(t, db)[4]; !strings.HasSuffix(got, ":") {
		t.Errorf("all are removed, and it is %q", got)
	}

	do(t, db, []any{"HSET", db.KeysOfAll()[2].Topics(), "*:revised", "x"})
	storetest.Should(t, db.Of(topics[2]).AdoptSettings(t.Context()))
	wantOneRevision(t, db)
	do(t, db, []any{"DEL", db.KeysOfAll()[2].Topics()}, []any{"SET", db.KeysOfAll()[2].Topics(), "x"})
	if err := db.Of(topics[2]).AdoptSettings(t.Context()); err == nil || !strings.Contains(err.Error(), "foreign") {
		t.Errorf("a foreign key: %v", err)
	}
}

// In a store of one shard the settings for all topics are noted as ever, and there is
// nothing to take over.
func TestSetForAllOfOneShard(t *testing.T) {
	t.Parallel()
	pub, db := openAt(t, storetest.URL(), "test-"+notify.NewID(), 1)
	set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(3)})
	calls := 0
	db.Observe(func(string, time.Duration, error) { calls++ })
	if err := db.Home().AdoptSettings(t.Context()); err != nil || calls > 0 {
		t.Errorf("%d calls, %v", calls, err)
	}
	got := db.Client().HGetAll(t.Context(), db.Keys().Topics()).Val()
	storetest.Same(t, "it", map[string]string{"*:settings": " attempts=3"}, got)
}

// revisions returns when the settings for all topics were changed in each shard, a colon,
// and the settings.
func revisions(t testing.TB, db *notify.Store) (all []string) {
	t.Helper()
	for _, keys := range db.KeysOfAll() {
		fields := db.Client().HGetAll(t.Context(), keys.Topics()).Val()
		all = append(all, fields["*:revised"]+":"+fields["*:settings"])
	}
	return all
}

// wantOneRevision checks that all shards have the settings of home.
func wantOneRevision(t testing.TB, db *notify.Store) {
	t.Helper()
	all := revisions(t, db)
	for k := range all {
		if all[k] != all[0] || all[k] == ":" {
			t.Errorf("shard %d has %q, and home %q", k, all[k], all[0])
		}
	}
}

// The ends of messages in all shards are awaited at once, also where connections are cut
// meanwhile.
func TestAwaitInManyShards(t *testing.T) {
	t.Parallel()
	pub, db := openAt(t, storetest.Lend(t), "", shards)
	topics := slices.Concat(topicsOfAll(t, db, 1)...)
	const n = 50
	results := make(chan error, n)
	for i := range n {
		m := notify.Message{Topic: topics[i%shards], ID: strconv.Itoa(i)}
		publish(t, pub, m)
		go func() {
			info, err := pub.Await(t.Context(), m.Topic, m.ID)
			if err == nil && (info.State != notify.Done || string(info.Result) != "done "+m.ID) {
				err = fmt.Errorf("%s ended as %+v", m.ID, info)
			}
			results <- err
		}()
	}
	ended := func() (all string) {
		for _, keys := range db.KeysOfAll() {
			all += fmt.Sprint(db.Client().PubSubShardNumSub(t.Context(), keys.Ended()).Val()[keys.Ended()])
		}
		return all
	}
	storetest.Eventually(t, "all shards are listened to", func() bool { return ended() == "11111111" })
	claimer := subscriberstest.Claimer(t, db)
	finish := func(topic string, most int) {
		t.Helper()
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: most})
		storetest.Must(t, err)
		for _, d := range ds {
			storetest.Must(t, storetest.ErrOf(d.AckWith(t.Context(), notify.AckResult{Body: []byte("done " + d.ID), Keep: anHour})))
		}
	}
	for _, topic := range topics {
		finish(topic, 2)
	}
	do(t, db, []any{"CLIENT", "KILL", "TYPE", "pubsub"})
	for _, topic := range topics {
		finish(topic, n)
	}
	for range n {
		storetest.Should(t, storetest.Receive(t, "the end of a message", results))
	}
	storetest.Eventually(t, "nobody listens any more", func() bool { return ended() == "00000000" })
}

// The error of shards that are missing names each once, in order.
func TestMissing(t *testing.T) {
	t.Parallel()
	two, other := &notify.MissingError{Shards: []int{5, 2}, Err: errors.New("two")}, errors.New("other")
	err := store.Missing(nil, fmt.Errorf("count: %w", two), &notify.MissingError{Shards: []int{2, 3}, Err: context.Canceled})
	if err == nil || err.Error() != "shards [2 3 5] are missing: two" || !store.IsPartial(err) {
		t.Errorf("got %v", err)
	}
	storetest.Is(t, "of no error", store.Missing(nil, nil), nil)
	if err := store.Missing(two, other); err != other || store.IsPartial(err) {
		t.Errorf("got %v", err)
	}
}
