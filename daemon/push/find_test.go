package push_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// matching returns a store with a carrier, a pusher, and a push of order.* to an endpoint.
func matching(t *testing.T, shards int) (*notify.Store, *endpoint, *push.Pusher) {
	t.Helper()
	s, e := storetest.Sharded(t, shards), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{"order.*"}, URL: e.URL, Timeout: time.Hour})
	p, _ := run(t, s)
	return s, e, p
}

// pushes publishes a message, and waits until it is pushed.
func pushes(t *testing.T, s *notify.Store, e *endpoint, topic, id string) {
	t.Helper()
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: id})
	wantPushed(t, e, topic+":"+id)
}

func wantPushed(t *testing.T, e *endpoint, want string) {
	t.Helper()
	if got := storetest.Receive(t, want+" is pushed", e.got).Header.Get("webhook-id"); got != want {
		t.Errorf("%s is pushed, want %s", got, want)
	}
}

// waiting waits until so many inboxes wait for a topic.
func waiting(t *testing.T, s *notify.Store, topic string, n int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d wait for %s", n, topic), func() bool {
		c, err := storetest.Count(s, topic)
		return err == nil && c.Waiting == n
	})
}

// A topic that is new is found by a beat, in each shard, and its next message is rung: a worker waits for it. Others are left alone.
func TestPatternFindsNewTopics(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s, e, p := matching(t, shards)
			storetest.Publish(t, s, notify.Message{Topic: "order", ID: "a"}, notify.Message{Topic: "order.paid.eu", ID: "a"}, notify.Message{Topic: "mail.in", ID: "a"})
			for i := range 12 {
				topic := fmt.Sprintf("order.%d", i)
				pushes(t, s, e, topic, "first")
				waiting(t, s, topic, 1)
				pushes(t, s, e, topic, "second")
			}
			if n := p.Stats().Found; n != 12 {
				t.Errorf("%d topics were found, want 12", n)
			}
			for _, topic := range []string{"order", "order.paid.eu", "mail.in"} {
				if c, err := storetest.Count(s, topic); err != nil || c.Ready != 1 || c.Waiting != 0 {
					t.Errorf("%s: got %+v, %v", topic, c, err)
				}
			}
		})
	}
}

// Topics that are there already have their workers when a push comes, a page of names after the other, and when another pusher begins.
func TestPatternFindsNames(t *testing.T) {
	t.Parallel()
	s, e, p := matching(t, 8)
	var messages []notify.Message
	for i := range 1200 {
		messages = append(messages, notify.Message{Topic: fmt.Sprintf("a.%d", i), ID: "a", Delay: time.Hour})
	}
	for i := range 20 {
		messages = append(messages, notify.Message{Topic: fmt.Sprintf("b.%d.eu", i), ID: "a", Delay: time.Hour})
	}
	storetest.Publish(t, s, messages...)
	put(t, s, store.Push{Name: "mail", Topics: []string{"*.*.eu", "c"}, URL: e.URL})
	for i := range 20 {
		waiting(t, s, fmt.Sprintf("b.%d.eu", i), 1)
	}
	waiting(t, s, "c", 1)
	run(t, s)
	for i := range 20 {
		waiting(t, s, fmt.Sprintf("b.%d.eu", i), 2)
	}
	if n := p.Stats().Found; n != 20 {
		t.Errorf("%d topics were found, want 20", n)
	}
	pushes(t, s, e, "b.7.eu", "now")
}

// A push whose pattern changes, that is paused or removed, works for the topics of its pattern and no others. What is under way goes on,
// and so does what other pushes have.
func TestPatternChanges(t *testing.T) {
	t.Parallel()
	s, e, p := matching(t, 1)
	other := newEndpoint(t)
	put(t, s, store.Push{Name: "other", Topics: []string{"mail.in"}, URL: other.URL, Timeout: time.Hour})
	finish := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("Bellhop-Id"), "slow") {
			<-finish
		}
	}
	e.says(hang)
	other.says(hang)
	pushes(t, s, other, "mail.in", "slow")
	pushes(t, s, e, "order.paid", "slow")
	waiting(t, s, "order.paid", 1)
	put(t, s, store.Push{Name: "crm", Topics: []string{"order.sent", "bill.>"}, URL: e.URL})
	waiting(t, s, "order.paid", 0)
	waiting(t, s, "order.sent", 1)
	storetest.Publish(t, s, notify.Message{Topic: "order.paid", ID: "left"})
	pushes(t, s, e, "bill.eu.de", "a")
	put(t, s, store.Push{Name: "crm", Topics: []string{"bill.eu.*", "order.*"}, URL: e.URL, InFlight: 2})
	wantPushed(t, e, "order.paid:left")
	waiting(t, s, "order.sent", 1)
	waiting(t, s, "bill.eu.de", 1)
	storetest.Must(t, s.Home().PausePush(t.Context(), "crm", "by a test"))
	waiting(t, s, "bill.eu.de", 0)
	waiting(t, s, "order.sent", 0)
	storetest.Eventually(t, "nothing is found any more", func() bool { return p.Stats().Found == 0 })
	close(finish)
	storetest.Eventually(t, "both that were slow are done", func() bool {
		mail, err := storetest.Count(s, "mail.in")
		order, bad := storetest.Count(s, "order.paid")
		return err == nil && bad == nil && mail.Acked == 1 && order.Acked == 2
	})
	if len(other.got)+len(e.got) > 0 {
		t.Error("a message was pushed twice")
	}
	storetest.Must(t, s.Home().RemovePush(t.Context(), "crm"))
	pushes(t, s, other, "mail.in", "next")
}

