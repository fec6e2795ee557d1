package carrier_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// all returns a broadcast to everyone that is due after a delay.
func all(topic, id string, delay time.Duration) notify.Message {
	return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id), Delay: delay, Broadcast: true}
}

// An entry is a broadcast in a log.
type entry struct {
	topic, id      string
	position, prev notify.Position
	due            int64
	record         string
}

// logOf returns the entries of a topic's log.
func logOf(t *testing.T, db *notify.Store, topic string) (entries []entry) {
	t.Helper()
	found, err := db.Client().XRange(t.Context(), db.KeysOf(topic).Log(topic), "-", "+").Result()
	storetest.Must(t, err)
	for _, one := range found {
		e := entry{topic: topic, id: one.Values["id"].(string), record: one.Values["record"].(string)}
		e.position, e.prev = position(t, one.ID), position(t, one.Values["prev"].(string))
		if e.due, err = strconv.ParseInt(one.Values["due"].(string), 10, 64); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func position(t *testing.T, text string) notify.Position {
	t.Helper()
	p, err := record.ParsePosition(text)
	storetest.Must(t, err)
	return p
}

func ids(entries []entry) (ids []string) {
	for _, e := range entries {
		ids = append(ids, e.id)
	}
	return ids
}

// wantLog waits until a topic's log has as many entries as ids, and checks that they are these.
func wantLog(t *testing.T, db *notify.Store, topic string, want ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("the log of %s has %d entries", topic, len(want)), func() bool {
		n, err := db.Client().XLen(t.Context(), db.KeysOf(topic).Log(topic)).Result()
		return err == nil && int(n) >= len(want)
	})
	storetest.Same(t, fmt.Sprintf("log of %s", topic), want, ids(logOf(t, db, topic)))
}

func do(t *testing.T, db *notify.Store, args ...any) {
	t.Helper()
	if err := db.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// subscribe returns what is published on channels from now on.
func subscribe(t *testing.T, db *notify.Store, channels ...string) <-chan *redis.Message {
	t.Helper()
	return storetest.Subscribe(t, db, channels...).Channel(redis.WithChannelSize(100_000))
}

// publish publishes on a channel of a shard.
func publish(t *testing.T, db *notify.Store, channel, payload string) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(storetest.Tell(t.Context(), db, channel, payload)))
}

// wake returns what wakes programs of any language for n messages of a topic, and on which channel: that of several shards is of all
// topics.
func wake(db *notify.Store, topic string, n int) (channel, payload string) {
	if storetest.Shards() > 1 {
		return db.KeysOf(topic).Wakes(), fmt.Sprint(topic, " ", n)
	}
	return db.KeysOf(topic).Wake(topic), fmt.Sprint(n)
}

// A bell names the end of the logs before it and now; a beat repeats the bells of late.
func TestBells(t *testing.T) {
	storetest.OneShard(t, "a bell names the logs of one")
	t.Parallel()
	db := storetest.Open(t)
	bells, beats := subscribe(t, db, db.KeysOf(topic).Logs()), subscribe(t, db, db.KeysOf(topic).Beat())
	run(t, db, carrier.Options{})
	bell := func() record.Bell {
		t.Helper()
		b, err := record.ParseBell(storetest.Receive(t, "a bell", bells).Payload)
		storetest.Must(t, err)
		return b
	}
	var since notify.Position
	for i, topic := range []string{"a", "b", "a"} {
		storetest.Publish(t, db, all(topic, fmt.Sprint(i), 0))
		b := bell()
		if last := logOf(t, db, topic); b.Since != since || b.Last != last[len(last)-1].position || !slices.Equal(b.Topics, []string{topic}) {
			t.Errorf("the bell of %s is %+v, the one before it ended at %v", topic, b, since)
		}
		since = b.Last
	}
	for {
		e := store.Event{Kind: reach.Beat, Payload: storetest.Receive(t, "a beat", beats).Payload}
		b, err := e.Bell()
		if err != nil || e.StoreID() == "" {
			t.Fatalf("%v in the beat %q", err, e.Payload)
		}
		if b.Last != since { // it came before
			continue
		}
		var want []string // named, unless a standstill made them old
		for _, topic := range []string{"a", "b"} {
			all := logOf(t, db, topic)
			last := all[len(all)-1].position
			if last > b.Since {
				want = append(want, topic)
			}
			if isYoung := time.UnixMilli(e.Ms()).Sub(last.Time()) < 2*time.Second; isYoung && !slices.Contains(b.Topics, topic) {
				t.Errorf("the beat %q should name %s", e.Payload, topic)
			}
		}
		if b.Since == b.Last { // and nothing was rung lately
			if len(b.Topics) > 0 {
				t.Errorf("the beat %q names topics", e.Payload)
			}
			return
		}
		if !slices.Equal(b.Topics, want) {
			t.Errorf("the beat %q should name %v", e.Payload, want)
		}
	}
}

