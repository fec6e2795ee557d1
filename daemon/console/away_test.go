package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
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

// The pages of very many dead letters are shown, too.
func TestManyDeadLetters(t *testing.T) {
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
	v.get("/ui/").is(http.StatusOK).says("Topics in trouble", "Listeners behind", "cannot be reached")
	v.get("/ui/carriers").is(http.StatusOK).says("Terms of office", "cannot be reached", "What the doctor found")
	v.get("/ui/broadcasts").is(http.StatusOK).says("Listeners are not known", "Logs")
}
