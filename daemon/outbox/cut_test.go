package outbox_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A relay is cut off from the database or from Redis once, at the first, the second and each further call, or behind its answer: each committed row
// is published once, in its order.
func TestCutAtEachCallByThirds(t *testing.T) {
	t.Parallel()
	for _, redis := range []bool{false, true} {
		for _, answer := range []bool{false, true} {
			t.Run(fmt.Sprintf("redis=%v answer=%v", redis, answer), func(t *testing.T) {
				t.Parallel()
				s, n := open(t, databasetest.Database(t), storetest.Open(t)), 0
				for met := true; met; n++ {
					if storetest.InThird(n) {
						met = s.cutAt(n, redis, answer)
					}
				}
				if n < 8 {
					t.Errorf("a relay made %d calls", n)
				}
			})
		}
	}
}

// cutAt has a relay cut off once at its nth call, or behind its answer, and reports whether it made so many.
func (s *shop) cutAt(nth int, redis, answer bool) bool {
	s.t.Helper()
	p, database, store := (*storetest.Proxy)(nil), s.url, s.store
	if redis {
		var through string
		p, through = proxy(s.t, storetest.URL())
		store = storetest.With(s.t, notify.Config{URL: through, Prefix: s.store.Prefix(), Shards: storetest.Shards()})
	} else {
		p, database = proxy(s.t, s.url)
	}
	var met atomic.Bool
	var await func(n int)
	await = func(n int) {
		if n > 0 {
			p.Meet("", true, func([]byte) bool {
				await(n - 1)
				return true
			})
			return
		}
		p.Meet("", answer, func([]byte) bool {
			met.Store(true)
			return false
		})
	}
	await(nth)
	s.exec("SELECT bellhop.publish($1, '1'), bellhop.publish($1, '2')", topic)
	s.exec("SELECT bellhop.publish($1, '3')", topic)
	defer s.startFor(database, store)()
	handled := s.ready(3)
	s.exec("SELECT bellhop.publish($1, '4')", topic)
	storetest.Same(s.t, fmt.Sprint("handled, cut at ", nth), []string{"1", "2", "3", "4"}, append(handled, s.ready(4-len(handled))...))
	s.empty()
	return met.Load()
}