// Broadcasts to more topics than one call handles are each sent once, in the
// order of their due times, at positions that only grow; each names the one before it in its log.
func TestBroadcastsAreSentInDueOrder(t *testing.T) {
	storetest.OneShard(t, "topics have an order in one")
	t.Parallel()
	db := storetest.Open(t)
	const n, topics = 3000, 120
	var messages []notify.Message
	start := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for i := range n {
		m := all(fmt.Sprintf("t.%03d", i*7%topics), fmt.Sprintf("%05d", i), 0)
		m.Due = start.Add(time.Duration(i/20) * time.Millisecond)
		messages = append(messages, m)
	}
	storetest.Publish(t, db, messages...)
	if c := counts(t, db, "t.000"); c.Broadcasts != n/topics || c.Scheduled != 0 || c.Sent != 0 || c.Log != 0 {
		t.Errorf("before: %+v", c)
	}
	bells := subscribe(t, db, db.KeysOf(topic).Logs())
	bodies := subscribe(t, db, db.KeysOf(topic).Broadcast("t.000"))
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "all are sent", func() bool {
		left, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Broadcasts()).Result()
		return err == nil && left == 0
	})
	var sent []entry
	last := map[string]notify.Position{}
	for i := range topics {
		topic := fmt.Sprintf("t.%03d", i)
		for _, e := range logOf(t, db, topic) {
			if e.prev != last[topic] {
				t.Errorf("%s:%s at %v names %v as the one before it, which is %v", topic, e.id, e.position, e.prev, last[topic])
			}
			last[topic] = e.position
			sent = append(sent, e)
		}
		if c := counts(t, db, topic); c.Broadcasts != 0 || c.Sent != n/topics || c.Log != n/topics {
			t.Errorf("after: %+v", c)
		}
	}
	slices.SortFunc(sent, func(a, b entry) int { return cmp.Compare(a.position, b.position) })
	slices.SortStableFunc(messages, func(a, b notify.Message) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(record.Member(a.Topic, a.ID), record.Member(b.Topic, b.ID)))
	})
	if len(sent) != n {
		t.Fatalf("%d were sent", len(sent))
	}
	for i, e := range sent {
		m := messages[i]
		if e.topic != m.Topic || e.id != m.ID || e.due != m.Due.UnixMilli() || !strings.HasSuffix(e.record, "\nbody of "+m.ID) {
			t.Fatalf("the %dth that was sent is %+v, want %s:%s", i, e, m.Topic, m.ID)
		}
		if i > 0 && e.position == sent[i-1].position {
			t.Fatalf("two are at %v", e.position)
		}
	}
	for _, e := range sent {
		if e.topic == "t.000" {
			if m := storetest.Receive(t, "the body for programs of any language", bodies); m.Payload != "body of "+e.id {
				t.Errorf("heard %q, want that of %s", m.Payload, e.id)
			}
		}
	}
	wantBells(t, bells, sent)
	storetest.Empty(t, db)
}

// wantBells checks that bells cover what was sent: each names where the one
// before it ended, a position, and all topics whose logs grew up to there since.
func wantBells(t *testing.T, bells <-chan *redis.Message, sent []entry) {
	t.Helper()
	var since notify.Position
	for len(sent) > 0 {
		b, err := record.ParseBell(storetest.Receive(t, "a bell", bells).Payload)
		if err != nil || b.Since != since {
			t.Fatalf("%+v follows one up to %v, %v", b, since, err)
		}
		since = b.Last
		upTo, got := b.Last, b.Topics
		var want []string
		for len(sent) > 0 && sent[0].position <= upTo {
			if !slices.Contains(want, sent[0].topic) {
				want = append(want, sent[0].topic)
			}
			sent = sent[1:]
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := gocmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Fatalf("the bell at %v names (-want +got):\n%s", upTo, diff)
		}
	}
}

