package carrier_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func Example() {
	db, err := notify.Open(notify.Config{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	c, err := carrier.New(db, carrier.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

const topic = "orders"

// long is the lease of carriers in tests that need no short one: it does not end by itself, whatever else the machine does meanwhile.
const long = 30 * time.Second

// run runs a carrier until stop is called or the test ends.
func run(t testing.TB, db *notify.Store, o carrier.Options) (stop func()) {
	t.Helper()
	o.Lease = cmp.Or(o.Lease, long)
	c, err := carrier.New(db, o)
	storetest.Must(t, err)
	return storetest.Run(t, c.Run)
}

// A death is what the carrier logs of a message that it buries.
type death struct {
	Topic, ID, Reason string
	Attempts          int
}

// deaths receives the deaths of a carrier with its logger.
type deaths chan death

func (c deaths) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(c, nil)) }

// Write receives a line of the log.
func (c deaths) Write(line []byte) (int, error) {
	var logged struct {
		Msg string
		death
	}
	err := json.Unmarshal(line, &logged)
	if logged.Msg == "message died" {
		c <- logged.death
	}
	return len(line), err
}

func look(t testing.TB, db *notify.Store) carrier.Status {
	t.Helper()
	s, err := carrier.Look(t.Context(), db.Of(topic))
	storetest.Must(t, err)
	return s
}

// state returns what a carrier does for the shard of topic; before Run, for the first.
func state(c *carrier.Carrier) carrier.State {
	all := c.States()
	return all[int(crc32.ChecksumIEEE([]byte(topic)))%len(all)]
}

func counts(t testing.TB, db *notify.Store, topic string) notify.Counts {
	t.Helper()
	c, err := storetest.Count(db, topic)
	storetest.Must(t, err)
	return c
}

func inspect(t *testing.T, db *notify.Store, id string) notify.Info {
	t.Helper()
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id)
	storetest.Must(t, err)
	return info
}

func later(id string, delay time.Duration) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte(id), Delay: delay}
}

func TestOneIsElectedAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stopFirst := run(t, db, carrier.Options{Name: "first"})
	storetest.Eventually(t, "the first is elected", func() bool { return look(t, db).Name == "first" })
	run(t, db, carrier.Options{Name: "second"})
	storetest.Eventually(t, "the second stands by", func() bool {
		n, err := carrier.Standbys(t.Context(), db.Of(topic))
		return err == nil && n == 1
	})
	if s := look(t, db); s.Name != "first" || s.Epoch != 1 || s.Lease <= 0 || s.Since.IsZero() {
		t.Errorf("got %+v", s)
	}
	stopFirst()
	storetest.Eventually(t, "the second is elected", func() bool { return look(t, db).Name == "second" })
	if s := look(t, db); s.Epoch != 2 {
		t.Errorf("got %+v", s)
	}
}

// A carrier that lost its lease to another moves nothing, and stands by.
func TestDeposedCarrierMovesNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var log journal
	run(t, db, carrier.Options{Name: "old", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Eventually(t, "it is elected", func() bool { return look(t, db).Name == "old" })
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Carrier(), "9 1 600000 usurper", time.Hour).Err())
	storetest.Publish(t, db, later("a", time.Millisecond))
	storetest.Eventually(t, "the old one stands by", func() bool {
		n, err := carrier.Standbys(t.Context(), db.Of(topic))
		return err == nil && n == 1
	})
	if info := inspect(t, db, "a"); info.State != notify.Scheduled {
		t.Errorf("it is %v", info.State)
	}
	if !log.has("level=WARN", `"deposed: another carrier has the lease; standing by"`, "carrier=old epoch=1 by=usurper") {
		t.Error("the log does not tell whose the lease is")
	}
	// The other steps down: the old one carries again.
	db.Client().Del(t.Context(), db.KeysOf(topic).Carrier())
	publish(t, db, db.KeysOf(topic).Vacant(), "")
	storetest.Eventually(t, "it is ready", func() bool { return inspect(t, db, "a").State == notify.Ready })
}

