package httpapi_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// More clients than there may be wait until one goes.
func TestMostConnections(t *testing.T) {
	const get = "GET /healthz HTTP/1.1\nHost: a\n\n"
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: 2}, httpapi.Timing{})
	first, second := h.dial(t), h.dial(t)
	for _, w := range []*wire{first, second} {
		if got := w.say(get).status(); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	third := h.dial(t).say(get)
	if err := third.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more is answered, or gets %v", err)
	}
	if err := third.SetReadDeadline(time.Now().Add(storetest.Deadline)); err != nil {
		t.Fatal(err)
	}
	second.Close()
	if got := third.status(); got != 200 {
		t.Errorf("got %d", got)
	}
	if got := first.say(get).status(); got != 200 {
		t.Errorf("got %d", got)
	}
}
