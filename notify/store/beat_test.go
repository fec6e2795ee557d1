package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Where more topics have messages that nobody waits for than a beat can name, each is named by some beat: its waiting list may have been lost.
func TestEachTopicIsNamed(t *testing.T) {
	t.Parallel()
	db, shard, won := carriers(t, 1)
	for i := range 120 {
		storetest.Publish(t, db, notify.Message{Topic: fmt.Sprintf("abandoned.%030d", i), ID: "a"})
	}
	last := fmt.Sprintf("last.%035d", 0)
	storetest.Publish(t, db, notify.Message{Topic: last, ID: "a"})
	var named atomic.Bool
	heard := make(chan struct{}, 1000)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			if slices.Contains(e.Topics(), last) {
				named.Store(true)
			}
			heard <- struct{}{}
		})
		return nil
	})
	storetest.Receive(t, "the beats are heard", heard)
	storetest.Eventually(t, "the last topic is named", func() bool {
		beat(t, shard, won)
		storetest.Receive(t, "a beat", heard)
		return named.Load()
	})
}
