package httpapi_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// A key is kept with its message, shown, and handed out with a fence that grows.
func TestKey(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const messages = "/v1/topics/ledger/messages"
	s.call("POST", messages+"?id=tx-9&key=acct-7&delay=1h", "x").is(201)
	s.call("GET", messages+"/tx-9", "").is(200).says(`"key":"acct-7"`)
	s.call("PATCH", messages+"/tx-9", "").is(200)
	claimed := read[api.Claimed](s.call("POST", "/v1/topics/ledger/claim", "").is(200).says(`"key":"acct-7"`)).Messages[0]
	s.call("POST", messages+"/tx-9/nack?delay=0s&receipt="+fmt.Sprint(claimed.Receipt), "").is(204)
	carry(t, s.store)
	got := s.call("POST", "/v1/topics/ledger/claim?as=body&wait=1m", "").is(200).header
	if fence, err := strconv.ParseInt(got.Get("Bellhop-Fence"), 10, 64); err != nil || claimed.Fence <= 0 || fence <= claimed.Fence || got.Get("Bellhop-Key") != "acct-7" {
		t.Errorf("the headers are %v behind %+v", got, claimed)
	}
	s.call("POST", "/v1/topics/ledger/broadcasts?key=acct-7", "x").is(422).says(`"name":"key"`)
}