// Every body reaches programs of any language verbatim, and several large ones all arrive.
func TestBroadcastBodies(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	bodies := subscribe(t, db, db.KeysOf("b").Broadcast("b"))
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	var messages []notify.Message
	for i := range 40 { // more than one call reads
		m := all("b", fmt.Sprintf("%02d", i), time.Millisecond)
		m.Body = append(bytes.Repeat([]byte{byte(i)}, 200<<10), every...)
		messages = append(messages, m)
	}
	messages[0].Body = []byte("\n{}\n")
	messages[1].Headers, messages[1].ContentType = map[string]string{"k": "v"}, "text/plain"
	storetest.Publish(t, db, messages...)
	run(t, db, carrier.Options{})
	heard := map[string]bool{}
	for range messages {
		heard[storetest.Receive(t, "a body", bodies).Payload] = true
	}
	for _, m := range messages {
		if !heard[string(m.Body)] {
			t.Errorf("the body of %s was not heard", m.ID)
		}
	}
	var want []string
	for _, m := range messages {
		want = append(want, m.ID)
	}
	wantLog(t, db, "b", want...)
}

// A log is trimmed by count as it grows; the first entry that is left names one that is gone.
func TestLogIsTrimmedByCount(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	run(t, db, carrier.Options{KeepCount: 300})
	const n = 2000
	var messages []notify.Message
	for i := range n {
		messages = append(messages, all("a", fmt.Sprintf("%04d", i), 0))
	}
	storetest.Publish(t, db, messages...)
	storetest.Eventually(t, "all are sent", func() bool { return counts(t, db, "a").Sent == n })
	log := logOf(t, db, "a")
	if len(log) < 300 || len(log) > 300+100 { // a node of the stream
		t.Errorf("%d are kept", len(log))
	}
	if log[0].prev == 0 || log[0].prev >= log[0].position || log[len(log)-1].id != "1999" {
		t.Errorf("from %+v to %+v", log[0], log[len(log)-1])
	}
}

// A log is trimmed by age as it grows; logs that do not grow any more are
// removed by the housekeeping, even more than one step removes. The position of the last stays.
func TestLogIsTrimmedByAge(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const topics = 50
	stop := run(t, db, carrier.Options{KeepAge: carrier.MinKeepAge, Sweep: often})
	for range 3 {
		var messages []notify.Message
		for range 100 { // a node of the stream
			messages = append(messages, all("grows", "", 0))
		}
		for i := range topics {
			messages = append(messages, all(fmt.Sprintf("old.%02d", i), "", 0))
		}
		storetest.Publish(t, db, messages...)
	}
	storetest.Eventually(t, "all are sent", func() bool { return counts(t, db, "grows").Sent == 300 })
	i := 0
	storetest.Eventually(t, "what is old is removed from the log that grows", func() bool {
		i++
		storetest.Publish(t, db, all("grows", fmt.Sprint(i), 0))
		c := counts(t, db, "grows")
		return c.Sent-c.Log >= 300
	})
	storetest.Eventually(t, "the others are removed", func() bool {
		for i := range topics {
			if counts(t, db, fmt.Sprintf("old.%02d", i)).Log > 0 {
				return false
			}
		}
		return true
	})
	storetest.Is(t, "positions are known", size(t, db, "logs"), topics+1)
	// The next broadcast names the one before it, which is gone.
	stop()
	run(t, db, carrier.Options{})
	before, err := db.Client().ZScore(t.Context(), db.KeysOf("old.00").Logs(), "old.00").Result()
	storetest.Must(t, err)
	storetest.Publish(t, db, all("old.00", "new", 0))
	wantLog(t, db, "old.00", "new")
	if log := logOf(t, db, "old.00"); log[0].prev != notify.Position(before) {
		t.Errorf("it names %v, want %v", log[0].prev, notify.Position(before))
	}
}

