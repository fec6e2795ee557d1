package outage_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/outage"
)

// A written is what a log has written. It is safe for concurrent use.
type written struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(p)
}

// take returns what was written since the last call.
func (w *written) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.all.Reset()
	return w.all.String()
}

// Of what happens to many shards at once the log has a few lines, and one that names the other shards.
func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log written
		s := outage.NewSummary(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})), 8)
		all := s.Logger()
		want := func(what, want string) {
			t.Helper()
			if diff := cmp.Diff(want, log.take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		for i := range 10 {
			one := all.With("shard", fmt.Sprintf("%d/16", i))
			one.With("carrier", "me").Info("elected", "epoch", 1)
			all.Info("running")
			if i < 3 {
				one.Error("cannot carry")
			}
		}
		first := ""
		for i := range 8 {
			first += fmt.Sprintf("msg=elected shard=%d/16 carrier=me epoch=1\nmsg=running\n", i)
			if i == 0 {
				first += "msg=\"cannot carry\" shard=0/16\n"
			}
		}
		want("the first ones", first+"msg=running\nmsg=running\n")
		time.Sleep(time.Second - time.Nanosecond) // of the bubble's clock
		all.Error("cannot carry", "shard", "3/16")
		synctest.Wait()
		want("within a second", "")
		time.Sleep(time.Nanosecond) // of the bubble's clock
		synctest.Wait()
		got := log.take()
		elected, faults := "msg=elected shards=\"8/16 9/16\"\n", "msg=\"cannot carry\" shards=\"1/16 2/16 3/16\"\n"
		if got != elected+faults && got != faults+elected {
			t.Errorf("got %s", got)
		}
		all.Error("cannot carry", "shard", "4/16")
		all.Error("cannot carry", "shard", "5/16", "error", "loading")
		s.Flush()
		s.Flush()
		want("at the end", "msg=\"cannot carry\" shard=4/16\nmsg=\"cannot carry\" shards=5/16 error=loading\n")
		time.Sleep(2 * time.Second) // of the bubble's clock
		want("after it", "")
	})
}
