package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const topic = "order.timeout"

// A shop is a database with an outbox, and a store into which that is relayed.
type shop struct {
	t     testing.TB
	url   string // of the database
	store *notify.Store
	log   *storetest.Log
	relay *outbox.Outbox
}

// open returns a shop at a database, without a relay yet.
func open(t testing.TB, url string, store *notify.Store) *shop {
	t.Helper()
	_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
	storetest.Must(t, err)
	return &shop{t: t, url: url, store: store, log: &storetest.Log{}}
}

// start starts a relay that reaches the database at an address; stop ends its term.
func (s *shop) start(url string) (stop func()) {
	s.t.Helper()
	return s.startFor(url, s.store)
}

func (s *shop) startFor(url string, store *notify.Store) (stop func()) {
	s.t.Helper()
	b, err := outbox.New(store, outbox.Options{Address: database.Address{URL: url}, Logger: s.log.Logger(slog.LevelDebug)})
	storetest.Must(s.t, err)
	s.t.Cleanup(b.Close)
	s.relay = b
	return storetest.Run(s.t, func(ctx context.Context) error {
		b.Term(ctx, carrier.Term{Shard: store.Home()})
		return nil
	})
}

// exec runs statements in the database.
func (s *shop) exec(statements string, args ...any) {
	s.t.Helper()
	conn := s.connect()
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	_, err := conn.Exec(s.t.Context(), statements, args...)
	storetest.Must(s.t, err)
}

func (s *shop) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	storetest.Must(s.t, err)
	return conn
}

// begin begins a transaction of its own connection.
func (s *shop) begin() pgx.Tx {
	s.t.Helper()
	conn := s.connect()
	s.t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(s.t.Context())
	storetest.Must(s.t, err)
	return tx
}

// publishIn publishes a message in a transaction.
func (s *shop) publishIn(tx pgx.Tx, body string) {
	s.t.Helper()
	_, err := tx.Exec(s.t.Context(), "SELECT bellhop.publish('"+topic+"', $1::text)", body)
	storetest.Must(s.t, err)
}

func (s *shop) commit(tx pgx.Tx) {
	s.t.Helper()
	storetest.Must(s.t, tx.Commit(s.t.Context()))
}

// ask returns what a query of one number answers.
func (s *shop) ask(query string, args ...any) (n int64) {
	s.t.Helper()
	conn := s.connect()
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	storetest.Must(s.t, conn.QueryRow(s.t.Context(), query, args...).Scan(&n))
	return n
}

// empty waits until no row waits.
func (s *shop) empty() {
	s.t.Helper()
	storetest.Eventually(s.t, "no row waits", func() bool { return s.ask("SELECT count(*) FROM bellhop.outbox WHERE refused IS NULL") == 0 })
}

// beside returns another topic of the same shard.
func (s *shop) beside() string { return storetest.Beside(s.store, topic, "beside") }

// ready waits until so many messages are ready, of the topic and the one beside it, and returns their bodies in their order, having acknowledged them.
func (s *shop) ready(n int) (bodies []string) {
	s.t.Helper()
	c := subscriberstest.Claimer(s.t, s.store)
	storetest.Eventually(s.t, fmt.Sprintf("%d messages are ready, of which there are %d", n, len(bodies)), func() bool {
		for _, topic := range []string{topic, s.beside()} {
			ds, err := c.Claim(s.t.Context(), topic, subscribers.ClaimOptions{Max: 500, Lease: time.Hour})
			if err != nil {
				s.t.Log(err)
			}
			for _, d := range ds {
				bodies = append(bodies, string(d.Body))
				storetest.Must(s.t, d.Ack(s.t.Context()))
			}
		}
		return len(bodies) >= n
	})
	return bodies
}

// asleep waits until a relay sleeps, having looked since the call.
func (s *shop) asleep() {
	s.t.Helper()
	var since time.Time
	conn := s.connect()
	defer conn.Close(context.WithoutCancel(s.t.Context()))
	storetest.Must(s.t, conn.QueryRow(s.t.Context(), "SELECT clock_timestamp()").Scan(&since))
	s.exec("NOTIFY bellhop_outbox")
	storetest.Eventually(s.t, "the relay sleeps", func() bool {
		return s.ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bellhop relay' AND query LIKE 'SELECT seq%' AND state = 'idle' AND query_start > $1 AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)", since) == 1
	})
}

