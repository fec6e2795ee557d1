package natsgate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/natsgate"
)

// A call that may take long ends 10 s after its last progress, as one that Redis does not answer, or with its gateway.
func TestLastingCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, stop := context.WithCancel(t.Context())
		began := time.Now()
		ctx, progress, done := natsgate.Lasting(running)
		time.AfterFunc(9*time.Second, progress)
		<-ctx.Done()
		cause := context.Cause(ctx)
		if took := time.Since(began); took != 19*time.Second || !errors.Is(cause, context.DeadlineExceeded) || api.ProblemOf(cause).Title != "redis is away" {
			t.Errorf("it ended after %v with %v", took, cause)
		}
		done()

		ctx, _, done = natsgate.Lasting(running)
		defer done()
		stop()
		<-ctx.Done()
		if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("it ended with the gateway with %v", cause)
		}
	})
}
