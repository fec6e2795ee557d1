package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The test binary is also the daemon of the benchmarks.
func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) == "" {
		storetest.Patient()
		reach.AnswerWait, reach.ReplicaWait = storetest.Deadline, storetest.Deadline/2 // no test has a Redis, or a replica, hang
		storetest.MainInTime(m)
		return
	}
	storetest.Patient()
	if err := runDaemon(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// config returns the default configuration for a Redis, under a prefix of the test's own.
func config(t *testing.T, url string) daemon.Config {
	t.Helper()
	set(t, map[string]string{
		"BELLHOP_REDIS_URL": url, "BELLHOP_PREFIX": "test-" + notify.NewID(), "BELLHOP_LISTEN": "127.0.0.1:0",
		"BELLHOP_SHARDS": strconv.Itoa(storetest.Shards()),
	})
	c, err := daemon.Load(os.Environ())
	storetest.Must(t, err)
	return c
}

// elected waits until a carrier is elected.
func elected(t *testing.T, store *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "a carrier is elected", func() bool {
		status, err := carrier.Look(t.Context(), store.Home())
		return err == nil && status.Name != ""
	})
}

func TestRunStopsInGoodOrder(t *testing.T) {
	c := config(t, storetest.URL())
	c.CarrierLease = carrier.MaxLease // which does not end before it steps down
	ctx, stop := context.WithCancel(t.Context())
	var log storetest.Log
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
	store := storetest.At(t, string(c.RedisURL), c.Prefix)
	elected(t, store)
	stop()
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if status, err := carrier.Look(t.Context(), store.Home()); err != nil || status.Name != "" {
		t.Errorf("after the stop %q carries, %v", status.Name, err)
	}
	if !strings.Contains(log.String(), "stepped down") {
		t.Errorf("the carrier did not step down:\n%s", &log)
	}
}

func TestRunWaitsForRedis(t *testing.T) {
	server := storetest.Server(t)
	server.Kill()
	c := config(t, server.URL())
	c.CarrierLease = carrier.MaxLease // it is elected once
	ctx, stop := context.WithCancel(t.Context())
	var log storetest.Log
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
	storetest.Eventually(t, "the daemon logs that Redis is away", func() bool {
		return strings.Contains(log.String(), "cannot stand for election") && strings.Contains(log.String(), "cannot subscribe to redis")
	})
	again, err := server.Restart(t.Context())
	storetest.Must(t, err)
	defer again.Stop()
	elected(t, storetest.At(t, again.URL(), c.Prefix))
	stop()
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	for _, once := range []string{"cannot stand for election", "cannot subscribe to redis"} {
		if n := strings.Count(log.String(), once); n != 1 && storetest.Shards() == 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", once, n, &log)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 && storetest.Shards() == 1 {
		t.Errorf("%d errors are logged, want 2:\n%s", n, &log)
	}
}

func TestRunRefusesUnfitRedis(t *testing.T) {
	server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	for _, url := range []string{"", startNATS(t, storetest.Port(t)).ClientURL()} {
		c := config(t, server.URL())
		c.NatsURL = daemon.NatsURLs(url)
		err := daemon.Run(t.Context(), c, daemon.Options{Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, notify.ErrUnfit) || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("with nats at %q Run ended with %v, want an ErrUnfit that names the remedy", url, err)
		}
	}
}

// Settings of all parts are checked before anything is opened: here a port that is in use.
func TestRunChecksBeforeItListens(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer used.Close()
	c := config(t, storetest.URL())
	c.Listen, c.NatsURL = used.Addr().String(), "http://nowhere"
	err = daemon.Run(t.Context(), c, daemon.Options{Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "nats URL") {
		t.Errorf("%v; want what is wrong with the settings of NATS", err)
	}
}

// startNATS starts a nats-server at a port.
func startNATS(t *testing.T, port int) *server.Server {
	t.Helper()
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
	storetest.Must(t, err)
	storetest.Vacated(t, port) // if another one was there
	go n.Start()
	t.Cleanup(func() { stopNATS(n) })
	if !n.ReadyForConnections(storetest.Deadline) {
		t.Fatal("nats-server does not start")
	}
	return n
}

func stopNATS(n *server.Server) {
	n.Shutdown()
	n.WaitForShutdown()
}

// answers waits until a daemon answers over NATS.
func answers(t *testing.T, conn *nats.Conn) {
	t.Helper()
	storetest.Eventually(t, "the daemon answers", func() bool {
		_, err := conn.Request("bellhop.publish.topic", []byte("x"), time.Second)
		return err == nil
	})
}

// A NATS that is away, or comes and goes, neither delays nor ends the carrier. A stop
// answers the requests under way, and gives up the lease.
func TestRunBesideNATS(t *testing.T) {
	port := storetest.Port(t)
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	c := config(t, storetest.URL())
	c.NatsURL = daemon.NatsURLs(url)
	c.CarrierLease = carrier.MaxLease // it is elected once
	ctx, stop := context.WithCancel(t.Context())
	var log storetest.Log
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
	store := storetest.At(t, string(c.RedisURL), c.Prefix)
	elected(t, store)
	for range 2 {
		n := startNATS(t, port)
		conn, err := nats.Connect(url, nats.NoReconnect(), nats.Timeout(storetest.Deadline))
		storetest.Must(t, err)
		answers(t, conn)
		conn.Close()
		stopNATS(n)
	}
	startNATS(t, port)
	conn, err := nats.Connect(url, nats.Timeout(storetest.Deadline))
	storetest.Must(t, err)
	defer conn.Close()
	answers(t, conn)
	stop()
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if status, err := carrier.Look(t.Context(), store.Home()); err != nil || status.Name != "" {
		t.Errorf("after the stop %q carries, %v", status.Name, err)
	}
	if n := strings.Count(log.String(), "elected"); n != storetest.Shards() {
		t.Errorf("it was elected %d times:\n%s", n, &log)
	}
	if _, err := conn.Request("bellhop.publish.topic", []byte("x"), storetest.Deadline); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("after the stop a request ends with %v", err)
	}
}

// Serving tokens to other machines without TLS logs a warning that they can be read on the way.
func TestRunWarnsOfPlainTokens(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	storetest.Must(t, os.WriteFile(tokens, []byte("a token-of-a-0123456789 admin >\n"), 0o600))
	for address, warned := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		c := config(t, storetest.URL())
		c.Listen, c.TokensFile = address, tokens
		ctx, stop := context.WithCancel(t.Context())
		var log storetest.Log
		ended := make(chan error, 1)
		go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
		elected(t, storetest.At(t, string(c.RedisURL), c.Prefix))
		stop()
		if err := storetest.Receive(t, "the end", ended); err != nil {
			t.Errorf("Run ended with %v", err)
		}
		if got := strings.Contains(log.String(), "without tls, so tokens can be read"); got != warned {
			t.Errorf("%s: warned: %v, want %v:\n%s", address, got, warned, &log)
		}
	}
}
