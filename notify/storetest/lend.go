package storetest

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

// lent holds the servers of Lend that no test has now, and the URLs of all.
var lent struct {
	sync.Mutex
	idle []*redisserver.Server
	urls []string
}

// Lend returns the URL of a redis-server that the test has for itself until it ends, and
// other tests have before and after it: for one that cuts connections, pauses Redis or
// empties it. A test that stops its server, or changes its configuration or users, uses
// Server instead.
func Lend(t testing.TB) string {
	t.Helper()
	s := lend(t)
	t.Cleanup(func() {
		client := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer client.Close()
		for _, command := range [][]any{{"CLIENT", "UNPAUSE"}, {"FLUSHALL"}} {
			if err := client.Do(context.Background(), command...).Err(); err != nil {
				t.Errorf("give back a server: %v", err)
				return // and lend it no more
			}
		}
		lent.Lock()
		defer lent.Unlock()
		lent.idle = append(lent.idle, s)
	})
	return s.URL()
}

// lends reports whether a URL is that of a server of Lend.
func lends(url string) bool {
	lent.Lock()
	defer lent.Unlock()
	return slices.Contains(lent.urls, url)
}

// lend returns a server that is idle, or else a new one.
func lend(t testing.TB) *redisserver.Server {
	t.Helper()
	lent.Lock()
	defer lent.Unlock()
	if n := len(lent.idle); n > 0 {
		s := lent.idle[n-1]
		lent.idle = lent.idle[:n-1]
		return s
	}
	dir, err := os.MkdirTemp("", "bellhop-test-")
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir})
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	lent.urls = append(lent.urls, s.URL())
	AtEnd(func() {
		s.Stop()
		os.RemoveAll(dir)
	})
	return s
}