// A log that has something new is kept, whatever old position the index has: that is corrected.
func TestLogWithAnOldPositionIsKept(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	o := carrier.Options{KeepAge: time.Hour, Sweep: often}
	stop := run(t, db, o)
	storetest.Publish(t, db, all("a", "1", 0), all("b", "2", 0))
	storetest.Eventually(t, "both are sent", func() bool { return counts(t, db, "a").Log+counts(t, db, "b").Log == 2 })
	stop()
	at := position(t, db.Client().XRange(t.Context(), db.KeysOf("a").Log("a"), "-", "+").Val()[0].ID)
	do(t, db, "ZADD", db.KeysOf("a").Logs(), 1, "a", 2, "gone")
	run(t, db, o)
	storetest.Eventually(t, "the position is right again", func() bool {
		score, err := db.Client().ZScore(t.Context(), db.KeysOf("a").Logs(), "a").Result()
		return err == nil && notify.Position(score) == at
	})
	wantLog(t, db, "a", "1")
}

// After the clock was set back, positions continue behind the last of all; if
// the positions are lost, too, behind the last of the log. Nothing is lost, nor sent twice.
func TestPositionsOnlyGrow(t *testing.T) {
	storetest.OneShard(t, "positions grow in one")
	t.Parallel()
	db := storetest.Open(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	do(t, db, "ZADD", db.KeysOf("a").Logs(), ahead, "other")
	run(t, db, carrier.Options{})
	storetest.Publish(t, db, all("a", "1", 0))
	wantLog(t, db, "a", "1")
	if log := logOf(t, db, "a"); int64(log[0].position) != ahead+1 {
		t.Errorf("sent at %v, want %v", log[0].position, notify.Position(ahead+1))
	}
	do(t, db, "DEL", db.KeysOf("a").Logs())
	storetest.Publish(t, db, all("a", "2", 0), all("a", "3", 0), all("b", "4", 0))
	wantLog(t, db, "a", "1", "2", "3")
	wantLog(t, db, "b", "4")
	log := logOf(t, db, "a")
	if int64(log[1].position) != ahead+2 || log[1].prev != log[0].position || log[2].prev != log[1].position {
		t.Errorf("got %+v", log)
	}
}

// Foreign keys and members among broadcasts stop no others, and nothing is sent twice.
func TestForeignThingsAmongBroadcasts(t *testing.T) {
	storetest.OneShard(t, "topics have an order in one")
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		name   string
		make   [][]any // commands, whose first argument is the end of a key
		reason string  // of the death of bad:x; empty: it is sent
	}{
		{"log", [][]any{{"SET", "log:bad", "x"}}, "log is foreign (WRONGTYPE)"},
		{"log at the end of all positions", [][]any{{"XADD", "log:bad", "18446744073709551615-18446744073709551615", "a", "b"}}, "log is foreign"},
		{"log in the far future", [][]any{{"XADD", "log:bad", "9007199254740993-5", "a", "b"}}, "log is foreign"},
		{"log in the year 9999", [][]any{{"XADD", "log:bad", "253402300799999-999", "a", "b"}}, "log is foreign"},
		{"entry of somebody else", [][]any{{"XADD", "log:bad", fmt.Sprintf("%d-0", now.UnixMilli()-1), "prev", "x", "id", ""}}, ""},
		{"entry behind the microseconds", [][]any{{"XADD", "log:bad", fmt.Sprintf("%d-123456", now.Add(time.Minute).UnixMilli()), "a", "b"}}, ""},
		{"positions", [][]any{{"SET", "logs", "x"}}, ""},
		{"endless position", [][]any{{"ZADD", "logs", "inf", "other"}}, ""},
		{"position of the topic", [][]any{{"ZADD", "logs", "inf", "bad"}}, ""},
		{"position below zero", [][]any{{"ZADD", "logs", "-5.5", "bad"}}, ""},
		{"position with a fraction", [][]any{{"ZADD", "logs", fmt.Sprintf("%d.25", now.UnixMicro()+1e9), "bad"}}, ""},
		{"record", [][]any{{"HSET", "messages", "bad:x", "no record"}}, ""},
		{"no record", [][]any{{"HDEL", "messages", "bad:x"}}, "record is missing"},
		{"counters", [][]any{{"SET", "topics", "x"}}, ""},
		{"counter", [][]any{{"HSET", "topics", "bad:broadcasts", "x", "bad:sent", "1.5"}}, ""},
		{"alarms", [][]any{{"SET", "alarms", "x"}}, ""},
		{"name in alarms", [][]any{{"ZADD", "alarms", 1, "no name\n"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := storetest.Open(t)
			storetest.Publish(t, db, all("a", "1", 0), all("bad", "x", 0), all("b", "2", 0), all("c", "3", 0))
			for _, command := range test.make {
				command[1] = db.KeysOf(topic).Base() + command[1].(string)
				do(t, db, command...)
			}
			deaths := make(deaths, 10)
			run(t, db, carrier.Options{Logger: deaths.logger()})
			storetest.Publish(t, db, later("m", time.Millisecond))
			storetest.Eventually(t, "a message is ready", func() bool {
				n, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Ready(topic)).Result()
				return err == nil && n == 1
			})
			storetest.Eventually(t, "none waits any more", func() bool {
				n, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Broadcasts()).Result()
				return err == nil && n == 0
			})
			for topic, id := range map[string]string{"a": "1", "b": "2", "c": "3"} {
				wantLog(t, db, topic, id)
			}
			if test.reason != "" {
				if d := storetest.Receive(t, "it dies", deaths); d.Topic != "bad" || d.ID != "x" || !strings.HasPrefix(d.Reason, test.reason) {
					t.Errorf("got %+v", d)
				}
			} else if got, err := db.Client().XRevRangeN(t.Context(), db.KeysOf(topic).Log("bad"), "+", "-", 1).Result(); err != nil || got[0].Values["id"] != "x" {
				t.Errorf("it is not in the log: %v, %v", got, err)
			}
			if len(deaths) > 0 {
				t.Errorf("more died: %+v", <-deaths)
			}
			// A later broadcast is not held up either.
			storetest.Publish(t, db, all("a", "4", 0))
			wantLog(t, db, "a", "1", "4")
			if log := logOf(t, db, "a"); log[1].position > notify.Position(time.Now().Add(time.Hour).UnixMicro()) {
				t.Errorf("its position is %v", log[1].position)
			}
		})
	}
}

