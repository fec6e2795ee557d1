package push_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// Of an endpoint that fails the last answer is noted, and when it is asked next.
func TestTriesAreNoted(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]store.Push{"messages": {}, "broadcasts": {Topics: []string{"order.*"}, Broadcasts: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e, _ := openedWith(t, of)
			e.says(status(http.StatusInternalServerError))
			if of.Broadcasts {
				awaitListener(t, s, "order.*")
				broadcast(t, s, topic, "b")
			} else {
				storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"}, notify.Message{Topic: topic, ID: "b"})
				storetest.Set(t, s, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(time.Millisecond)})
			}
			tried := func(answer string) (f store.PushFailure) {
				t.Helper()
				storetest.Eventually(t, "a try is noted", func() bool {
					if now := get(t, s, "crm").Failing; now != nil {
						f = *now
					}
					return f.Answer == answer && !f.Next.IsZero()
				})
				return f
			}
			first := tried("HTTP 500 Internal Server Error")
			if d := first.Next.Sub(first.Since); d < time.Second || d > time.Hour {
				t.Errorf("it is asked next %v after it began to fail", d)
			}
			e.says(status(http.StatusBadGateway))
			if second := tried("HTTP 502 Bad Gateway"); !second.Next.After(first.Next) || !second.Since.Equal(first.Since) {
				t.Errorf("got %+v behind %+v", second, first)
			}
			e.says(status(http.StatusOK))
			storetest.Eventually(t, "it works", func() bool { return get(t, s, "crm").Failing == nil })
		})
	}
}

// While an endpoint fails, its messages keep their due times, each of them is tried in its turn, and no try counts as late.
func TestTriesSpoilNoFigures(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL})
	var counted atomic.Int64
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", OnClaimed: func(_ subscribers.Delivery, late time.Duration) {
		if late >= time.Hour {
			counted.Add(1)
		}
	}})
	storetest.Must(t, err)
	storetest.Run(t, p.Run)
	briskly(t, s)
	e.says(status(http.StatusInternalServerError))
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "first"})
	storetest.Eventually(t, "its endpoint fails", func() bool { return get(t, s, "crm").Failing != nil })
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", Delay: time.Hour}, notify.Message{Topic: topic, ID: "b", Delay: time.Hour})
	storetest.Hasten(t, s, 2*time.Hour, topic)
	for tried := map[string]bool{}; !tried["a"] || !tried["b"]; {
		tried[storetest.Receive(t, "each is tried", e.got).Header.Get("Bellhop-Id")] = true
	}
	var c notify.Counts
	storetest.Eventually(t, "all wait", func() bool {
		c, err = storetest.Count(s, topic)
		return err != nil || c.Ready == 3
	})
	if err != nil || c.Overdue < time.Hour || c.Lateness >= time.Hour || counted.Load() > 0 {
		t.Errorf("got %+v, %v, and %d were counted", c, err, counted.Load())
	}
	for _, id := range []string{"a", "b"} {
		if i := info(t, s, id); time.Since(i.Due) < time.Hour {
			t.Errorf("%s is due %v", id, i.Due)
		}
	}
}

// What is leased of the topics of a push is counted, and of one of broadcasts what is to its name.
func TestPushLeased(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]store.Push{
		"messages":   {Topics: []string{topic, "order.sent", "third"}},
		"patterns":   {Topics: []string{"order.*", "third"}},
		"broadcasts": {Topics: []string{"order.*"}, Broadcasts: true, InFlight: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e, _ := openedWith(t, of)
			release := make(chan struct{})
			e.says(func(http.ResponseWriter, *http.Request) { <-release })
			if of.Broadcasts {
				awaitListener(t, s, "order.*")
			}
			for i := range 3 {
				to, id := []string{topic, "order.sent"}[i%2], fmt.Sprint("m", i)
				if of.Broadcasts {
					broadcast(t, s, to, id)
				} else {
					storetest.Publish(t, s, notify.Message{Topic: to, ID: id})
				}
			}
			p := get(t, s, "crm")
			leased := func(want int64) func() bool {
				return func() bool {
					n, err := store.PushLeased(t.Context(), s, &p)
					storetest.Must(t, err)
					return n != nil && *n == want
				}
			}
			storetest.Eventually(t, "three are leased", leased(3))
			close(release)
			storetest.Eventually(t, "none is", leased(0))
		})
	}
}
