// Package carriertest runs carriers in tests.
package carriertest

import (
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Run runs a carrier of a store until the test ends, or stop is called.
func Run(t testing.TB, s *notify.Store, options ...carrier.Options) (stop func()) {
	t.Helper()
	c, err := carrier.New(s, options...)
	storetest.Must(t, err)
	return storetest.Run(t, c.Run)
}
