package outbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/notify"
)

// relayed returns whether there is a relay, and since when it is connected, which only its own role and monitors are told.
const relayed = `SELECT count(*) > 0, min(backend_start) FROM pg_stat_activity WHERE datname = current_database() AND application_name = '` + relayName + `'`

// Relay reports whether some process relays what the outbox holds, and since when it is connected; zero: that is unknown. The error is
// that of the database.
func (b *Outbox) Relay(ctx context.Context) (is bool, since time.Time, err error) {
	if at := b.Stats().Since; !at.IsZero() {
		return true, at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var at *time.Time
	if err := b.pool.QueryRow(ctx, relayed).Scan(&is, &at); err != nil {
		return false, since, b.failed("ask for its relay", err)
	}
	if at != nil {
		since = *at
	}
	return is, since, nil
}

// Now returns the time by the clock of the database. The error is that of the database.
func (b *Outbox) Now(ctx context.Context) (now time.Time, err error) {
	return now, b.ask(ctx, "ask for the time", `SELECT clock_timestamp()`, &now)
}

// Last returns the last number that was given to a row. The error is that of the database.
func (b *Outbox) Last(ctx context.Context) (seq int64, err error) {
	return seq, b.ask(ctx, "ask for the last row", lastNumber, &seq)
}

// ask reads the one value that a query returns.
func (b *Outbox) ask(ctx context.Context, doing, query string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return b.failed(doing, b.pool.QueryRow(ctx, query).Scan(into))
}

// mostReason is how many characters of a reason are read.
const mostReason = 4096

// listing returns the first refused rows behind a number.
const listing = `SELECT seq, topic, id, called, left(refused, $3) FROM bellhop.outbox WHERE refused IS NOT NULL AND seq > $1 ORDER BY seq LIMIT $2`

// A RefusedRow is a row that cannot be published as it is.
type RefusedRow struct {
	Seq       int64
	Topic, ID string
	Called    time.Time // by the clock of the database
	Reason    string
}

// Refused returns the first rows behind a number that cannot be published, in their order. The error is that of the database.
func (b *Outbox) Refused(ctx context.Context, after int64, limit int) ([]RefusedRow, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	rows, _ := b.pool.Query(ctx, listing, after, limit, mostReason) // CollectRows returns its error
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RefusedRow])
	return all, b.failed("list what was refused", err)
}

// A Choice is of refused rows: those of some numbers, or the first ones, as many as Limit, of those up to the number UpTo.
type Choice struct {
	Seqs  []int64
	UpTo  int64
	Limit int
}

// These choose refused rows, and keep others from changing them.
const (
	numbered = `SELECT seq FROM bellhop.outbox WHERE seq = ANY($1) AND refused IS NOT NULL ORDER BY seq FOR UPDATE`
	first    = `SELECT seq FROM bellhop.outbox WHERE seq <= $1 AND refused IS NOT NULL ORDER BY seq LIMIT $2 FOR UPDATE`
)

// in returns the numbers of the rows that are chosen. The error is a notify.ErrNotFound if one that is named is not refused.
func (c Choice) in(ctx context.Context, tx pgx.Tx) ([]int64, error) {
	query, args := first, []any{c.UpTo, c.Limit}
	if c.Seqs != nil {
		query, args = numbered, []any{c.Seqs}
	}
	rows, _ := tx.Query(ctx, query, args...) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	var not []string
	for _, seq := range c.Seqs {
		if !slices.Contains(found, seq) {
			not = append(not, strconv.FormatInt(seq, 10))
		}
	}
	if err == nil && not != nil {
		err = fmt.Errorf("%w: no row %s is refused, so nothing was changed; see bellhop outbox refused", notify.ErrNotFound, strings.Join(not, ", "))
	}
	return found, err
}

// retrying has a row wait behind all others: behind those that were called since, and where a relay looks.
const retrying = `UPDATE bellhop.outbox SET refused = NULL, seq = DEFAULT WHERE seq = $1`

// Retry has refused rows wait again, in their order, behind all others, and rings. It returns how many. The error is a notify.ErrNotFound if
// one that is named is not refused, or that of the database; then nothing is changed.
func (b *Outbox) Retry(ctx context.Context, c Choice) (int, error) {
	return b.change(ctx, "retry what was refused", c, func(ctx context.Context, tx pgx.Tx, seqs []int64) error {
		var all pgx.Batch
		for _, seq := range seqs { // one by one, since a statement numbers its rows in any order
			all.Queue(retrying, seq)
		}
		all.Queue("NOTIFY " + channel)
		return tx.SendBatch(ctx, &all).Close()
	})
}

// Purge removes refused rows. It returns how many. The error is that of Retry.
func (b *Outbox) Purge(ctx context.Context, c Choice) (int, error) {
	return b.change(ctx, "purge what was refused", c, func(ctx context.Context, tx pgx.Tx, seqs []int64) error {
		_, err := tx.Exec(ctx, `DELETE FROM bellhop.outbox WHERE seq = ANY($1)`, seqs)
		return err
	})
}

// change changes chosen rows in a transaction.
func (b *Outbox) change(ctx context.Context, doing string, c Choice, f func(ctx context.Context, tx pgx.Tx, seqs []int64) error) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		seqs, err := c.in(ctx, tx)
		if n = len(seqs); err != nil || n == 0 {
			return err
		}
		return f(ctx, tx, seqs)
	})
	if err != nil {
		n = 0
	}
	return n, b.failed(doing, err)
}

// changeWithin bounds a change of many rows.
const changeWithin = 30 * time.Second

// purging removes the first rows that wait, of those that were called before a time.
const purging = `DELETE FROM bellhop.outbox WHERE seq IN (SELECT seq FROM bellhop.outbox WHERE refused IS NULL AND called < $1 ORDER BY seq LIMIT $2 FOR UPDATE)`

// PurgeWaiting removes rows that wait and were called before a time by the clock of the database, as after the database was restored from a
// backup: the first ones, as many as limit. A row that is being relayed may be published all the same. It returns how many. The error is
// that of the database.
func (b *Outbox) PurgeWaiting(ctx context.Context, before time.Time, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	done, err := b.pool.Exec(ctx, purging, before, limit)
	return int(done.RowsAffected()), b.failed("purge what waits", err)
}
