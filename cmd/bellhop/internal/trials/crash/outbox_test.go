package crash_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

var outboxKillsFlag = flag.Int("crash.outbox", 6, "how many each of daemons, servers of Redis and servers of PostgreSQL TestLedger kills")

const (
	relays  = 3 // daemons, of which one relays
	clients = 8
	payers  = 4 // accounts
)

// A shop is a database with an outbox and a ledger, a store, daemons of which one relays, and a subscriber that acknowledges at once, so
// that ids are free again.
type shop struct {
	t        *testing.T
	database *postgres.Server
	url      string // of the database
	redis    *redisserver.Server
	store    *notify.Store
	daemons  []*process
	handled  *handled

	committed, back, repeated atomic.Int64 // transactions
}

// openShop starts the servers, and installs the outbox and the ledger, in which each transaction writes what it publishes.
// PostgreSQL is executed by a command, if one is given.
func openShop(t *testing.T, under ...string) *shop {
	t.Helper()
	s := &shop{t: t, handled: new(handled)}
	var err error
	s.database, err = postgres.Start(t.Context(), postgres.Options{Args: []string{"-c", "full_page_writes=on"}, Under: under})
	storetest.Must(t, err)
	t.Cleanup(s.database.Close)
	storetest.Must(t, s.database.Create(t.Context(), "shop"))
	s.url = s.database.URL("shop")
	_, err = outbox.Install(t.Context(), database.Address{URL: s.url}, outbox.InstallOptions{})
	storetest.Must(t, err)
	databasetest.Exec(t, s.url, fmt.Sprintf(`CREATE TABLE account (id int PRIMARY KEY, n int); INSERT INTO account SELECT generate_series(1, %d), 0;
		CREATE TABLE ledger (id text, account int, n int, due timestamptz)`, payers))
	s.redis = storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	s.store = storetest.At(t, s.redis.URL(), "shop")
	storetest.Set(t, s.store, topic, notify.SettingsChange{Lease: new(2 * time.Second), Attempts: new(1000)})
	return s
}

// relay starts a daemon that reaches the servers at addresses.
func (s *shop) relay(redis, database string) *process {
	s.t.Helper()
	p := startDaemon(s.t, s.store, nil, "OUTBOX_URL="+database, "CARRIER_LEASE=600ms", "REDIS_URL="+redis)
	s.daemons = append(s.daemons, p)
	return p
}

// work runs a subscriber.
func (s *shop) work() {
	s.t.Helper()
	sub, err := subscribers.NewSubscriber(s.store)
	storetest.Must(s.t, err)
	storetest.Must(s.t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		s.handled.add(handling{d.ID, d.Attempt, claimed(d)})
		return nil
	}, subscribers.HandleOptions{Concurrency: 16}))
	storetest.Run(s.t, sub.Run)
}

// elected waits until a daemon other than one is elected, and returns it.
func (s *shop) elected(before *process) (p *process) {
	s.t.Helper()
	name := func(p *process) string { return fmt.Sprint(":", p.Process.Pid) }
	storetest.Eventually(s.t, "a daemon is elected", func() bool {
		now := elected(s.t, s.store, "").Name
		i := slices.IndexFunc(s.daemons, func(p *process) bool { return p != before && strings.HasSuffix(now, name(p)) })
		if i >= 0 {
			p = s.daemons[i]
		}
		return i >= 0
	})
	return p
}

// killRelay kills the daemon that relays.
func (s *shop) killRelay() {
	victim := s.elected(nil)
	victim.end(syscall.SIGKILL)
	s.daemons = slices.DeleteFunc(s.daemons, func(p *process) bool { return p == victim })
	s.relay(s.redis.URL(), s.url)
}

// killRedis kills Redis for a while.
func (s *shop) killRedis() {
	s.redis.Kill()
	time.Sleep(rand.N(300 * time.Millisecond))
	redis, err := s.redis.Restart(s.t.Context())
	storetest.Must(s.t, err)
	s.t.Cleanup(redis.Stop)
	s.redis = redis
}

// killDatabase kills all processes of PostgreSQL for a while.
func (s *shop) killDatabase() {
	s.database.Crash()
	time.Sleep(rand.N(300 * time.Millisecond))
	storetest.Must(s.t, s.database.Restart(s.t.Context()))
}

// settled waits until no row waits and no message is there.
func (s *shop) settled() {
	s.t.Helper()
	storetest.Eventually(s.t, "no row waits", func() bool {
		return databasetest.Ask(s.t, s.url, "SELECT count(*) FROM bellhop.outbox")[0] == int64(0)
	})
	gone(s.t, s.store)
}

// entries returns what the ledger says.
func (s *shop) entries() []sold {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	storetest.Must(s.t, err)
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	rows, _ := conn.Query(s.t.Context(), "SELECT id, coalesce(account, 0), coalesce(n, 0), due FROM ledger") // CollectRows returns its error
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sold])
	storetest.Must(s.t, err)
	return all
}

