package archive

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
)

//go:embed migrations/*.sql
var migrations embed.FS

// exec runs a statement. Its error names the statement.
func (w *writer) exec(ctx context.Context, tx pgx.Tx, statement string, args ...any) error {
	_, err := tx.Exec(ctx, statement, args...)
	first, _, _ := strings.Cut(statement, "\n")
	return w.failedTo(strings.TrimSuffix(first, " ("), err)
}

// migrate makes the schema, or brings it to the version of this program. Error: an
// ErrNewer, or that of the database.
func (w *writer) migrate(ctx context.Context) error {
	return database.Change(ctx, w.conn, func(tx pgx.Tx) error {
		at, err := w.version(ctx, tx)
		if err != nil {
			return err
		}
		steps, err := fs.Glob(migrations, "migrations/*.sql") // in order, since their names are
		switch {
		case err != nil:
			return err
		case at > len(steps):
			return fmt.Errorf("archive at %s: %w", w.Address(), newer(at, len(steps)))
		case at == len(steps):
			return nil
		}
		for i := at; i < len(steps); i++ {
			if err := w.step(ctx, tx, steps[i], i+1); err != nil {
				return err
			}
		}
		w.o.Logger.Info("made the schema of the archive", "database", w.Address(), "version", len(steps))
		return nil
	})
}

// version returns the version of the schema, which is made if there is none.
func (w *writer) version(ctx context.Context, tx pgx.Tx) (at int, err error) {
	var schema, table bool
	const look = "SELECT to_regnamespace('bellhop') IS NOT NULL, to_regclass('bellhop.versions') IS NOT NULL"
	if err := tx.QueryRow(ctx, look).Scan(&schema, &table); err != nil {
		return 0, w.failedTo(look, err)
	}
	if !schema { // asked for before, since IF NOT EXISTS needs the right to create one even if it exists
		if err := w.exec(ctx, tx, "CREATE SCHEMA bellhop"); err != nil {
			return 0, err
		}
	}
	if !table {
		err := w.exec(ctx, tx, "CREATE TABLE bellhop.versions (version integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT now())")
		return 0, err
	}
	const ask = "SELECT coalesce(max(version), 0) FROM bellhop.versions"
	return at, w.failedTo(ask, tx.QueryRow(ctx, ask).Scan(&at))
}

// checkVersion returns an ErrNewer for a schema that this program does not know.
func checkVersion(ctx context.Context, tx pgx.Tx) (err error) {
	var at int
	known, err := fs.Glob(migrations, "migrations/*.sql")
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM bellhop.versions").Scan(&at)
	}
	if err == nil && at > len(known) {
		err = newer(at, len(known))
	}
	return err
}

func newer(at, known int) error {
	return fmt.Errorf("%w: it has version %d, and this program knows up to %d", ErrNewer, at, known)
}

// step runs the statements of a file, and notes its version.
func (w *writer) step(ctx context.Context, tx pgx.Tx, file string, version int) error {
	text, err := migrations.ReadFile(file)
	if err != nil {
		return err
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if statement = withoutComments(statement); statement == "" {
			continue
		}
		if err := w.exec(ctx, tx, statement); err != nil {
			return err
		}
	}
	return w.exec(ctx, tx, "INSERT INTO bellhop.versions (version) VALUES ($1)", version)
}

// withoutComments leaves out the lines before a statement.
func withoutComments(statement string) string {
	for {
		statement = strings.TrimSpace(statement)
		if !strings.HasPrefix(statement, "--") {
			return statement
		}
		_, statement, _ = strings.Cut(statement, "\n")
	}
}

// A month is a partition of the table.
type month struct{ from time.Time }

func monthOf(t time.Time) month {
	t = t.UTC()
	return month{time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)}
}

func (m month) next() month { return month{m.from.AddDate(0, 1, 0)} }

// name is its table in the schema.
func (m month) name() string { return "messages_" + m.from.Format("2006_01") }

// partition returns the clause that attaches it. Bounds are no values that may be
// arguments; these are made of numbers alone.
func (m month) partition() string {
	const layout = "2006-01-02 15:04:05+00"
	return fmt.Sprintf("ALTER TABLE bellhop.messages ATTACH PARTITION bellhop.%s FOR VALUES FROM ('%s') TO ('%s')",
		m.name(), m.from.Format(layout), m.next().from.Format(layout))
}

// ensure makes the partitions of months, unless they are known to be there.
func (w *writer) ensure(ctx context.Context, months ...month) error {
	for _, m := range months {
		if w.months[m] {
			continue
		}
		err := database.Change(ctx, w.conn, func(tx pgx.Tx) error { return w.makeMonth(ctx, tx, m) })
		if err != nil && database.Condition(err) != overlaps { // else an operator made one for a year, say
			return err
		}
		w.months[m] = true
	}
	return nil
}

// makeMonth makes a partition. Attaching it keeps nobody from reading and writing the
// others, which CREATE TABLE PARTITION OF would.
func (w *writer) makeMonth(ctx context.Context, tx pgx.Tx, m month) error {
	var there, attached bool
	const look = `SELECT true, EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'bellhop.messages'::regclass)
		FROM pg_class c WHERE oid = to_regclass($1)`
	err := tx.QueryRow(ctx, look, "bellhop."+m.name()).Scan(&there, &attached)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return w.failedTo("look for bellhop."+m.name(), err)
	case attached:
		return nil
	case there:
		return fmt.Errorf("archive at %s: the table bellhop.%s is there, and is no partition of bellhop.messages: rename it, or attach it: %s", w.Address(), m.name(), m.partition())
	}
	if err := w.exec(ctx, tx, "CREATE TABLE bellhop."+m.name()+" (LIKE bellhop.messages INCLUDING ALL)"); err != nil {
		return err
	}
	return w.exec(ctx, tx, m.partition())
}
