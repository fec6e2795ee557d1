package natsgate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// At rest a thousand pushes to URLs, a hundred topics that are pushed to NATS where nobody listens, and as many that patterns match as a
// daemon works for cost no call to Redis.
func TestPushesAtRest(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	conn := n.connect()
	startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	var topics []string
	all := make(map[string]any)
	add := func(p store.Push, matched ...string) {
		data, err := json.Marshal(p)
		storetest.Must(t, err)
		if len(matched) == 0 {
			matched = p.Topics
		}
		all[p.Name], topics = string(data), append(topics, matched...)
	}
	for i := range 994 {
		name := fmt.Sprintf("crm-%d", i)
		add(store.Push{Name: name, Topics: []string{name}, URL: "https://crm.example", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}})
	}
	for i := range 4 {
		jobs := store.Push{Name: fmt.Sprintf("jobs-%d", i), To: "nats:unheard.>"}
		for j := range 25 {
			jobs.Topics = append(jobs.Topics, fmt.Sprintf("job.%d.%d", i, j))
		}
		add(jobs)
	}
	const found = 1000
	for _, p := range []store.Push{
		{Name: "found", Topics: []string{"found.*"}, URL: "https://crm.example", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		{Name: "work", Topics: []string{"work.>"}, To: "nats:unheard.work.>"},
	} {
		matched, messages := make([]string, found), make([]notify.Message, found)
		for i := range found {
			matched[i] = fmt.Sprintf("%s.%d", p.Name, i)
			messages[i] = notify.Message{Topic: matched[i], ID: "later", Delay: time.Hour}
		}
		storetest.Publish(t, db, messages...)
		add(p, matched...)
	}
	home := db.Home()
	storetest.Must(t, db.Client().HSet(t.Context(), home.Keys().Pushes(), all).Err())
	of := storetest.Unhurried(storetest.At(t, storetest.URL(), db.Prefix()))
	var calls atomic.Int64
	of.Observe(func(script string, _ time.Duration, _ error) { calls.Add(1) })
	gate, _ := newGate(t, of, natsgate.Options{URL: n.ClientURL()})
	startPusher(t, of, push.Options{Allow: "public", NATS: gate, Grace: time.Hour})
	inspector := storetest.Inspector(t, db)
	waiting := func() (n int64) {
		for some := range slices.Chunk(topics, 100) {
			counts, err := inspector.Count(t.Context(), some...)
			storetest.Must(t, err)
			for _, c := range counts {
				n += c.Waiting
			}
		}
		return n
	}
	for n, all := int64(0), int64(len(topics)); n < all; n = waiting() { // three thousand claims take long beside other tests
		storetest.Eventually(t, "a worker waits for a hundred more topics", func() bool { return waiting() >= min(n+100, all) })
	}
	storetest.Eventually(t, "three beats pass without a call", func() bool { // with one its subscriber is noted as a worker for the topics that were found
		before := calls.Load()
		for range 3 {
			awaitBeat(t, conn)
		}
		return calls.Load() == before
	})
	before := calls.Load()
	for range 3 {
		awaitBeat(t, conn)
	}
	if n := calls.Load() - before; n > 0 {
		t.Errorf("%d calls were made at rest", n)
	}
	storetest.Publish(t, db, notify.Message{Topic: "work.new", ID: "a"}) // which takes the place of another
	storetest.Eventually(t, "it is tried", func() bool { return gate.Stats().Nobody > 0 })
}