// Daemons that relay, Redis and PostgreSQL are killed by kill -9 in turns while clients publish in transactions. Each message of a transaction that
// committed is handled once, as the ledger says that was written in the same transaction, and again only if its lease ended before it was
// acknowledged; none is of a transaction, or a part of one, that was rolled back or cut off; those of an account come in the order of its UPDATEs.
func TestLedger(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for range relays {
		s.relay(s.redis.URL(), s.url)
	}
	s.work()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { s.client(ctx, fmt.Sprint("c", n)) })
	}
	defer all.Wait()
	defer stop()
	kills := []func(){s.killRelay, s.killRedis, s.killDatabase}
	for n := range len(kills) * *outboxKillsFlag {
		s.sell(fmt.Sprint("probe-", n), 1)
		storetest.Eventually(t, "all goes on", func() bool { return s.handled.has(fmt.Sprintf("probe-%d-1", n)) })
		time.Sleep(rand.N(20 * time.Millisecond))
		kills[n%len(kills)]()
	}
	stop()
	all.Wait()
	s.settled()
	wrong, again := s.handled.against(s.entries())
	for i, text := range wrong {
		if i == 20 {
			t.Fatalf("and %d more", len(wrong)-i)
		}
		t.Error(text)
	}
	t.Logf("%d kills each; %d transactions committed, %d did not, %d were repeated; %d messages were handled, %d of them again after their lease had ended",
		*outboxKillsFlag, s.committed.Load(), s.back.Load(), s.repeated.Load(), len(s.handled.ids), again)
}

// client makes transactions of each kind, over connections of its own, until ctx ends.
func (s *shop) client(ctx context.Context, name string) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(rand.N(40 * time.Millisecond))
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, s.url); err != nil {
				continue // it is away
			}
		}
		c := &sale{Conn: conn, ctx: ctx, name: fmt.Sprint(name, "-", n)}
		err := sales[rand.IntN(len(sales))](c)
		switch {
		case c.repeated:
			s.repeated.Add(1)
		case err == nil:
			s.committed.Add(1)
		default:
			s.back.Add(1)
		}
	}
}

// A sale is a transaction of a client, or two that are alike.
type sale struct {
	*pgx.Conn
	ctx      context.Context
	name     string
	repeated bool
}

// errBack rolls a transaction back.
var errBack = errors.New("rolled back")

// sales are the kinds of transactions.
var sales = []func(*sale) error{
	func(c *sale) error { return c.do(selling{}) },
	func(c *sale) error { return c.do(selling{id: c.name}) },
	func(c *sale) error {
		return c.do(selling{id: c.name, delay: time.Duration(rand.IntN(80)) * time.Millisecond})
	},
	func(c *sale) error { return c.do(selling{id: c.name, account: 1 + rand.IntN(payers)}) },
	func(c *sale) error { return c.do(selling{id: c.name, account: 1 + rand.IntN(payers)}) },
	func(c *sale) error { return c.do(selling{id: c.name, account: 1 + rand.IntN(payers), err: errBack}) },
	(*sale).many,
	(*sale).toSavepoint,
	(*sale).cutOff,
	(*sale).repeat,
}

// A selling is what a transaction publishes.
type selling struct {
	id      string // empty: the outbox makes one
	delay   time.Duration
	account int    // whose key it has, behind an UPDATE of that; zero: none
	unique  string // for how long the id stays taken; empty: until it is acknowledged
	err     error  // which rolls it back
}

// do makes a transaction of its own.
func (c *sale) do(s selling) error {
	return pgx.BeginFunc(c.ctx, c.Conn, func(tx pgx.Tx) error { return errors.Join(c.publish(tx, s), s.err) })
}

// publish publishes in a transaction, and enters that in the ledger.
func (c *sale) publish(tx pgx.Tx, s selling) error {
	var account, n *int
	key := ""
	if s.account > 0 {
		account, key = &s.account, fmt.Sprint("account-", s.account)
		if err := tx.QueryRow(c.ctx, "UPDATE account SET n = n + 1 WHERE id = $1 RETURNING n", s.account).Scan(&n); err != nil {
			return err
		}
	}
	_, err := tx.Exec(c.ctx, `INSERT INTO ledger (due, id, account, n)
		SELECT clock_timestamp() + $1::interval, bellhop.publish($2, 'x'::text, id => $3, delay => $1::interval, key => $4, unique_for => $5::text::interval), $6::int, $7::int`,
		s.delay, topic, s.id, key, cmp.Or(s.unique, "0"), account, n)
	return err
}

// many publishes several messages, of which none has an id yet.
func (c *sale) many() error {
	return pgx.BeginFunc(c.ctx, c.Conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(c.ctx, "INSERT INTO ledger (due, id) SELECT clock_timestamp(), bellhop.publish($1, 'x'::text) FROM generate_series(1, $2)", topic, 1+rand.IntN(20))
		return err
	})
}

// toSavepoint rolls back to a savepoint, and goes on.
func (c *sale) toSavepoint() error {
	return pgx.BeginFunc(c.ctx, c.Conn, func(tx pgx.Tx) error {
		account := 1 + rand.IntN(payers)
		err := pgx.BeginFunc(c.ctx, tx, func(part pgx.Tx) error {
			return errors.Join(c.publish(part, selling{id: c.name + "-back", account: account}), errBack)
		})
		if !errors.Is(err, errBack) {
			return err
		}
		return c.publish(tx, selling{id: c.name, account: account})
	})
}

// cutOff ends as a program does that is killed before it commits.
func (c *sale) cutOff() error {
	tx, err := c.Begin(c.ctx)
	if err == nil {
		err = c.publish(tx, selling{id: c.name, account: 1 + rand.IntN(payers)})
	}
	return errors.Join(err, c.PgConn().Conn().Close(), c.Close(c.ctx), errBack)
}

// repeat makes a transaction again as if its outcome was unknown, which it may be. The id stays taken, since the first message may have ended.
func (c *sale) repeat() error {
	s := selling{id: c.name, unique: "1h"}
	_ = c.do(s)
	c.repeated = true
	return c.do(s)
}
