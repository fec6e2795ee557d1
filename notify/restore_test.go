package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// export exports a store, and returns the lines, sorted.
func export(t testing.TB, db *notify.Store) ([]string, notify.Exported) {
	t.Helper()
	var out bytes.Buffer
	sum, err := clientOf(t, db).Export(t.Context(), &out, nil)
	storetest.Must(t, err)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if out.Len() == 0 {
		lines = nil
	}
	slices.Sort(lines)
	if len(lines) != sum.Total() {
		t.Errorf("%d lines of %+v", len(lines), sum)
	}
	return lines, sum
}

// restore publishes lines of an export.
func restore(t testing.TB, db *notify.Store, lines []string) []notify.Result {
	t.Helper()
	var messages []notify.Message
	for _, line := range lines {
		m, err := notify.ParseExported([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		messages = append(messages, m)
	}
	return storetest.Publisher(t, db, notify.PublisherOptions{MaxBody: largest}).PublishMany(t.Context(), messages)
}

// largest is the size of bodies of which few fill a reply.
const largest = 512 << 10

// wantRestored restores lines, all of which must be accepted.
func wantRestored(t testing.TB, db *notify.Store, lines []string) {
	t.Helper()
	for _, r := range restore(t, db, lines) {
		storetest.Must(t, r.Err)
	}
}

// messagesOf returns what a store holds of messages, without counts and what the carrier
// removes later, such as the expiries of dead letters.
func messagesOf(t testing.TB, db *notify.Store) map[string]any {
	t.Helper()
	all := dump(t, db)
	maps.DeleteFunc(all, func(key string, _ any) bool {
		name, _, _ := strings.Cut(key, " of shard ")
		return slices.Contains([]string{"topics", "topics-seen", "topics-names"}, name)
	})
	dead := make(map[any]bool)
	for key, content := range all {
		if strings.HasPrefix(key, "dead:") {
			for _, member := range content.([]redis.Z) {
				dead[member.Member] = true
			}
		}
	}
	for key, content := range all {
		if !strings.HasPrefix(key, "expiries") {
			continue
		}
		all[key] = slices.DeleteFunc(content.([]redis.Z), func(z redis.Z) bool { return dead[z.Member] })
		if len(all[key].([]redis.Z)) == 0 {
			delete(all, key)
		}
	}
	return all
}

// everyKind publishes messages of every kind, but no leased one.
func everyKind(t testing.TB, db *notify.Store) {
	t.Helper()
	claimer := subscriberstest.Claimer(t, db)
	full := func(topic, id string, due time.Time) notify.Message {
		return notify.Message{
			Topic: topic, ID: id, Body: []byte("<body>\n\u2028"), Due: due, TTL: 90 * time.Second, MaxAttempts: 7,
			ContentType: "text/plain", Headers: map[string]string{"X-B": "<2>", "X-A": "ä"},
		}
	}
	now := redisTime(t, db).Add(-time.Second)
	storetest.Publish(t, db,
		full("scheduled.full", "a:b~._-", future), notify.Message{Topic: "scheduled", ID: "binary", Body: []byte{0, 0xff, '\n', '{'}, Due: future},
		full("ready.full", "a", now), notify.Message{Topic: "ready", ID: "past", Body: []byte("x"), Due: past},
		notify.Message{Topic: "prices", ID: "b", Body: []byte("42"), Broadcast: true, Due: future, Headers: map[string]string{"k": "v"}, ContentType: "a/b"},
		notify.Message{Topic: "scheduled", ID: "signal", Due: future}, notify.Message{Topic: "prices", ID: "signal", Broadcast: true, Due: future},
		notify.Message{Topic: "scheduled", ID: "last", Body: []byte("x"), Due: record.MaxDue, TTL: anHour},
	)
	hand := func(m notify.Message, settle func(d subscribers.Delivery) error) {
		t.Helper()
		storetest.Publish(t, db, m)
		ds, err := claimer.Claim(t.Context(), m.Topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(ds) != 1 {
			t.Fatal(len(ds), err)
		}
		storetest.Must(t, settle(ds[0]))
	}
	nack := func(delay time.Duration, reason string) func(subscribers.Delivery) error {
		return func(d subscribers.Delivery) error { return storetest.ErrOf(d.Nack(t.Context(), delay, reason)) }
	}
	bury := func(d subscribers.Delivery) error { return storetest.ErrOf(d.Bury(t.Context(), "a \"reason\" <ä>\n")) }
	hand(full("again", "a", now), nack(time.Hour, "no"))
	hand(full("buried", "a", time.Time{}), bury)
	hand(notify.Message{Topic: "buried", ID: "b", Body: []byte("x")}, bury)
	hand(notify.Message{Topic: "buried", ID: "signal"}, bury)
	hand(notify.Message{Topic: "exhausted", ID: "a", Body: []byte("x"), MaxAttempts: 1}, nack(0, strings.Repeat("ä", 2000)))
	storetest.Publish(t, db, notify.Message{Topic: "expired", ID: "a", Body: []byte("x"), Due: past, TTL: time.Second})
	if ds, err := claimer.Claim(t.Context(), "expired", subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) != 0 {
		t.Fatal(ds, err) // it is buried instead
	}
}

// wantSame checks that two stores hold the same. It names only the keys that differ: to
// print a whole difference would take a minute.
func wantSame(t testing.TB, want, got map[string]any) {
	t.Helper()
	if len(want) == 0 {
		t.Error("there is nothing to compare")
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(want[key], got[key]) {
			t.Errorf("%s holds %.300q, want %.300q", key, fmt.Sprint(got[key]), fmt.Sprint(want[key]))
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("key %s is there, and should not be", key)
		}
	}
}

// A store restored from an export holds the same, to the last key.
func TestRestore(t *testing.T) {
	t.Parallel()
	from, to := storetest.Open(t), storetest.Open(t)
	everyKind(t, from)
	var many []notify.Message
	for i := range 10_000 {
		many = append(many, notify.Message{Topic: fmt.Sprint("many.", i%200), ID: fmt.Sprint(i), Body: []byte("x"), Due: future.Add(time.Duration(i) * time.Second)})
	}
	storetest.Publish(t, from, many...)
	before := messagesOf(t, from)
	lines, sum := export(t, from)
	storetest.Same(t, "exported", notify.Exported{Scheduled: 10_000 + 4 + 1, Ready: 2, Dead: 5, Broadcasts: 2}, sum)
	wantSame(t, before, messagesOf(t, from)) // the export changes nothing
	deaths := recording(t, to, deathChannel(to, "buried"), deathChannel(to, "exhausted"))
	wantRestored(t, to, lines)
	wantSame(t, before, messagesOf(t, to))
	if got := deaths.recorded(); len(got) != 0 {
		t.Errorf("deaths were announced: %q", got)
	}
	again, _ := export(t, to)
	if !slices.Equal(lines, again) {
		t.Error("what was restored is exported as something else")
	}
	storetest.Heads(t, to)

	for _, r := range restore(t, to, lines) { // once more
		if !errors.Is(r.Err, notify.ErrExists) {
			t.Fatalf("%s: %v, want ErrExists", r.ID, r.Err)
		}
	}
	wantSame(t, before, messagesOf(t, to))
}

// deathChannel returns the channel that tells programs of any language of deaths in a
// topic.
func deathChannel(db *notify.Store, topic string) string {
	if len(db.KeysOfAll()) > 1 {
		return db.KeysOf(topic).Deaths()
	}
	return db.Keys().Death(topic)
}

// Large messages fill several replies of one page.
func TestRestoreLarge(t *testing.T) {
	t.Parallel()
	from, to := storetest.Open(t), storetest.Open(t)
	large := make([]notify.Message, 20)
	for i := range large {
		large[i] = message(fmt.Sprint(i), future)
		large[i].Body = bytes.Repeat([]byte{byte('A' + i)}, largest)
	}
	for _, r := range storetest.Publisher(t, from, notify.PublisherOptions{MaxBody: largest}).PublishMany(t.Context(), large) {
		storetest.Must(t, r.Err)
	}
	lines, _ := export(t, from)
	wantRestored(t, to, lines)
	wantSame(t, messagesOf(t, from), messagesOf(t, to))
}

// A restored dead letter counts as present, not as one more death.
func TestRestoredCounts(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	wantRestored(t, db, []string{
		`{"topic":"order.timeout","id":"a","body":"x","restore":{"died":"2020-01-01T00:00:00Z","reason":"r","attempts_used":3}}`,
		`{"topic":"order.timeout","id":"b","body":"x","restore":{"died":"2020-01-01T00:00:00Z"}}`,
		`{"topic":"order.timeout","id":"c","body":"x","due":"2199-01-01T00:00:00Z","restore":{}}`,
	})
	wantCounts(t, pub, notify.Counts{Scheduled: 1, Dead: 2, Published: 3})
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); err != nil || n != 2 {
		t.Errorf("requeued %d, %v", n, err)
	}
	wantCounts(t, pub, notify.Counts{Scheduled: 1, Ready: 2, Published: 3})
}

// The attempts used up, and the time at which a message expires, are restored.
func TestRestoredAttempts(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	wantRestored(t, db, []string{`{"topic":"order.timeout","id":"a","attempts":3,"ttl":"1h","due":"2001-01-01T00:00:00Z","body":"x",` +
		`"restore":{"published":"2000-01-01T00:00:00Z","attempts_used":2,"expires":"2198-01-01T00:00:00Z"}}`})
	d := claim(t, db, 1)[0]
	if d.Attempt != 3 || d.Published.UTC().Year() != 2000 || d.Due.UTC().Year() != 2001 || d.TTL != anHour {
		t.Errorf("got %+v", d)
	}
	outcome, err := d.Nack(t.Context(), 0, "again")
	if err != nil || outcome.State != notify.Dead {
		t.Errorf("it is %v, %v; want it to be out of attempts", outcome.State, err)
	}
}

// A leased message is exported as due when its lease ends, with the attempts that were
// used up before.
func TestExportLeased(t *testing.T) {
	t.Parallel()
	pub, from := open(t)
	to := storetest.Open(t)
	publish(t, pub, message("a", past))
	d := claim(t, from, 1)[0]
	storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "again")))
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "a", 0)))
	claim(t, from, 1)
	leased, err := pub.Inspect(t.Context(), topic, "a")
	storetest.Must(t, err)
	lines, sum := export(t, from)
	if sum.Leased != 1 || sum.Total() != 1 {
		t.Errorf("exported %+v", sum)
	}
	wantRestored(t, to, lines)
	info, err := clientOf(t, to).Inspect(t.Context(), topic, "a")
	if late := info.Due.Sub(leased.Until); err != nil || info.State != notify.Scheduled || late < 0 || late >= time.Millisecond || info.Attempts != 1 {
		t.Errorf("got %+v, %v; want it due at %v with an attempt used up", info, err, leased.Until)
	}
	again, _ := export(t, to)
	storetest.Same(t, "exported again", lines, again)
}