// A daemon works for a bounded number of topics that patterns name: one that is ready takes the place of one that had nothing for
// longest. While all are busy it waits, and that is counted.
func TestBoundOfFoundTopics(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{"order.*"}, URL: e.URL, Timeout: time.Hour})
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute})
	storetest.Must(t, err)
	push.Bound(p, 3, time.Hour)
	storetest.Run(t, p.Run)
	done := func(topic, id string, n int64) { // also for the daemon
		t.Helper()
		pushes(t, s, e, topic, id)
		storetest.Eventually(t, id+" of "+topic+" is acknowledged", func() bool {
			c, err := storetest.Count(s, topic)
			return err == nil && c.Acked == n
		})
	}
	for i := range 3 {
		done(fmt.Sprintf("order.%d", i), "a", 1)
	}
	done("order.0", "b", 2)
	waiting(t, s, "order.1", 1)
	pushes(t, s, e, "order.3", "a")
	waiting(t, s, "order.1", 0) // the first of those that had nothing since
	for _, i := range []int{0, 2, 3} {
		waiting(t, s, fmt.Sprintf("order.%d", i), 1)
	}
	finish := make(chan struct{})
	e.says(func(http.ResponseWriter, *http.Request) { <-finish })
	for _, i := range []int{0, 2, 3} {
		pushes(t, s, e, fmt.Sprintf("order.%d", i), "long")
	}
	storetest.Publish(t, s, notify.Message{Topic: "order.1", ID: "b"})
	storetest.Eventually(t, "it is left out", func() bool { return p.Stats().LeftOut > 0 })
	if n := p.Stats().Found; n != 3 {
		t.Errorf("%d topics were found, want 3", n)
	}
	close(finish)
	wantPushed(t, e, "order.1:b")
}

// A topic that had nothing for long is let go, so that it can be forgotten, and found again when it has something.
func TestIdleTopicsAreLetGo(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{"order.*", "order.named"}, URL: e.URL})
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute})
	storetest.Must(t, err)
	push.Bound(p, 3, 10*time.Millisecond)
	storetest.Run(t, p.Run)
	pushes(t, s, e, "order.0", "a")
	storetest.Eventually(t, "it is let go", func() bool {
		push.Sweep(p)
		return p.Stats().Found == 0
	})
	waiting(t, s, "order.0", 0)
	waiting(t, s, "order.named", 1)
	pushes(t, s, e, "order.0", "b")
}

// Where one push is put among many, it alone is read.
func TestOnePushIsRead(t *testing.T) {
	t.Parallel()
	const many = 300
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	size := 0
	for i := range many {
		p := store.Push{Name: fmt.Sprint("p", i), Topics: []string{fmt.Sprint("other.", i)}, URL: e.URL + "/" + strings.Repeat("x", 200)}
		put(t, s, p)
		size += len(p.URL)
	}
	reading := storetest.Unhurried(storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: s.Home().Keys().Prefix(), Shards: storetest.Shards()}))
	read := new(storetest.Meter)
	reading.Client().AddHook(read)
	run(t, reading)
	storetest.Publish(t, s, notify.Message{Topic: "other.0", ID: "a"})
	storetest.Receive(t, "all are read", e.got)
	before := read.Load()
	if before < int64(size) {
		t.Fatalf("%d bytes of %d are read at first", before, size)
	}
	put(t, s, store.Push{Name: "one", Topics: []string{topic}, URL: e.URL})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	storetest.Receive(t, "it is read", e.got)
	if n := read.Load() - before; n > int64(size)/2 {
		t.Errorf("%d bytes are read of one more; all have %d", n, size)
	}
	storetest.Must(t, s.Home().RemovePush(t.Context(), "p0"))
	put(t, s, store.Push{Name: "p1", Topics: []string{"other.0"}, URL: e.URL + "/p1"})
	n := 0
	storetest.Eventually(t, "the push that was removed leaves its topic to the other", func() bool {
		n++
		storetest.Publish(t, s, notify.Message{Topic: "other.0", ID: fmt.Sprint(n)})
		return storetest.Receive(t, "it is pushed", e.got).URL.Path == "/p1"
	})
}

// When Redis has lost all that it held, its pushes are gone, too: nothing is sent to their endpoints any more.
func TestPushesOfALostStore(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "beats are heard by SUBSCRIBE")
	s, e := storetest.At(t, storetest.Lend(t), ""), newEndpoint(t)
	carry(t, s)
	run(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL})
	pushes(t, s, e, topic, "a")
	storetest.Must(t, s.Client().FlushAll(t.Context()).Err())
	beats := s.Client().Subscribe(t.Context(), s.Keys().Beat())
	defer beats.Close()
	pub, n, kept := storetest.Publisher(t, s), 0, 0
	storetest.Eventually(t, "no push has the topic", func() bool {
		n++
		id := fmt.Sprint("m", n)
		if _, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: id}); err != nil {
			return false
		}
		for range 2 {
			storetest.Receive(t, "a beat", beats.Channel())
		}
		if i, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, id); err != nil || i.State != notify.Ready {
			kept = 0
			return false
		}
		kept++
		return kept > 2
	})
}