// If no other carrier took the lease, the log says that it ran out.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var log journal
	run(t, db, carrier.Options{Name: "me", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Eventually(t, "it is elected", func() bool { return look(t, db).Epoch == 1 })
	db.Client().Del(t.Context(), db.KeysOf(topic).Carrier())
	storetest.Eventually(t, "it is elected again", func() bool { return look(t, db).Epoch == 2 })
	if !log.has("level=WARN", `"deposed: the lease ran out; standing for election again"`, "carrier=me epoch=1 lease=30s") || log.has("another") {
		t.Error("the log does not tell that the lease ran out")
	}
}

// A foreign lease, which has no end, does not stop elections for ever.
func TestForeignLeaseEnds(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Carrier(), "foreign", 0).Err())
	run(t, db, carrier.Options{Name: "me", Lease: carrier.MinLease})
	storetest.Eventually(t, "it is elected", func() bool { return look(t, db).Name == "me" })
}

// A lease that lasts longer than its token says, as after the clock was set back during a crash, ends when the token says; so does one
// whose token says more than the longest lease.
func TestLeaseIsNoLongerThanItsToken(t *testing.T) {
	t.Parallel()
	for token, most := range map[string]time.Duration{"7 1 1000 gone": time.Second, "7 1 99999999999999999999 gone": carrier.MaxLease, "7 1 gone": carrier.DefaultLease} {
		db := storetest.Open(t)
		storetest.Must(t, db.Client().Set(t.Context(), db.KeysOf(topic).Carrier(), token, time.Hour).Err())
		run(t, db, carrier.Options{Name: "me", Lease: carrier.DefaultLease})
		storetest.Eventually(t, "the lease is cut", func() bool { return look(t, db).Lease <= most })
		if most == time.Second {
			storetest.Eventually(t, "it is elected", func() bool { return look(t, db).Name == "me" })
		}
	}
}

// The log says once that Redis begins to evict messages, and once that it ends, though a term ends in between.
func TestEvictionIsLogged(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	var log journal
	watch(t, db, carrier.Options{Lease: carrier.MinLease, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	do(t, db, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	storetest.Eventually(t, "it is told", func() bool { return log.has("level=ERROR", "redis may evict messages", "volatile-ttl") })
	do(t, db, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	do(t, db, "DEL", db.KeysOf(topic).Carrier())
	storetest.Eventually(t, "its end is told", func() bool { return log.has("level=INFO", "evicts nothing any more") })
	if n := log.count("evict"); n != 2 && storetest.Shards() == 1 {
		t.Errorf("it was told %d times", n)
	}
}

func TestBacklogIsMovedWithItsDueTimes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const n, topics = 5000, 7
	var messages []notify.Message
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for i := range n {
		m := notify.Message{Topic: fmt.Sprintf("t.%d", i%topics), ID: fmt.Sprint(i), Body: []byte("x"), Due: due.Add(time.Duration(i/50) * time.Millisecond)}
		messages = append(messages, m)
	}
	storetest.Publish(t, db, messages...)
	for i := range topics {
		storetest.Hasten(t, db, 2*time.Hour, fmt.Sprintf("t.%d", i))
	}
	run(t, db, carrier.Options{Batch: 100})
	storetest.Eventually(t, "all are ready", func() bool {
		total := int64(0)
		for i := range topics {
			total += counts(t, db, fmt.Sprintf("t.%d", i)).Ready
		}
		return total == n
	})
	for i := range topics {
		if c := counts(t, db, fmt.Sprintf("t.%d", i)); c.Scheduled != 0 {
			t.Errorf("got %+v", c)
		}
	}
	ready, err := db.Client().ZRangeWithScores(t.Context(), db.KeysOf("t.3").Ready("t.3"), 0, -1).Result()
	storetest.Must(t, err)
	for _, z := range ready {
		var i int
		if _, err := fmt.Sscanf(z.Member.(string), "t.3:%d", &i); err != nil || int64(z.Score) != messages[i].Due.Add(-2*time.Hour).UnixMilli() {
			t.Errorf("%v is ready since %.0f, published as due at %v, %v", z.Member, z.Score, messages[i].Due, err)
		}
	}
}

func TestExpiredLeaseIsReturnedThenBuried(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	deaths := make(deaths, 1)
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(2)})
	run(t, db, carrier.Options{Logger: deaths.logger()})
	storetest.Publish(t, db, later("a", 0))
	claimer := subscriberstest.Claimer(t, db)
	for attempt := 1; attempt <= 2; attempt++ {
		storetest.Eventually(t, "it is ready", func() bool { return counts(t, db, topic).Ready == 1 })
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: record.MinLease})
		if err != nil || len(ds) != 1 || ds[0].Attempt != attempt {
			t.Fatalf("claimed %+v, %v", ds, err)
		}
		storetest.Eventually(t, "the lease is over", func() bool { return counts(t, db, topic).Leased == 0 })
		storetest.Fails(t, "acknowledged after the lease", ds[0].Ack(t.Context()), notify.ErrLeaseLost)
	}
	d := storetest.Receive(t, "it dies", deaths)
	if want := (death{Topic: topic, ID: "a", Reason: "lease expired, out of attempts", Attempts: 2}); d != want {
		t.Errorf("got %+v, want %+v", d, want)
	}
	if info := inspect(t, db, "a"); info.State != notify.Dead || info.Reason != d.Reason {
		t.Errorf("got %+v", info)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	deaths := make(deaths, 10)
	stop := run(t, db, carrier.Options{Logger: deaths.logger()})
	ready, leased := later("ready", 0), later("leased", 0)
	ready.TTL, leased.TTL = 50*time.Millisecond, time.Hour
	claimer := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, leased)
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	storetest.Publish(t, db, ready)
	if d := storetest.Receive(t, "the ready one expires", deaths); d.ID != "ready" || d.Reason != "expired" || d.Topic != topic {
		t.Errorf("got %+v", d)
	}
	expire(t, db, "leased") // and may still be acknowledged
	storetest.Is(t, "acknowledge what expired while it was leased", ds[0].Ack(t.Context()), nil)
	// Without a carrier it stays scheduled past its expiry, and the next carrier buries it.
	stop()
	scheduled := later("scheduled", time.Millisecond)
	scheduled.TTL = time.Millisecond
	storetest.Publish(t, db, scheduled)
	storetest.Eventually(t, "it has expired", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		return err == nil && now.After(inspect(t, db, "scheduled").Expires)
	})
	run(t, db, carrier.Options{Logger: deaths.logger()})
	if d := storetest.Receive(t, "the scheduled one expires", deaths); d.ID != "scheduled" || d.Reason != "expired" {
		t.Errorf("got %+v", d)
	}
	if c := counts(t, db, topic); c.Scheduled+c.Ready+c.Leased != 0 || c.Dead != 2 {
		t.Errorf("got %+v", c)
	}
}

