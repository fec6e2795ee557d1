package notify_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// debounce returns a publish of the message a that puts it off.
func debounce(body string, delay, maxWait time.Duration) notify.Message {
	return notify.Message{Topic: topic, ID: "a", Body: []byte(body), IfExists: notify.Debounce, Delay: delay, MaxWait: maxWait}
}

// A message is put off by each publish, but not beyond MaxWait after the first; one that
// is due then stays ready, in its place.
func TestDebounce(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	first := publish(t, pub, debounce("1", anHour, 2*anHour))
	info, err := pub.Inspect(t.Context(), topic, "a")
	storetest.Must(t, err)
	published := info.Published
	second := publish(t, pub, debounce("2", 2*anHour, 2*anHour))
	if second.Outcome != notify.Moved || !second.PreviousDue.Equal(first.Due) || !second.Due.Equal(published.Add(2*anHour)) {
		t.Errorf("got %+v after %+v", second, first)
	}
	if third := publish(t, pub, debounce("3", anHour, 0)); third.Due.Before(first.Due) || !third.PreviousDue.Equal(second.Due) {
		t.Errorf("got %+v after %+v", third, second)
	}
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "a", 0)))
	ready := score(t, db, "ready:"+topic, topic+":a")
	storetest.Eventually(t, "its longest wait is over", func() bool { return redisTime(t, db).After(published.Add(2 * time.Millisecond)) })
	stays := publish(t, pub, debounce("4", time.Millisecond, time.Millisecond)) // before that it would leave its place
	if stays.State != notify.Ready || !stays.Due.Equal(ready) || !score(t, db, "ready:"+topic, topic+":a").Equal(ready) || stays.Outcome != notify.Moved {
		t.Errorf("got %+v, and it was ready since %v", stays, ready)
	}
	if d := claim(t, db, 1)[0]; string(d.Body) != "4" || d.Attempt != 1 {
		t.Errorf("claimed %+v", d)
	} else if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	storetest.Empty(t, db)
}

// Of messages that many publishers debounce one is left, with the body of the last.
func TestDebounceByMany(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const publishers, each = 16, 50
	var wg sync.WaitGroup
	for i := range publishers {
		wg.Go(func() {
			for n := range each {
				storetest.Should(t, storetest.ErrOf(pub.Publish(t.Context(), debounce(fmt.Sprint(i, n), anHour, 0))))
			}
		})
	}
	wg.Wait()
	publish(t, pub, debounce("last", anHour, 0))
	if info, err := pub.Inspect(t.Context(), topic, "a"); err != nil || string(info.Body) != "last" {
		t.Errorf("got %+v, %v", info, err)
	}
	wantCounts(t, pub, notify.Counts{Scheduled: 1, Published: 1})
	if n := len(dump(t, db)["messages"].(map[string]string)); n != 1 {
		t.Errorf("there are %d records", n)
	}
}

// An id stays taken after the end of its message, is inspected as done, and is freed by
// a cancel; a message that is purged frees it at once.
func TestUniqueFor(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	start := redisTime(t, db)
	done(t, db, anHour)
	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Done || info.Until.Before(start.Add(anHour)) || info.Until.After(redisTime(t, db).Add(anHour+time.Millisecond)) {
		t.Errorf("got %+v, %v", info, err)
	}
	if sum, err := pub.Survey(t.Context(), 1); err != nil || sum.Messages != 0 {
		t.Errorf("got %+v, %v", sum, err)
	}
	var lines bytes.Buffer
	if e, err := pub.Export(t.Context(), &lines, nil); err != nil || e.Total() != 0 || lines.Len() > 0 {
		t.Errorf("exported %+v, %v: %s", e, err, &lines)
	}
	if _, err := pub.Publish(t.Context(), message("a", future)); !errors.Is(err, notify.ErrExists) {
		t.Errorf("got %v", err)
	}
	if _, err := pub.RescheduleIn(t.Context(), topic, "a", 0); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("rescheduled: %v", err)
	}
	if state, err := pub.Cancel(t.Context(), topic, "a"); state != notify.Done || err != nil {
		t.Errorf("cancelled %v, %v", state, err)
	}
	if _, err := pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("cancelled again: %v", err)
	}
	m := message("a", time.Time{})
	m.UniqueFor = anHour
	publish(t, pub, m)
	bury(t, db, 1)
	if n, err := pub.Purge(t.Context(), topic, "a"); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	storetest.Empty(t, db)
}

// A broadcast keeps its id taken once it is sent.
func TestUniqueBroadcast(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	stop := carry(t, db)
	m := announcement("a", time.Time{})
	m.UniqueFor = anHour
	publish(t, pub, m)
	storetest.Eventually(t, "it is sent", func() bool { return stateOf(t, pub, "a") == notify.Done })
	stop()
	if _, err := pub.Broadcast(t.Context(), m); !errors.Is(err, notify.ErrExists) {
		t.Errorf("got %v", err)
	}
	if c := counts(t, pub); c.Sent != 1 || c.Broadcasts != 0 {
		t.Errorf("counts are %+v", c)
	}
}

