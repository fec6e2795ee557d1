package console_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// No page reads more from Redis than the viewer's token has memory for, whatever is large there.
func TestPagesReserveWhatTheyRead(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	var read storetest.Meter
	var reserved atomic.Int64
	store.Client().AddHook(&read)
	body := make([]byte, 256<<10)
	sized := func(topic, id string, delay time.Duration) notify.Message {
		return notify.Message{Topic: topic, ID: id, Body: body, Delay: delay}
	}
	for _, topic := range []string{"order.refused", "order.timeout"} {
		storetest.Publish(t, store, sized(topic, "1", 0), sized(topic, "2", 0), sized(topic, "3", 0))
		ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 3, Lease: time.Hour})
		if err != nil || len(ds) != 3 {
			t.Fatal(ds, err)
		}
		for _, d := range ds[:2] {
			if _, err := d.Bury(t.Context(), "refused"); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Publish(t, store, sized(topic, "4", time.Hour), sized(topic, "order-4711", time.Hour), sized(topic, "5", 0))
	}
	viewer := anybody()
	viewer.Reserve = func(_ *http.Request, bytes int64) (free func(), err error) {
		reserved.Add(bytes)
		return func() {}, nil
	}
	pages, err := console.New(serviceOf(t, store), console.Options{
		Logger: discard, Closing: t.Context(), Patience: storetest.Deadline, MaxPages: 10, Open: viewer,
	})
	if err != nil {
		t.Fatal(err)
	}
	large := 0
	for _, address := range append(addresses(t), "/ui/find/export?q=topic:order.timeout") {
		read.Store(0)
		reserved.Store(0)
		pages.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))
		if n := read.Load(); n > int64(len(body)) {
			large++
			if n > reserved.Load() {
				t.Errorf("%s read %d bytes, and had reserved %d", address, n, reserved.Load())
			}
		}
	}
	if large < 5 { // letters, found messages, their export, a topic and a message
		t.Errorf("%d pages read bodies", large)
	}
}