// Messages that are out of place or unreadable are exported as well as possible, or
// counted.
func TestExportDamages(t *testing.T) {
	t.Parallel()
	pub, from := open(t)
	ctx, client, keys := t.Context(), from.Client(), from.KeysOf(topic)
	publish(t, pub, message("lost", future))
	publish(t, pub, message("unreadable", future))
	publish(t, pub, message("never", future))
	client.ZRem(ctx, keys.Scheduled(topic), record.Member(topic, "lost"))
	client.ZAdd(ctx, keys.Scheduled(topic), redis.Z{Score: 1e300, Member: record.Member(topic, "never")})
	client.HSet(ctx, keys.Messages(), record.Member(topic, "unreadable"), "no record")
	client.HSet(ctx, keys.Messages(), "no topic", "x", "a b:c", "x", "a:b c", "x", record.Member(topic, "empty"), "")
	for _, paused := range []string{"b", "a.c"} {
		storetest.Must(t, pub.Pause(ctx, paused))
	}
	client.HSet(ctx, keys.Attempts(), record.Member(topic, "never"), "foreign")
	client.Set(ctx, keys.Deaths(), "foreign", 0)
	lines, sum := export(t, from)
	want := notify.Exported{Scheduled: 2, Dead: 1, Unplaced: 1, LeftOut: 4, Paused: []string{"a.c", "b"}}
	storetest.Same(t, "exported", want, sum)
	to := storetest.Open(t)
	wantRestored(t, to, lines)
	looked := clientOf(t, to)
	for id, want := range map[string]notify.State{"lost": notify.Scheduled, "unreadable": notify.Dead, "never": notify.Scheduled} {
		storetest.Is(t, fmt.Sprintf("%s is", id), stateOf(t, looked, id), want)
	}
	if info, err := looked.Inspect(ctx, topic, "unreadable"); err != nil || string(info.Body) != "no record" || !strings.Contains(info.Reason, "unreadable record") {
		t.Errorf("got %+v, %v", info, err)
	}
}