// What is committed is handled, and what is rolled back never was, also to a savepoint.
func TestCommitted(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	s.start(s.url)
	tx := s.begin()
	s.publishIn(tx, "rolled back")
	storetest.Must(t, tx.Rollback(t.Context()))
	tx = s.begin()
	s.publishIn(tx, "first")
	part, err := tx.Begin(t.Context())
	storetest.Must(t, err)
	s.publishIn(part, "rolled back to a savepoint")
	storetest.Must(t, part.Rollback(t.Context()))
	part, err = tx.Begin(t.Context())
	storetest.Must(t, err)
	s.publishIn(part, "second")
	storetest.Must(t, part.Commit(t.Context()))
	s.commit(tx)
	storetest.Same(t, "handled", []string{"first", "second"}, s.ready(2))
	s.empty()
	if stats := s.relay.Stats(); stats.Relayed != 2 || stats.Since.IsZero() || stats.Pooled || stats.Failures != 0 {
		t.Errorf("the statistics are %+v", stats)
	}
}

// A relay does not sleep while a transaction that did not notify it has yet to commit, and who publishes while it sleeps notifies it.
func TestRelayIsRung(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	before := s.begin() // no relay sleeps, so it does not notify
	s.publishIn(before, "before")
	s.start(s.url)
	other := s.begin()
	s.publishIn(other, "other")
	s.commit(other)
	storetest.Same(t, "of another meanwhile", []string{"other"}, s.ready(1))
	storetest.Eventually(t, "the relay tries to sleep", func() bool {
		return s.ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bellhop relay' AND query LIKE '%pg_try_advisory_lock(%'") == 1
	})
	storetest.Is(t, "relays that sleep", s.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"), 0)
	s.commit(before)
	storetest.Same(t, "of one that did not notify", []string{"before"}, s.ready(1))
	for n := range 3 {
		s.asleep()
		tx := s.begin()
		s.publishIn(tx, fmt.Sprint(n))
		s.commit(tx)
		storetest.Same(t, "of one that notifies", []string{fmt.Sprint(n)}, s.ready(1))
	}
}

// What is committed between a look that finds nothing and the lock of who falls asleep is found by another look.
func TestCommitBeforeTheLock(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	p, through := proxy(t, s.url)
	at, let := p.Hold("pg_try_advisory_lock(")
	s.start(through)
	storetest.Receive(t, "the relay asks for the lock", at)
	tx := s.begin()
	s.publishIn(tx, "in between")
	s.commit(tx)
	let()
	storetest.Same(t, "handled", []string{"in between"}, s.ready(1))
}

// proxy starts a proxy to the server of a URL, and returns the URL of that.
func proxy(t testing.TB, to string) (p *storetest.Proxy, through string) {
	t.Helper()
	u, err := url.Parse(to)
	storetest.Must(t, err)
	p = storetest.NewProxy(t, u.Host)
	u.Host = p.Address()
	return p, u.String()
}

// cut has a proxy cut the connection at the next call that has a text, or at its answer. It returns a channel that is closed then.
func cut(p *storetest.Proxy, text string, behind bool) <-chan struct{} {
	came := make(chan struct{})
	p.Meet(text, behind, func([]byte) bool {
		close(came)
		return false
	})
	return came
}

// However a relay is cut off from the database or from Redis, before a call or behind its answer, each committed row is handled once.
func TestRelayedOnce(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		name, text string
		redis      bool
	}{
		{"a look", "SELECT seq, called", false},
		{"a deletion", "DELETE FROM bellhop.outbox", false},
		{"a refusal", "UPDATE bellhop.outbox", false},
		{"the lock", "pg_try_advisory_lock(", false},
		{"the unlock", "pg_advisory_unlock(", false},
		{"the listening", "LISTEN ", false},
		{"a relayed batch", "_relay", true},
	} {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprint(at.name, " ", behind), func(t *testing.T) {
				t.Parallel()
				s := open(t, databasetest.Database(t), storetest.Open(t))
				url, store := s.url, s.store
				var p *storetest.Proxy
				if at.redis {
					var through string
					p, through = proxy(t, storetest.URL())
					store = storetest.With(t, notify.Config{URL: through, Prefix: s.store.Prefix(), Shards: storetest.Shards()})
				} else {
					p, url = proxy(t, s.url)
				}
				s.startFor(url, store)
				handled, n := make(map[string]int), 0
				publish := func() {
					s.exec("SELECT bellhop.publish($1, $2::text, id => $2, if_exists => $3)", []string{topic, s.beside()}[n/2%2], fmt.Sprint("m", n), []any{nil, "replace"}[n%2])
					n++
				}
				handle := func(n int) {
					for _, body := range s.ready(n) {
						handled[body]++
					}
				}
				for round := range 6 {
					met := cut(p, at.text, behind)
					if at.text == "LISTEN " {
						s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'bellhop relay'")
					}
					for range 1 + 30*(round%2) {
						publish()
					}
					s.exec("INSERT INTO bellhop.outbox (topic, id, body) VALUES ('a topic', 'x', ''); NOTIFY bellhop_outbox") // which is refused
					handle(1 + 30*(round%2))
					storetest.Eventually(t, "the cut", func() bool {
						select {
						case <-met:
							return true
						default: // a relay that was awake all the while had no lock to give back
							publish()
							handle(1)
							return false
						}
					})
				}
				s.empty()
				if len(handled) != n {
					t.Errorf("%d of %d were handled", len(handled), n)
				}
				for body, times := range handled {
					if times != 1 {
						t.Errorf("%s was handled %d times", body, times)
					}
				}
				storetest.Is(t, "rows that were refused", s.ask("SELECT count(*) FROM bellhop.outbox WHERE refused IS NOT NULL"), 6)
			})
		}
	}
}

