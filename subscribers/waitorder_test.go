package subscribers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// Whatever a caller asks for, and however often its wait ends, it gets messages in their order, from one daemon or from several in turn.
func TestOrderOfWaiters(t *testing.T) {
	for name, test := range map[string]struct {
		o        subscribers.ClaimOptions
		claimers int
	}{
		"acknowledged at once":           {subscribers.ClaimOptions{Wait: time.Minute, AckNow: true}, 1},
		"lease of no whole seconds":      {subscribers.ClaimOptions{Wait: time.Minute, Lease: 30_001 * time.Millisecond}, 1},
		"short waits":                    {subscribers.ClaimOptions{Wait: 3 * time.Millisecond}, 1},
		"short waits, acknowledged":      {subscribers.ClaimOptions{Wait: 3 * time.Millisecond, AckNow: true}, 1},
		"short waits at several daemons": {subscribers.ClaimOptions{Wait: 3 * time.Millisecond}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			c := carrying(t, db)
			var claimers []*subscribers.Claimer
			for range test.claimers {
				p, _ := runClaimer(t, db)
				claimers = append(claimers, p)
			}
			const n, many = 500, 4
			publisher, room := storetest.Publisher(t, db), make(chan bool, many)
			storetest.Run(t, func(ctx context.Context) error {
				for i, m := range numbered(n) {
					select {
					case room <- true: // so that callers wait now and then
					case <-ctx.Done():
						return nil
					}
					m.Delay = time.Duration(i%3) * time.Millisecond
					if _, err := publisher.Publish(ctx, m); err != nil {
						return nil // the test ended
					}
				}
				return nil
			})
			last, again := notify.Message{}, int64(0)
			var due time.Time
			for got := 0; got < n; {
				ds, err := claimers[got%len(claimers)].Claim(t.Context(), topic, test.o)
				storetest.Must(t, err)
				for _, d := range ds {
					select {
					case <-room:
					default: // it came again
					}
					if got++; d.Due.Before(due) {
						again++
						t.Logf("%s, due %v, came after %s, due %v", d.ID, d.Due, last.ID, due)
					}
					last.ID, due = d.ID, d.Due
					if !test.o.AckNow {
						storetest.Should(t, d.Ack(t.Context()))
					}
				}
			}
			storetest.Eventually(t, fmt.Sprintf("%d came out of order, and as many hand-overs lapsed", again), func() bool { return again <= lapsed(c) })
		})
	}
}