// What tells of deaths is not exported, whatever a page has room for.
func TestExportWithoutDeathNotes(t *testing.T) {
	t.Parallel()
	const n = 30
	_, db := open(t)
	pub, err := notify.NewPublisher(db, notify.PublisherOptions{MaxBody: 1 << 20})
	storetest.Must(t, err)
	if _, _, err := db.Of(topic).Register(t.Context(), "mourner", store.Registration{Pattern: "$dead." + topic, From: "now"}); err != nil {
		t.Fatal(err)
	}
	claimer := subscriberstest.Claimer(t, db)
	for range n {
		m := message("", past)
		m.Body = bytes.Repeat([]byte("x"), 1<<20) // so that some are read by themselves
		storetest.Must(t, storetest.ErrOf(pub.Publish(t.Context(), m)))
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "no")))
	}
	if c, err := storetest.Count(db, record.DeadPrefix+topic); err != nil || c.Broadcasts != n {
		t.Fatalf("of deaths there are %+v, %v", c, err)
	}
	if _, sum := export(t, db); sum.Dead != n || sum.Total() != n {
		t.Errorf("exported %+v", sum)
	}
}

// A message that moves from place to place during an export is exported.
func TestExportWhileMessagesMove(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	messages := make([]notify.Message, 3000)
	for i := range messages {
		messages[i] = message(fmt.Sprint(i), past)
	}
	storetest.Publish(t, db, messages...)
	pub := clientOf(t, db)
	stop := storetest.Run(t, func(ctx context.Context) error { return shuffle(ctx, pub, db) })
	for range 5 {
		lines, _ := export(t, db)
		ids := make(map[string]bool)
		for _, line := range lines {
			m, err := notify.ParseExported([]byte(line))
			storetest.Must(t, err)
			ids[m.ID] = true
		}
		if len(ids) != len(messages) {
			t.Errorf("exported %d messages of %d", len(ids), len(messages))
		}
	}
	stop()
}

