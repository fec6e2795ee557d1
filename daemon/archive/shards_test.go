package archive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// bury publishes a message to each topic t0, t1 and so on, from and up to a number, and buries it.
func bury(t testing.TB, s *notify.Store, from, to int) {
	t.Helper()
	claimer := subscriberstest.Claimer(t, s)
	for i := from; i < to; i++ {
		topic := fmt.Sprintf("t%d", i)
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: "x", Body: []byte("body")})
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(ds) != 1 {
			t.Fatalf("claimed %d, %v", len(ds), err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "the test says so")))
	}
}

// What dies in eight shards is archived side by side, over few connections, and one at rest.
func TestEightShards(t *testing.T) {
	s, url := storetest.Sharded(t, 8), databasetest.Database(t)
	a := archivetest.Open(t, s, archive.Options{URL: url, Room: 1000})
	stop := storetest.Run(t, func(ctx context.Context) error { return termsOf(ctx, a, s) })
	archivetest.Registered(t, s)
	const topics = 48
	bury(t, s, 0, topics)
	wantRows(t, url, topics)
	wantEmpty(t, s)
	if n := databasetest.Ask(t, url, "SELECT count(DISTINCT store) FROM bellhop.messages")[0]; n != int64(8) {
		t.Errorf("the rows are of %v shards", n)
	}
	storetest.Eventually(t, "one connection is left", func() bool {
		const others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
		return databasetest.Ask(t, url, others)[0] == int64(1)
	})
	stop()

	began := time.Now()
	bury(t, s, topics, topics+20)
	b, err := a.Backlog(t.Context())
	if err != nil || b.Entries != 20 || !b.Open || b.Room != 8*1000 || b.Oldest.Before(began.Add(-time.Second)) {
		t.Errorf("the backlog is %+v, %v", b, err)
	}
	if n, err := s.CloseArchive(t.Context()); n != 20 || err != nil {
		t.Errorf("closed, and %d were removed, %v", n, err)
	}
	if b, err := a.Backlog(t.Context()); err != nil || b.Open || b.Entries != 0 {
		t.Errorf("after the end the backlog is %+v, %v", b, err)
	}
}

// A shard that is away hides neither what others have nor that the database is away, too.
func TestShardAndDatabaseAway(t *testing.T) {
	const away = 3
	server, url := databasetest.Server(t)
	s := storetest.ShardAway(t, 8, away)
	log, logged := archivetest.Log()
	a := archivetest.Open(t, s, archive.Options{URL: url, Logger: log})
	storetest.Run(t, func(ctx context.Context) error { return termsOf(ctx, a, s) })
	storetest.Eventually(t, "the others are registered", func() bool {
		b, err := a.Backlog(t.Context())
		return store.IsPartial(err) && b.Room == 7*archive.DefaultRoom
	})
	says := func(text string) func() bool { return func() bool { return strings.Contains(logged(), text) } }
	storetest.Eventually(t, "the shard is away", says("cannot read the stream of endings"))
	topic := 0
	for s.Of(fmt.Sprintf("t%d", topic)).Number() == away {
		topic++
	}
	server.Stop()
	bury(t, s, topic, topic+1)
	storetest.Eventually(t, "the database is away", says("cannot archive what ended"))
	storetest.Must(t, server.Restart(t.Context()))
	wantRows(t, url, 1)
	storetest.Eventually(t, "the end of the outage is logged", says("archiving what ended again"))
	if says("reading the stream of endings again")() || strings.Count(logged(), "cannot read the stream of endings") != 1 {
		t.Errorf("logged\n%s", logged())
	}
}

// Entries of two shards may have equal ids: they are two rows, however often they are written.
func TestEqualEntries(t *testing.T) {
	a, url := open(t)
	for range 2 {
		write(t, a, "one", dead(1))
		write(t, a, "another", dead(1))
	}
	if n := databasetest.Ask(t, url, "SELECT count(*) FROM bellhop.messages")[0]; n != int64(2) {
		t.Errorf("there are %v rows", n)
	}
}