// expire has a message of topic that is leased expire, and waits until the carrier has put that off.
func expire(t *testing.T, db *notify.Store, id string) {
	t.Helper()
	now := time.Now()
	do(t, db, "ZADD", db.KeysOf(topic).Expiries(), now.UnixMilli(), record.Member(topic, id))
	storetest.Eventually(t, "the expiry is put off", func() bool { return inspect(t, db, id).Expires.After(now) })
}

// A message that expired while it was leased is not handed out again, whatever became of its lease.
func TestExpiryWhileLeased(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a ttl=1h
	claim 1 lease=1m = a
	expire a
	carry                        # puts the expiry off to the end of the lease
	is a=leased
== released
	extend a lease=2m
	release a
	claim 1 = dead:a
== nacked
	extend a lease=2m
	nack a delay=0s
	carry = dead:a
== released, shorter
	extend a lease=30s
	release a
	claim 1 = dead:a
== nacked, shorter
	extend a lease=30s
	nack a delay=0s
	carry = dead:a
== its lease, shorter
	extend a lease=1ms
	pass 2ms
	carry
	claim 1 = dead:a
==
	has a state=dead reason=expired
	`)
}

// An expiry that falls on the end of a lease by chance is not taken for a postponed one.
func TestExpiryAtTheEndOfALease(t *testing.T) {
	t.Parallel()
	s := storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{"coincide": func(p *storetest.Player, _ []string) string {
		end := p.Leases(topic, "a")[0].Receipt / 1000 // of the lease, in ms
		do(p.T, p.Store, "ZADD", p.Shard.Keys().Expiries(), end, "orders:a")
		return "ok"
	}}}
	storetest.Play(t, `
	publish a ttl=1h
	claim 1 = a
	coincide
	note a
	nack a delay=0s
	has a state=scheduled expires=noted
	`, s)
}

// Foreign members are buried with the reason, and the rest goes on.
func TestForeignThingsDoNotStopTheCarrier(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	client := db.Client()
	deaths := make(deaths, 10)
	client.Do(t.Context(), "ZADD", db.KeysOf(topic).ScheduledTopics(), 1, "no topic")
	client.Set(t.Context(), db.KeysOf("taken").Ready("taken"), "a string", 0)
	storetest.Publish(t, db, notify.Message{Topic: "taken", ID: "x", Body: []byte("x"), Delay: time.Millisecond}, later("good", 2*time.Millisecond))
	run(t, db, carrier.Options{Logger: deaths.logger()})
	storetest.Eventually(t, "the good one is ready", func() bool { return counts(t, db, topic).Ready == 1 })
	for range 2 {
		switch d := storetest.Receive(t, "the foreign ones die", deaths); {
		case d.ID == "no topic" && d.Reason == "member without a topic":
		case d.Topic == "taken" && strings.Contains(d.Reason, "WRONGTYPE"):
		default:
			t.Errorf("got %+v", d)
		}
	}
}

// A time beyond the year 9999 is reported as none, and the rest is carried in time.
func TestForeignTimes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for _, due := range []string{"1e18", "+inf"} {
		client, keys := db.Client(), db.KeysOf(topic)
		client.Do(t.Context(), "ZADD", keys.ScheduledTopics(), due, topic)
		storetest.Must(t, client.Do(t.Context(), "ZADD", keys.Scheduled(topic), due, topic+":far").Err())
		if s := look(t, db); !s.Next.IsZero() {
			t.Errorf("due %s: the next is due at %v", due, s.Next)
		}
		var log bytes.Buffer
		stop := run(t, db, carrier.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		storetest.Eventually(t, "it is elected", func() bool { return look(t, db).Name != "" })
		before := counts(t, db, topic).Ready
		storetest.Publish(t, db, later("near"+strings.Trim(due, "+"), 50*time.Millisecond))
		storetest.Eventually(t, "the other is ready", func() bool { return counts(t, db, topic).Ready > before })
		stop()
		if text := log.String(); strings.Contains(text, "cannot carry") {
			t.Errorf("due %s: %s", due, text)
		}
	}
}

// putOff returns the verb later ID: what is to be carried was put off by more than half a minute.
func putOff(place func(script.Keys) string) func(*storetest.Player, []string) string {
	return func(p *storetest.Player, words []string) string {
		score, err := p.Store.Client().ZScore(p.Context(), place(p.Shard.Keys()), record.Member(p.Topic, words[0])).Result()
		if at := time.UnixMilli(int64(score)); err == nil && at.Before(p.Now().Add(30*time.Second)) {
			return fmt.Sprint("it is due at ", at)
		}
		return storetest.Said(err)
	}
}

// A message that can be neither made ready nor buried waits in the scheduled set until it can be; the rest goes on.
func TestNowhereToGo(t *testing.T) {
	storetest.OneShard(t, "both topics are carried by one call")
	t.Parallel()
	s := storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{"later": putOff(func(k script.Keys) string { return k.Scheduled(topic) })}}
	storetest.Play(t, `
	publish s delay=1ms
	publish e delay=1ms ttl=1ms
	redis SET ready:orders "a string"
	redis SET dead:orders "a string"
	pass 3ms
	carry
	later s
	later e
	redis ZCARD scheduled:orders = 2
	publish good topic=other delay=1ms
	pass 2ms
	carry
	is topic=other good=ready
	`, s)
}

// A foreign key beside a lease that ends stops nothing, and nothing else of the same call is lost.
func TestForeignThingsBesideLeases(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "its topics are carried by one call")
	s := storetest.Scenario{Topic: "dead", Verbs: map[string]func(*storetest.Player, []string) string{"later": func(p *storetest.Player, words []string) string {
		score, err := p.Store.Client().ZScore(p.Context(), p.Shard.Keys().Leased(), "dead:d").Result()
		if at := time.UnixMicro(int64(score)); err == nil && at.Before(p.Now().Add(30*time.Second)) {
			return fmt.Sprint("its lease ends at ", at)
		}
		return storetest.Said(err)
	}}}
	storetest.Play(t, `
	publish a topic=attempts attempts=1
	publish d attempts=1
	publish w topic=waiting
	publish 1 2 topic=good
	claim 1 topic=attempts lease=1ms = a
	claim 1 lease=1ms = d
	claim 1 topic=waiting lease=1ms = w
	claim 2 topic=good lease=1ms = 1 2
	redis HSET attempts attempts:a none
	redis SET dead:dead "a string"
	redis SET waiting:waiting "a string"
	publish o topic=other delay=1ms
	pass 2ms
	carry = dead:a
	is topic=good 1=ready 2=ready
	is topic=other o=ready
	redis ZCARD ready:waiting = 1
	counts topic=attempts dead=1 died=1 published=1
	later                        # what can neither be carried nor buried stays in its place
	`, s)
}

// Whichever key is foreign, messages that do not need it are carried and handled, once.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== counters
	redis SET topics x
== leased counter
	redis HSET topics orders:leased x
== leased counter that is full
	redis HSET topics orders:leased 9223372036854775807
== published counter that is full
	redis HSET topics orders:published 9223372036854775807
== expiries
	redis SET expiries x
== topics with something ready
	redis SET ready x
== attempts
	redis SET attempts x
== reasons
	redis SET deaths x
== waiting list
	redis SET waiting:orders x
== dead letters
	redis SET dead:orders x
==
	publish 1 delay=1ms
	publish 2 topic=other delay=1ms
	pass 2ms
	carry
	is 1=ready
	work = 1
	work = none <nil>
	redis EXISTS ready:orders = 0
	`, storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{"work": func(p *storetest.Player, _ []string) string {
		ds, err := subscriberstest.Claimer(p, p.Store).Claim(p.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(ds) == 0 {
			return fmt.Sprint("none ", err)
		}
		return ds[0].ID
	}}})
}