// shuffle moves messages of the topic until ctx ends: to leases, back to ready, to the
// scheduled set, and to the dead letters and back.
func shuffle(ctx context.Context, pub client, db *notify.Store) error {
	claimer, err := subscribers.NewClaimer(db)
	if err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		ds, err := claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 50, Lease: time.Hour})
		if err != nil {
			break
		}
		for _, d := range ds[:min(len(ds), 10)] {
			_, _ = d.Bury(ctx, "moved")
			_, _ = pub.Requeue(ctx, topic, d.ID)
		}
		for _, d := range ds[min(len(ds), 10):] {
			_, _ = claimer.ReleaseMany(ctx, topic, []subscribers.Delivery{d})
			_, _ = pub.RescheduleAt(ctx, topic, d.ID, future)
			_, _ = pub.RescheduleAt(ctx, topic, d.ID, past.Add(time.Duration(i)*time.Second))
		}
	}
	return nil
}

// Lines that no export wrote change nothing, and the error names the field.
func TestBadRestore(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	base := `"topic":"order.timeout","body":"x"`
	due := `,"id":"a","due":"2199-01-01T00:00:00Z"`
	died := `,"id":"a","restore":{"died":"2020-01-01T00:00:00Z"`
	for _, test := range []struct{ rest, field string }{
		{`,"due":"2199-01-01T00:00:00Z","restore":{}`, "restore"},
		{`,"id":"a","restore":{}`, "due"},
		{`,"id":"a","delay":"1h","restore":{}`, "delay"},
		{`,"id":"a","delay":"1h","restore":{"died":"2020-01-01T00:00:00Z"}`, "delay"},
		{due + `,"restore":{"died":"2020-01-01T00:00:00Z"}`, "due"},
		{due + `,"restore":{"attempts_used":-1}`, "restore.attempts_used"},
		{due + `,"restore":{"attempts_used":1000001}`, "restore.attempts_used"},
		{due + `,"restore":{"attempts_used":1e300}`, "line"},
		{due + `,"restore":{"attempts_used":"3"}`, "line: restore.attempts_used is a JSON string, and should be a whole number"},
		{due + `,"restore":"yes"`, "line: restore is a JSON string, and should be an object"},
		{due + `,"restore":{"place":"ready"}`, "line"},
		{due + `,"mode":"broadcast","restore":{"attempts_used":1}`, "restore.attempts_used"},
		{due + `,"mode":"broadcast","ttl":"1h","restore":{"expires":"2199-01-01T00:00:00Z"}`, "restore.expires"},
		{due + `,"restore":{"expires":"2199-01-01T00:00:00Z"}`, "restore.expires"},
		{due + `,"ttl":"1h","restore":{"expires":"1969-01-01T00:00:00Z"}`, "restore.expires"},
		{due + `,"restore":{"published":"1969-01-01T00:00:00Z"}`, "restore.published"},
		{due + `,"restore":{"published":"yesterday"}`, "line"},
		{due + `,"restore":{"reason":"none"}`, "restore.reason"},
		{died + `,"attempts_used":-1}`, "restore.attempts_used"},
		{died + `,"expires":"2199-01-01T00:00:00Z"},"ttl":"1h"`, "restore.expires"},
		{died + `,"reason":"` + strings.Repeat("x", 1025) + `"}`, "restore.reason"},
		{`,"id":"a","restore":{"died":"9999-12-31T23:59:59-10:00"}`, "restore.died"},
		{`,"id":"a","restore":{"died":"0000-01-01T00:00:00Z"}`, "restore.died"},
	} {
		unchanged(t, db, func() {
			m, err := notify.ParseExported([]byte("{" + base + test.rest + "}"))
			if err == nil {
				_, err = pub.Publish(t.Context(), m)
			}
			wantInvalid(t, err, test.field)
		})
	}
	_, err := notify.ParseLine([]byte("{" + base + died + "}}"))
	wantInvalid(t, err, "restore: it is part of an export")
}

