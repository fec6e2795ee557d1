package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var errBack = errors.New("rolled back")

// What a transaction does, for an account with a name of its own.
const (
	locks     = "SELECT pg_advisory_xact_lock(hashtext($1)), $2"
	publishes = "SELECT bellhop.publish('" + topic + "', $2::text, key => $1)"
	updates   = "WITH one AS (UPDATE account SET n = n + 1 WHERE id = $1 RETURNING n) INSERT INTO sold SELECT $2, $1, n FROM one"
)

// Clients publish by the key of an account and update that, and roll some back. What is published behind the UPDATE, or behind a lock of one's own,
// comes in the order of the UPDATEs, of each account 1, 2, 3 and so on; what is published before it alone does not.
func TestOrderOfUpdates(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		steps   []string
		ordered bool
	}{
		"behind the UPDATE":            {[]string{updates, publishes}, true},
		"before it":                    {[]string{publishes, updates}, false},
		"before it, behind one's lock": {[]string{locks, publishes, updates}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, databasetest.Database(t), storetest.Open(t))
			s.exec("CREATE TABLE account (id text PRIMARY KEY, n int); CREATE TABLE sold (name text PRIMARY KEY, account text, n int); INSERT INTO account SELECT 'account-' || n, 0 FROM generate_series(0, 4) n")
			s.start(s.url)
			s.trade(way.steps)
			if wrong := s.inversions(); wrong > 0 == way.ordered {
				t.Errorf("%d messages came out of order", wrong)
			}
		})
	}
}

// trade has 16 clients make transactions of some steps, of which one in seven is rolled back.
func (s *shop) trade(steps []string) {
	const clients, each = 16, 40
	pool, err := pgxpool.New(s.t.Context(), s.url+fmt.Sprint("?pool_max_conns=", clients))
	storetest.Must(s.t, err)
	defer pool.Close()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				err := pgx.BeginFunc(s.t.Context(), pool, func(tx pgx.Tx) error {
					account := fmt.Sprint("account-", rand.IntN(5))
					for _, step := range steps {
						if _, err := tx.Exec(s.t.Context(), step, account, fmt.Sprint(c, "-", i)); err != nil {
							return err
						}
					}
					if i%7 == 0 {
						return errBack
					}
					return nil
				})
				if !errors.Is(err, errBack) {
					storetest.Should(s.t, err)
				}
			}
		})
	}
	all.Wait()
}

// inversions returns how many messages were handled that do not follow on the one of their account before.
func (s *shop) inversions() (wrong int) {
	s.t.Helper()
	type sold struct {
		account string
		n       int
	}
	conn := s.connect()
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	rows, err := conn.Query(s.t.Context(), "SELECT name, account, n FROM sold")
	storetest.Must(s.t, err)
	all, last := make(map[string]sold), make(map[string]int)
	var name string
	var one sold
	_, err = pgx.ForEachRow(rows, []any{&name, &one.account, &one.n}, func() error {
		all[name] = one
		return nil
	})
	storetest.Must(s.t, err)
	for _, body := range s.ready(len(all)) {
		one, is := all[body]
		if !is {
			s.t.Errorf("%s was handled, and not committed", body)
		}
		if one.n != last[one.account]+1 {
			wrong++
		}
		last[one.account] = one.n
	}
	return wrong
}

// A row that somebody has locked is not passed by those behind it.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	for _, body := range []string{"first", "second"} {
		s.exec("SELECT bellhop.publish($1, $2::text)", topic, body)
	}
	lock := s.begin()
	do(t, lock, "SELECT FROM bellhop.outbox ORDER BY seq LIMIT 1 FOR UPDATE")
	s.start(s.url)
	handled := s.ready(1)
	s.commit(lock)
	storetest.Same(t, "handled", []string{"first", "second"}, append(handled, s.ready(2-len(handled))...))
}