// A foreign count of attempts keeps no message from being buried, by a carrier or a subscriber, and no other from being carried.
func TestForeignAttempts(t *testing.T) {
	t.Parallel()
	for _, attempts := range []string{"inf", "-inf", "nan", "1e999", "-1", "9223372036854775807", "x"} {
		t.Run(attempts, func(t *testing.T) {
			p := storetest.NewPlayer(t, storetest.Scenario{})
			p.Play(`publish nacked leased buried`)
			for _, id := range []string{"nacked", "leased", "buried", "expired"} {
				do(t, p.Store, "HSET", p.Shard.Keys().Attempts(), record.Member(topic, id), attempts)
			}
			ds, err := subscriberstest.Claimer(t, p.Store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Hour})
			if err != nil || len(ds) != 3 {
				t.Fatalf("claimed %v, %v", ds, err)
			}
			for _, d := range ds {
				switch d.ID {
				case "nacked":
					_, err = d.Nack(t.Context(), time.Hour, "not now")
				case "buried":
					_, err = d.Bury(t.Context(), "no such order")
				}
				storetest.Should(t, err)
			}
			p.Play(`
			publish expired delay=1h ttl=1h
			expire expired
			lapse leased
			publish o topic=other delay=1ms
			`)
			run(t, p.Store, carrier.Options{})
			storetest.Eventually(t, "the other is ready", func() bool { return counts(t, p.Store, "other").Ready == 1 })
			storetest.Eventually(t, "all leases are over", func() bool { return counts(t, p.Store, topic).Leased == 0 })
			p.Play("has expired state=dead reason=expired")
		})
	}
}