// After a call of unknown outcome a relay publishes nothing to the shard, of no topic, before it has begun there again: that would take the
// place of what is noted.
func TestBeginsBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	p, through := proxy(t, storetest.URL())
	s.startFor(s.url, storetest.With(t, notify.Config{URL: through, Prefix: s.store.Prefix(), Shards: storetest.Shards()}))
	publish := func(topic, body string) { s.exec("SELECT bellhop.publish($1, $2::text)", topic, body) }
	publish(topic, "first")
	s.ready(1)
	s.asleep()
	begins := make(chan struct{})
	held := make(chan func(), 1)
	p.Meet("_relay", true, func([]byte) bool {
		at, let := p.Hold("_relay")
		held <- let
		go func() {
			<-at
			close(begins)
		}()
		return false
	})
	publish(topic, "of unknown outcome")
	let := storetest.Receive(t, "the cut", held)
	storetest.Receive(t, "it is about to begin", begins)
	storetest.Same(t, "was published", []string{"of unknown outcome"}, s.ready(1))
	publish(s.beside(), "beside")
	s.asleep()
	let()
	storetest.Same(t, "goes on", []string{"beside"}, s.ready(1))
	s.empty()
	counts, err := storetest.Count(s.store, topic)
	storetest.Must(t, err)
	storetest.Is(t, "messages that were published", counts.Published, 2)
}

// A relay that ends at any time leaves to the next one what it has not deleted, each row once.
func TestRelaysInTurns(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	published := make(chan int, 1)
	stopped := make(chan struct{})
	go func() {
		n := 0
		for ; t.Context().Err() == nil; n++ {
			select {
			case <-stopped:
				published <- n
				return
			default:
			}
			s.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint(n))
		}
	}()
	handled := make(map[string]int)
	for range 40 {
		stop := s.start(s.url)
		for _, body := range s.ready(1) {
			handled[body]++
		}
		stop()
	}
	close(stopped)
	n := storetest.Receive(t, "how many were published", published)
	s.start(s.url)
	for _, body := range s.ready(n - len(handled)) {
		handled[body]++
	}
	for body, times := range handled {
		if times != 1 {
			t.Errorf("%s was handled %d times", body, times)
		}
	}
}

// While Redis or the database is away rows wait, and go on by themselves, in their order.
func TestAway(t *testing.T) {
	t.Parallel()
	server, url := databasetest.Server(t)
	redis := storetest.Server(t)
	s := open(t, url, storetest.At(t, redis.URL(), "p"))
	s.start(s.url)
	n := 0
	publish := func() {
		s.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint(n))
		n++
	}
	publish()
	storetest.Same(t, "before", []string{"0"}, s.ready(1))
	storetest.Must(t, redis.Signal(syscall.SIGSTOP))
	for range 3 {
		publish()
	}
	storetest.Must(t, redis.Signal(syscall.SIGCONT))
	storetest.Same(t, "behind Redis", []string{"1", "2", "3"}, s.ready(3))
	for _, end := range []func(){server.Stop, server.Kill} {
		s.empty()
		end()
		s.log.Await(t, "cannot relay what the outbox holds; retrying")
		storetest.Must(t, server.Restart(t.Context()))
		publish()
		storetest.Same(t, "behind the database", []string{fmt.Sprint(n - 1)}, s.ready(1))
	}
	s.log.Await(t, "relaying what the outbox holds again")
}

