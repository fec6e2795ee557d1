package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A retry is due later than the first attempt was, and does not change FirstDue.
func TestFirstDue(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== at once
	publish a
	has a first_due=due due=now
	note a
	claim 1 = a
== by a delay
	publish a delay=20ms
	has a first_due=due due=now+20ms
	note a
	pass 22ms
	carry
	claim 1 = a
== at a time
	publish a delay=1h
	reschedule a due=2199-01-02T03:04:05.678Z = scheduled
	has a first_due=due due=future
	reschedule a delay=0s = ready
	has a first_due=due
	note a
	claim 1 = a
== in the past
	publish a due=past
	has a first_due=published
	note a
	claim 1 = a
== with all that a record holds
	publish a delay=1h ttl=1h attempts=9 content_type=a/b
	reschedule a delay=0s = ready
	has a first_due=due
	note a
	claim 1 = a
==
	nack a delay=1ms
	has a first_due=noted
	pass 3ms
	carry
	claim 1 = a:1
	has a first_due=noted
	lapse a
	carry
	claim 1 = a:2
	has a first_due=noted
	release a
	has a first_due=noted
	claim 1 = a:2
	has a first_due=noted
	`)
}

// A message without an attempt is first due when it was rescheduled to; one that used up
// an attempt keeps its first due time.
func TestFirstDueRescheduled(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== at once
	publish a
== later
	publish a delay=1h
== with a limit
	publish a attempts=5
== with all that a record holds
	publish a delay=1h content_type=a/b attempts=5
==
	note a
	reschedule a delay=2h = scheduled
	has a first_due=due due=now+2h published=noted
	reschedule a delay=1h = scheduled
	has a first_due=due due=now+1h
	reschedule a due=future = scheduled
	has a first_due=due due=future
	reschedule a due=past = ready
	has a first_due=due due=now
	claim 1 = a
	release a                           # it had used up none
	reschedule a delay=0s = ready
	has a first_due=due due=now
	note a
	claim 1 = a
	nack a delay=1h
	reschedule a delay=2h = scheduled
	has a first_due=noted
	reschedule a due=past = ready
	has a first_due=noted body="body of a"
	`)
}

// A requeued dead letter has a new first due time.
func TestFirstDueRequeued(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a ttl=1h
	note a
	claim 1 = a
	bury a
	has a first_due=noted
	pass 2ms
	requeue a
	has a first_due=due due=now
	claim 1 = a
	`)
}

// If Redis's clock was set back since a publish, no first due time is before the
// publish: records hold no negative number.
func TestFirstDueBeforeThePublish(t *testing.T) {
	t.Parallel()
	raw := notify.EncodeTimes(future, future) + `,{"attempts":3}` + "\nx"
	s := storetest.Scenario{Topic: topic, Verbs: map[string]func(*storetest.Player, []string) string{
		"write": func(p *storetest.Player, _ []string) string {
			return storetest.Said(p.Store.Client().HSet(p.Context(), p.Shard.Keys().Messages(), record.Member(topic, "a"), raw).Err())
		},
		"read": func(p *storetest.Player, _ []string) string {
			if got := p.Store.Client().HGet(p.Context(), p.Shard.Keys().Messages(), record.Member(topic, "a")).Val(); got != raw {
				return got
			}
			return "ok"
		},
	}}
	storetest.Play(t, `
	publish a
	write
	reschedule a delay=0s = ready
	read
	claim 1 = a
	bury a
	write
	requeue a
	read
	`, s)
}

// Broadcasts have no first due time, only a due time.
func TestFirstDueOfBroadcasts(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a mode=broadcast delay=1h
	has a first_due=none
	reschedule a delay=2h = scheduled
	has a first_due=none
	`)
}

