package redisserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o redisserver.Options) *redisserver.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	server, err := redisserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// connect returns a client of a server, which must answer.
func connect(t *testing.T, server *redisserver.Server) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestStart(t *testing.T) {
	var log bytes.Buffer
	server := start(t, redisserver.Options{Args: []string{"--maxmemory", "100mb"}, Output: &log})
	if got := connect(t, server).ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "104857600" {
		t.Errorf("maxmemory %s", got)
	}
	server.Stop()
	<-server.Done()
	if !strings.Contains(log.String(), "Ready to accept connections") {
		t.Errorf("its log is %q", log.String())
	}
}

func TestTwoAtATime(t *testing.T) {
	one, two := start(t, redisserver.Options{}), start(t, redisserver.Options{})
	connect(t, one).Set(t.Context(), "key", "one", 0)
	if n := connect(t, two).Exists(t.Context(), "key").Val(); n != 0 {
		t.Error("two servers share a key")
	}
}

func TestRestartKeepsAddressAndData(t *testing.T) {
	server := start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	if err := connect(t, server).Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	again, err := server.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	if again.Addr() != server.Addr() {
		t.Errorf("it was at %s and is at %s", server.Addr(), again.Addr())
	}
	if got := connect(t, again).Get(t.Context(), "key").Val(); got != "value" {
		t.Errorf("the key holds %q", got)
	}
}

// Restart returns when the data is loaded, though the server answers INFO before.
func TestRestartLoads(t *testing.T) {
	server := start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always", "--key-load-delay", "50"}})
	pipe := connect(t, server).Pipeline()
	for i := range 10_000 {
		pipe.Set(t.Context(), strconv.Itoa(i), "value", 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	again, err := server.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	client := redis.NewClient(&redis.Options{Addr: again.Addr(), MaxRetries: -1})
	defer client.Close()
	if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 10_000 {
		t.Errorf("it holds %d keys, %v; want 10000", n, err)
	}
}

func TestStopTwice(t *testing.T) {
	server := start(t, redisserver.Options{})
	server.Stop()
	server.Stop()
	server.Kill()
}

func TestServerThatEndsByItself(t *testing.T) {
	server := start(t, redisserver.Options{})
	if err := server.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
}

func TestPasswordIsNoFault(t *testing.T) {
	start(t, redisserver.Options{Args: []string{"--requirepass", "secret"}})
}

func TestNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redisserver.Variable, "")
	_, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir()})
	if !errors.Is(err, redisserver.ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("%v; want ErrNotInstalled with the words that install it", err)
	}
}

// Start runs the program that the variable names, and no other in its place.
func TestNamedProgram(t *testing.T) {
	program, err := redisserver.Program()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other-server")
	if err := os.Symlink(program, other); err != nil {
		t.Fatal(err)
	}
	t.Setenv(redisserver.Variable, other)
	server := start(t, redisserver.Options{})
	if got := connect(t, server).InfoMap(t.Context(), "server").Item("Server", "executable"); got != other {
		t.Errorf("%s runs, want %s", got, other)
	}
	for _, missing := range []string{"no-such-server", filepath.Join(t.TempDir(), "valkey-server")} {
		t.Setenv(redisserver.Variable, missing)
		_, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir()})
		if err == nil || errors.Is(err, redisserver.ErrNotInstalled) || !strings.Contains(err.Error(), fmt.Sprintf("%s: there is no program %q;", redisserver.Variable, missing)) {
			t.Errorf("%v; want an error that names the variable and %s", err, missing)
		}
	}
}

func TestDoesNotStart(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	_, port, _ := net.SplitHostPort(occupied.Addr().String())
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]redisserver.Options{
		"an unknown argument":   {Dir: t.TempDir(), Args: []string{"--no-such-setting", "1"}},
		"no such folder":        {Dir: "/no/such/folder"},
		"a port that is in use": {Dir: t.TempDir(), Port: n},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := redisserver.Start(t.Context(), o)
			if err == nil {
				server.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), "redis-server") {
				t.Errorf("%q does not say what did not start", err)
			}
		})
	}
}

// A server that cannot listen is not mistaken for the one that took its port.
func TestPortOfAnotherRedis(t *testing.T) {
	other := start(t, redisserver.Options{})
	o := connect(t, other).Options()
	_, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir(), Port: n}); err == nil {
		server.Stop()
		t.Error("it started at a port that is in use")
	}
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := redisserver.Start(ctx, redisserver.Options{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want context.Canceled", err)
	}
}

// No two masters of a cluster have the same epoch, which decides whose slots are whose.
func TestEpochsOfACluster(t *testing.T) {
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour) // nobody takes over
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	taken := make(map[string]bool)
	for _, s := range cluster.Masters {
		info, err := connect(t, s).ClusterInfo(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(info, "cluster_my_epoch:")
		epoch, _, _ := strings.Cut(rest, "\r")
		if epoch == "" || epoch == "0" || taken[epoch] {
			t.Errorf("epoch %q: another master has it, or nobody gave it", epoch)
		}
		taken[epoch] = true
	}
}