// Messages whose time is over are freed by those that end later, by a publish of their
// id, and by the housekeeping.
func TestTakenIsFreed(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	const n = 3000
	var batch []notify.Message
	for i := range n {
		m := message(fmt.Sprint(i), time.Time{})
		m.UniqueFor = time.Millisecond
		batch = append(batch, m)
	}
	storetest.Publish(t, db, batch...)
	for left := n; left > 0; {
		ds := claim(t, db, 500)
		left -= len(ds)
		for _, d := range ds {
			storetest.Must(t, d.Ack(t.Context()))
		}
	}
	if left := db.Client().ZCard(t.Context(), db.KeysOf(topic).Taken()).Val(); left > n/2 {
		t.Errorf("%d of %d ids are taken", left, n)
	}
	keys := db.KeysOf(topic)
	for i := range n { // as if none had been freed
		member := record.Member(topic, fmt.Sprint(i))
		db.Client().HSet(t.Context(), keys.Messages(), member, "=1000")
		db.Client().Do(t.Context(), "zadd", keys.Taken(), 1000, member)
	}
	if p := publish(t, pub, message("7", future)); p.Outcome != notify.Created {
		t.Errorf("got %+v", p)
	}
	storetest.Must(t, db.Client().Set(t.Context(), keys.Carrier(), "1 1 500 me", anHour).Err())
	steps := 0
	for soon := true; soon; steps++ {
		swept, err := db.Of(topic).Sweep(t.Context(), store.Sweep{Token: "1 1 500 me", KeepDeadCount: 10, KeepDeadAge: anHour, KeepTopics: anHour, KeepAge: anHour})
		storetest.Must(t, err)
		soon = swept.Soon
	}
	if steps < n/500 {
		t.Errorf("it was done in %d steps", steps)
	}
	if left := db.Client().Exists(t.Context(), keys.Taken()).Val() + db.Client().HLen(t.Context(), keys.Messages()).Val(); left != 1 {
		t.Errorf("%d are left", left)
	}
}

// What follows is cancelled alone, or with the message once that waits.
func TestCancelNext(t *testing.T) {
	t.Parallel()
	c := follow(t)
	storetest.Should(t, c.pub.CancelNext(t.Context(), topic, "a"))
	if err := c.pub.CancelNext(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
		t.Errorf("cancelled again: %v", err)
	}
	publish(t, c.pub, notify.Message{Topic: topic, ID: "a", Body: []byte("next"), Due: future, Then: notify.After})
	if _, err := c.pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrLeased) {
		t.Errorf("cancelled a leased one: %v", err)
	}
	storetest.Must(t, storetest.ErrOf(c.first.Nack(t.Context(), anHour, "later")))
	if state, err := c.pub.Cancel(t.Context(), topic, "a"); state != notify.Scheduled || err != nil {
		t.Errorf("cancelled %v, %v", state, err)
	}
	c.stop()
	storetest.Empty(t, c.db)
}

// In a batch, messages of one id are published in their order, in whichever way.
func TestBatchKeepsOrder(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	with := func(body string, mode notify.IfExists) notify.Message {
		return notify.Message{Topic: topic, ID: "a", Body: []byte(body), Due: future, IfExists: mode}
	}
	var got []string
	for _, r := range pub.PublishMany(t.Context(), []notify.Message{
		with("1", ""), with("2", notify.Replace), message("b", future), with("3", ""), with("4", notify.Keep), with("5", notify.Replace),
	}) {
		got = append(got, answered(t, r.Publication, r.Err))
	}
	if diff := cmp.Diff("created replaced created exists kept replaced", strings.Join(got, " ")); diff != "" {
		t.Error(diff)
	}
	if info, err := pub.Inspect(t.Context(), topic, "a"); err != nil || string(info.Body) != "5" {
		t.Errorf("got %+v, %v", info, err)
	}
}

// An export has what follows a message, and how long its id stays taken.
func TestExportFollowed(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	m := message("a", time.Time{})
	m.UniqueFor = anHour
	publish(t, pub, m)
	d := claim(t, db, 1)[0]
	next := notify.Message{Topic: topic, ID: "a", Body: []byte("next\xff"), Due: future, Then: notify.After, Lease: time.Minute, UniqueFor: 2 * anHour}
	publish(t, pub, next)
	storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), anHour, "later")))
	var line bytes.Buffer
	storetest.Must(t, storetest.ErrOf(pub.Export(t.Context(), &line, nil)))
	other, copied := open(t)
	restored, err := notify.ParseExported(bytes.TrimSpace(line.Bytes()))
	if err != nil {
		t.Fatalf("%v: %s", err, &line)
	}
	publish(t, other, restored)
	for _, key := range []string{"extras", "messages", "scheduled:" + topic} {
		if diff := cmp.Diff(dump(t, db)[key], dump(t, copied)[key]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", key, diff)
		}
	}
}
