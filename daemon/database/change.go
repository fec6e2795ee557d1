package database

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// schemaLock is the advisory lock of whoever changes the schema bellhop.
const schemaLock = 0x62656c6c686f70 // "bellhop"

// changing begins a change of the schema: one at a time, which gives up when another's
// search or backup holds it up, and ends with its process, should that be paused.
const changing = `SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s';
	SET LOCAL client_min_messages = warning`

// Change changes the schema bellhop in a transaction, under its lock.
func Change(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Conn().PgConn().Exec(ctx, changing).ReadAll(); err != nil {
			return err
		}
		if err := Lock(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	})
}

// Lock holds the lock of the schema bellhop until the transaction ends.
func Lock(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock))
	return err
}
