package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// firstDue returns when the first attempt of a message is due.
func firstDue(t testing.TB, pub client, id string) time.Time {
	t.Helper()
	info, err := pub.Inspect(t.Context(), topic, id)
	if err != nil || info.Fault != nil {
		t.Fatal(err, info.Fault)
	}
	return info.FirstDue
}

// A course is what happens to one message, whose id is a.
type course struct {
	t     *testing.T
	store *notify.Store
	pub   client
	work  *subscribers.Claimer
	has   subscribers.Delivery // what was claimed last
}

func newCourse(t *testing.T) *course {
	pub, db := open(t)
	return &course{t: t, store: db, pub: pub, work: subscriberstest.Claimer(t, db)}
}

// publish publishes the message.
func (c *course) publish(m notify.Message) notify.Publication {
	c.t.Helper()
	m.Topic, m.ID, m.Body = topic, "a", []byte("x")
	return publish(c.t, c.pub, m)
}

// reschedule gives the message another due time.
func (c *course) reschedule(delay time.Duration, due time.Time) notify.Publication {
	c.t.Helper()
	p, err := c.pub.reschedule(c.t.Context(), topic, "a", delay, due)
	storetest.Must(c.t, err)
	return p
}

// claim claims the message when it is ready, and checks what the delivery says of it.
func (c *course) claim(lease time.Duration, first time.Time) {
	c.t.Helper()
	storetest.Eventually(c.t, "it is claimed", func() bool {
		ds, err := c.work.Claim(c.t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: lease})
		storetest.Must(c.t, err)
		if len(ds) == 1 {
			c.has = ds[0]
		}
		return len(ds) == 1
	})
	if !c.has.FirstDue.Equal(first) {
		c.t.Errorf("attempt %d, due %v, was first due %v; want %v", c.has.Attempt, c.has.Due, c.has.FirstDue, first)
	}
}

// nack rejects the message.
func (c *course) nack() {
	c.t.Helper()
	storetest.Must(c.t, storetest.ErrOf(c.has.Nack(c.t.Context(), time.Millisecond, "not now")))
}

// want checks what Inspect returns of the message.
func (c *course) want(what string, first time.Time) {
	c.t.Helper()
	if got := firstDue(c.t, c.pub, "a"); !got.Equal(first) {
		c.t.Errorf("%s: first due %v, want %v", what, got, first)
	}
}

// A retry is due later than the first attempt was, and does not change FirstDue.
func TestFirstDue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		m    notify.Message
	}{
		{"at once", notify.Message{}},
		{"by a delay", notify.Message{Delay: 20 * time.Millisecond}},
		{"at a time", notify.Message{Due: time.Now().Add(20 * time.Millisecond)}},
		{"in the past", notify.Message{Due: past}},
		{"with all that a record holds", notify.Message{Delay: 20 * time.Millisecond, TTL: anHour, MaxAttempts: 9, Headers: map[string]string{"k": "v"}, ContentType: "a/b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCourse(t)
			carry(t, c.store)
			first := c.publish(test.m).Due
			c.want("published", first)
			c.claim(anHour, first)
			c.nack()
			c.want("nacked", first)
			c.claim(record.MinLease, first)
			c.claim(anHour, first) // when the lease has ended
			if c.has.Attempt != 3 || !c.has.Due.After(first) {
				t.Errorf("attempt %d, due %v, after one that was due %v", c.has.Attempt, c.has.Due, first)
			}
			storetest.Must(t, storetest.ErrOf(c.work.ReleaseMany(t.Context(), topic, []subscribers.Delivery{c.has})))
			c.want("released", first)
			c.claim(anHour, first)
		})
	}
}

// A message with a due time in the past is first due when it is published, not before.
func TestFirstDueInThePast(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	c.publish(notify.Message{Due: past})
	info, err := c.pub.Inspect(t.Context(), topic, "a")
	if err != nil || !info.FirstDue.Equal(info.Published) {
		t.Errorf("first due %v, published %v, %v", info.FirstDue, info.Published, err)
	}
}

// A message without an attempt is first due when it was rescheduled to; one that used up
// an attempt keeps its first due time.
func TestFirstDueRescheduled(t *testing.T) {
	t.Parallel()
	for _, m := range []notify.Message{{}, {Delay: anHour}, {MaxAttempts: 5}, {Delay: anHour, ContentType: "a/b", Headers: map[string]string{"k": "v"}}} {
		c := newCourse(t)
		c.publish(m)
		c.want("later", c.reschedule(2*anHour, time.Time{}).Due)
		c.want("earlier", c.reschedule(anHour, time.Time{}).Due)
		c.want("at a time", c.reschedule(0, future).Due)
		first := c.reschedule(0, past).Due
		c.want("in the past", first)
		c.claim(anHour, first)
		storetest.Must(t, storetest.ErrOf(c.work.ReleaseMany(t.Context(), topic, []subscribers.Delivery{c.has})))
		first = c.reschedule(0, time.Time{}).Due
		c.claim(anHour, first) // released, it had used up none
		c.nack()
		c.reschedule(anHour, time.Time{})
		c.want("later, after an attempt", first)
		c.reschedule(0, past)
		c.claim(anHour, first)
		info, err := c.pub.Inspect(t.Context(), topic, "a")
		if err != nil || info.ContentType != m.ContentType || info.MaxAttempts != m.MaxAttempts || string(info.Body) != "x" || !cmp.Equal(info.Headers, m.Headers) {
			t.Errorf("it is %+v, %v; published was %+v", info, err, m)
		}
	}
}

