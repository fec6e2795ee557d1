package subscribers_test

import (
	"context"
	"net"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// listens has a listener listen until it is stopped.
func listens(t *testing.T, l *subscribers.Listener) (stop func()) {
	t.Helper()
	return storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, ">", hears)
	})
}

// Where nothing is broadcast, the beat alone shows that a listener gets on.
func TestListenerProgress(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := subscriberstest.Listener(t, db)
	if at := l.Stats().Progress; !at.IsZero() {
		t.Errorf("it came around at %v before anybody listened", at)
	}
	stop := listens(t, l)
	storetest.Eventually(t, "it runs", func() bool { return !l.Stats().Progress.IsZero() })
	first := l.Stats().Progress
	storetest.Eventually(t, "two beats", func() bool { return l.Stats().Progress.Sub(first) > 2*reach.Heartbeat })
	stop()
	if at := l.Stats().Progress; !at.IsZero() {
		t.Errorf("it came around at %v, and nobody listens", at)
	}
}

// A Redis that answers nothing does not make a listener look as if it were stuck.
func TestListenerProgressWithoutRedis(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer deaf.Close()
	l := subscriberstest.Listener(t, storetest.At(t, "redis://"+deaf.Addr().String(), ""))
	listens(t, l)
	storetest.Eventually(t, "it runs", func() bool { return !l.Stats().Progress.IsZero() })
	last := l.Stats().Progress
	storetest.Eventually(t, "it comes around", func() bool { return l.Stats().Progress.After(last) })
	if took := l.Stats().Progress.Sub(last); took > subscribers.ListenerBound {
		t.Errorf("it took %v, the bound is %v", took, subscribers.ListenerBound)
	}
}