// A foreign key in place of the set of broadcasts stops no messages.
func TestForeignPlaceOfBroadcasts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	do(t, db, "SET", db.KeysOf(topic).Broadcasts(), "x")
	storetest.Publish(t, db, later("m", time.Millisecond))
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "it is ready", func() bool { return counts(t, db, topic).Ready == 1 })
}

// Invalid members are buried, and the rest goes on.
func TestForeignMembersAmongBroadcasts(t *testing.T) {
	storetest.OneShard(t, "its topics are in one")
	t.Parallel()
	db := storetest.Open(t)
	for _, member := range []string{"no topic", ":x", "a..b:x", strings.Repeat("a", 129) + ":x", "sp ace:x"} {
		do(t, db, "ZADD", db.KeysOf(topic).Broadcasts(), 1, member)
	}
	storetest.Publish(t, db, all("a", "1", 0))
	deaths := make(deaths, 10)
	run(t, db, carrier.Options{Logger: deaths.logger()})
	wantLog(t, db, "a", "1")
	for range 5 {
		if d := storetest.Receive(t, "a member dies", deaths); d.Topic != "" || d.Reason != "member without a topic" {
			t.Errorf("got %+v", d)
		}
	}
}

// A broadcast that can be neither sent nor buried waits, and is sent when that is possible again.
func TestBroadcastWithNowhereToGo(t *testing.T) {
	storetest.OneShard(t, "its topics are in one")
	t.Parallel()
	db := storetest.Open(t)
	for _, key := range []string{db.KeysOf(topic).Log("bad"), db.KeysOf(topic).Dead("bad"), db.KeysOf(topic).Base() + "expiries"} {
		do(t, db, "SET", key, "x")
	}
	storetest.Publish(t, db, all("a", "1", 0), all("bad", "x", 0), all("z", "2", 0))
	run(t, db, carrier.Options{})
	wantLog(t, db, "a", "1")
	wantLog(t, db, "z", "2")
	storetest.Eventually(t, "it waits for later", func() bool {
		score, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Broadcasts(), "bad:x").Result()
		return err == nil && time.UnixMilli(int64(score)).After(time.Now().Add(30*time.Second))
	})
	do(t, db, "DEL", db.KeysOf(topic).Log("bad"))
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).RescheduleIn(t.Context(), "bad", "x", 0)))
	wantLog(t, db, "bad", "x")
	if c := counts(t, db, "bad"); c.Broadcasts != 0 || c.Sent != 1 {
		t.Errorf("got %+v", c)
	}
}