// If the dead letters of a topic are foreign, its dead letters are refused, and all else
// of a batch is restored.
func TestRestoreBesideForeignDeadLetters(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	db.Client().Set(t.Context(), db.KeysOf("bad").Dead("bad"), "foreign", 0)
	line := `{"topic":"%s","id":"a","body":"x","restore":{"died":"2020-01-01T00:00:00Z","attempts_used":3}}`
	results := restore(t, db, []string{fmt.Sprintf(line, "bad"), fmt.Sprintf(line, topic)})
	if err := results[0].Err; err == nil || !strings.Contains(err.Error(), "dead letters of the topic are foreign") {
		t.Errorf("got %v", err)
	}
	if r := results[1]; r.Err != nil || r.State != notify.Dead {
		t.Errorf("got %+v", r)
	}
	storetest.Fails(t, "it is there", storetest.ErrOf(pub.Inspect(t.Context(), "bad", "a")), notify.ErrNotFound)
}

// Where a page of an export ends is known to the process of Redis alone that read it: after a restart the export would lack messages.
func TestExportOverARestart(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "others are read while Redis restarts")
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	db := storetest.Unhurried(storetest.At(t, server.URL(), "test"))
	pub := clientOf(t, db)
	const n = 1000
	for i := range n {
		publish(t, pub, notify.Message{Topic: "orders", ID: fmt.Sprint(i), Body: bytes.Repeat([]byte("x"), 100), Delay: time.Hour})
	}
	out := &restarting{Buffer: new(bytes.Buffer), restart: func() {
		server.Kill()
		storetest.Restart(t, server)
	}}
	if sum, err := pub.Export(t.Context(), out, nil); err == nil || !strings.Contains(err.Error(), "export again") {
		t.Errorf("exported %+v, %v", sum, err)
	}
	if lines, _ := export(t, db); len(lines) != n {
		t.Errorf("exported %d of %d", len(lines), n)
	}
}

// restarting restarts Redis before it takes the first line.
type restarting struct {
	*bytes.Buffer
	restart func()
}

func (r *restarting) Write(line []byte) (int, error) {
	if r.Len() == 0 {
		r.restart()
	}
	return r.Buffer.Write(line)
}

// An export ends with its context, and with its reader.
func TestExportIsCut(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", future))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Fails(t, "it", storetest.ErrOf(pub.Export(ctx, io.Discard, nil)), context.Canceled)
	out, in := io.Pipe()
	out.CloseWithError(errors.New("disk full"))
	if _, err := pub.Export(t.Context(), in, nil); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
	unchanged(t, db, func() { _, _ = pub.Export(t.Context(), io.Discard, nil) })
}

// The export of a published line restores the same message.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"topic":"a","id":"b","due":"2099-01-02T03:04:05Z","ttl":"1h","attempts":3,"body":"x","restore":{"attempts_used":2,"published":"2000-01-01T00:00:00Z","expires":"2100-01-01T00:00:00Z"}}`))
	f.Add([]byte(`{"topic":"a","id":"b","body":"x","restore":{"died":"2000-01-01T00:00:00Z","reason":"r"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := notify.ParseExported(raw)
		if err != nil {
			if !errors.Is(err, notify.ErrInvalid) {
				t.Errorf("%v is no ErrInvalid", err)
			}
			return
		}
		if m.Restore == nil || m.Check() != nil {
			return
		}
		if told := notify.RestoredOf(&m); !json.Valid([]byte(told)) {
			t.Errorf("%q is told as %q", raw, told)
		}
	})
}