// A stray member in a place of another topic does not harm the message of that name: neither a carry, nor a claim, nor a
// purge of dead letters touches its record or its expiry.
func TestStrayMemberOfALiveMessage(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"scheduled:", "ready:"} {
		t.Run(place, func(t *testing.T) {
			db := storetest.Open(t)
			const nowhere = "_" // of what has no topic
			topic, other := storetest.Beside(db, nowhere, topic), storetest.Beside(db, nowhere, "other")
			dead := map[string]string{"scheduled:": nowhere, "ready:": topic}[place]
			live := notify.Message{Topic: other, ID: "live", Body: []byte("x"), Delay: time.Hour, TTL: time.Hour}
			storetest.Publish(t, db, live)
			do(t, db, "ZADD", db.KeysOf(topic).Base()+place+topic, 1, other+":live")
			do(t, db, "ZADD", db.KeysOf(topic).ScheduledTopics(), 1, topic)
			do(t, db, "ZADD", db.KeysOf(topic).ReadyTopics(), 1, topic)
			run(t, db, carrier.Options{})
			storetest.Eventually(t, "the stray one is dead", func() bool {
				if ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) > 0 {
					t.Fatalf("claimed %v, %v", ds, err)
				}
				return counts(t, db, dead).Dead == 1
			})
			stray := store.Letters{Members: []string{other + ":live"}}
			for _, remove := range []func(store.Shard, context.Context, string, store.Letters) (store.Dealt, error){store.Shard.Requeue, store.Shard.Purge} {
				storetest.Must(t, storetest.ErrOf(remove(db.Of(dead), t.Context(), dead, stray)))
			}
			if counts(t, db, dead).Dead != 0 {
				t.Error("it is not purged")
			}
			info, err := storetest.Inspector(t, db).Inspect(t.Context(), other, "live")
			if err != nil || info.State != notify.Scheduled || info.Fault != nil || string(info.Body) != "x" {
				t.Errorf("the live one: %+v, %v", info, err)
			}
			storetest.Is(t, "expiries", size(t, db, "expiries"), 1)
		})
	}
}

