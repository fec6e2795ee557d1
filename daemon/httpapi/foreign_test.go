package httpapi_test

import (
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// Times written to Redis by others that JSON cannot express do not keep messages back,
// and are no error of the daemon.
func TestForeignTimesInRedis(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	keys, client := s.store.KeysOf("orders"), s.store.Client()
	client.Do(t.Context(), "ZADD", keys.Ready("orders"), "-inf", "orders:a")
	client.Do(t.Context(), "ZADD", keys.ScheduledTopics(), "1e18", "orders")
	client.Set(t.Context(), s.store.Keys().Carrier(), "1 999999999999999999 999999999999999999 somebody", 0)
	if got := read[api.Claimed](s.call("POST", topicPath+"/claim", "").is(200)); len(got.Messages) != 1 || !got.Messages[0].Due.IsZero() {
		t.Errorf("got %+v", got)
	}
	if got := read[calls.Carrier](s.call("GET", "/v1/carrier", "").is(200)); got.Name != "somebody" || got.Since != nil || got.Next != nil {
		t.Errorf("got %+v", got)
	}
}
