package carrier_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const million = 1_000_000

// handled runs a subscriber of 32 goroutines, which calls on for each message.
func handled(b testing.TB, db *notify.Store, topic string, on func(*subscribers.Delivery)) {
	b.Helper()
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(b, err)
	storetest.Must(b, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		on(d)
		return nil
	}, subscribers.HandleOptions{Concurrency: 32}))
	storetest.Run(b, sub.Run)
	storetest.Eventually(b, "it waits for messages", func() bool { return counts(b, db, topic).Waiting > 0 })
}

// BenchmarkOverdue measures how fast a million messages of one topic that are
// overdue are handled, and how late those of another topic are meanwhile.
func BenchmarkOverdue(b *testing.B) {
	for b.Loop() {
		db := backlog(b, 1)
		began := time.Now()
		end := probe(b, db)
		var n atomic.Int64
		handled(b, db, "overdue.0", func(*subscribers.Delivery) { n.Add(1) })
		for !storetest.Poll(time.Millisecond, storetest.Deadline, func() bool { return n.Load() >= million }) {
			b.Logf("%d were handled so far", n.Load())
		}
		b.ReportMetric(million/time.Since(began).Seconds(), "messages/s")
		end()
	}
}

// BenchmarkOverdueTopics measures how fast a million messages of 10,000 topics
// that are overdue are made ready, and how late those of another topic are meanwhile.
func BenchmarkOverdueTopics(b *testing.B) {
	for b.Loop() {
		db := backlog(b, 10_000)
		began := time.Now()
		end := probe(b, db)
		ready := func() bool {
			next := look(b, db).Next
			return next.IsZero() || next.After(began)
		}
		for !storetest.Poll(5*time.Millisecond, storetest.Deadline, ready) {
			b.Logf("due since %v, and not ready so far", time.Since(look(b, db).Next))
		}
		b.ReportMetric(million/time.Since(began).Seconds(), "messages/s")
		end()
	}
}

// backlog publishes a million messages that become overdue while nobody carries,
// to some topics. The first of each is due before all others.
func backlog(b *testing.B, topics int) *notify.Store {
	b.Helper()
	db := storetest.At(b, storetest.Server(b).URL(), "")
	due := time.Now().Add(time.Second)
	storetest.Fill(b, db, million, func(i int) notify.Message {
		m := notify.Message{Topic: fmt.Sprint("overdue.", i%topics), Body: storetest.Payload, Delay: time.Millisecond}
		if i >= topics {
			m.Delay, m.Due = 0, due.Add(time.Duration(i)*time.Microsecond)
		}
		return m
	})
	storetest.Eventually(b, "all are due", func() bool { return time.Since(due) > million*time.Microsecond })
	return db
}

// probe starts a carrier, and publishes a message of another topic every 5 ms,
// due in 20 ms, until end is called, which reports how late they were.
func probe(b *testing.B, db *notify.Store) (end func()) {
	b.Helper()
	run(b, db, carrier.Options{})
	var late storetest.Lateness
	handled(b, db, topic, func(d *subscribers.Delivery) { late.Add(time.Since(d.Due)) })
	sent := 0
	pub := storetest.Publisher(b, db)
	stop := storetest.Run(b, func(ctx context.Context) error {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if _, err := pub.Publish(context.WithoutCancel(ctx), notify.Message{Topic: topic, Body: storetest.Payload, Delay: 20 * time.Millisecond}); err != nil {
				return err
			}
			sent++
			<-ticker.C
		}
		return nil
	})
	return func() {
		stop()
		late.Await(b, sent)
		late.Report(b, "another-topic")
	}
}
