package push_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Endpoints that begin to fail at once are noted one after the other: the pushes are read a few times for each of them.
func TestManyFailAtOnce(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	var reads atomic.Int64
	s.Observe(func(script string, _ time.Duration, _ error) {
		if script == "pushes" {
			reads.Add(1)
		}
	})
	const pushes, failures = 100, 5
	fail := make(chan struct{})
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		<-fail
		w.WriteHeader(http.StatusInternalServerError)
	})
	carry(t, s)
	for i := range pushes {
		put(t, s, store.Push{Name: fmt.Sprint("push-", i), Topics: []string{numbered(i)}, URL: e.URL, Timeout: store.MaxPushTimeout})
		for n := range failures {
			storetest.Publish(t, s, notify.Message{Topic: numbered(i), ID: fmt.Sprint("m", n)})
		}
	}
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Files: 8 * pushes * failures}) // so that all are under way at once
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, p.Run)
	for range pushes * failures {
		storetest.Receive(t, "all are pushed", e.got)
	}
	before := reads.Load()
	close(fail)
	storetest.Eventually(t, "all are noted", func() bool {
		all, err := s.Client().HVals(t.Context(), s.Home().Keys().Pushes()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(strings.Join(all, ""), `"failing":`) == pushes
	})
	if n := reads.Load() - before; n > 3*pushes {
		t.Errorf("the pushes were read %d times for %d that fail", n, pushes)
	}
}
