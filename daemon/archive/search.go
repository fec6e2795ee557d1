package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// pageBytes is how many bytes of bodies and results fill a page.
const pageBytes = 8 << 20

// within runs a transaction in which a statement may take a bounded time, and runs it again
// if it failed in a way that a new connection may cure.
func (a *Archive) within(ctx context.Context, doing string, f func(pgx.Tx) error) error {
	err := a.once(ctx, f)
	if isAboutConnection(err) {
		a.pool.Reset()
		err = a.once(ctx, f)
	}
	return a.failedTo(doing, err)
}

// once runs a transaction.
func (a *Archive) once(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		const bounds = "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)"
		if _, err := tx.Exec(ctx, bounds, askWithin.String(), lockWithin.String()); err != nil {
			return err
		}
		if err := checkVersion(ctx, tx); err != nil {
			return fmt.Errorf("archive at %s: %w", a.Address(), err)
		}
		return f(tx)
	})
}

// Ping connects to the database and looks at its schema. Errors: ErrNoSchema, ErrNewer, or
// that of the database.
func (a *Archive) Ping(ctx context.Context) error {
	return a.within(ctx, "look", func(pgx.Tx) error { return nil })
}

// Search returns a page of up to limit rows that a query selects, behind a cursor, newest
// first, and fewer if they have more than some megabytes of bodies. Without bodies the
// rows have neither body nor result. Errors: a notify.Fault, ErrNoSchema, or that of the
// database.
func (a *Archive) Search(ctx context.Context, q Query, limit int, cursor string, bodies bool) (Page, error) {
	s, err := q.page(limit, cursor)
	if err != nil {
		return Page{}, err
	}
	var page Page
	err = a.within(ctx, "search", func(tx pgx.Tx) error {
		page, err = a.readPage(ctx, tx, s, limit, bodies)
		return err
	})
	return page, err
}

// Show returns all rows of a message, newest first: up to MaxPage, and fewer if they have
// more than some megabytes of bodies. Without bodies the rows have neither body nor
// result. Errors: notify.ErrNotFound, a notify.Fault, ErrNoSchema, or that of the database.
func (a *Archive) Show(ctx context.Context, topic, id string, bodies bool) ([]Row, error) {
	if err := errors.Join(record.CheckTopic(topic), record.CheckID(id)); err != nil {
		return nil, err
	}
	s := &selection{}
	s.add("topic = ?", topic)
	s.add("id = ?", id)
	var page Page
	err := a.within(ctx, "show", func(tx pgx.Tx) (err error) {
		page, err = a.readPage(ctx, tx, s, MaxPage, bodies)
		return err
	})
	if err == nil && len(page.Rows) == 0 {
		err = fmt.Errorf("%s in the archive: %w", record.Member(topic, id), notify.ErrNotFound)
	}
	return page.Rows, err
}

// page returns the selection of the rows of a page and those behind it.
func (q Query) page(limit int, cursor string) (*selection, error) {
	var at place
	var errCursor error
	if cursor != "" {
		at, errCursor = parseCursor(cursor)
	}
	if err := errors.Join(q.Check(), fault.Within("limit", "limit", limit, 1, MaxPage), errCursor); err != nil {
		return nil, err
	}
	s := q.selection()
	if cursor != "" {
		at.behind(s)
	}
	return s, nil
}

// readPage reads up to limit rows of a selection, until they fill a page. One whose columns somebody else wrote may be unreadable: its
// Fault says so, and it is counted.
func (a *Archive) readPage(ctx context.Context, tx pgx.Tx, s *selection, limit int, bodies bool) (page Page, err error) {
	s.args = append(s.args, bodies, limit+1)
	n := len(s.args)
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT ended, topic, id, store, entry, state, reason, attempts, history, published, due,
		content_type, headers, options, size, coalesce(fault, ''), CASE WHEN $%[1]d THEN body END, CASE WHEN $%[1]d THEN result END
		FROM bellhop.messages WHERE %[2]s %[3]s LIMIT $%[4]d`, n-1, s, newestFirst, n), s.args...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		if len(page.Rows) == limit || size > pageBytes {
			page.Cursor = placeOf(&page.Rows[len(page.Rows)-1]).cursor()
			return page, nil
		}
		row, columns, err := scan(rows)
		if err != nil {
			return page, err
		}
		if bad := row.parse(&columns); bad != nil {
			row.Fault = "row: " + bad.Error()
			a.unreadable.Add(1)
		}
		size += len(row.Body) + len(row.Result)
		page.Rows = append(page.Rows, row)
	}
	return page, rows.Err()
}

// unparsed are columns of a row that may be unreadable.
type unparsed struct {
	history, headers, options []byte
	published, due            pgtype.Timestamptz // which may be infinite
}

// scan reads a row.
func scan(rows pgx.Rows) (r Row, u unparsed, err error) {
	err = rows.Scan(&r.Ended, &r.Topic, &r.ID, &r.Store, &r.Entry, &r.State, &r.Reason, &r.Attempts, &u.history, &u.published, &u.due,
		&r.ContentType, &u.headers, &u.options, &r.Size, &r.Fault, &r.Body, &r.Result)
	r.Ended = r.Ended.UTC()
	return r, u, err
}

// parse sets what the unparsed columns have. The error says which are unreadable.
func (r *Row) parse(u *unparsed) error {
	var o options
	history, errHistory := historyOf(u.history)
	published, errPublished := utc(u.published)
	due, errDue := utc(u.due)
	err := errors.Join(errHistory, errPublished, errDue, json.Unmarshal(u.headers, &r.Headers), json.Unmarshal(u.options, &o))
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	o.into(&r.Record)
	r.History, r.Record.Published, r.FirstDue = history, published, due
	return err
}

// utc returns a time in UTC; zero for none.
func utc(t pgtype.Timestamptz) (time.Time, error) {
	if t.InfinityModifier != pgtype.Finite {
		return time.Time{}, fmt.Errorf("a time is %v", t.InfinityModifier)
	}
	if !t.Valid {
		return time.Time{}, nil
	}
	return t.Time.UTC(), nil
}