// An export restores first due times, and a line without one gets the best guess.
func TestFirstDueRestored(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	publish a delay=1h
	note a
	redis HSET attempts order.timeout:a 1
	reschedule a delay=2h = scheduled            # as a retry is
	`)
	raw := func() string {
		return p.Store.Client().HGet(t.Context(), p.Shard.Keys().Messages(), record.Member(topic, "a")).Val()
	}
	was := raw()
	lines, _ := export(t, p.Store)
	p.Use(storetest.Open(t))
	wantRestored(t, p.Store, lines)
	p.Play("has a first_due=noted")
	storetest.Is(t, "the record is", raw(), was)

	const published = `"published":"2020-01-01T00:00:00Z"`
	line := func(rest string) []string {
		return []string{`{"topic":"order.timeout","id":"a","body":"",` + rest + `}`}
	}
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		storetest.Must(t, err)
		return when
	}
	for rest, want := range map[string]time.Time{
		`"due":"2199-01-02T03:04:05.678Z","restore":{` + published + `}`:                                                         future,
		`"due":"2199-01-02T03:04:05.678Z","restore":{` + published + `,"first_due":"2021-01-01T00:00:00Z","attempts_used":1}`:    at("2021-01-01T00:00:00Z"),
		`"due":"2199-01-02T03:04:05.678Z","restore":{` + published + `,"first_due":"2019-01-01T00:00:00Z"}`:                      at("2020-01-01T00:00:00Z"),
		`"due":"2199-01-02T03:04:05.678Z","restore":{}`:                                                                          future,
		`"restore":{"died":"2022-01-01T00:00:00Z",` + published + `}`:                                                            at("2020-01-01T00:00:00Z"),
		`"restore":{"died":"2022-01-01T00:00:00Z",` + published + `,"first_due":"2021-01-01T00:00:00Z"}`:                         at("2021-01-01T00:00:00Z"),
		`"mode":"broadcast","due":"2199-01-02T03:04:05.678Z","restore":{` + published + `}`:                                      {},
		`"mode":"broadcast","restore":{"died":"2199-01-01T00:00:00Z"}`:                                                           {},
		`"due":"2199-01-02T03:04:05.678Z","ttl":"1h","restore":{` + published + `,"first_due":"2021-01-01T00:00:00.001Z"}`:       at("2021-01-01T00:00:00.001Z"),
		`"due":"2199-01-02T03:04:05.678Z","restore":{"published":"2300-01-01T00:00:00Z","first_due":"9999-12-31T23:59:59.999Z"}`: record.MaxDue,
	} {
		pub, db := open(t)
		wantRestored(t, db, line(rest))
		if got := inspect(t, pub, "a").FirstDue; !got.Equal(want) {
			t.Errorf("%s: first due %v, want %v", rest, got, want)
		}
	}
}

// A record whose first line is broken is an ErrRecord; no script moves it on or
// overwrites it.
func TestFirstDueOfForeignRecords(t *testing.T) {
	t.Parallel()
	for _, raw := range badRecords {
		p := storetest.NewPlayer(t, scenario())
		p.Play("publish a delay=1h")
		key, member := p.Shard.Keys().Messages(), record.Member(topic, "a")
		storetest.Must(t, p.Store.Client().HSet(t.Context(), key, member, raw).Err())
		p.Play("reschedule a delay=0s = ready")
		got := p.Store.Client().HGet(t.Context(), key, member).Val()
		if _, err := record.Decode(got); err == nil && strings.Contains(raw, "\n") {
			t.Errorf("%q became %q", raw, got)
		}
		p.Play(`
		work = 0 <nil>
		requeue a
		`)
	}
}

// A foreign record of very many digits holds up nothing.
func TestRecordOfDigits(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	redis HSET messages order.timeout:a `+strings.Repeat("1", 200_000)+`
	work = 0 <nil>
	counts dead=1 published=1 died=1
	`, scenario())
}

// Large dead letters are requeued in more than one call.
func TestRequeueOfLargeOnes(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const n = 30
	dead := storetest.Inspector(t, db)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
		m := message(ids[i], time.Time{})
		m.Body = make([]byte, 100<<10)
		publish(t, pub, m)
	}
	bury(t, db, n)
	if done, err := dead.Requeue(t.Context(), topic, append(ids, "none")...); done != n || err != nil {
		t.Errorf("requeued %d by id, %v", done, err)
	}
	bury(t, db, n)
	if done, err := dead.Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); done != n || err != nil {
		t.Errorf("requeued %d of all, %v", done, err)
	}
	wantCounts(t, pub, notify.Counts{Ready: n, Published: n, Died: 2 * n})
}
