package notify_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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
	storetest.Play(t, `
	publish a if_exists=debounce delay=1h max_wait=2h = scheduled
	has a due=now+1h
	note a
	publish a if_exists=debounce delay=2h max_wait=2h body=2 = moved:scheduled
	has a due=published+2h published=noted body=2
	publish a if_exists=debounce delay=1h body=3 = moved:scheduled
	has a due=now+1h
	reschedule a delay=0s = ready
	note a
	pass 2ms                                 # its longest wait is over; before that it would leave its place
	publish a if_exists=debounce delay=1ms max_wait=1ms body=4 = moved:ready
	has a due=noted body=4
	claim 1 = a
	ack a
	empty
	`)
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
	storetest.Is(t, "records", len(dump(t, db)["messages"].(map[string]string)), 1)
}

// An id stays taken after the end of its message, is inspected as done, and is freed by
// a cancel; a message that is purged frees it at once, and a broadcast that is sent keeps it.
func TestUniqueFor(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== acknowledged
	publish a unique_for=1h
	claim 1 = a
	ack a
	has a state=done until=now+1h ended=none
	counts published=1 acked=1
	list done = nothing
	publish a = refused:exists
	reschedule a delay=0s = none
	cancel a = done
	cancel a = none
	empty
== purged
	publish a unique_for=1h
	claim 1 = a
	bury a
	purge a
	empty
== a broadcast
	publish a mode=broadcast unique_for=1h = scheduled
	pass 2ms
	carry
	is a=done
	publish a mode=broadcast = refused:exists
	counts sent=1 log=1
	`)
}

// Ids whose time is over are freed by messages that end later. A publish of such an id is one of TestModes, and the
// housekeeping of them a test of the store.
func TestTakenIsFreed(t *testing.T) {
	t.Parallel()
	const n = 3000
	p := storetest.NewPlayer(t, scenario())
	p.Play("publish 1..3000 unique_for=1ms")
	for left := n; left > 0; {
		got, err := p.Shard.Claim(t.Context(), store.Claim{Topic: topic, Max: record.MaxClaim, Lease: anHour})
		storetest.Must(t, err)
		for _, m := range got.Messages {
			storetest.Must(t, storetest.ErrOf(p.Shard.Ack(t.Context(), topic, []store.Lease{m.Lease})))
		}
		left -= len(got.Messages)
	}
	if left := p.Store.Client().ZCard(t.Context(), p.Shard.Keys().Taken()).Val(); left > n/2 {
		t.Errorf("%d of %d ids are taken", left, n)
	}
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
	storetest.Same(t, "outcomes", "created replaced created exists kept replaced", strings.Join(got, " "))
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
		storetest.Same(t, key, dump(t, db)[key], dump(t, copied)[key])
	}
}
