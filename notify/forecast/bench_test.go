package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkForecast counts 100,000 messages in one topic, and in 10,000. longest-ms is the longest call
// that Redis worked on, with the way there and back.
func BenchmarkForecast(b *testing.B) {
	for _, bench := range []struct {
		name           string
		topics, spread int
		o              forecast.Options
	}{
		{"one topic, 1000 buckets", 1, 1000, forecast.Options{Bucket: time.Minute, Count: 1000, Topics: patterns(b, "t.0")}},
		{"10000 topics, 24 buckets", 10000, 24 * 60, forecast.Options{}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, from := storetest.Open(b), time.Now().Add(time.Minute)
			storetest.Fill(b, s, 100_000, func(i int) notify.Message {
				return notify.Message{Topic: fmt.Sprint("t.", i%bench.topics), Due: from.Add(time.Duration(i%bench.spread) * time.Minute)}
			})
			var longest time.Duration
			calls := 0
			s.Observe(func(script string, took time.Duration, _ error) { longest, calls = max(longest, took), calls+1 })
			for b.Loop() {
				of(b, s, bench.o)
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}

// BenchmarkRecurring counts what 100,000 schedules fire, a day or a minute apart.
func BenchmarkRecurring(b *testing.B) {
	for name, spec := range map[string]calendar.Spec{
		"daily": {Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "each minute": {Cron: "* * * * *", Zone: "Europe/Berlin"},
	} {
		b.Run(name, func(b *testing.B) {
			s := storetest.Open(b)
			put(b, s, store.Schedule{Topic: "t", Name: "one", Spec: spec})
			copies(b, s, "t", "one", 100_000)
			for b.Loop() {
				of(b, s, forecast.Options{})
			}
		})
	}
}