// If a topic has both ready messages and waiting subscribers a ring was lost: the beat repeats it.
func TestBeatRingsAgain(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, later("a", 0))
	inbox := db.KeysOf(topic).Inbox("me")
	rings := subscribe(t, db, inbox)
	storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Waiting(topic), 1, inbox).Err())
	run(t, db, carrier.Options{})
	for range 2 { // and again, until it is claimed
		storetest.Is(t, "rung for", storetest.Receive(t, "a ring", rings).Payload, topic)
	}
}

func TestMoreLeasesThanOneCallDealsWith(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const n = 1500
	var messages []notify.Message
	for i := range n {
		messages = append(messages, later(fmt.Sprint(i), 0))
	}
	storetest.Publish(t, db, messages...)
	claimer := subscriberstest.Claimer(t, db)
	for range 3 {
		if ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 500, Lease: record.MinLease}); err != nil || len(ds) != 500 {
			t.Fatalf("claimed %d, %v", len(ds), err)
		}
	}
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "all are ready again", func() bool {
		c := counts(t, db, topic)
		return c.Ready == n && c.Leased == 0
	})
}

func TestScriptsMayBeFlushed(t *testing.T) {
	t.Parallel()
	db := storetest.At(t, storetest.Lend(t), "")
	run(t, db, carrier.Options{})
	for i := range 20 {
		id := fmt.Sprint(i)
		storetest.Must(t, db.Client().ScriptFlush(t.Context()).Err())
		storetest.Publish(t, db, later(id, time.Millisecond))
		storetest.Eventually(t, "it is ready", func() bool { return inspect(t, db, id).State == notify.Ready })
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for _, test := range []struct {
		field, want string
		o           carrier.Options
	}{
		{"name", "carrier name", carrier.Options{Name: "two words"}},
		{"lease", "carrier lease 1ms", carrier.Options{Lease: time.Millisecond}},
		{"lease", "carrier lease -1s", carrier.Options{Lease: -time.Second}},
		{"batch", "carrier batch -1", carrier.Options{Batch: -1}},
		{"batch", "carrier batch 100000", carrier.Options{Batch: 100_000}},
	} {
		wantFault(t, db, test.o, test.field, test.want)
	}
}

// wantFault checks that New refuses these options with a Fault of one field.
func wantFault(t *testing.T, db *notify.Store, o carrier.Options, field, want string) {
	t.Helper()
	_, err := carrier.New(db, o)
	var fault *notify.Fault
	if !errors.As(err, &fault) || fault.Field != field || !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an ErrInvalid of the field %s about %q", err, field, want)
	}
}

func TestAllBadOptionsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := carrier.New(storetest.Open(t), carrier.Options{Lease: -1, Batch: -1, KeepCount: -1})
	if several, ok := err.(interface{ Unwrap() []error }); !ok || len(several.Unwrap()) != 3 {
		t.Errorf("got %v, want three faults", err)
	}
}

func TestEvictingRedisEndsRun(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	c, err := carrier.New(storetest.At(t, server.URL(), ""), carrier.Options{})
	storetest.Must(t, err)
	storetest.Fails(t, "it", c.Run(t.Context()), notify.ErrUnfit)
}

// A carrier ends once its store was upgraded to a format that its version does not know: in its place a newer one carries.
func TestShutOut(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	storetest.Eventually(t, "it carries", func() bool {
		return !slices.ContainsFunc(c.States(), func(s carrier.State) bool { return s.Epoch == 0 })
	})
	for _, keys := range db.KeysOfAll() {
		was, err := db.Client().Get(t.Context(), keys.Format()).Result()
		storetest.Must(t, err)
		storetest.Must(t, db.Client().Set(t.Context(), keys.Format(), "9"+was, 0).Err())
	}
	err = storetest.Receive(t, "it ends", ended)
	storetest.Fails(t, "it", err, notify.ErrUnfit)
}

// A program of another language that missed its wake-up is told again with
// each beat, until the message is claimed.
func TestWakeUpIsRepeated(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "1", Body: []byte("x")}, notify.Message{Topic: topic, ID: "2", Body: []byte("x")})
	channel, payload := wake(db, topic, 2)
	wakes := subscribe(t, db, channel) // too late for the first one
	run(t, db, carrier.Options{})
	for range 2 {
		storetest.Is(t, "woken by", storetest.Receive(t, "a wake-up", wakes).Payload, payload)
	}
}