// What is refused stays with the reason, and holds nothing back; retried, it goes behind all others.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	s.start(s.url)
	s.exec("INSERT INTO bellhop.outbox (topic, id, asked, body) VALUES ($1, 'a', '{\"key\":\"k\",\"delay\":\"soon\"}', 'x'), ($1, 'b', '[]', 'x'), ($1, 'c', '{\"due\":\"9999-12-31T23:59:59.999Z\",\"spread\":\"1h\"}', 'x')", topic)
	s.exec("SELECT bellhop.publish($1, 'not due', id => 'd', delay => '1h')", topic)
	s.exec("SELECT bellhop.publish($1, 'again', id => 'd', if_exists => 'refuse'), bellhop.publish($1, 'kept', id => 'd'), bellhop.publish($1, 'fine', key => 'k')", topic)
	storetest.Same(t, "beside them", []string{"fine"}, s.ready(1))
	s.empty()
	conn := s.connect()
	defer conn.Close(context.WithoutCancel(t.Context()))
	found, err := conn.Query(t.Context(), "SELECT id || ' ' || refused FROM bellhop.outbox ORDER BY seq")
	storetest.Must(t, err)
	reasons, err := pgx.CollectRows(found, pgx.RowTo[string])
	storetest.Must(t, err)
	for i, want := range []string{"a invalid delay", "b invalid line", "c invalid due", "d publish " + topic + ":d: id already in use"} {
		if i >= len(reasons) || !strings.HasPrefix(reasons[i], want) {
			t.Errorf("want %q among the reasons %q", want, reasons)
		}
	}
	if stats := s.relay.Stats(); stats.Refused != 4 || stats.Kept != 1 || stats.Relayed != 3 {
		t.Errorf("the statistics are %+v", stats)
	}
	if l, err := s.relay.Backlog(t.Context()); err != nil || l != (outbox.Backlog{Refused: 4}) {
		t.Errorf("the backlog is %+v, %v", l, err)
	}
	s.exec("UPDATE bellhop.outbox SET refused = NULL, seq = DEFAULT, asked = NULL WHERE id = 'b'; NOTIFY bellhop_outbox")
	storetest.Same(t, "retried", []string{"x"}, s.ready(1))
}

// The floor does not pass the row of a transaction that is open, and what is open goes on once it is committed.
func TestFloor(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	s.start(s.url)
	raised := func() int { return strings.Count(s.log.String(), "no row waits up to a number") }
	publish := func() {
		t.Helper()
		s.exec("SELECT bellhop.publish($1, 'x')", topic)
		s.ready(1)
	}
	storetest.Eventually(t, "the floor is raised", func() bool {
		publish()
		return raised() > 1
	})
	s.asleep()
	open := s.begin()
	s.publishIn(open, "open")
	publish()
	before := raised()
	for range 10 {
		publish()
	}
	if now := raised(); now > before+1 { // it may have been about to be raised up to a number before
		t.Errorf("the floor was raised %d times though a transaction is open", now-before)
	}
	s.commit(open)
	storetest.Same(t, "of the open one", []string{"open"}, s.ready(1))
}

// Behind a pool of connections, where there are no sessions, a relay holds no lock, and looks again and again. It says so once.
func TestPooled(t *testing.T) {
	t.Parallel()
	server, url := databasetest.Server(t)
	s := open(t, url, storetest.Open(t))
	s.start(databasetest.Bouncer(t, server, "archive"))
	for n := range 3 {
		s.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint(n))
		storetest.Same(t, "handled", []string{fmt.Sprint(n)}, s.ready(1))
	}
	storetest.Is(t, "locks", s.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0)
	if !s.relay.Stats().Pooled || strings.Count(s.log.String(), "behind a pool of connections") != 1 {
		t.Errorf("it is not told: %+v, %s", s.relay.Stats(), s.log)
	}
}

// While a shard is away the topics of others go on. Its own follow once it is back, behind a floor that did not pass them.
func TestShardAway(t *testing.T) {
	t.Parallel()
	const shards = 4
	store := storetest.Sharded(t, shards)
	user := storetest.UserOf(t, store)
	s := open(t, databasetest.Database(t), store)
	away, others := store.Of(topic), []string{}
	for n := 0; len(others) < 5; n++ {
		if other := fmt.Sprint("t", n); store.Of(other) != away && store.Of(other) != store.Home() {
			others = append(others, other)
		}
	}
	if away == store.Home() {
		t.Fatal("name another topic")
	}
	rules := []any{"resetkeys", "~" + store.Prefix() + ":{0}:*"}
	for n, keys := range store.KeysOfAll() {
		if n != away.Number() {
			rules = append(rules, "~"+keys.Base()+"*")
		}
	}
	s.startFor(s.url, user.Store)
	s.exec("SELECT bellhop.publish($1, 'before')", topic)
	s.ready(1)
	user.ACL(t, rules...)
	for n := range 30 {
		s.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint(n))
		for _, other := range others {
			s.exec("SELECT bellhop.publish($1, 'x')", other)
		}
	}
	for _, other := range others {
		storetest.Eventually(t, other+" goes on", func() bool {
			counts, err := storetest.Count(store, other)
			return err == nil && counts.Ready == 30
		})
	}
	counts, err := storetest.Count(store, topic)
	storetest.Must(t, err)
	storetest.Is(t, "messages of the shard that is away", counts.Ready, 0)
	user.ACL(t, "~*")
	for n, body := range s.ready(30) {
		storetest.Is(t, "the next of the shard that was away", body, fmt.Sprint(n))
	}
	s.empty()
}

