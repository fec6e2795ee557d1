package archive_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// BenchmarkArchive measures how many deaths a second are archived, with PostgreSQL and
// Redis on the same machine: each of a message of 200 bytes with two headers.
func BenchmarkArchive(b *testing.B) {
	s, url := storetest.Open(b), databasetest.Database(b)
	ctx := context.Background()
	a := archivetest.Open(b, s, archive.Options{URL: url, Room: max(b.N, 1)})
	storetest.Must(b, s.Of(topic).OpenArchive(ctx, max(b.N, 1)))
	storetest.Fill(b, s, b.N, func(i int) notify.Message {
		return notify.Message{Topic: topic, Body: make([]byte, 200), ContentType: "application/json", Headers: map[string]string{"Tenant": fmt.Sprint(i % 10), "Trace": "0123456789abcdef"}}
	})
	claimer := subscriberstest.Claimer(b, s)
	for died := 0; died < b.N; {
		ds, err := claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 500, Lease: time.Hour})
		storetest.Must(b, err)
		for _, d := range ds {
			storetest.Must(b, storetest.ErrOf(d.Bury(ctx, "the service answered 503")))
		}
		died += len(ds)
	}
	b.ResetTimer()
	stop := storetest.Run(b, func(ctx context.Context) error {
		terms(ctx, b, a, s)
		return nil
	})
	storetest.Poll(time.Millisecond, time.Hour, func() bool { return a.Stats().Stored >= int64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	stop()
}
