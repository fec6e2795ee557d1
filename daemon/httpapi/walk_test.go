package httpapi_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A meter is a hook that counts the bytes of texts that scripts reply.
type meter struct{ atomic.Int64 }

func (*meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, is := cmd.(*redis.Cmd); is {
			m.Add(textIn(script.Val()))
		}
		return err
	}
}

// textIn returns how many bytes of text are in a reply.
func textIn(reply any) (n int64) {
	switch reply := reply.(type) {
	case string:
		return int64(len(reply))
	case []any:
		for _, one := range reply {
			n += textIn(one)
		}
	}
	return n
}

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
	if _, err := ds[0].Bury(t.Context(), "refused"); err != nil {
		t.Fatal(err)
	}
	if _, err := ds[1].AckWith(t.Context(), notify.AckResult{Body: body[:64<<10], Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"4", "5"} {
		publish(id, 0)
		publish("later-"+id, time.Hour)
	}
	publish("order-4711", time.Hour)
	h.TakeMemory("slow")
	var read meter
	store.Client().AddHook(&read)
	ops := slices.Clone(sharedSpec(t).ops)
	slices.SortStableFunc(ops, func(a, b specOp) int { return cmp.Compare(a.method, b.method) }) // DELETE GET PATCH POST
	slices.SortStableFunc(ops, func(a, b specOp) int {
		return -cmp.Compare(strings.Count(a.method, "GET"), strings.Count(b.method, "GET"))
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
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+slowToken)
	response, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
