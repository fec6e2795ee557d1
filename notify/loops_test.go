package notify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// loops runs over messages and topics, more than a page of each, in the same way.
func loops(t *testing.T, ctx context.Context, pub client) map[string]iter.Seq2[string, error] {
	t.Helper()
	var many []notify.Message
	for i := range 120 {
		many = append(many, message(fmt.Sprintf("%03d", i), future), notify.Message{Topic: fmt.Sprintf("t.%03d", i), ID: "x", Due: future})
	}
	for _, r := range pub.PublishMany(t.Context(), many) {
		storetest.Must(t, r.Err)
	}
	return map[string]iter.Seq2[string, error]{
		"messages": named(pub.Messages(ctx, topic, notify.Scheduled), func(i notify.Info) string { return i.ID }),
		"topics":   named(pub.Topics(ctx, pattern(t, "t.*")), func(c notify.Counts) string { return c.Topic[2:] }),
	}
}

func named[T any](of iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		of(func(one T, err error) bool {
			if err != nil {
				return yield("", err)
			}
			return yield(name(one), nil)
		})
	}
}

func TestLoopsGoOverAllPages(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	for what, loop := range loops(t, t.Context(), pub) {
		for range 2 { // from the beginning each time
			all, err := storetest.Collect(loop)
			if err != nil || len(all) != 120 {
				t.Fatalf("%s: got %d, %v", what, len(all), err)
			}
			for i, name := range all {
				if name != fmt.Sprintf("%03d", i) {
					t.Errorf("%s: in place %d is %s", what, i, name)
				}
			}
		}
	}
}

// A loop that ends early asks Redis for no page after the present one.
func TestLoopsStopEarly(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the calls to one are counted")
	db := storetest.Open(t)
	runs := make(map[string]int)
	db.Observe(func(script string, _ time.Duration, _ error) { runs[script]++ })
	for what, loop := range loops(t, t.Context(), clientOf(t, db)) {
		clear(runs)
		for name, err := range loop {
			storetest.Must(t, err)
			if name == "003" {
				break
			}
		}
		for script, n := range runs {
			if n > 1 {
				t.Errorf("%s: %s was run %d times for the first page", what, script, n)
			}
		}
		if len(runs) == 0 {
			t.Errorf("%s: nothing was run", what)
		}
	}
}

// The last pair of a loop has its error, even after good pages.
func TestLoopsEndWithTheirError(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "several have all the topics on their first pages")
	for _, what := range []string{"messages", "topics"} {
		pub, _ := open(t)
		ctx, end := context.WithCancel(t.Context())
		t.Cleanup(end)
		good, bad := 0, error(nil)
		for _, err := range loops(t, ctx, pub)[what] {
			if bad != nil {
				t.Fatalf("%s: it goes on behind %v", what, bad)
			}
			if bad = err; err == nil {
				good++
				end()
			}
		}
		if !errors.Is(bad, context.Canceled) || good == 0 || good == 120 {
			t.Errorf("%s: %d were good, then %v", what, good, bad)
		}
	}
	pub, _ := open(t)
	for _, err := range pub.Messages(t.Context(), "no topic", notify.Scheduled) {
		wantInvalid(t, err, "topic")
	}
	for _, err := range pub.Messages(t.Context(), topic, 0) {
		wantInvalid(t, err, "state")
	}
}
