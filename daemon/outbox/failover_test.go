package outbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// publishMany publishes messages of which the bodies are numbers, in one transaction.
func (s *shop) publishMany(from, to int) {
	s.t.Helper()
	s.exec("SELECT bellhop.publish($1, n::text) FROM generate_series($2::int, $3::int) n", topic, from, to)
}

// handle handles so many messages, and notes how often each was.
func (s *shop) handle(n int, times map[string]int) {
	s.t.Helper()
	for _, body := range s.ready(n) {
		times[body]++
	}
	s.empty()
	counts, err := storetest.Count(s.store, topic)
	storetest.Must(s.t, err)
	storetest.Is(s.t, "messages beside them", counts.Ready+counts.Scheduled, 0)
}

// An asynchronous replica takes the place of a database, whose end it lacks: rows come again that it has not seen deleted, but for the last batch; what
// it has not seen at all was published; and it gives numbers again, to rows that come nevertheless.
func TestFailover(t *testing.T) {
	t.Parallel()
	const seen, batch = 600, 500 // of one look
	for name, unseen := range map[string]int{"deletions are lost": 0, "transactions are lost, too": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := databasetest.Server(t)
			s := open(t, url, storetest.Open(t))
			replica, err := server.Replica(t.Context())
			storetest.Must(t, err)
			t.Cleanup(replica.Close)
			promoted := replica.URL("archive")
			both := strings.Replace(url, server.Addr(), replica.Addr()+","+server.Addr(), 1) // first the one that takes no writes yet

			s.publishMany(1, seen)
			const rows = "SELECT count(*) FROM bellhop.outbox"
			storetest.Eventually(t, "the replica has them", func() bool { return databasetest.Ask(t, promoted, rows)[0] == int64(seen) })
			databasetest.Exec(t, promoted, "ALTER SYSTEM SET primary_conninfo = ''")
			databasetest.Exec(t, promoted, "SELECT pg_reload_conf()")
			storetest.Eventually(t, "the replica is on its own", func() bool {
				return databasetest.Ask(t, promoted, "SELECT count(*) FROM pg_stat_wal_receiver")[0] == int64(0)
			})
			stop, times := s.start(both), make(map[string]int)
			s.handle(seen, times)
			if unseen > 0 {
				s.publishMany(seen+1, seen+unseen)
				s.handle(unseen, times)
			}
			stop()
			server.Kill()
			storetest.Is(t, "the replica is promoted", databasetest.Ask(t, promoted, "SELECT pg_promote()")[0], any(true))
			s.url = promoted
			s.publishMany(1001, 1200)
			again := databasetest.Ask(t, promoted, "SELECT count(*) FROM bellhop.outbox WHERE seq > $1 AND seq <= $2", seen, seen+unseen)[0].(int64)
			if unseen > 0 && again == 0 {
				t.Fatal("no number is given again")
			}
			s.start(both)
			forgotten := batch // of its deletions
			if unseen > 0 {
				forgotten = seen
			}
			s.handle(forgotten+200, times)
			for n := range 1200 {
				want := 1
				switch {
				case n < forgotten:
					want = 2
				case n >= seen+unseen && n < 1000:
					want = 0
				}
				storetest.Is(t, fmt.Sprint("how often ", n+1, " was handled"), times[fmt.Sprint(n+1)], want)
			}
		})
	}
}

// A server that takes no more writes, as one that another has replaced, is left for one that does. What Redis took meanwhile does not come twice.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	server, url := databasetest.Server(t)
	s, times := open(t, url, storetest.Open(t)), make(map[string]int)
	s.start(url)
	s.publishMany(1, 1)
	s.handle(1, times)
	s.asleep()
	for _, statement := range []string{
		"ALTER DATABASE archive SET default_transaction_read_only = off", // of new connections
		"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()",
	} {
		databasetest.Exec(t, server.URL("postgres"), statement)
	}
	s.publishMany(2, 11)
	s.handle(10, times)
	for n := range 11 {
		storetest.Is(t, fmt.Sprint("how often ", n+1, " was handled"), times[fmt.Sprint(n+1)], 1)
	}
	if !strings.Contains(s.log.String(), "read-only") || s.relay.Stats().Failures == 0 {
		t.Errorf("it is not told: %s", s.log)
	}
}