// What the carrier has no right to for a moment, it does later, once.
func TestRightsToSendAreMissingForAMoment(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	do(t, db, "ACL", "SETUSER", "carrier", "on", ">secret", "~*", "&*", "+@all")
	limited := storetest.Unhurried(storetest.At(t, strings.Replace(server.URL(), "redis://", "redis://carrier:secret@", 1), ""))
	var refused atomic.Bool // by the rehearsal of a new connection, which the log of Redis does not have
	limited.Observe(func(_ string, _ time.Duration, err error) {
		if reach.Refused(err) {
			refused.Store(true)
		}
	})
	watch(t, limited, carrier.Options{})
	do(t, db, "ACL", "SETUSER", "carrier", "-xadd", "-xtrim") // which the call under way meets
	storetest.Publish(t, db, all("a", "1", 0), all("b", "2", 0))
	storetest.Eventually(t, "it is refused", func() bool {
		denied, err := db.Client().ACLLog(t.Context(), 10).Result()
		return err == nil && (len(denied) > 0 || refused.Load())
	})
	do(t, db, "ACL", "SETUSER", "carrier", "+@all")
	wantLog(t, db, "a", "1")
	wantLog(t, db, "b", "2")
}

// While Redis is out of memory a new broadcast is refused as a whole, and those that wait are sent.
func TestBroadcastsWhenRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory-policy", "noeviction")
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	storetest.Publish(t, db, all("a", "1", 500*time.Millisecond), all("b", "2", 500*time.Millisecond))
	do(t, db, "CONFIG", "SET", "maxmemory", "1")
	pub := storetest.Publisher(t, db)
	if _, err := pub.Broadcast(t.Context(), all("a", "3", 0)); !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("got %v, want OOM", err)
	}
	run(t, db, carrier.Options{})
	wantLog(t, db, "a", "1")
	wantLog(t, db, "b", "2")
	if c := counts(t, db, "a"); c.Broadcasts != 0 || c.Sent != 1 {
		t.Errorf("got %+v", c)
	}
	do(t, db, "CONFIG", "SET", "maxmemory", "0")
	storetest.Should(t, storetest.ErrOf(pub.Broadcast(t.Context(), all("a", "3", 0))))
	wantLog(t, db, "a", "1", "3")
}

// OnTerm is called when a term begins, and its context ends with the term: when the carrier stops, and when it is deposed.
func TestTerms(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	began, ended := make(chan carrier.Term, 10), make(chan carrier.Term, 10)
	finish := make(chan struct{})
	stop := run(t, db, carrier.Options{Name: "me", OnTerm: func(ctx context.Context, term carrier.Term) {
		if term.Shard.Number() != db.Of(topic).Number() {
			return
		}
		began <- term
		<-ctx.Done()
		<-finish
		ended <- term
	}})
	if term := storetest.Receive(t, "the term begins", began); term.Name != "me" || term.Epoch != 1 || term.Since.IsZero() {
		t.Errorf("got %+v", term)
	}
	// Deposed: the next term's call waits until the one before has returned.
	do(t, db, "SET", db.KeysOf(topic).Carrier(), "9 1 600000 usurper")
	storetest.Eventually(t, "it is told", func() bool {
		select {
		case finish <- struct{}{}:
			return true
		default:
			return false
		}
	})
	storetest.Receive(t, "the term ends", ended)
	do(t, db, "DEL", db.KeysOf(topic).Carrier())
	publish(t, db, db.KeysOf(topic).Vacant(), "")
	if term := storetest.Receive(t, "another term begins", began); term.Epoch != 2 {
		t.Errorf("got %+v", term)
	}
	// Stopped: the lease is given up while OnTerm still runs.
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	storetest.Eventually(t, "the lease is given up", func() bool { return look(t, db).Name == "" })
	select {
	case <-stopped:
		t.Error("it does not wait for what its term began")
	default:
	}
	close(finish)
	storetest.Receive(t, "it stops", stopped)
	if len(ended) != 1 || len(began) != 0 {
		t.Errorf("%d terms ended, %d began", len(ended), len(began))
	}
}

