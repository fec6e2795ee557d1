package notify_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// debounced is how the message of BenchmarkDebounce is published.
var debounced = notify.Message{
	Topic: topic, ID: "a", Delay: 500 * time.Millisecond, MaxWait: time.Second, IfExists: notify.Debounce, Then: notify.After,
}

// 16 callers put off one message, while a worker handles it each time that it is due:
// once, with the last body, and never later than MaxWait.
func BenchmarkDebounce(b *testing.B) {
	for _, processes := range []int{1, 16} {
		b.Run(fmt.Sprintf("from %d", processes), func(b *testing.B) { putOff(b, processes) })
	}
}

// putOff divides the callers among some publishers.
func putOff(b *testing.B, processes int) {
	const callers = 16
	db := storetest.Open(b)
	carriertest.Run(b, db, carrier.Options{Lease: carrier.MinLease})
	late, bodies := receiveDebounced(b, db)
	publishers := make([]*notify.Publisher, processes)
	for i := range publishers {
		publishers[i] = storetest.Publisher(b, storetest.At(b, storetest.URL(), db.KeysOf(topic).Prefix()))
	}
	var calls, created atomic.Int64
	call := func(pub *notify.Publisher, body string) {
		m := debounced
		m.Body = []byte(body)
		p, err := pub.Publish(b.Context(), m)
		storetest.Should(b, err)
		if p.Outcome == notify.Created {
			created.Add(1)
		}
	}
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for calls.Add(1) < int64(b.N) && !b.Failed() {
				call(publishers[i%processes], "one")
			}
		})
	}
	all.Wait()
	call(publishers[0], "last")
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	n := int(created.Load())
	late.Await(b, n)
	late.Report(b, "deliveries")
	for i := range n {
		if body := <-bodies; i == n-1 && body != "last" {
			b.Errorf("the last delivery has the body %q", body)
		}
	}
	if counts := counts(b, clientOf(b, db)); counts.Published != int64(n) || counts.Scheduled+counts.Ready != 0 {
		b.Errorf("%d were created, and counts are %+v", n, counts)
	}
}

// receiveDebounced handles the message. It returns how late it was each time, and its
// bodies.
func receiveDebounced(b *testing.B, db *notify.Store) (*storetest.Lateness, <-chan string) {
	b.Helper()
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(b, err)
	late, bodies := new(storetest.Lateness), make(chan string, 10_000)
	storetest.Must(b, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		if last := d.Published.Add(debounced.MaxWait); d.FirstDue.After(last) {
			b.Errorf("it was due %v after its first publish", d.FirstDue.Sub(d.Published))
		}
		bodies <- string(d.Body)
		late.Add(time.Since(d.FirstDue))
		return nil
	}, subscribers.HandleOptions{}))
	storetest.Run(b, sub.Run)
	return late, bodies
}
