package subscribers_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// usedMemory returns how many bytes Redis uses.
func usedMemory(b *testing.B, db *notify.Store) float64 {
	b.Helper()
	info, err := db.Client().Info(b.Context(), "memory").Result()
	storetest.Must(b, err)
	_, rest, _ := strings.Cut(info, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r")
	bytes, err := strconv.ParseFloat(digits, 64)
	storetest.Must(b, err)
	return bytes
}

// BenchmarkBesideBlocked measures how late messages of 1,000 keys reach their handlers, 500 a second, beside a million blocked ones of
// another key, and beside none; and how much memory one of these takes beyond a ready one without a key. Ids have 36 bytes, topic and key 16.
func BenchmarkBesideBlocked(b *testing.B) {
	const keys, perSecond, n = 1000, 500, 5000
	const of, plain, whale = "topic-of-sixteen", "plain-of-sixteen", "a-key-of-sixteen"
	for _, blocked := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(blocked), func(b *testing.B) {
			db := storetest.At(b, storetest.Server(b).URL(), "")
			carry(b, db)
			fill := func(topic, key string) float64 {
				before := usedMemory(b, db)
				storetest.Fill(b, db, blocked, func(i int) notify.Message {
					return notify.Message{Topic: topic, ID: fmt.Sprintf("%036d", i), Key: key}
				})
				return (usedMemory(b, db) - before) / float64(blocked)
			}
			storetest.Publish(b, db, notify.Message{Topic: of, Key: whale})
			storetest.Must(b, storetest.ErrOf(subscriberstest.Claimer(b, db).Claim(b.Context(), of, subscribers.ClaimOptions{Max: 1, Lease: time.Hour})))
			var more float64
			if blocked > 0 {
				more = fill(of, whale) - fill(plain, "")
			}
			var late storetest.Lateness
			sub, err := subscribers.NewSubscriber(db)
			if err == nil {
				err = sub.Handle(of, func(_ context.Context, d *subscribers.Delivery) error {
					late.Add(time.Since(d.Due))
					return nil
				}, subscribers.HandleOptions{Concurrency: 8})
			}
			storetest.Must(b, err)
			storetest.Run(b, sub.Run)
			for b.Loop() {
				ticker := time.NewTicker(time.Second / perSecond)
				for i := range n {
					<-ticker.C
					storetest.Publish(b, db, notify.Message{Topic: of, Key: fmt.Sprint(i % keys)})
				}
				ticker.Stop()
			}
			late.Await(b, b.N*n)
			late.Report(b, "due-to-handler")
			b.ReportMetric(more, "B/blocked")
		})
	}
}

// BenchmarkNextOfKey measures how long it takes from the end of a message until a handler has the next one of its key, on an idle store.
func BenchmarkNextOfKey(b *testing.B) {
	const n = 2000
	db := storetest.Open(b)
	carry(b, db)
	var gaps storetest.Lateness
	for b.Loop() {
		var ended time.Time
		done := make(chan struct{})
		i := 0
		stop := handle(b, db, func(context.Context, *subscribers.Delivery) error {
			if i++; i > 1 {
				gaps.Add(time.Since(ended))
			}
			if i == n {
				close(done)
			}
			ended = time.Now()
			return nil
		}, subscribers.HandleOptions{Concurrency: 1})
		storetest.Fill(b, db, n, func(int) notify.Message { return notify.Message{Topic: topic, Key: "k"} })
		<-done
		stop()
	}
	gaps.Report(b, "end-to-next")
}
