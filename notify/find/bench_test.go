package find_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// BenchmarkFind measures how many messages a second a search looks at among a million, and how late the messages of another
// topic are that gets one every 5 ms, without a search and during one.
func BenchmarkFind(b *testing.B) {
	const stored, apart = 1_000_000, 5 * time.Millisecond
	db := storetest.Open(b)
	storetest.Fill(b, db, stored, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprintf("order.%d", i%100), ID: fmt.Sprintf("order-%d", i), Delay: 24 * time.Hour, Body: storetest.Payload}
	})
	c, err := carrier.New(db, carrier.Options{})
	if err != nil {
		b.Fatal(err)
	}
	storetest.Run(b, c.Run)
	for _, question := range []string{"", "id:order-99999*", "body~4711", "header.tenant=acme", "topic:order.*"} {
		b.Run("question="+question, func(b *testing.B) {
			var late storetest.Lateness
			worker, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{})
			if err != nil {
				b.Fatal(err)
			}
			topic := fmt.Sprintf("clock.%d", time.Now().UnixNano())
			if err := worker.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
				late.Add(time.Since(d.Due))
				return nil
			}, subscribers.HandleOptions{Concurrency: 4}); err != nil {
				b.Fatal(err)
			}
			stop := storetest.Run(b, worker.Run)
			defer stop()
			const n = 2000
			looked, took := int64(0), time.Duration(0)
			for b.Loop() {
				start := time.Now().Add(time.Second).Truncate(time.Millisecond)
				storetest.Fill(b, db, n, func(i int) notify.Message {
					return notify.Message{Topic: topic, Due: start.Add(time.Duration(i) * apart), Body: storetest.Payload}
				})
				end := start.Add(n * apart)
				for question != "" && time.Now().Before(end) {
					began := time.Now()
					looked += search(b, db, question, end)
					took += time.Since(began)
				}
				late.Await(b, n)
			}
			late.Report(b, "late")
			if took > 0 {
				b.ReportMetric(float64(looked)/took.Seconds(), "looked/s")
			}
		})
	}
}

// search searches until the end, or until a time, and returns how many messages it looked at.
func search(b *testing.B, db *notify.Store, question string, until time.Time) int64 {
	b.Helper()
	q, err := find.Parse(question, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	f := finder(b, db)
	for o := (find.Options{Limit: find.MaxLimit}); ; {
		page, err := f.Find(b.Context(), q, o)
		if err != nil {
			b.Fatal(err)
		}
		if o.Cursor = page.Cursor; o.Cursor == "" || time.Now().After(until) {
			return page.Looked
		}
	}
}
