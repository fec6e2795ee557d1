package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	mostRows  = 500     // of a look
	mostBytes = 4 << 20 // of their bodies, after which the next one is left
	askWithin = 5 * time.Second
)

// about returns what a relay has to know first.
const about = `SELECT id::text, version, pg_backend_pid() FROM bellhop.outbox_about`

// looking returns the first rows that wait behind one, but those of some topics.
const looking = `SELECT seq, called, (extract(epoch FROM age) * 1000000)::bigint, topic, id, asked, body FROM (
	SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before FROM (
		SELECT seq, called, clock_timestamp() - called AS age, topic, id, asked, body FROM bellhop.outbox
		WHERE seq > $1 AND refused IS NULL AND topic <> ALL($2) ORDER BY seq LIMIT $3
	) AS first
) AS counted WHERE before < $4 ORDER BY seq`

// The last number that was given, and the transactions that write into the outbox: who takes a number has the lock before.
const (
	lastNumber = `SELECT last_value FROM bellhop.outbox_seq`
	writing    = `SELECT virtualtransaction FROM pg_locks WHERE relation = 'bellhop.outbox'::regclass AND mode = 'RowExclusiveLock' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
)

// deleting deletes rows by their numbers and times.
const deleting = `DELETE FROM bellhop.outbox WHERE seq = ANY($1) AND (seq, called) IN (SELECT * FROM unnest($1::bigint[], $2::timestamptz[]))`

// refusing notes why rows cannot be published.
const refusing = `UPDATE bellhop.outbox AS o SET refused = r.why FROM unnest($1::bigint[], $2::timestamptz[], $3::text[]) AS r (seq, called, why)
	WHERE o.seq = ANY($1) AND o.seq = r.seq AND o.called = r.called`

// rightsOf is the remedy of a right that a relay lacks.
const rightsOf = "give the relay its rights: bellhop outbox install --relay "

// counting returns how many rows wait and for how long the first does, in us, and how many were refused.
const counting = `SELECT (SELECT count(*) FROM (SELECT FROM bellhop.outbox WHERE refused IS NULL LIMIT $1) AS waiting),
	coalesce((SELECT (extract(epoch FROM clock_timestamp() - called) * 1000000)::bigint FROM bellhop.outbox WHERE refused IS NULL ORDER BY seq LIMIT 1), 0),
	(SELECT count(*) FROM (SELECT FROM bellhop.outbox WHERE refused IS NOT NULL LIMIT $1) AS refused)`

// MostCounted is how many rows of a kind a Backlog counts at the most.
const MostCounted = 10_001

// A Backlog is what an outbox holds.
type Backlog struct {
	Waiting int           // rows that are committed and not relayed yet
	Oldest  time.Duration // for how long the first of them waits, by the clock of the database
	Refused int           // rows that stay, with the reason
}

// Backlog returns what the outbox holds, also of one that another process relays. The error is that of the database.
func (b *Outbox) Backlog(ctx context.Context) (l Backlog, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var us int64
	err = b.pool.QueryRow(ctx, counting, MostCounted).Scan(&l.Waiting, &us, &l.Refused)
	l.Oldest = max(time.Duration(us)*time.Microsecond, 0)
	return l, b.failed("count what it holds", err)
}

// A row is one that waits.
type row struct {
	notify.RelayRow
	fault error // why it is no message
}

// look returns the first rows that wait, fewer if they have many bytes, behind a number and without some topics.
func (c *link) look(ctx context.Context, floor int64, without []string) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	rows, _ := c.conn.Query(ctx, looking, floor, without, mostRows, mostBytes) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, rowIn)
	c.looked = time.Now()
	return found, c.failed("look for what waits", err)
}

// rowIn reads a row. One that is no message is a row, too.
func rowIn(from pgx.CollectableRow) (r row, err error) {
	var us int64
	var topic, id string
	var asked, body []byte
	if err := from.Scan(&r.Row.Seq, &r.Row.Called, &us, &topic, &id, &asked, &body); err != nil {
		return r, err
	}
	r.Age = time.Duration(us) * time.Microsecond
	r.Message, r.fault = notify.ParseAsked(topic, id, body, asked)
	r.Topic = topic
	return r, nil
}

// delete deletes rows. It may be repeated.
func (c *link) delete(ctx context.Context, rows []store.Row) error {
	if len(rows) == 0 {
		return nil
	}
	seqs, times := columnsOf(rows)
	return c.exec(ctx, "delete what was relayed", deleting, seqs, times)
}

// refuse notes why rows cannot be published. It may be repeated.
func (c *link) refuse(ctx context.Context, rows []store.Row, why []string) error {
	if len(rows) == 0 {
		return nil
	}
	seqs, times := columnsOf(rows)
	return c.exec(ctx, "note what was refused", refusing, seqs, times, why)
}

// last returns the last number that was given to a row.
func (c *link) last(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err = c.conn.QueryRow(ctx, lastNumber).Scan(&n)
	return n, c.failed("ask for the last row", err)
}

// writers returns the transactions that write into the outbox.
func (c *link) writers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	rows, _ := c.conn.Query(ctx, writing) // CollectRows returns its error
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return all, c.failed("ask who writes", err)
}

// exec runs a statement.
func (c *link) exec(ctx context.Context, doing, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	_, err := c.conn.Exec(ctx, statement, args...)
	return c.failed(doing, err)
}

// failed returns an error of the database with what was to be done, nil for none.
func (b *Outbox) failed(doing string, err error) error {
	switch database.Condition(err) {
	case database.NoTable, database.NoSchema:
		return fmt.Errorf("outbox at %s: %w --url %[1]s --relay %[3]s", b.Address(), ErrNotInstalled, b.config.ConnConfig.User)
	}
	return database.Failed("outbox at "+b.Address()+": "+doing, err, map[string]string{database.NoRight: rightsOf + b.config.ConnConfig.User})
}

func columnsOf(rows []store.Row) (seqs []int64, times []time.Time) {
	for _, r := range rows {
		seqs, times = append(seqs, r.Seq), append(times, r.Called)
	}
	return seqs, times
}

// plain returns a text that a database of any encoding holds, in one line.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}
