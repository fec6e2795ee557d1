package crash_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A hook receives pushes. While it holds, it answers none of those whose ids begin with held.
type hook struct {
	*httptest.Server
	release chan struct{}

	mu  sync.Mutex
	got map[string][]string // attempts by webhook-id
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{release: make(chan struct{}), got: make(map[string][]string)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		id := r.Header.Get("webhook-id")
		h.got[id] = append(h.got[id], r.Header.Get("Bellhop-Attempt"))
		h.mu.Unlock()
		if !strings.HasPrefix(r.Header.Get("Bellhop-Id"), "held") {
			return
		}
		select {
		case <-h.release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// attempts returns those of a message, with commas between.
func (h *hook) attempts(topic, id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.got[topic+":"+id], ",")
}

// await waits until a message of each of the first n topics was pushed, in some attempts.
func (h *hook) await(t *testing.T, n int, id, attempts string) {
	t.Helper()
	for i := range n {
		storetest.Eventually(t, fmt.Sprintf("%s of %s is pushed in attempts %s", id, found(i), attempts), func() bool {
			return h.attempts(found(i), id) == attempts
		})
	}
}

// found returns the name of a topic that the pattern order.* finds.
func found(i int) string { return fmt.Sprintf("order.%d", i) }

// publishEach publishes a message to each of the first n topics.
func publishEach(t *testing.T, db *notify.Store, n int, id string) {
	t.Helper()
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{Topic: found(i), ID: id, Body: []byte("x")}
	}
	storetest.Publish(t, db, messages...)
}

// pushFound starts a daemon that works for topics which a pattern finds, and publishes a message to each of n that is held.
func pushFound(t *testing.T, db *notify.Store, h *hook, n int) *process {
	t.Helper()
	p := store.Push{Name: "crm", Topics: []string{"order.*"}, URL: h.URL, Timeout: time.Hour}
	p.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	storetest.Must(t, db.Home().PutPush(t.Context(), p))
	first := startPusher(t, db)
	elected(t, db, "")
	inspector := storetest.Inspector(t, db)
	storetest.Eventually(t, "the daemon sets the lease", func() bool {
		set, err := inspector.Settings(t.Context(), notify.AllTopics)
		return err == nil && set.Lease == 10*time.Second
	})
	publishEach(t, db, n, "held")
	h.await(t, n, "held", "1")
	return first
}

// allGone waits until there is no message.
func allGone(t *testing.T, db *notify.Store) {
	t.Helper()
	inspector := storetest.Inspector(t, db)
	storetest.Eventually(t, "no message is left", func() bool {
		all, err := storetest.Collect(inspector.Topics(t.Context()))
		return err == nil && !slices.ContainsFunc(all, func(c notify.Counts) bool { return c.Scheduled+c.Ready+c.Leased+c.Dead > 0 })
	})
}

func startPusher(t *testing.T, db *notify.Store) *process {
	t.Helper()
	return startDaemon(t, db, nil, "LEASE=10s", "PUSH_ALLOW=127.0.0.1")
}

// A daemon that found topics by a pattern is killed while it pushes. Another one that comes later finds them, although the first stands in
// their waiting lists: what was under way is pushed again, in a second attempt, and nothing else is.
func TestKillPusherOfFoundTopics(t *testing.T) {
	t.Parallel()
	db, h := storetest.Open(t), newHook(t)
	const old, all = 20, 30
	first := pushFound(t, db, h, old)
	publishEach(t, db, old, "done")
	h.await(t, old, "done", "1")
	for i := range old {
		storetest.Eventually(t, "all but the one that is held is acknowledged of "+found(i), func() bool {
			c, err := storetest.Count(db, found(i))
			return err == nil && c.Leased == 1
		})
	}
	first.end(syscall.SIGKILL)
	publishEach(t, db, all, "meanwhile") // to new topics, too
	close(h.release)
	startPusher(t, db)
	h.await(t, all, "meanwhile", "1")
	h.await(t, old, "held", "1,2")
	publishEach(t, db, all, "later")
	h.await(t, all, "later", "1")
	allGone(t, db)
	h.await(t, old, "done", "1")
	h.await(t, all, "meanwhile", "1")
}

// A daemon that works beside one that is killed goes on with the topics that both found.
func TestKillOneOfTwoPushersOfFoundTopics(t *testing.T) {
	t.Parallel()
	db, h := storetest.Open(t), newHook(t)
	const n = 20
	first := pushFound(t, db, h, n)
	startPusher(t, db)
	standingBy(t, db, 1)
	for i := range n {
		storetest.Eventually(t, "both wait for "+found(i), func() bool {
			c, err := storetest.Count(db, found(i))
			return err == nil && c.Waiting == 2
		})
	}
	first.end(syscall.SIGKILL)
	close(h.release)
	publishEach(t, db, 2*n, "later")
	h.await(t, 2*n, "later", "1")
	h.await(t, n, "held", "1,2")
	allGone(t, db)
}
