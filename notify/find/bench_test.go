package find_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	stored = 1_000_000
	clocks = 2000                 // messages of another topic in a turn
	apart  = 5 * time.Millisecond // when one is due
)

// BenchmarkFind measures how many messages a second a search looks at among a million, and how late the messages of another
// topic are that gets one every 5 ms, without a search and during one.
func BenchmarkFind(b *testing.B) {
	db := storetest.Open(b)
	storetest.Fill(b, db, stored, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprintf("order.%d", i%100), ID: fmt.Sprintf("order-%d", i), Delay: 24 * time.Hour, Body: storetest.Payload}
	})
	carry(b, db)
	for _, question := range []string{"", "id:order-99999*", "body~4711", "header.tenant=acme", "topic:order.*"} {
		b.Run("question="+question, func(b *testing.B) {
			looked, took := int64(0), time.Duration(0)
			for b.Loop() {
				beside(b, db, func(end time.Time) bool {
					for question != "" && time.Now().Before(end) {
						began := time.Now()
						looked += search(b, db, question, end)
						took += time.Since(began)
					}
					return true
				})
			}
			if took > 0 {
				b.ReportMetric(float64(looked)/took.Seconds(), "looked/s")
			}
		})
	}
}

// BenchmarkDead measures a million dead letters: the first page of a search, and a whole one with the lateness of another topic
// meanwhile.
func BenchmarkDead(b *testing.B) {
	db := deadLetters(b)
	for _, question := range []string{"state:dead", "state:dead id:order-47", "state:dead id:order-99999*", "reason~exit", "header.tenant=acme", "state:dead body~4711"} {
		b.Run("page="+question, func(b *testing.B) {
			f, q, found := timed(b, db), parse(b, question), 0
			for b.Loop() {
				page, err := f.Find(b.Context(), q, find.Options{})
				storetest.Must(b, err)
				found = len(page.Messages)
			}
			b.ReportMetric(float64(found), "found")
		})
	}
	carry(b, db)
	for _, question := range []string{"", "state:dead id:order-99999*", "reason~exit", "header.tenant=acme", "state:dead body~4711"} {
		b.Run("all="+question, func(b *testing.B) {
			q, o, page, took := parse(b, cmp.Or(question, "state:dead")), find.Options{Limit: find.MaxLimit}, find.Page{}, time.Duration(0)
			f := timed(b, db)
			for b.Loop() {
				beside(b, db, func(end time.Time) bool {
					began := time.Now()
					for question != "" && time.Now().Before(end) {
						var err error
						if page, err = f.Find(b.Context(), q, o); err != nil {
							b.Fatal(err)
						}
						if o.Cursor = page.Cursor; o.Cursor == "" {
							break
						}
					}
					took += time.Since(began)
					return o.Cursor == ""
				})
			}
			b.ReportMetric(float64(page.Looked), "looked")
			b.ReportMetric(took.Seconds(), "took-s")
		})
	}
}

// BenchmarkDeadActs measures acts on a million dead letters, and the lateness of another topic meanwhile.
func BenchmarkDeadActs(b *testing.B) {
	for _, kind := range []find.Kind{find.Requeue, find.Purge} {
		b.Run("act="+string(kind), func(b *testing.B) {
			db := deadLetters(b)
			carry(b, db)
			f, q, o, took, done := timed(b, db), parse(b, "state:dead"), find.Options{}, time.Duration(0), 0
			for b.Loop() {
				beside(b, db, func(end time.Time) bool {
					began := time.Now()
					for time.Now().Before(end) {
						acted, err := f.Act(b.Context(), q, find.Act{Kind: kind}, o, false)
						storetest.Must(b, err)
						done += acted.Done
						if o.Cursor = acted.Cursor; o.Cursor == "" {
							break
						}
					}
					took += time.Since(began)
					return o.Cursor == ""
				})
			}
			if done != stored {
				b.Errorf("%d were done, want %d", done, stored)
			}
			b.ReportMetric(took.Seconds(), "took-s")
			b.ReportMetric(float64(done)/took.Seconds(), "done/s")
		})
	}
}

