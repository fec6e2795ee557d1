package subscribers_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// branchTopics are the branches of the topic.
var branchTopics = []string{topic + "@mail", topic + "@points"}

// handledIn are the ids that were handled, by topic, in the order of their handlers.
type handledIn struct {
	mu  sync.Mutex
	all map[string][]string
}

// in returns what was handled of a topic.
func (h *handledIn) in(topic string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all[topic])
}

// work handles a topic until stop.
func (h *handledIn) work(t *testing.T, db *notify.Store, topic string, concurrency int) (stop func()) {
	t.Helper()
	sub := subscriberstest.Subscriber(t, db)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all[d.Topic] = append(h.all[d.Topic], d.ID)
		return nil
	}, subscribers.HandleOptions{Concurrency: concurrency}))
	return storetest.Run(t, sub.Run)
}

// Branches are set under load as the page says: the new workers start, branches are set, and the old workers stop. Each message was handled by them, or is
// once in each branch.
func TestBranchesAreSetUnderLoad(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	h := &handledIn{all: make(map[string][]string)}
	stop := h.work(t, db, topic, 4)
	var published []string
	some := func() {
		for range 100 {
			m := body(fmt.Sprintf("%05d", len(published)))
			m.Delay = time.Duration(len(published)%7) * time.Millisecond
			published = append(published, m.ID)
			storetest.Publish(t, db, m)
		}
	}
	some()
	storetest.Eventually(t, "plain workers handle messages", func() bool { return len(h.in(topic)) > 0 })
	for _, branch := range branchTopics {
		h.work(t, db, branch, 4)
	}
	storetest.Set(t, db, topic, notify.SettingsChange{Branches: new("mail,points")})
	some()
	stop()
	some()
	for _, branch := range branchTopics {
		storetest.Eventually(t, "all are handled", func() bool { return len(h.in(topic))+len(h.in(branch)) >= len(published) })
		got := append(h.in(topic), h.in(branch)...)
		slices.Sort(got)
		storetest.Same(t, "handled by plain workers, and in "+branch, published, got)
		if n := len(h.in(branch)); n < 200 {
			t.Errorf("%d were handled in %s, want at least 200", n, branch)
		}
	}
}

// A branch that nobody works keeps what it gets, while the other one is handled; its workers get all of it once they are there, in due order.
func TestBranchWithoutWorkers(t *testing.T) {
	t.Parallel()
	const n = 10_000
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Branches: new("mail,points")})
	h := &handledIn{all: make(map[string][]string)}
	h.work(t, db, branchTopics[0], 1)
	var published []string
	storetest.Fill(t, db, n, func(i int) notify.Message {
		m := body(fmt.Sprintf("%05d", i))
		m.Delay = 10 * time.Millisecond
		published = append(published, m.ID)
		return m
	})
	all := func(branch string, n int) {
		t.Helper()
		storetest.Eventually(t, fmt.Sprintf("%d are handled in %s", n, branch), func() bool { return len(h.in(branch)) == n })
		storetest.Same(t, "handled in "+branch, published, h.in(branch))
	}
	all(branchTopics[0], n)
	c, err := storetest.Count(db, branchTopics[1])
	storetest.Must(t, err)
	storetest.Is(t, "what waits in the other branch", c.Ready, n)
	storetest.Publish(t, db, body("last"))
	published = append(published, "last")
	all(branchTopics[0], n+1)
	h.work(t, db, branchTopics[1], 1)
	all(branchTopics[1], n+1)
}
