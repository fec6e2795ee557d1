package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// ErrNewer is the error of an outbox that a newer version of this program installed. Nothing is relayed.
var ErrNewer = errors.New("the outbox is of a newer version of this program; update this one")

// The longest sleep, should no notification come, and how often it is asked how far the floor may be raised. Only a test binary changes them.
var (
	fallback  = time.Minute
	raiseEach = 10 * time.Second
)

const (
	pooledLook = 250 * time.Millisecond // where none can
	pauseMin   = 2 * time.Millisecond   // before the relay tries again to sleep
	pauseMax   = 100 * time.Millisecond
	closeIn    = time.Second
)

// relayName names the relay's connection at the server, unless the URL does.
const relayName = "bellhop relay"

// A link is a connection of the relay, and what is known through it.
type link struct {
	*Outbox
	conn   *pgx.Conn
	id     string // of the outbox
	pooled bool   // each transaction may be in another session, so there are no locks and no notifications
	asleep bool   // it has the lock, so that whoever publishes notifies it
	pause  time.Duration
	batch  int64
	looked time.Time // when the last look ended
	floor  floor
	parts  map[int]*part // by the numbers of shards

	beginning  sync.WaitGroup
	beginnings chan beginning // where it has begun; one of each shard at the most
	news       chan struct{}  // a signal; it holds one
}

// A floor is a number up to which no row waits, nor ever will. Rows that were deleted stay in the table as long as a snapshot keeps them, such as
// that of a backup: looks that read only what is behind the floor do not meet them.
type floor struct {
	at      int64
	next    int64     // which it becomes once a look, after all of writers have ended, finds no row up to it
	writers []string  // transactions that wrote when next was the last number
	ended   bool      // all of them have
	asked   time.Time // when that was asked last
	moved   bool      // rows were since next was noted
}

// relayConfig returns how the relay's connection is made: to a server that takes writes, and so that a silent one is noticed.
func (o Options) relayConfig() (*pgxpool.Config, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	c := config.ConnConfig
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.RuntimeParams["application_name"] == "bellhop" {
		c.RuntimeParams["application_name"] = relayName
	}
	c.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}).DialContext
	return config, nil
}

// connect makes the connection of a relay.
func (b *Outbox) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askWithin)
	defer cancel()
	c := &link{Outbox: b, parts: make(map[int]*part), beginnings: make(chan beginning, reach.MaxShards), news: make(chan struct{}, 1)}
	var err error
	if c.conn, err = database.Connect(ctx, b.config); err != nil {
		return nil, c.failed("connect", err)
	}
	if err := c.prepare(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// prepare learns what outbox there is, and has the server notify of what is committed, and notice when this process is gone.
func (c *link) prepare(ctx context.Context) error {
	var version int
	var pid uint32
	err := c.conn.QueryRow(ctx, about).Scan(&c.id, &version, &pid)
	switch {
	case err != nil:
		return c.failed("read bellhop.outbox_about", err)
	case version > Version:
		return fmt.Errorf("outbox at %s: %w", c.Address(), ErrNewer)
	}
	if c.conn.PgConn().PID() != pid {
		c.pooled = true
		c.tellPooled.Do(func() {
			c.o.Logger.Warn("the outbox is behind a pool of connections, so the relay looks into it again and again; give it the URL of the server itself", "address", c.Address(), "each", pooledLook.String())
		})
		return nil
	}
	_, err = c.conn.PgConn().Exec(ctx, "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; LISTEN "+channel).ReadAll()
	return c.failed("listen to "+channel, err)
}

// close closes the connection, and waits until its goroutines have ended.
func (c *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeIn)
	defer cancel()
	_ = c.conn.Close(ctx) // it is of no more use, however it ends
	select {
	case <-c.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// rest waits until there may be a row. Who publishes has a lock until its commit can be seen: so a relay that gets that alone knows what it has yet
// to look at, and whoever publishes later does not get it, and notifies. As long as the relay is awake nobody does: that would take turns at a
// lock of the whole server.
func (c *link) rest(ctx context.Context) (err error) {
	switch {
	case c.pooled:
		return c.wait(ctx, pooledLook)
	case c.asleep:
		return c.sleep(ctx)
	}
	if c.asleep, err = c.ask(ctx, "fall asleep", "SELECT pg_try_advisory_lock($1, $2)"); c.asleep || err != nil {
		return err // to look once more
	}
	c.pause = min(max(2*c.pause, pauseMin), pauseMax)
	return c.wait(ctx, c.pause)
}

// awake gives up the lock of a relay that sleeps.
func (c *link) awake(ctx context.Context) error {
	c.pause = 0
	if !c.asleep {
		return nil
	}
	c.asleep = false
	_, err := c.ask(ctx, "wake up", "SELECT pg_advisory_unlock($1, $2)")
	return err
}

// ask makes a call about the lock, and returns its answer.
func (c *link) ask(ctx context.Context, doing, call string) (answer bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err = c.conn.QueryRow(ctx, call, lockClass, lock).Scan(&answer)
	return answer, c.failed(doing, err)
}

// wait waits for a time, or until the relay has begun at a shard.
func (c *link) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-c.news:
	case <-ctx.Done():
	}
	return nil
}

// sleep waits for a notification, or until the relay has begun at a shard.
func (c *link) sleep(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithTimeout(ctx, fallback)
	defer cancel()
	watching.Go(func() {
		select {
		case <-c.news:
			cancel()
		case <-ctx.Done():
		}
	})
	_, err := c.conn.WaitForNotification(ctx)
	if ctx.Err() != nil && !c.conn.IsClosed() {
		return nil
	}
	return c.failed("wait for what is published", err)
}

// raise raises the floor by what a look found, which was at all topics or not, and asks each ten seconds for the next one.
func (c *link) raise(ctx context.Context, rows []row, all bool) (err error) {
	f := &c.floor
	if all && f.ended && f.next > f.at && (len(rows) == 0 || rows[0].Row.Seq > f.next) {
		f.at = f.next
		c.o.Logger.Debug("no row waits up to a number, and none will", "seq", f.at)
	}
	pending := f.next > f.at
	if time.Since(f.asked) < raiseEach || !pending && !f.moved {
		return nil
	}
	f.asked = time.Now()
	if !pending {
		f.moved = false
		if f.next, err = c.last(ctx); err != nil {
			return err
		}
	}
	writers, err := c.writers(ctx)
	if pending {
		writers = slices.DeleteFunc(writers, func(w string) bool { return !slices.Contains(f.writers, w) })
	}
	f.writers, f.ended = writers, len(writers) == 0
	return err
}

// stale notes how often another relay began meanwhile. Two that have one outbox take turns once, when one was paused, but not again and again.
type stale struct {
	mu    sync.Mutex
	times []time.Time
}

// mostStale is how often a minute that may happen.
const mostStale = 3

// note notes that it happened, and tells if that is too often.
func (s *stale) note(log *slog.Logger, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = slices.DeleteFunc(append(s.times, time.Now()), func(t time.Time) bool { return time.Since(t) > time.Minute })
	if len(s.times) > mostStale {
		log.Error("another database has this outbox's id; run bellhop outbox install --new-id in the copy", "address", address)
		s.times = nil
	}
}