// deadLetters returns a store with a million dead letters in 100 topics.
func deadLetters(b *testing.B) *notify.Store {
	b.Helper()
	db, died := storetest.Open(b), time.Now().Add(-2*time.Hour)
	storetest.Fill(b, db, stored, func(i int) notify.Message {
		return notify.Message{
			Topic: fmt.Sprintf("order.%d", i%100), ID: fmt.Sprintf("order-%d", i), Body: storetest.Payload,
			Headers: map[string]string{"tenant": fmt.Sprint("t", i%1000)},
			Restore: &notify.Restore{Died: died.Add(time.Duration(i) * time.Millisecond), Reason: "connection reset by peer"},
		}
	})
	return db
}

// carry runs a carrier until the end of the benchmark.
func carry(b *testing.B, db *notify.Store) {
	b.Helper()
	carriertest.Run(b, db)
}

// beside does some work, in turns of 10 s until it is done, while a message of a topic of its own is due every 5 ms, and reports how late
// these were. The work gets the end of its turn.
func beside(b *testing.B, db *notify.Store, work func(end time.Time) (done bool)) {
	b.Helper()
	var late storetest.Lateness
	worker, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{})
	storetest.Must(b, err)
	topic := fmt.Sprintf("clock.%d", time.Now().UnixNano())
	storetest.Must(b, worker.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		late.Add(time.Since(d.Due))
		return nil
	}, subscribers.HandleOptions{Concurrency: 4}))
	stop := storetest.Run(b, worker.Run)
	defer stop()
	for n, done := clocks, false; !done; n += clocks {
		start := time.Now().Add(time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, db, clocks, func(i int) notify.Message {
			return notify.Message{Topic: topic, Due: start.Add(time.Duration(i) * apart), Body: storetest.Payload}
		})
		done = work(start.Add(clocks * apart))
		late.Await(b, n)
	}
	late.Report(b, "late")
}

// search searches until the end, or until a time, and returns how many messages it looked at.
func search(b *testing.B, db *notify.Store, question string, until time.Time) int64 {
	b.Helper()
	q := parse(b, question)
	f := timed(b, db)
	for o := (find.Options{Limit: find.MaxLimit}); ; {
		page, err := f.Find(b.Context(), q, o)
		storetest.Must(b, err)
		if o.Cursor = page.Cursor; o.Cursor == "" || time.Now().After(until) {
			return page.Looked
		}
	}
}

// BenchmarkFirstPage measures how long the first page takes among 10,000 topics. longest-ms is the longest call that Redis worked
// on, with the way there and back.
func BenchmarkFirstPage(b *testing.B) {
	db := storetest.Open(b)
	storetest.Fill(b, db, 100_000, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprintf("order.%d", i%10_000), ID: fmt.Sprintf("order-%d", i), Delay: 24 * time.Hour, Body: storetest.Payload}
	})
	granted, err := notify.ParsePattern("order.>")
	storetest.Must(b, err)
	for _, question := range []string{"topic:>", "id:order-9999*", "id:order-47", "id:order-9999", "id:nowhere", "state:dead", "body~4711"} {
		b.Run("question="+question, func(b *testing.B) {
			f, q := timed(b, db), parse(b, question)
			var longest time.Duration
			calls := 0
			db.Observe(func(_ string, took time.Duration, _ error) { longest, calls = max(longest, took), calls+1 })
			defer db.Observe(nil)
			var page find.Page
			for b.Loop() {
				var err error
				if page, err = f.Find(b.Context(), q, find.Options{May: granted.Match}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
			b.ReportMetric(float64(len(page.Messages)), "found")
			b.ReportMetric(float64(page.Looked), "looked")
		})
	}
}
