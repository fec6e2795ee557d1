package console_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
)

// While a forecast is counted a page shows the one before, but none of hours ago as that of now.
func TestOldForecast(t *testing.T) {
	t.Parallel()
	if !console.ShowsForecast(time.Minute) || console.ShowsForecast(time.Hour) {
		t.Errorf("of a minute ago: %v, of an hour ago: %v", console.ShowsForecast(time.Minute), console.ShowsForecast(time.Hour))
	}
}
