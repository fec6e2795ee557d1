package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify/store"
)

// closeWithin is how long the end of a connection may take.
const closeWithin = time.Second

// A writer stores what ended, on a connection of its own. It is for one goroutine.
type writer struct {
	*Archive
	conn   *pgx.Conn      // nil: none
	months map[month]bool // whose partitions are there
	idled  bool           // the connection has stored something, or waited: it may have broken since
}

// connect makes a connection, unless there is one, and the schema and the partitions that
// are needed first.
func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	conn, err := database.Connect(ctx, w.config)
	if err != nil {
		return w.failedTo("connect", err)
	}
	w.conn, w.months, w.idled = conn, make(map[month]bool), false
	err = w.migrate(ctx)
	if err == nil {
		now := monthOf(time.Now())
		err = w.ensure(ctx, now, now.next()) // ahead, so that a missing right is told early
	}
	if err != nil {
		w.close()
	}
	return w.failedTo("connect", err)
}

// close closes the connection, if there is one, and waits until its goroutines have ended.
func (w *writer) close() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = w.conn.Close(ctx) // it is of no more use, however it ends
	select {
	case <-w.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	w.conn = nil
}

// write stores what ended in a store. A connection that broke while it was idle, or leads
// to a server that became a replica, is no fault: it is made again once.
func (w *writer) write(ctx context.Context, storeID string, ended []store.Ending) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	idled := w.idled
	err := w.insert(ctx, storeID, ended)
	if err != nil && idled && w.conn == nil {
		if err = w.connect(ctx); err == nil {
			err = w.insert(ctx, storeID, ended)
		}
	}
	return err
}

// insert inserts rows. If the database cannot hold a value of one, the others are
// inserted, and that one with what a database of any encoding holds.
func (w *writer) insert(ctx context.Context, storeID string, ended []store.Ending) error {
	err := w.insertAll(ctx, storeID, ended, clean)
	switch {
	case !isAboutValue(err):
		return err
	case len(ended) > 1:
		half := len(ended) / 2
		if err := w.insert(ctx, storeID, ended[:half]); err != nil {
			return err
		}
		return w.insert(ctx, storeID, ended[half:])
	}
	w.o.Logger.Warn("the database cannot hold a text of a message; archiving that in ASCII", "member", ended[0].Member, "error", err)
	return w.insertAll(ctx, storeID, ended, plain)
}

// insertAll inserts rows in one statement, and makes the partitions that they need.
func (w *writer) insertAll(ctx context.Context, storeID string, ended []store.Ending, clean func(string) string) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	var months []month
	for i := range ended {
		months = append(months, monthOf(endOf(&ended[i])))
	}
	err := w.ensure(ctx, months...)
	if err == nil {
		ended, err = w.unknown(ctx, storeID, ended, clean)
	}
	if err == nil {
		var c columns
		for i := range ended {
			c.add(storeID, &ended[i], clean)
		}
		var tag pgconn.CommandTag
		tag, err = w.conn.Exec(ctx, insertion, c.args()...)
		w.stored.Add(tag.RowsAffected())
	}
	switch {
	case err == nil:
		w.idled = true
	case database.Condition(err) == noPartition:
		clear(w.months) // one was removed: the next try makes it again
	case !isAboutValue(err):
		w.close() // a new one may be led to another server, or know other tables
		w.pool.Reset()
	}
	return w.failedTo(fmt.Sprintf("INSERT INTO bellhop.messages, %d rows", len(ended)), err)
}

// unknown returns what ended without the removals of dead letters whose deaths have rows. Redis
// notes the removal of those that died before there was an archive, by its clock. If that was
// set back since, it also notes the removal of others.
func (w *writer) unknown(ctx context.Context, storeID string, ended []store.Ending, clean func(string) string) ([]store.Ending, error) {
	var removed columns
	deaths := make(map[string]bool)
	death := func(e *store.Ending) string { return fmt.Sprint(e.Member, " ", endOf(e).UnixMilli()) }
	for i := range ended {
		switch ended[i].State {
		case "dead":
			deaths[death(&ended[i])] = true
		case "removed":
			removed.add(storeID, &ended[i], clean)
		}
	}
	if len(removed.ended) == 0 {
		return ended, nil
	}
	rows, _ := w.conn.Query(ctx, knownDeaths, removed.topic, removed.id, removed.ended, storeID) // CollectRows returns its error
	known, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var left []store.Ending
	n := int64(0) // of those that were removed, from 1
	for i := range ended {
		if ended[i].State == "removed" {
			if n++; slices.Contains(known, n) || deaths[death(&ended[i])] {
				continue
			}
		}
		left = append(left, ended[i])
	}
	return left, err
}

// knownDeaths returns the numbers of those of some dead letters that have a row of their death.
const knownDeaths = `SELECT r.n FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS r (topic, id, ended, n)
	JOIN bellhop.messages AS m ON m.topic = r.topic AND m.id = r.id AND m.ended = r.ended AND m.store = $4 AND m.state = 'dead'`
