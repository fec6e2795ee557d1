package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkCommitted measures how long after its commit a row is ready, while nothing else is under way.
func BenchmarkCommitted(b *testing.B) {
	outbox.Hasten(10 * time.Second)
	s := open(b, databasetest.Database(b), storetest.Open(b))
	s.start(s.url)
	conn := s.connect()
	defer conn.Close(b.Context())
	ready, client := s.store.KeysOf(topic).Ready(topic), s.store.Client()
	var all []time.Duration
	for b.Loop() {
		time.Sleep(20 * time.Millisecond) // until the relay sleeps
		var id string
		storetest.Must(b, conn.QueryRow(b.Context(), "SELECT bellhop.publish('"+topic+"', 'x')").Scan(&id))
		committed := time.Now()
		for client.ZScore(b.Context(), ready, topic+":"+id).Err() != nil {
			if time.Since(committed) > storetest.Deadline {
				b.Fatal("it does not come")
			}
		}
		all = append(all, time.Since(committed))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*9/10].Microseconds())/1000, "p90-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkBacklog measures how fast rows that ask for nothing are relayed.
func BenchmarkBacklog(b *testing.B) {
	const backlog = 100_000
	outbox.Hasten(10 * time.Second)
	s := open(b, databasetest.Database(b), storetest.Open(b))
	for b.Loop() {
		b.StopTimer()
		s.exec("SELECT count(bellhop.publish($1, repeat('x', 100), delay => '1h')) FROM generate_series(1, $2)", topic, backlog)
		s.exec("ANALYZE bellhop.outbox")
		b.StartTimer()
		stop := s.start(s.url)
		for s.relay.Stats().Relayed < backlog {
			time.Sleep(time.Millisecond)
		}
		stop()
	}
	b.ReportMetric(backlog*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkDeadRows measures a look while a snapshot keeps a million rows that were deleted: from the first on, and from the floor on.
func BenchmarkDeadRows(b *testing.B) {
	s := open(b, databasetest.Database(b), storetest.Open(b))
	conn := s.connect()
	defer conn.Close(b.Context())
	tx := s.begin()
	_, err := tx.Exec(b.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	storetest.Must(b, err)
	s.exec("INSERT INTO bellhop.outbox (topic, id, body) SELECT 't', n::text, 'x' FROM generate_series(1, 1000000) n")
	s.exec("DELETE FROM bellhop.outbox")
	for _, at := range []struct {
		name  string
		floor int64
	}{{"first", 0}, {"floor", 1_000_000}} {
		b.Run(at.name, func(b *testing.B) {
			for b.Loop() {
				rows, _ := conn.Query(b.Context(), outbox.Looking, at.floor, []string{}, 500, 4<<20)
				_, err := pgx.CollectRows(rows, pgx.RowToMap)
				storetest.Must(b, err)
			}
		})
	}
}
