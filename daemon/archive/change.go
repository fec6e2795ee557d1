package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// A Change is how many rows a call worked on.
type Change struct {
	Done    int    // rows that were published again, or removed
	Refused int    // rows that cannot be published: their ids are in use, they are dead letters that may not be requeued, or their records are none that a publisher may send
	Cursor  string // where to go on; empty: all are done. Prune and Erase, which remove what they did, go on by a further call
}

// more is the cursor of a change that goes on where it began.
const more = "more"

// MaxChange is the most rows that a call changes, but for the months that Prune removes at
// once.
const MaxChange = 10_000

// requeueBatch is how many rows are published at a time.
const requeueBatch = 50

// Requeue publishes rows again, as due now, under their ids and with all that their
// publishers asked for: up to limit of those that a query selects, behind a cursor, the
// newest first. One that is still a dead letter is requeued as that, or refused unless
// letters is set. The rows stay. What is in use or kept is refused. Errors: a notify.Fault,
// that of Redis or that of the database, with what was done until then: it may be repeated
// from the cursor.
func (a *Archive) Requeue(ctx context.Context, q Query, limit int, cursor string, letters bool) (Change, error) {
	if err := fault.Within("limit", "limit", limit, 1, MaxChange); err != nil {
		return Change{}, err
	}
	done := Change{Cursor: cursor}
	for left := limit; left > 0; {
		page, err := a.Search(ctx, q, min(left, requeueBatch), done.Cursor, true)
		if err != nil {
			return done, err
		}
		if err := a.publish(ctx, page.Rows, letters, &done); err != nil {
			return done, err
		}
		left -= len(page.Rows)
		if done.Cursor = page.Cursor; done.Cursor == "" {
			break
		}
	}
	return done, nil
}

// publish publishes rows, and counts them. If letters is set, it requeues those that are still dead letters.
func (a *Archive) publish(ctx context.Context, rows []Row, letters bool, done *Change) error {
	var messages []notify.Message
	for i := range rows {
		if rows[i].Fault == "" {
			messages = append(messages, rows[i].message())
		} else {
			done.Refused++
		}
	}
	var failed error
	for _, result := range a.pub.PublishMany(ctx, messages) {
		again, err := result.Outcome == notify.Created, result.Err
		if letters && errors.Is(err, notify.ErrDead) {
			var n int
			n, err = a.inspector.Requeue(ctx, result.Topic, result.ID)
			again = n == 1
		}
		switch {
		case err == nil && again:
			done.Done++
		case err == nil, errors.Is(err, notify.ErrInvalid), errors.Is(err, notify.ErrExists), errors.Is(err, notify.ErrLeased), errors.Is(err, notify.ErrDead):
			done.Refused++
		default:
			failed = err
		}
	}
	return failed
}

// message returns the message of a row, due now. It keeps what is there.
func (r *Row) message() notify.Message {
	m := notify.Message{Topic: r.Topic, ID: r.ID, IfExists: notify.Keep}
	fields.Fill(&m, &r.Record)
	m.Group, m.AfterGroup, m.OnDead = "", "", "" // it joined its group, or waited for one, when it was published
	if store.ScheduleOfKey(m.Key) != "" {        // it stands for the schedule, and no publish may name it
		m.Key, m.IfBusy = "", ""
	}
	return m
}

// Prune removes rows that ended before a time: whole months at once, by their partitions,
// until limit rows are removed, and up to limit rows of the month that the time is in.
// Errors: a notify.Fault, ErrNoSchema, or that of the database, with what was removed until
// then.
func (a *Archive) Prune(ctx context.Context, before time.Time, limit int) (done Change, err error) {
	at := checkTime("before", before)
	if before.IsZero() {
		at = fault.New("before", "before: it is missing; give a time")
	}
	if err := errors.Join(at, fault.Within("limit", "limit", limit, 1, MaxChange)); err != nil {
		return Change{}, err
	}
	months, err := a.monthsBefore(ctx, before)
	if err != nil {
		return Change{}, err
	}
	for _, name := range months {
		if done.Done >= limit {
			done.Cursor = more
			return done, nil
		}
		n, err := a.drop(ctx, name)
		if err != nil {
			return done, err
		}
		done.Done += n
	}
	if done.Done >= limit {
		done.Cursor = more
		return done, nil
	}
	rest, err := a.remove(ctx, "prune", Query{To: before}, limit-done.Done)
	done.Done, done.Cursor = done.Done+rest.Done, rest.Cursor
	return done, err
}

