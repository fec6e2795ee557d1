package push_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// refuses has an endpoint answer the message of an id with a status, and all others with 200.
func refuses(e *endpoint, id string, code int) {
	e.says(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Bellhop-Id") == id {
			w.WriteHeader(code)
		}
	})
}

// briskly has messages of the topic fail fast.
func briskly(t *testing.T, s *notify.Store) {
	t.Helper()
	storetest.Set(t, s, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(time.Millisecond)})
}

// A message that an endpoint always refuses holds up none behind it, but of its key, also where it alone is there to be tried.
func TestRefusedMessageHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	briskly(t, s)
	refuses(e, "p", http.StatusInternalServerError)
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "p", Key: "acct-7"})
	storetest.Eventually(t, "its endpoint fails", func() bool { return get(t, s, "crm").Failing != nil })
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "q", Key: "acct-7"}, notify.Message{Topic: topic, ID: "g", Key: "acct-8"})
	gone(t, s, "g")
	if i := info(t, s, "q"); i.State != notify.Blocked {
		t.Errorf("q is %v", i.State)
	}
	e.says(status(http.StatusOK))
	gone(t, s, "p")
	gone(t, s, "q")
}

// An answer that speaks of the message uses up an attempt, and says nothing of the endpoint.
func TestAnswersOfTheMessage(t *testing.T) {
	t.Parallel()
	for _, code := range []int{
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s, e, p := opened(t)
			briskly(t, s)
			refuses(e, "p", code)
			storetest.Publish(t, s, notify.Message{Topic: topic, ID: "p"})
			storetest.Eventually(t, "it is dead", func() bool { return info(t, s, "p").State == notify.Dead })
			if n := p.Stats(); n.Failed != store.DefaultAttempts || len(n.Failing) > 0 || get(t, s, "crm").Failing != nil {
				t.Errorf("got %+v", n)
			}
			storetest.Publish(t, s, notify.Message{Topic: topic, ID: "g"})
			gone(t, s, "g")
		})
	}
}

// A broadcast that an endpoint always refuses for itself is given up after its attempts, and the next one is pushed.
func TestRefusedBroadcastIsGivenUp(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{"prices.*"}, URL: e.URL, Broadcasts: true})
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute, Broadcasts: subscribers.ListenOptions{
		BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
	}})
	storetest.Must(t, err)
	storetest.Run(t, p.Run)
	awaitListener(t, s, "prices.*")
	refuses(e, "bad", http.StatusUnprocessableEntity)
	broadcast(t, s, "prices.gold", "bad")
	broadcast(t, s, "prices.gold", "good")
	for range store.DefaultAttempts {
		wantBroadcasts(t, e, "prices.gold:bad")
	}
	wantBroadcasts(t, e, "prices.gold:good")
}
