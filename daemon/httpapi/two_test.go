package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Behind a load balancer a listener resumes at any daemon: an id means the same to all.
func TestStreamResumesAtAnotherDaemon(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	one, two := serve(t, store, httpapi.Options{}, httpapi.Timing{}), serve(t, store, httpapi.Options{}, httpapi.Timing{})
	const path = "prices.*/broadcasts"
	s := one.listen(client(t), path+"?since=beginning", "")
	for i := range 6 {
		storetest.Publish(t, store, notify.Message{Topic: fmt.Sprintf("prices.%d", i%2), ID: fmt.Sprint(i), Broadcast: true, Body: []byte("x")})
		if got := s.broadcast(); got.ID != fmt.Sprint(i) {
			t.Fatalf("got %s, want %d", got.ID, i)
		}
		if i%2 == 1 {
			continue
		}
		s.Close()
		one, two = two, one
		s = one.listen(client(t), path, s.last)
	}
}