// monthsBefore returns the names of the partitions of months that ended before a time.
func (a *Archive) monthsBefore(ctx context.Context, before time.Time) (names []string, err error) {
	err = a.within(ctx, "look for months", func(tx pgx.Tx) error {
		const look = `SELECT c.relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
			WHERE inhparent = 'bellhop.messages'::regclass AND c.relnamespace = 'bellhop'::regnamespace
			AND c.relname ~ '^messages_[0-9]{4}_[0-9]{2}$' AND c.relname < $1 ORDER BY 1`
		rows, err := tx.Query(ctx, look, monthOf(before).name())
		if err == nil {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	return names, err
}

// drop removes a partition, and returns how many rows it had.
func (a *Archive) drop(ctx context.Context, name string) (rows int, err error) {
	table := pgx.Identifier{"bellhop", name}.Sanitize()
	err = a.within(ctx, "DROP TABLE "+table, func(tx pgx.Tx) error {
		if err := database.Lock(ctx, tx); err != nil {
			return err
		}
		var there bool
		err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", "bellhop."+name).Scan(&there)
		if err != nil || !there { // another call was faster
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&rows); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DROP TABLE "+table)
		return err
	})
	if err != nil {
		rows = 0
	}
	return rows, err
}

// Erase removes up to limit rows that a query selects, the newest first: what a person
// asks to be forgotten. Errors: a notify.Fault, ErrNoSchema, or that of the database.
func (a *Archive) Erase(ctx context.Context, q Query, limit int) (Change, error) {
	if err := errors.Join(q.Check(), fault.Within("limit", "limit", limit, 1, MaxChange)); err != nil {
		return Change{}, err
	}
	return a.remove(ctx, "erase", q, limit)
}

// remove removes up to limit rows that a query selects. It finds their keys first, so that
// they are removed by the index, whatever the planner thinks of the query.
func (a *Archive) remove(ctx context.Context, doing string, q Query, limit int) (done Change, err error) {
	s := q.selection()
	s.args = append(s.args, limit)
	find := fmt.Sprintf("SELECT ended, topic, id, store, entry FROM bellhop.messages WHERE %s %s LIMIT $%d", s, newestFirst, len(s.args))
	err = a.within(ctx, doing, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, find, s.args...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
		if err != nil || len(found) == 0 {
			return err
		}
		tag, err := tx.Exec(ctx, removal, keys(found)...)
		done.Done = int(tag.RowsAffected())
		if len(found) == limit {
			done.Cursor = more
		}
		return err
	})
	if err != nil {
		return Change{}, err
	}
	return done, nil
}

// removal removes rows by their keys, which ended between two times.
const removal = `DELETE FROM bellhop.messages m
	USING unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[]) AS k (ended, topic, id, store, entry)
	WHERE m.topic = k.topic AND m.id = k.id AND m.ended = k.ended AND m.store = k.store AND m.entry = k.entry
	AND m.ended BETWEEN $6 AND $7`

// keys are the arguments of a removal of rows, the newest first.
func keys(of []place) []any {
	n := len(of)
	ended, topic, id, store, entry := make([]time.Time, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, p := range of {
		ended[i], topic[i], id[i], store[i], entry[i] = p.Ended, p.Topic, p.ID, p.Store, p.Entry
	}
	return []any{ended, topic, id, store, entry, of[n-1].Ended, of[0].Ended}
}
