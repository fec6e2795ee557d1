package faults_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// The database of the archive, and the carrier's daemon with its link to that.
const (
	database = "database"
	archiver = "archive"
)

// archiveFaults hit a database that keeps running.
var archiveFaults = []fault{
	{"failover", []string{database}, failOverDatabase, 500 * time.Millisecond, 2 * time.Second},
}

// failOverDatabase has the server of all open connections take no more writes, as after a failover that leaves
// sockets open. New connections lead to a server that takes them: the same one, so that it has all rows.
// Nothing heals that but connecting anew.
func failOverDatabase(ctx context.Context, w *world, _ *victim, _ time.Duration) (healing, error) {
	conn, err := pgx.Connect(ctx, w.database.URL("bellhop"))
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		"ALTER DATABASE bellhop SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("fail over: %s: %w", statement, err)
		}
	}
	return func(context.Context) error { return nil }, nil
}

// ackedTopic is the topic of which the archive also holds what was acknowledged.
const ackedTopic = "claimed.b"

// archives reports whether a fault needs an archive.
func (s step) archives() bool {
	return slices.Contains([]string{database, archiver, relayer}, s.Target)
}

// startDatabase starts a PostgreSQL server with an empty database.
func (w *world) startDatabase(ctx context.Context) error {
	out, err := os.Create(filepath.Join(w.dir, database+".log"))
	if err != nil {
		return err
	}
	w.databaseLog = out
	if w.database, err = postgres.Start(ctx, postgres.Options{Output: out}); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(w.database.Addr())
	if err != nil {
		return err
	}
	if w.ports[database], err = strconv.Atoi(port); err != nil {
		return err
	}
	return w.database.Create(ctx, "bellhop")
}

// archiveURL returns the address of the database over a member's link; empty if there is no
// archive.
func (m *member) archiveURL() string {
	if m.w.database == nil {
		return ""
	}
	to := m.w.database
	return strings.Replace(to.URL("bellhop"), to.Addr(), m.links[database].addr(), 1)
}

// awaitArchive waits until an archive is registered, so that no end is missing in it.
func (w *world) awaitArchive(ctx context.Context) error {
	if _, err := w.inspector.Set(ctx, ackedTopic, notify.SettingsChange{ArchiveAcked: new(true)}); err != nil {
		return err
	}
	return until("an archive is registered", func() bool {
		all, err := w.backlogs(ctx)
		return err == nil && !slices.ContainsFunc(all, func(b store.Backlog) bool { return !b.Open })
	})
}

// drainArchive waits until the archive has all that ended so far.
func (w *world) drainArchive(ctx context.Context) error {
	var all []store.Backlog
	err := until("the archive has all", func() (empty bool) {
		var err error
		all, err = w.backlogs(ctx)
		return err == nil && !slices.ContainsFunc(all, func(b store.Backlog) bool { return b.Entries > 0 })
	})
	for _, left := range all {
		if err == nil && left.Removed > 0 {
			err = fmt.Errorf("the housekeeping removed %d entries from a stream of endings", left.Removed)
		}
	}
	return err
}

// backlogs returns what waits for the archive in each shard.
func (w *world) backlogs(ctx context.Context) ([]store.Backlog, error) {
	return store.Gather(ctx, w.store, func(ctx context.Context, s store.Shard) (store.Backlog, error) { return s.Backlog(ctx) })
}

// readArchive records the rows of the archive, and what ended since it was drained: that
// still waits for it.
func (w *world) readArchive(ctx context.Context) error {
	a, err := archive.New(w.store, archive.Options{URL: w.database.URL("bellhop")})
	if err != nil {
		return err
	}
	defer a.Close()
	seen := make(map[string]bool) // an entry that a daemon stored may still wait
	note := func(topic, id, state, entry string, ended time.Time, body, result []byte) {
		if name := record.Member(topic, id) + " " + entry; !seen[name] {
			seen[name] = true
			w.log.Event(history.Record{
				Op: history.Archive, Topic: topic, ID: id, State: state, Redis: ended.UnixMicro(), Version: versionOf(topic, body), Result: string(result),
			})
		}
	}
	for cursor := ""; ; {
		page, err := a.Search(ctx, archive.Query{}, 500, cursor, true)
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		for _, r := range page.Rows {
			if seen[record.Member(r.Topic, r.ID)+" "+r.Entry] {
				return fmt.Errorf("the archive holds the entry %s of %s of %s twice", r.Entry, r.ID, r.Topic)
			}
			note(r.Topic, r.ID, r.State, r.Entry, r.Ended, r.Body, r.Result)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	all, err := store.Gather(ctx, w.store, func(ctx context.Context, s store.Shard) ([]store.Ending, error) { return s.Endings(ctx, 1000) })
	for _, e := range slices.Concat(all...) {
		topic, id, _ := strings.Cut(e.Member, ":")
		note(topic, id, e.State, e.Entry, e.Ended, e.Body, e.Result)
	}
	return err
}
