package crash_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// sell publishes messages in a transaction, and enters them in the ledger.
func (s *shop) sell(name string, n int) {
	s.t.Helper()
	databasetest.Exec(s.t, s.url, fmt.Sprintf("INSERT INTO ledger (due, id) SELECT clock_timestamp(), bellhop.publish('%s', id => '%s-' || n) FROM generate_series(1, %d) n", topic, name, n))
}

// once fails the test unless all that is in the ledger was handled once, in one attempt.
func (s *shop) once() {
	s.t.Helper()
	wrong, again := s.handled.against(s.entries())
	if len(wrong) > 0 || again > 0 {
		s.t.Errorf("%d came again; %s", again, strings.Join(wrong, "; "))
	}
}

// stale is what Redis answers to a relay since which another one began.
const stale = "*1\r\n$0\r\n\r\n"

// The daemon that relays is stopped for longer than its lease with a batch on its way, before a server has its call or before it has the answer.
// Another one goes on. When the first one goes on, too, its late call publishes nothing, though all ids are free, and each row is handled once.
func TestPausedRelay(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		call          string
		redis, behind bool
	}{
		"before it publishes":    {call: "amid-", redis: true},
		"behind its publish":     {call: "amid-", redis: true, behind: true},
		"before it deletes rows": {call: "DELETE FROM bellhop.outbox"},
		"behind its deletion":    {call: "DELETE FROM bellhop.outbox", behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			s.work()
			redis, database := storetest.NewProxy(t, s.redis.Addr()), storetest.NewProxy(t, s.database.Addr())
			first := s.relay("redis://"+redis.Address(), strings.Replace(s.url, s.database.Addr(), database.Address(), 1))
			s.sell("before", 1)
			s.settled()
			p := database
			if at.redis {
				p = redis
			}
			came, goes, answer := make(chan struct{}), make(chan struct{}), make(chan string, 1)
			p.Meet(at.call, at.behind, func([]byte) bool {
				close(came)
				<-goes
				p.Meet(at.call, true, func(got []byte) bool {
					answer <- string(got)
					return true
				})
				return true
			})
			s.sell("amid", 50)
			storetest.Receive(t, "the call", came)
			storetest.Must(t, first.Process.Signal(syscall.SIGSTOP))
			second := s.relay(s.redis.URL(), s.url)
			storetest.Is(t, "who relays", s.elected(first), second)
			s.sell("meanwhile", 10)
			s.settled()
			close(goes)
			if at.redis && !at.behind {
				storetest.Is(t, "the answer to the late call", storetest.Receive(t, "the answer to the late call", answer), stale)
			}
			storetest.Must(t, first.Process.Signal(syscall.SIGCONT))
			first.log.Await(t, "deposed")
			s.sell("behind", 10)
			s.settled()
			s.once()
		})
	}
}
