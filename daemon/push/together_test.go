package push_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Pushes of one endpoint that begin to fail at once are noted one after the other: all are read a few times for each of them, and the log
// has one warning for all.
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
		put(t, s, store.Push{Name: fmt.Sprint("push-", i), Topics: []string{numbered(i)}, URL: e.URL, Timeout: record.MaxLease})
		for n := range failures {
			storetest.Publish(t, s, notify.Message{Topic: numbered(i), ID: fmt.Sprint("m", n)})
		}
	}
	var log bytes.Buffer
	p, err := push.New(s, push.Options{
		Allow: "127.0.0.1", Logger: slog.New(slog.NewTextHandler(&log, nil)), Files: 8 * pushes * failures, // so that all are under way at once
	})
	storetest.Must(t, err)
	stop := storetest.Run(t, p.Run)
	for range pushes * failures {
		storetest.Receive(t, "all are pushed", e.got)
	}
	before := reads.Load()
	close(fail)
	noted := func(n int) func() bool {
		return func() bool {
			all, err := s.Client().HVals(t.Context(), s.Home().Keys().Pushes()).Result()
			storetest.Must(t, err)
			return strings.Count(strings.Join(all, ""), `"failing":`) == n
		}
	}
	storetest.Eventually(t, "all are noted", noted(pushes))
	if n := reads.Load() - before; n > 3*pushes {
		t.Errorf("the pushes were read %d times for %d that fail", n, pushes)
	}
	e.says(status(http.StatusOK))
	storetest.Eventually(t, "all work again", noted(0))
	e.says(status(http.StatusBadGateway))
	for n := range failures {
		storetest.Publish(t, s, notify.Message{Topic: numbered(0), ID: fmt.Sprint("again", n)})
	}
	storetest.Eventually(t, "one fails again", func() bool { return get(t, s, "push-0").Failing != nil })
	stop()
	if n := strings.Count(log.String(), `"endpoint of a push fails`); n != 2 || strings.Count(log.String(), "works again") > 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}
