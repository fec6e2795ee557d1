package httpapi_test

import (
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The history has samples of the step that is asked for.
func TestPast(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	carry(t, s.store)
	s.call("POST", messages, "x").is(201)
	s.call("POST", settle(s.claim("orders"), "ack", ""), "").is(204)
	storetest.Eventually(t, "all is in it", func() bool {
		h := read[calls.History](s.call("GET", "/v1/history?step=1h&from=2h", "").is(200))
		var published, claimed, acked float64
		for _, one := range h.Samples {
			published, claimed, acked = published+one.Published, claimed+one.Claimed, acked+one.Acked
		}
		return h.StepMs == 3_600_000 && len(h.Samples) <= 3 && published == 1 && claimed == 1 && acked == 1
	})
}

func TestHistoryWithAShardAway(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.ShardAway(t, 8, 3), httpapi.Options{})
	if h := read[calls.History](s.call("GET", "/v1/history", "").is(200)); !slices.Equal(h.Missing.Missing, []int{3}) {
		t.Errorf("got %+v", h)
	}
}
