package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What was published, claimed and acknowledged is in the history soon.
func TestPast(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	carry(t, s.store)
	storetest.Eventually(t, "the history has begun", func() bool {
		return len(read[api.History](s.call("GET", "/v1/history", "").is(200)).Samples) > 0
	})
	const n = 20
	for range n {
		s.call("POST", "/v1/topics/h/messages", "x").is(201)
		d := s.claim("h")
		s.call("POST", fmt.Sprintf("/v1/topics/h/messages/%s/ack?receipt=%d", d.ID, d.Receipt), "").is(204)
	}
	storetest.Eventually(t, "all is in it", func() bool {
		h := read[api.History](s.call("GET", "/v1/history?step=1s&from="+url.QueryEscape(time.Now().Add(-10*time.Minute).Format(time.RFC3339)), "").is(200))
		var published, claimed, acked float64
		late := false
		for _, one := range h.Samples {
			published, claimed, acked = published+one.Published, claimed+one.Claimed, acked+one.Acked
			late = late || one.P50Ms != nil && *one.P50Ms > 0 && *one.P99Ms >= *one.P50Ms
			if one.NotedMs != 1000 {
				t.Fatalf("got %+v", one)
			}
		}
		return h.StepMs == 1000 && published == n && claimed >= n && acked == n && late
	})
	hour := read[api.History](s.call("GET", "/v1/history?step=1h", "").is(200))
	if hour.StepMs != 3_600_000 || len(hour.Samples) > 2 {
		t.Errorf("got %+v", hour)
	}
	if h := read[api.History](s.call("GET", "/v1/history?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z", "").is(200)); len(h.Samples) > 0 {
		t.Errorf("got %+v", h)
	}
}

func TestWrongHistory(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "all "+tokenOf("all")+" admin >\nsome "+tokenOf("some")+" admin order.>\nlooks "+tokenOf("looks")+" publish,consume,metrics >\n")})
	for query, says := range map[string]string{
		"from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z": "use a time before to",
		"from=2020-01-02T00:00:00Z&step=1s":                 "more than 1000 samples",
		"step=1ms":                                          "step",
		"from=today":                                        "or how long ago, such as 24h",
	} {
		s.as("all", "GET", "/v1/history?"+query).is(422).says(says)
	}
	s.as("some", "GET", "/v1/history").is(403)
	s.as("looks", "GET", "/v1/history").is(403)
	s.as("all", "GET", "/v1/history").is(200)
	s.as("all", "GET", "/v1/history?from=2d&to=0s").is(200)
}

func TestHistoryWithAShardAway(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.ShardAway(t, 8, 3), httpapi.Options{})
	if h := read[api.History](s.call("GET", "/v1/history", "").is(200)); !slices.Equal(h.Missing.Missing, []int{3}) {
		t.Errorf("got %+v", h)
	}
}