// A requeued dead letter has a new first due time.
func TestFirstDueRequeued(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	first := c.publish(notify.Message{TTL: anHour}).Due
	c.claim(anHour, first)
	storetest.Must(t, storetest.ErrOf(c.has.Bury(t.Context(), "no use")))
	c.want("dead", first)
	storetest.Eventually(t, "the clock of Redis goes on", func() bool { return redisTime(t, c.store).Sub(first) > 2*time.Millisecond })
	if n, err := storetest.Inspector(t, c.store).Requeue(t.Context(), topic, "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	info, err := c.pub.Inspect(t.Context(), topic, "a")
	if err != nil || !info.FirstDue.Equal(info.Due) || !info.FirstDue.After(first) {
		t.Errorf("first due %v, due %v, %v; it was %v", info.FirstDue, info.Due, err, first)
	}
	c.claim(anHour, info.Due)
}

// If Redis's clock was set back since a publish, no first due time is before the
// publish: records hold no negative number.
func TestFirstDueBeforeThePublish(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	c.publish(notify.Message{})
	raw := notify.EncodeTimes(future, future) + ",{\"attempts\":3}\nx"
	write := func() {
		c.store.Client().HSet(t.Context(), c.store.KeysOf(topic).Messages(), record.Member(topic, "a"), raw)
	}
	read := func(what string) {
		t.Helper()
		got, err := c.store.Client().HGet(t.Context(), c.store.KeysOf(topic).Messages(), record.Member(topic, "a")).Result()
		if err != nil || got != raw {
			t.Errorf("%s: the record is %q, %v; want %q", what, got, err, raw)
		}
	}
	write()
	c.reschedule(0, time.Time{})
	read("rescheduled")
	bury(t, c.store, 1)
	write()
	if n, err := storetest.Inspector(t, c.store).Requeue(t.Context(), topic, "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	read("requeued")
}

// Broadcasts have no first due time, only a due time.
func TestFirstDueOfBroadcasts(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	c.publish(notify.Message{Broadcast: true, Delay: anHour})
	c.want("published", time.Time{})
	c.reschedule(2*anHour, time.Time{})
	c.want("rescheduled", time.Time{})
}

// An export restores first due times, and a line without one gets the best guess.
func TestFirstDueRestored(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	first := c.publish(notify.Message{Delay: anHour}).Due
	raw, err := c.store.Client().HGet(t.Context(), c.store.KeysOf(topic).Messages(), record.Member(topic, "a")).Result()
	storetest.Must(t, err)
	c.store.Client().HSet(t.Context(), c.store.KeysOf(topic).Attempts(), record.Member(topic, "a"), 1)
	c.reschedule(2*anHour, time.Time{}) // as a retry is
	lines, _ := export(t, c.store)
	other := newCourse(t)
	wantRestored(t, other.store, lines)
	other.want("restored", first)
	if got := other.store.Client().HGet(t.Context(), other.store.KeysOf(topic).Messages(), record.Member(topic, "a")).Val(); got != raw {
		t.Errorf("the record is %q, want %q", got, raw)
	}

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
		c := newCourse(t)
		wantRestored(t, c.store, line(rest))
		c.want(rest, want)
	}
}

// A record whose first line is broken is an ErrRecord; no script moves it on or
// overwrites it.
func TestFirstDueOfForeignRecords(t *testing.T) {
	t.Parallel()
	for _, raw := range badRecords {
		c := newCourse(t)
		c.publish(notify.Message{Delay: anHour})
		key, member := c.store.KeysOf(topic).Messages(), record.Member(topic, "a")
		storetest.Must(t, c.store.Client().HSet(t.Context(), key, member, raw).Err())
		c.reschedule(0, time.Time{})
		got := c.store.Client().HGet(t.Context(), key, member).Val()
		if _, err := record.Decode(got); err == nil && strings.Contains(raw, "\n") {
			t.Errorf("%q became %q", raw, got)
		}
		if ds, err := c.work.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: anHour}); len(ds) != 0 || err != nil {
			t.Errorf("%q is claimed as %+v, %v", raw, ds, err)
		}
		if n, err := storetest.Inspector(t, c.store).Requeue(t.Context(), topic, "a"); n != 1 || err != nil {
			t.Errorf("%q: requeued %d, %v", raw, n, err)
		}
	}
}

// A foreign record of very many digits holds up nothing.
func TestRecordOfDigits(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", time.Time{}))
	do(t, db, []any{"HSET", db.KeysOf(topic).Messages(), record.Member(topic, "a"), strings.Repeat("1", 200_000)})
	if ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) != 0 {
		t.Errorf("claimed %d, %v", len(ds), err)
	}
	wantCounts(t, pub, notify.Counts{Dead: 1, Published: 1, Died: 1})
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
