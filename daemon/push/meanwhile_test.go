package push_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a request finds of its endpoint is noted though another push changed while it was under way.
func TestFoundWhileAnotherPushChanges(t *testing.T) {
	t.Parallel()
	s, e, p := openedWith(t, store.Push{InFlight: 1, Timeout: record.MaxLease})
	briskly(t, s)
	answers, elsewhere := make(chan int), newEndpoint(t)
	defer close(answers)
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		if code, open := <-answers; open {
			w.WriteHeader(code)
		}
	})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	request := func(i, code int) {
		storetest.Receive(t, "it is pushed", e.got)
		other := fmt.Sprint("other-", i)
		put(t, s, store.Push{Name: "other", Topics: []string{other}, URL: elsewhere.URL})
		storetest.Publish(t, s, notify.Message{Topic: other})
		storetest.Receive(t, "the pusher knows", elsewhere.got)
		answers <- code
	}
	for i := range 5 {
		request(i, http.StatusInternalServerError)
	}
	storetest.Eventually(t, "it fails", func() bool { return get(t, s, "crm").Failing != nil })
	if i := info(t, s, "a"); i.Attempts > 5 {
		t.Errorf("%d attempts are used up", i.Attempts)
	}
	request(5, http.StatusOK)
	gone(t, s, "a")
	storetest.Eventually(t, "it works", func() bool { return len(p.Stats().Failing) == 0 && get(t, s, "crm").Failing == nil })
}
