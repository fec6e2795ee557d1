package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkParams reads the parameters of a publish, one of them wrong, so Redis is not called.
func BenchmarkParams(b *testing.B) {
	benchmark(b, "/v1/topics/order.timeout/messages?id=order-4711&delay=30m&ttl=24h&attempts=0", http.StatusUnprocessableEntity)
}

func BenchmarkPublish(b *testing.B) {
	benchmark(b, "/v1/topics/order.timeout/messages?delay=30m", http.StatusCreated)
}

func benchmark(b *testing.B, address string, status int) {
	g := newTarget(b, httpapi.Options{})
	b.ReportAllocs()
	for b.Loop() {
		w := newAnswer()
		if g.handler.ServeHTTP(w, parseRequest("POST", address, "hello")); w.Code != status {
			b.Fatalf("answers %d: %s", w.Code, w.Body)
		}
	}
}

// A file of 20,000 tokens is read at each start and reload.
func BenchmarkTokensFile(b *testing.B) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "n%d token-of-%d-0123456789 publish order.>\n", i, i)
	}
	name := file(b, "tokens", text.String())
	for b.Loop() {
		storetest.Must(b, httpapi.CheckTokens(name))
	}
}
