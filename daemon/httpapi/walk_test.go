package httpapi_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// While the memory of its token is taken, no call reads large bodies from Redis and goes on with them.
func TestCallsReserveWhatTheyRead(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	tokens := file(t, "tokens", "slow "+slowToken+" admin >\n")
	h := serve(t, store, httpapi.Options{TokensFile: tokens}, httpapi.Timing{Memory: 10 * time.Millisecond})
	body := make([]byte, 256<<10)
	publish := func(id string, delay time.Duration) {
		storetest.Publish(t, store, notify.Message{Topic: "order.timeout", ID: id, Body: body, Delay: delay})
	}
	for _, id := range []string{"1", "2", "3"} {
		publish(id, 0)
	}
	ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), "order.timeout", subscribers.ClaimOptions{Max: 3, Lease: time.Hour})
	if err != nil || len(ds) != 3 {
		t.Fatal(ds, err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "refused")))
	storetest.Must(t, storetest.ErrOf(ds[1].AckWith(t.Context(), notify.AckResult{Body: body[:64<<10], Keep: time.Hour})))
	for _, id := range []string{"4", "5"} {
		publish(id, 0)
		publish("later-"+id, time.Hour)
	}
	publish("order-4711", time.Hour)
	h.TakeMemory("slow")
	var read storetest.Meter
	store.Client().AddHook(&read)
	ops := slices.Clone(sharedSpec(t).ops)
	const order = "GET PATCH POST DELETE" // what is there is read before it is changed
	slices.SortStableFunc(ops, func(a, b specOp) int {
		return cmp.Compare(strings.Index(order, a.method), strings.Index(order, b.method))
	})
	for _, op := range ops {
		if op.Tags[0] == "archive" {
			continue
		}
		path, query, _ := wrongCase{op: op}.address()
		if op.OperationID == "find" {
			query = "q=topic:order.timeout"
		}
		read.Store(0)
		status := h.status(t, op.method, path+"?"+query, bodyOf(op))
		if n := read.Load(); n >= int64(len(body)) && status != http.StatusServiceUnavailable {
			t.Errorf("%s %s?%s answers %d, and read %d bytes", op.method, path, query, status, n)
		}
	}
}

// status returns the status of the answer to a request of slowToken; of a stream, too.
func (h *host) status(t *testing.T, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url(path), strings.NewReader(body))
	storetest.Must(t, err)
	r.Header.Set("Authorization", "Bearer "+slowToken)
	response, err := client(t).Do(r)
	storetest.Must(t, err)
	response.Body.Close()
	return response.StatusCode
}
