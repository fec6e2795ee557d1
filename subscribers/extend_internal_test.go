package subscribers

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// Leases that become shorter with each claim put off the extension of none before them.
func TestLeasesThatBecomeShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		lease := func(i int) time.Duration { return 4*time.Second - time.Duration(i)*200*time.Millisecond }
		var last [n]time.Time // when each was claimed, or extended
		claimed, over := 0, make(chan struct{})
		e := newEngine(source[int]{
			claim: func(context.Context, int, []int) (batch[int], error) {
				if claimed == n {
					return batch[int]{}, nil
				}
				last[claimed] = time.Now()
				claimed++
				return batch[int]{work: []int{claimed - 1}}, nil
			},
			handle: func(context.Context, *job[int], int) bool {
				<-over
				return true
			},
			ack:     func(context.Context, []int) ([]int, error) { return nil, nil },
			release: func(context.Context, []*job[int], bool) error { return nil },
			extend: func(_ context.Context, all []int, length time.Duration) (extension[int], error) {
				for _, i := range all {
					if since := time.Since(last[i]); since > length*2/3 || length != lease(i) {
						t.Errorf("the lease %d, of %v, is extended by %v after %v", i, lease(i), length, since)
					}
					last[i] = time.Now()
				}
				return extension[int]{renew: func(int, *int) {}}, nil
			},
			lease: func(i *int) (time.Duration, time.Duration) { return lease(*i), 0 },
			ends:  func(error) bool { return false },
			noun:  "number",
		}, terms{concurrency: n, grace: time.Hour}, make(chan struct{}, 1), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.run(ctx) }()
		for range n {
			signal(e.rung)
			time.Sleep(time.Second) // a quarter of the first lease
			synctest.Wait()
		}
		for i := range n {
			if since := time.Since(last[i]); since > lease(i)*2/3 {
				t.Errorf("the lease %d, of %v, was not extended for %v", i, lease(i), since)
			}
		}
		close(over)
		stop()
		storetest.Should(t, <-ended)
	})
}
