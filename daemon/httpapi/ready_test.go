package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// However often it is asked whether it is ready, Redis is asked twice a second.
func TestReadyzSharesALook(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.At(t, storetest.Lend(t), ""))
	s := serveOn(t, db, httpapi.Options{})
	storetest.Eventually(t, "it is ready", func() bool { return s.call("GET", "/readyz", "").status == 200 })
	began, before := time.Now(), removals(t, s)
	ready := 0
	for range 200 {
		switch a := s.call("GET", "/readyz", ""); a.status {
		case http.StatusOK:
			ready++
		case http.StatusServiceUnavailable: // a look took too long
		default:
			t.Errorf("it answers %d: %s", a.status, a.body)
		}
	}
	if ready == 0 {
		t.Error("it is never ready")
	}
	looks := (removals(t, s) - before) / storetest.Shards()
	if most := 1 + int(time.Since(began)/httpapi.ReadyFor); looks > most {
		t.Errorf("200 calls looked %d times, want %d at most", looks, most)
	}
}

// removals returns how many members were removed from sorted sets: each look at a shard tries to remove one.
func removals(t *testing.T, s *server) (n int) {
	t.Helper()
	info, err := s.store.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	_, stats, there := strings.Cut(info, "cmdstat_zrem:calls=")
	if _, err := fmt.Sscanf(stats, "%d", &n); !there || err != nil {
		t.Fatalf("no call is counted: %v\n%s", err, info)
	}
	return n
}

// Why it is not ready is for those who may make calls: it may name the server.
func TestReadyzHidesTheCause(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t)
	s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{TokensFile: rights(t)})
	redis.Kill()
	for name, says := range map[string]bool{"": false, "unknown": false, "publisher": true} {
		a := s.askAs(name, "GET", "/readyz").is(503).kind("unavailable").says("do not answer")
		if strings.Contains(string(a.body), "do not answer: ") != says {
			t.Errorf("%q gets %s", name, a.body)
		}
	}
}