// What a relay needs is told, with the remedy, and it goes on as soon as that is there.
func TestWhatARelayNeeds(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "one format key is written")
	s := &shop{t: t, url: databasetest.Database(t), store: storetest.Open(t), log: &storetest.Log{}}
	told := func(text string) {
		t.Helper()
		s.log.Await(t, text)
	}
	stop := s.start(s.url)
	told("the database has no outbox; make one: bellhop outbox install --url " + database.Redact(s.url) + " --relay bellhop")
	stop()
	if _, err := s.relay.Backlog(t.Context()); !errors.Is(err, outbox.ErrNotInstalled) {
		t.Errorf("the backlog of none: %v", err)
	}
	install(t, s.url, outbox.InstallOptions{})
	s.exec("UPDATE bellhop.outbox_about SET version = 99")
	storetest.Should(t, storetest.ErrOf(s.relay.Backlog(t.Context())))
	s.exec("SELECT bellhop.publish($1, 'x')", topic)
	if l, err := s.relay.Backlog(t.Context()); err != nil || l.Waiting != 1 || l.Oldest <= 0 {
		t.Errorf("the backlog is %+v, %v", l, err)
	}
	stop = s.start(s.url)
	told("the outbox is of a newer version of this program; update this one")
	stop()
	s.exec("UPDATE bellhop.outbox_about SET version = 1")
	storetest.Must(t, s.store.Client().Set(t.Context(), s.store.Keys().Format(), "9 ID", 0).Err())
	s.store = storetest.At(t, storetest.URL(), s.store.Prefix())
	s.start(s.url)
	told("the outbox needs format 10, and this one has 9")
	_, err := storetest.At(t, storetest.URL(), s.store.Prefix()).Upgrade(t.Context(), true)
	storetest.Must(t, err)
	storetest.Same(t, "after the upgrade", []string{"x"}, s.ready(1))
}

// Relays of two databases that have the id of one outbox take turns, so that each row is handled once, and it is told.
func TestCopyOfADatabase(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s, copied := open(t, databasetest.Database(t), store), open(t, databasetest.Database(t), store)
	copied.log = s.log
	copied.exec("UPDATE bellhop.outbox_about SET id = $1::text::uuid", databasetest.Ask(t, s.url, "SELECT id::text FROM bellhop.outbox_about")[0])
	s.start(s.url)
	copied.start(copied.url)
	handled, n := make(map[string]int), 0
	storetest.Eventually(t, "it is told that the id is there twice", func() bool {
		for range 5 {
			s.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint(n))
			copied.exec("SELECT bellhop.publish($1, $2::text)", topic, fmt.Sprint("copied ", n))
			n++
		}
		return strings.Contains(s.log.String(), "another database has this outbox's id; run bellhop outbox install --new-id in the copy")
	})
	for _, body := range s.ready(2 * n) {
		handled[body]++
	}
	storetest.Is(t, "handled", len(handled), 2*n)
}

// A database that took another's place may give a number again, which is no row that was taken.
func TestNumberGivenAgain(t *testing.T) {
	t.Parallel()
	s := open(t, databasetest.Database(t), storetest.Open(t))
	tx := s.begin()
	s.publishIn(tx, "given again")
	s.publishIn(tx, "taken")
	s.commit(tx)
	row := databasetest.Ask(t, s.url, "SELECT 'TOKEN 7' || chr(10) || min(seq) || ':1700000000000000 ' || max(seq) || ':' || (extract(epoch FROM max(called)) * 1000000)::bigint FROM bellhop.outbox")[0]
	id := databasetest.Ask(t, s.url, "SELECT id::text FROM bellhop.outbox_about")[0].(string)
	storetest.Must(t, s.store.Client().HSet(t.Context(), s.store.KeysOf(topic).Relayed(), id, row).Err())
	s.start(s.url)
	s.empty()
	storetest.Same(t, "handled", []string{"given again"}, s.ready(1))
}
