package push_test

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// An endpoint that hangs takes half of the requests that all pushes may have under way, whatever its pushes and topics are; nothing more of
// them is claimed, and another endpoint goes on.
func TestOneEndpointTakesHalf(t *testing.T) {
	t.Parallel()
	s, hangs, works := storetest.Open(t), newEndpoint(t), newEndpoint(t)
	carry(t, s)
	release := make(chan struct{})
	hangs.says(func(http.ResponseWriter, *http.Request) { <-release })
	pushes := []store.Push{
		{Name: "a", Topics: []string{"a.1", "a.2", "a.3"}, URL: hangs.URL + "/a", Timeout: time.Hour},
		{Name: "b", Topics: []string{"b.*"}, URL: hangs.URL + "/b", Timeout: time.Hour},
		{Name: "c", Topics: []string{"c"}, URL: works.URL, Timeout: time.Hour},
	}
	for _, p := range pushes {
		put(t, s, p)
	}
	topics := []string{"a.1", "a.2", "a.3", "b.1"}
	for i := range 80 {
		storetest.Publish(t, s, notify.Message{Topic: topics[i%4], ID: fmt.Sprint("m", i)})
	}
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Files: 16, Grace: time.Minute})
	storetest.Must(t, err)
	storetest.Run(t, p.Run)
	const most = 16 * 3 / 4 / 2
	for range most {
		storetest.Receive(t, "it is pushed", hangs.got)
	}
	for i := range 50 {
		storetest.Publish(t, s, notify.Message{Topic: "c", ID: fmt.Sprint("m", i)})
		storetest.Receive(t, "another endpoint goes on", works.got)
	}
	leased := int64(0)
	for _, one := range pushes[:2] {
		n, err := store.PushLeased(t.Context(), s, &one)
		storetest.Must(t, err)
		leased += *n
	}
	if leased != most || len(hangs.got) > 0 {
		t.Errorf("%d are leased, and %d more were pushed, want %d", leased, len(hangs.got), most)
	}
	close(release)
	for range 80 - most {
		storetest.Receive(t, "all are pushed", hangs.got)
	}
}

// Where this process has no file left, that is no fault of the endpoint, and uses up no attempt.
func TestNoFileIsLeft(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL, Timeout: time.Minute})
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute})
	storetest.Must(t, err)
	tries := make(chan struct{}, 100)
	dials := push.FailDials(p, tries, syscall.EMFILE)
	storetest.Run(t, p.Run)
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", MaxAttempts: 1})
	for range 2 {
		storetest.Receive(t, "it is tried", tries)
	}
	if i := info(t, s, "a"); i.Attempts > 0 || i.State == notify.Dead || p.Stats().Failed > 0 {
		t.Errorf("got %+v, %+v", i, p.Stats())
	}
	dials()
	gone(t, s, "a")
}
