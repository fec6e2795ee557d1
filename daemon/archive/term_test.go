package archive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// runTerm runs a term of an archive until stop or the end of the test.
func runTerm(t testing.TB, a *archive.Archive, s *notify.Store) (stop func()) {
	t.Helper()
	return storetest.Run(t, func(ctx context.Context) error {
		terms(ctx, t, a, s)
		return nil
	})
}

// terms runs a term of an archive for each shard of a store.
func terms(ctx context.Context, t testing.TB, a *archive.Archive, s *notify.Store) {
	t.Helper()
	storetest.Should(t, termsOf(ctx, a, s))
}

func termsOf(ctx context.Context, a *archive.Archive, s *notify.Store) error {
	shards, err := s.Shards(ctx)
	var all sync.WaitGroup
	for _, shard := range shards {
		all.Go(func() { a.Term(ctx, carrier.Term{Shard: shard}) })
	}
	all.Wait()
	return err
}

// errUnsure is the error of kill if one more may have died.
var errUnsure = errors.New("bury")

// kill publishes messages m0, m1 and so on, from and up to a number, and buries them. It
// stops at the first error, and returns how many surely died.
func kill(ctx context.Context, s *notify.Store, from, to int) (died int, err error) {
	pub, err := notify.NewPublisher(s)
	if err != nil {
		return 0, err
	}
	claimer, err := subscribers.NewClaimer(s)
	if err != nil {
		return 0, err
	}
	for i := from; i < to; i++ {
		if _, err := pub.Publish(ctx, notify.Message{Topic: topic, ID: fmt.Sprintf("m%d", i), Body: []byte("body")}); err != nil {
			return died, err
		}
		ds, err := claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil {
			return died, err
		}
		for _, d := range ds {
			if _, err := d.Bury(ctx, "the test says so"); err != nil {
				return died, fmt.Errorf("%w: %w", errUnsure, err)
			}
			died++
		}
	}
	return died, nil
}

func mustKill(t testing.TB, s *notify.Store, from, to int) {
	t.Helper()
	if n, err := kill(t.Context(), s, from, to); err != nil || n != to-from {
		t.Fatalf("%d of %d messages died: %v", n, to-from, err)
	}
}

// wantRows waits until messages m0 up to a number have rows, and checks that each has one.
func wantRows(t testing.TB, url string, n int) {
	t.Helper()
	const count = "SELECT count(*), count(DISTINCT (topic, id)) FROM bellhop.messages"
	var got []any
	storetest.Eventually(t, fmt.Sprintf("%d messages are archived", n), func() bool {
		if databasetest.Ask(t, url, "SELECT to_regclass('bellhop.messages')::text")[0] == nil {
			return false
		}
		got = databasetest.Ask(t, url, count)
		return got[1].(int64) >= int64(n)
	})
	storetest.Same(t, "rows and messages", []any{int64(n), int64(n)}, got)
}

// wantEmpty waits until the stream of endings of a store is empty.
func wantEmpty(t testing.TB, s *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "the stream of endings is empty", func() bool {
		backlog, err := s.Backlog(t.Context())
		return err == nil && backlog.Open && backlog.Entries == 0
	})
}

// What dies is archived, also if the stream of endings was empty for a while: it rings.
func TestTerm(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	a := archivetest.Open(t, s, archive.Options{URL: url})
	stop := runTerm(t, a, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 600)
	wantRows(t, url, 600)
	wantEmpty(t, s)
	mustKill(t, s, 600, 601)
	wantRows(t, url, 601)
	rows, err := a.Show(t.Context(), topic, "m600", true)
	storetest.Must(t, err)
	row := rows[0]
	if row.State != "dead" || row.Reason != "the test says so" || string(row.Body) != "body" || row.Attempts != 1 || row.Published.After(row.Ended) {
		t.Errorf("got the row %+v", row)
	}
	wantEmpty(t, s)
	stop()
	mustKill(t, s, 601, 602)
	runTerm(t, a, s)
	wantRows(t, url, 602) // what died between two terms
}

