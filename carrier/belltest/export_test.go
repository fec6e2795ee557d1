package belltest

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// Open returns a store in which no carrier runs.
func Open(t testing.TB) *notify.Store { return open(t) }

// Run runs a carrier until it is stopped, or the test ends.
func Run(t testing.TB, s *notify.Store) (stop func()) { return run(t, s, Options{}) }
