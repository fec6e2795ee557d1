package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A forecast counts what the token permits, by topic, pattern or in all.
func TestForecast(t *testing.T) {
	t.Parallel()
	tokens := ""
	for name, topics := range map[string]string{"all": ">", "orders": "order.*", "some": "order.a,mail"} {
		tokens += fmt.Sprintf("%s %s listen %s\n", name, tokenOf(name), topics)
	}
	for _, s := range []*server{
		serveOn(t, storetest.Sharded(t, 1), httpapi.Options{TokensFile: file(t, "tokens", tokens)}),
		serveOn(t, storetest.Sharded(t, 8), httpapi.Options{TokensFile: file(t, "tokens", tokens)}),
	} {
		for i, topic := range []string{"order.a", "order.b", "order.b", "mail", "mail", "mail", "mail"} {
			storetest.Publish(t, s.store, notify.Message{Topic: topic, Delay: 48 * time.Hour},
				notify.Message{Topic: topic, Delay: time.Hour * 24 * 365}, notify.Message{Topic: fmt.Sprint("x", i), Broadcast: true, Delay: 48 * time.Hour})
		}
		for _, test := range []struct {
			token, query string
			want         int64
		}{
			{"all", "", 7},
			{"all", "&topic=%3E", 7},
			{"all", "&topic=order.*", 3},
			{"all", "&topic=order.b", 2},
			{"all", "&topic=none", 0},
			{"orders", "", 3},
			{"orders", "&topic=order.a", 1},
			{"some", "", 5},
			{"some", "&topic=mail", 4},
		} {
			f := read[api.Forecast](s.as(test.token, "GET", "/v1/forecast?bucket=1d&count=4"+test.query).is(200))
			if got := f.Counts[1] + f.Counts[2]; len(f.Counts) != 4 || got != test.want || f.Later != test.want || f.BucketMs != 24*3600*1000 {
				t.Errorf("%s %s: got %+v", test.token, test.query, f)
			}
			whole := test.token == "all" && (test.query == "" || strings.HasSuffix(test.query, "=%3E"))
			if sum := f.Broadcasts; whole && sum[1]+sum[2] != 7 || !whole && sum != nil {
				t.Errorf("%s %s: broadcasts %v", test.token, test.query, sum)
			}
		}
		for _, topic := range []string{"order.c", "order.*", "%3E", "mail.x"} {
			s.as("some", "GET", "/v1/forecast?topic="+topic).is(403)
		}
		if f := read[api.Forecast](s.as("all", "GET", "/v1/forecast").is(200)); len(f.Counts) != 24 || f.BucketMs != 3600*1000 || time.Until(f.From) > 0 {
			t.Errorf("got %+v", f)
		}
	}
}

func TestWrongForecast(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for query, says := range map[string]string{
		"bucket=2h": "1m, 1h, 1d", "count=0": "from 1 to 1000", "count=1001": "from 1 to 1000", "topic=a..b": "invalid topic", "what=1": "unknown",
	} {
		s.call("GET", "/v1/forecast?"+query, "").is(422).says(says)
	}
	s.call("GET", "/v1/forecast", "x").is(422)
	s.call("POST", "/v1/forecast", "").is(405)
}

func TestForecastWithAShardAway(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.ShardAway(t, 8, 3), httpapi.Options{})
	if f := read[api.Forecast](s.call("GET", "/v1/forecast", "").is(200)); !slices.Equal(f.Missing.Missing, []int{3}) {
		t.Errorf("got %+v", f)
	}
}
