package natsgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// In a term the beat alone makes the gateway's loops report progress, also while NATS is away.
func TestProgress(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	for name, url := range map[string]string{"with NATS": startNATS(t, nil).ClientURL(), "without NATS": "nats://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, _ := newGate(t, db, natsgate.Options{URL: url})
			loops := map[string]func() time.Time{
				"hints":  func() time.Time { return gate.Stats().Hinting },
				"bridge": func() time.Time { return gate.Stats().Bridging },
			}
			wantNone := func(when string) {
				t.Helper()
				for loop, last := range loops {
					if at := last(); !at.IsZero() {
						t.Errorf("the loop of the %s came around at %v %s", loop, at, when)
					}
				}
			}
			wantNone("before a term")
			stop := storetest.Run(t, func(ctx context.Context) error {
				allTerms(ctx, t, db, gate)
				return nil
			})
			first := make(map[string]time.Time)
			for loop, last := range loops {
				storetest.Eventually(t, loop+" run", func() bool { return !last().IsZero() })
				first[loop] = last()
			}
			for loop, last := range loops {
				storetest.Eventually(t, loop+" go on", func() bool { return last().Sub(first[loop]) > 2*reach.Heartbeat })
			}
			stop()
			wantNone("after the term")
		})
	}
}
