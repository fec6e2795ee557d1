package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	sql "github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
)

// relayer is the carrier's daemon with its link to the outbox, which is in the database of the archive.
const relayer = "outbox"

// startOutbox installs an outbox in the database.
func (w *world) startOutbox(ctx context.Context) error {
	w.ports[relayer] = w.ports[database]
	_, err := outbox.Install(ctx, sql.Address{URL: w.database.URL("bellhop")}, outbox.InstallOptions{})
	return err
}

// relays reports whether the world of a plan has an outbox. A row may be published twice if a call stops half way, and a program of the version
// before knows none.
func (p plan) relays() bool {
	return p.Archived && p.Before == "" && !slices.ContainsFunc(p.Steps, step.refuses)
}

// outboxURL returns the address of the outbox over a member's link; empty if there is none.
func (m *member) outboxURL() string {
	if m.links[relayer] == nil {
		return ""
	}
	to := m.w.database
	return strings.Replace(to.URL("bellhop"), to.Addr(), m.links[relayer].addr(), 1)
}

// outboxEnv returns the environment of a daemon for the outbox.
func (m *member) outboxEnv() []string {
	if url := m.outboxURL(); url != "" {
		return []string{"BELLHOP_OUTBOX_URL=" + url}
	}
	return nil
}

// emptyOutbox waits until all rows of the outbox are relayed.
func (w *world) emptyOutbox(ctx context.Context) error {
	if w.ports[relayer] == 0 {
		return nil
	}
	b, err := outbox.New(w.store, outbox.Options{Address: sql.Address{URL: w.database.URL("bellhop")}})
	if err != nil {
		return err
	}
	defer b.Close()
	var left outbox.Backlog
	if err := until("the outbox is empty", func() bool {
		left, err = b.Backlog(ctx)
		return err == nil && left.Waiting == 0
	}); err != nil {
		return fmt.Errorf("%w: %+v", err, left)
	}
	if left.Refused > 0 {
		return fmt.Errorf("%d rows of the outbox were refused", left.Refused)
	}
	return nil
}

// publishInTransactions publishes in transactions of a database until ctx ends.
func (a *actor) publishInTransactions(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("FAULTS_OUTBOX"))
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &publishing{actor: a, rnd: rand.New(rand.NewPCG(a.random, publishers)), id: a.process + "-sql"}
	for ctx.Err() == nil {
		if err := p.inTransaction(ctx, pool); err != nil {
			return err
		}
		rest(ctx, time.Duration(p.rnd.ExpFloat64()*float64(30*time.Millisecond)))
	}
	return nil
}

// inTransaction publishes in a transaction, of which one in four is rolled back: nothing comes of that. What is committed counts as published once
// its row is gone.
func (p *publishing) inTransaction(ctx context.Context, pool *pgxpool.Pool) error {
	topics := slices.Concat(handledTopics, claimedTopics)
	m := notify.Message{Topic: topics[p.rnd.IntN(len(topics))], ID: p.nextID(), Body: []byte("x"), Delay: time.Duration(p.rnd.IntN(300)) * time.Millisecond}
	query, args, err := notify.SQL(m)
	if err != nil {
		return err
	}
	op := p.calls(m)
	tx, err := pool.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, query, args...)
	}
	if err != nil {
		pool.Reset() // the server may take no more writes
	}
	if err != nil || p.rnd.IntN(4) == 0 {
		if tx != nil {
			_ = tx.Rollback(ctx) // the server does, if this cannot
		}
		op.End(history.No, history.Record{Error: text(err)})
		return nil
	}
	if err := tx.Commit(ctx); err != nil || !gone(ctx, pool, m) {
		op.End(history.Unknown, history.Record{Error: text(err)})
		return nil
	}
	op.End(history.OK, history.Record{Outcome: string(notify.Created), State: notify.Scheduled.String()})
	return nil
}

// gone waits until the row of a message is gone, and reports false if ctx ends before.
func gone(ctx context.Context, pool *pgxpool.Pool, m notify.Message) bool {
	for ; ctx.Err() == nil; rest(ctx, 5*time.Millisecond) {
		rows, _ := pool.Query(ctx, "SELECT count(*) FROM bellhop.outbox WHERE topic = $1 AND id = $2", m.Topic, m.ID) // CollectOneRow returns its error
		if left, err := pgx.CollectOneRow(rows, pgx.RowTo[int]); err == nil && left == 0 {
			return true
		}
	}
	return false
}