// At rest the archive makes no call: beats pass by. It looks again when its subscription was renewed, and rests again.
func TestRest(t *testing.T) {
	s := storetest.Unhurried(storetest.At(t, storetest.Lend(t), "")) // so only the test renews a subscription
	var calls atomic.Int64
	s.Observe(func(script string, _ time.Duration, _ error) {
		switch script {
		case "endings", "archived", "open_archive", "grown", "backlog":
			calls.Add(1)
		}
	})
	a := archivetest.Open(t, s, archive.Options{URL: databasetest.Database(t)})
	carriertest.Run(t, s, carrier.Options{OnTerm: a.Term, Lease: carrier.MaxLease})
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	wantEmpty(t, s)
	var beats atomic.Int64
	storetest.Run(t, func(ctx context.Context) error {
		s.Subscribe(ctx, func(e store.Event) {
			if e.Kind == reach.Beat {
				beats.Add(1)
			}
		})
		return nil
	})
	rests := func() { // after the last look, which may come behind the ring for what was archived already
		t.Helper()
		made, since := calls.Load(), beats.Load()
		storetest.Eventually(t, "three beats pass without a call", func() bool {
			if n := calls.Load(); n != made {
				made, since = n, beats.Load()
			}
			return beats.Load() >= since+3*int64(storetest.Shards())
		})
	}
	rests()
	made := calls.Load()
	storetest.Must(t, s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	storetest.Eventually(t, "it looks again", func() bool { return calls.Load() > made })
	rests()
}

// A database that is away, at the start and later, loses nothing: it is told once, and
// without a password.
func TestDatabaseAway(t *testing.T) {
	server, url := databasetest.Server(t)
	server.Stop()
	s := storetest.Open(t)
	log, logged := archivetest.Log()
	a := archivetest.Open(t, s, archive.Options{URL: url, Logger: log})
	stop := runTerm(t, a, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 10)
	storetest.Eventually(t, "the database is away", func() bool { return a.Stats().Away && a.Stats().Failed > 1 })
	if _, err := a.Search(t.Context(), archive.Query{}, 1, "", false); err == nil || strings.Contains(err.Error(), "correct") {
		t.Errorf("a search while it is away: got %v", err)
	}
	storetest.Must(t, server.Restart(t.Context()))
	wantRows(t, url, 10)
	wantEmpty(t, s)
	storetest.Eventually(t, "the end of the outage is logged", func() bool { return strings.Contains(logged(), "archiving what ended again") })
	for text, want := range map[string]int{`msg="cannot archive`: 1, `msg="archiving what ended again"`: 1, "correct": 0, "battery": 0} {
		if n := strings.Count(logged(), text); n != want {
			t.Errorf("%s is %d times in the log:\n%s", text, n, logged())
		}
	}
	server.Stop() // at rest: the connection is made again without a word
	storetest.Must(t, server.Restart(t.Context()))
	mustKill(t, s, 10, 11)
	wantRows(t, url, 11)
	if n := strings.Count(logged(), "cannot archive"); n != 1 {
		t.Errorf("a restart at rest is a fault:\n%s", logged())
	}
	server.Stop()
	mustKill(t, s, 11, 12)
	storetest.Eventually(t, "the database is away again", func() bool { return a.Stats().Away })
	if stop(); a.Stats().Away {
		t.Error("the database is away for a process that does not archive")
	}
}

// A restart of the database before anything was archived is no fault.
func TestDatabaseRestartedBeforeUse(t *testing.T) {
	server, url := databasetest.Server(t)
	s := storetest.Open(t)
	log, logged := archivetest.Log()
	runTerm(t, archivetest.Open(t, s, archive.Options{URL: url, Logger: log}), s)
	archivetest.Registered(t, s)
	const resting = `SELECT count(*) = 1 AND every(state = 'idle') AND (SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhparent WHERE relname = 'messages') = 2
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	storetest.Eventually(t, "a connection rests, and the months are there", func() bool { return databasetest.Ask(t, url, resting)[0] == true })
	server.Stop()
	storetest.Must(t, server.Restart(t.Context()))
	mustKill(t, s, 0, 1)
	wantRows(t, url, 1)
	if n := strings.Count(logged(), "cannot archive"); n != 0 {
		t.Errorf("it is a fault:\n%s", logged())
	}
}

// A database that is killed again and again while messages die loses none, and has none
// twice.
func TestDatabaseKilled(t *testing.T) {
	server, url := databasetest.Server(t)
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: url})
	runTerm(t, a, s)
	archivetest.Registered(t, s)
	for i := range 4 {
		mustKill(t, s, 100*i, 100*i+50)
		storetest.Eventually(t, "some are stored", func() bool { return a.Stats().Stored > int64(100*i) })
		server.Kill()
		mustKill(t, s, 100*i+50, 100*i+100)
		storetest.Must(t, server.Restart(t.Context()))
	}
	wantRows(t, url, 400)
	wantEmpty(t, s)
}

// A Redis that is killed while it is archived loses no row of what surely died.
func TestRedisKilled(t *testing.T) {
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	url := databasetest.Database(t)
	s := storetest.At(t, server.URL(), "test")
	a := archivetest.Open(t, s, archive.Options{URL: url})
	runTerm(t, a, s)
	archivetest.Registered(t, s)
	died, unsure := 0, 0
	for i := range 3 {
		ended, killed := make(chan [2]int, 1), make(chan struct{})
		go func() {
			all, more := 0, 0
			for at := 1000 * i; ; at = 1000*i + all + 1 {
				n, err := kill(t.Context(), s, at, at+1000) // until a call fails
				if all += n; errors.Is(err, errUnsure) {
					more++
				}
				select {
				case <-killed:
					ended <- [2]int{all, more}
					return
				default:
				}
			}
		}()
		storetest.Eventually(t, "some are stored", func() bool { return a.Stats().Stored > int64(died) })
		server.Kill()
		close(killed)
		round := storetest.Receive(t, "the end of the deaths", ended)
		died, unsure = died+round[0], unsure+round[1]
		var err error
		if server, err = server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	storetest.Eventually(t, "all that died is stored", func() bool { return a.Stats().Stored >= int64(died) })
	wantEmpty(t, s)
	got := databasetest.Ask(t, url, "SELECT count(*), count(DISTINCT (topic, id)) FROM bellhop.messages")
	if rows, messages := got[0].(int64), got[1].(int64); rows != messages || rows < int64(died) || rows > int64(died+unsure) {
		t.Errorf("%d rows of %d messages, of which %d died, and %d may have", rows, messages, died, unsure)
	}
}

// When Redis loses all that it held, the archive is registered again.
func TestFlushAll(t *testing.T) {
	s := storetest.Unhurried(storetest.At(t, storetest.Lend(t), "test"))
	url := databasetest.Database(t)
	a := archivetest.Open(t, s, archive.Options{URL: url})
	carriertest.Run(t, s, carrier.Options{OnTerm: a.Term})
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 3)
	wantRows(t, url, 3)
	storetest.Must(t, s.Client().FlushAll(t.Context()).Err())
	archivetest.Registered(t, s)
	mustKill(t, s, 3, 6)
	wantRows(t, url, 6)
	if n := databasetest.Ask(t, url, "SELECT count(DISTINCT store) FROM bellhop.messages")[0]; n != int64(2) {
		t.Errorf("rows of %v stores", n)
	}
}

// otherProcess is the environment variable of the other process of TestProcesses: the URL
// of Redis, a prefix and the URL of a database, separated by newlines.
const otherProcess = "ARCHIVE_OTHER_PROCESS"

// runOther runs a term in this process until that is killed.
func runOther() {
	f := strings.Split(os.Getenv(otherProcess), "\n")
	s, err := notify.Open(notify.Config{URL: f[0], Prefix: f[1]})
	if err == nil {
		var a *archive.Archive
		if a, err = archive.New(s, archive.Options{URL: f[2]}); err == nil {
			err = termsOf(context.Background(), a, s)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startOther starts another process that archives.
func startOther(t testing.TB, s *notify.Store, url string) *os.Process {
	t.Helper()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), otherProcess+"="+strings.Join([]string{storetest.URL(), s.Prefix(), url}, "\n"))
	other.Stderr = os.Stderr
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	storetest.Must(t, other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	return other.Process
}

// Processes that archive the same stream of endings and are killed, or paused and go on later, lose
// no row and write none twice.
func TestProcesses(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	paused := startOther(t, s, url)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	wantRows(t, url, 1) // the schema is there
	died := 1
	stored := func() int64 {
		return databasetest.Ask(t, url, "SELECT count(*) FROM bellhop.messages")[0].(int64)
	}
	for range 3 {
		killed := startOther(t, s, url)
		mustKill(t, s, died, died+300)
		storetest.Must(t, paused.Signal(syscall.SIGSTOP))
		died += 300
		storetest.Eventually(t, "some are stored", func() bool { return stored() > int64(died-300) })
		storetest.Must(t, killed.Kill())
		mustKill(t, s, died, died+300)
		died += 300
		storetest.Must(t, paused.Signal(syscall.SIGCONT))
	}
	wantRows(t, url, died)
	wantEmpty(t, s)
	wantRows(t, url, died)
}
