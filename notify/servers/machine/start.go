package machine

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Start starts a redis-server that appends to a file on a machine with a disk of 16 MiB, for one test.
func Start(t testing.TB, args ...string) (*Machine, *redisserver.Server) {
	t.Helper()
	dir := t.TempDir()
	library, err := Build(t.Context(), dir)
	storetest.Must(t, err)
	m, err := New(t.Context(), dir, library, 16<<20)
	storetest.Must(t, err)
	t.Cleanup(m.Close)
	s, err := redisserver.Start(t.Context(), m.Options(redisserver.Options{Args: append([]string{"--appendonly", "yes"}, args...)}))
	storetest.Must(t, err)
	t.Cleanup(s.Stop)
	return m, s
}
