package subscribers_test

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// inUse returns the bytes of memory that something still refers to.
func inUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Listeners whose handlers hang hold no more than a broadcast each, and the same one only once.
func TestListenersThatHangHoldLittle(t *testing.T) {
	store := storetest.Open(t)
	carry(t, store)
	const large, hung = 48, 200
	var messages []notify.Message
	for i, id := range numbers("n", large) {
		messages = append(messages, notify.Message{
			Topic: topic, ID: id, Broadcast: true, Body: bytes.Repeat([]byte{byte(i)}, notify.DefaultMaxBody),
			Due: time.Now().Add(-time.Hour + time.Duration(i)*time.Millisecond),
		})
	}
	storetest.Publish(t, store, messages...)
	storetest.Eventually(t, "they are sent", func() bool { return len(sentTo(t, store)) == large })
	all := sentTo(t, store)
	l := newListener(t, store)
	before := inUse()
	ctx, stop := context.WithCancel(t.Context())
	var handling atomic.Int64
	handler := func(ctx context.Context, _ *subscribers.Broadcast) error {
		handling.Add(1)
		<-ctx.Done()
		return nil
	}
	ended := make(chan error, hung)
	for i := range hung {
		from := subscribers.After(subscribers.At(all[i%large].at - 1))
		go func() { ended <- l.Listen(ctx, topic, handler, subscribers.ListenOptions{From: from}) }()
	}
	storetest.Eventually(t, "all hang", func() bool { return handling.Load() == hung })
	if got := inUse() - before; got > 1.5*large*notify.DefaultMaxBody {
		t.Errorf("%d listeners hold %d KiB, of %d broadcasts of %d KiB", hung, got>>10, large, notify.DefaultMaxBody>>10)
	}
	stop()
	for range hung {
		storetest.Should(t, storetest.Receive(t, "one ends", ended))
	}
}
