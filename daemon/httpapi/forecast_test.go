package httpapi_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A forecast is as the document says.
func TestForecast(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", Delay: 48 * time.Hour}, notify.Message{Topic: "prices", Broadcast: true, Delay: 48 * time.Hour})
	f := read[calls.Forecast](s.call("GET", "/v1/forecast?bucket=1d&count=4", "").is(200))
	if len(f.Counts) != 4 || f.Counts[1]+f.Counts[2] != 1 || f.Broadcasts[1]+f.Broadcasts[2] != 1 {
		t.Errorf("got %+v", f)
	}
	if f := read[calls.Forecast](s.call("GET", "/v1/forecast", "").is(200)); len(f.Counts) != 24 || f.BucketMs != 3600*1000 || time.Until(f.From) > 0 {
		t.Errorf("got %+v", f)
	}
}

func TestForecastWithAShardAway(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.ShardAway(t, 8, 3), httpapi.Options{})
	if f := read[calls.Forecast](s.call("GET", "/v1/forecast", "").is(200)); !slices.Equal(f.Missing.Missing, []int{3}) {
		t.Errorf("got %+v", f)
	}
}