// An outage of Redis does not end a term by itself, and the next election begins a term of its own.
func TestTermsFollowOneAnother(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	terms := make(chan string, 100)
	o := func(name string) carrier.Options {
		return carrier.Options{Name: name, OnTerm: func(ctx context.Context, term carrier.Term) {
			if term.Shard.Number() != db.Of(topic).Number() {
				return
			}
			terms <- fmt.Sprintf("%s %d", name, term.Epoch)
			<-ctx.Done()
		}}
	}
	stopA := run(t, db, o("a"))
	storetest.Is(t, "it", storetest.Receive(t, "a term begins", terms), "a 1")
	run(t, db, o("b"))
	storetest.Eventually(t, "b stands by", func() bool {
		n, err := carrier.Standbys(t.Context(), db.Of(topic))
		return err == nil && n == 1
	})
	stopA()
	storetest.Is(t, "it", storetest.Receive(t, "a term begins", terms), "b 2")
}

// A death is published to programs of any language: id, reason and attempts.
func TestDeathsByTheCarrierArePublished(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	channel, of := db.KeysOf(topic).Death(topic), ""
	if storetest.Shards() > 1 { // the channel is of all topics
		channel, of = db.KeysOf(topic).Deaths(), `"topic":"orders",`
	}
	told := subscribe(t, db, channel)
	m := later("a \"quoted\"", 0)
	if _, err := storetest.Publisher(t, db).Publish(t.Context(), m); !errors.Is(err, notify.ErrInvalid) {
		t.Fatal(err)
	}
	expires := later("a", 0)
	expires.TTL = time.Millisecond
	storetest.Publish(t, db, expires)
	do(t, db, "ZADD", db.KeysOf(topic).Broadcasts(), 1, "orders:lost")
	run(t, db, carrier.Options{})
	heard := map[string]bool{}
	for range 2 {
		heard[storetest.Receive(t, "a death", told).Payload] = true
	}
	for _, want := range []string{
		`{` + of + `"id":"a","reason":"expired","attempts":0}`, `{` + of + `"id":"lost","reason":"record is missing","attempts":0}`,
	} {
		found := false
		for got := range heard {
			found = found || sameJSON(t, got, want)
		}
		if !found {
			t.Errorf("%s was not told; told were %v", want, heard)
		}
	}
}

// The next thing that is due may be a broadcast.
func TestLookReportsTheNextBroadcast(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, all(topic, "1", time.Hour), later("m", 2*time.Hour))
	if next := look(t, db).Next; time.Until(next) > 90*time.Minute || time.Until(next) < 50*time.Minute {
		t.Errorf("next is %v", next)
	}
}

func TestBadKeeping(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for _, test := range []struct {
		field, want string
		o           carrier.Options
	}{
		{"keep_count", "count of broadcasts to keep -1", carrier.Options{KeepCount: -1}},
		{"keep_count", "count of broadcasts to keep 10000001", carrier.Options{KeepCount: carrier.MaxKeepCount + 1}},
		{"keep_age", "age of broadcasts to keep 1ms", carrier.Options{KeepAge: time.Millisecond}},
		{"keep_age", "age of broadcasts to keep -1s", carrier.Options{KeepAge: -time.Second}},
		{"keep_age", "age of broadcasts to keep", carrier.Options{KeepAge: carrier.MaxKeepAge + 1}},
		{"keep_dead_count", "count of dead letters to keep -1", carrier.Options{KeepDeadCount: -1}},
		{"keep_dead_age", "age of dead letters to keep 1ms", carrier.Options{KeepDeadAge: time.Millisecond}},
		{"keep_topics", "time to remember topics -1s", carrier.Options{KeepTopics: -time.Second}},
		{"sweep", "pause of the housekeeping 2h", carrier.Options{Sweep: 2 * time.Hour}},
	} {
		wantFault(t, db, test.o, test.field, test.want)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	storetest.Must(t, errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)))
	return gocmp.Equal(x, y)
}
