package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Pages tell that Redis does not answer, and are there again when it does.
func TestPagesWhileRedisIsAway(t *testing.T) {
	storetest.OneShard(t, "of several, find reads one after the other, and shows what it has")
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "away:")
	s := serve(t, store, httpapi.Options{})
	bury(t, store, "order.a", "why", "1")
	v := s.visitor()
	pages := []string{"/ui/topics", "/ui/topics?sort=name", "/ui/topics/order.a", "/ui/topics/order.a/messages/1", "/ui/dead", "/ui/dead/letters?topic=order.a", "/ui/broadcasts", "/ui/find?q=state:dead", "/ui/find/act?q=state:dead&act=purge", "/ui/schedules", "/ui/topics/order.a/schedules/none", "/ui/pushes", "/ui/pushes/crm"}
	form := v.get("/ui/topics/order.a")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answers := make(chan shown)
	for _, path := range pages {
		go func() {
			answer := v.get(path)
			for answer.status == http.StatusOK { // what was read before is kept for some seconds
				answer = v.get(path)
			}
			answers <- answer
		}()
	}
	const again = "tries again by itself" // which is true where there is a stream
	for range pages {
		answer := storetest.Receive(t, "an answer", answers).is(http.StatusServiceUnavailable).says("Redis cannot be reached")
		if strings.Contains(answer.body, again) != strings.Contains(answer.body, `hx-sse:connect="`) {
			t.Errorf("%s: %s", answer.call, answer.body)
		}
	}
	v.post("/ui/topics/order.a/messages/1", "act", "purge", "edition", form.field(editionField), "once", form.field(onceField)).is(http.StatusServiceUnavailable).hides(again)
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, path := range pages[:4] {
		storetest.Eventually(t, path, func() bool { return v.get(path).status != http.StatusServiceUnavailable })
	}
}

// Pages say why Redis does not serve, and what to do, and try again by themselves.
func TestPagesNameTheRemedy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks func(*redisserver.Server, *redis.Client) error
		says   []string
	}{
		"it is gone": {func(s *redisserver.Server, _ *redis.Client) error { s.Kill(); return nil }, []string{"Redis cannot be reached", "connection refused; start Redis there"}},
		"it became a replica": {
			func(s *redisserver.Server, _ *redis.Client) error { return s.Follow(t.Context(), "127.0.0.1", "1") },
			[]string{"Redis cannot be reached", "READONLY", "; set BELLHOP_REDIS_URL to its master"},
		},
		"it has another password": {func(_ *redisserver.Server, admin *redis.Client) error {
			return errors.Join(admin.ConfigSet(t.Context(), "requirepass", "new").Err(), admin.ClientKillByFilter(t.Context(), "TYPE", "normal").Err())
		}, []string{"Redis refuses the daemon", "NOAUTH", "; check BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Server(t)
			v := serve(t, storetest.Unhurried(storetest.At(t, server.URL(), "test")), httpapi.Options{}).visitor()
			v.get("/ui/topics").is(http.StatusOK)
			admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer admin.Close()
			if err := test.breaks(server, admin); err != nil {
				t.Fatal(err)
			}
			wait(t, v, "/ui/topics", test.says[0]).is(http.StatusServiceUnavailable).says(append(test.says, "tries again by itself")...)
		})
	}
}

// The pages of very many dead letters are shown, too.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Fill(t, s.store, 20_000, func(i int) notify.Message {
		return notify.Message{Topic: "t", ID: fmt.Sprint(i), Restore: &notify.Restore{Died: time.Now().Add(-time.Hour), Reason: fmt.Sprintf("order %d failed", 10_000+i)}}
	})
	v := s.visitor()
	for _, path := range []string{"/ui/dead", "/ui/dead/letters?topic=t", "/ui/dead/letters?topic=t&reason=other", "/ui/dead/reasons", "/ui/find?q=state:dead"} {
		v.get(path).is(http.StatusOK)
	}
	v.get("/ui/dead/reasons").says("order # failed", "20,000")
}

// Without the first shard, only what it alone knows is missing.
func TestPagesWithoutTheFirstShard(t *testing.T) {
	t.Parallel()
	v := serve(t, storetest.ShardAway(t, 8, 0), httpapi.Options{}).visitor()
	v.get("/ui/").is(http.StatusOK).says("Topics in trouble", "Shard 0 is missing")
	v.get("/ui/carriers").is(http.StatusOK).says(`aria-label="Carriers"`, "Redis refuses the daemon", "What the doctor found")
	v.get("/ui/broadcasts").is(http.StatusOK).says("Listeners are not known", "Logs")
}
