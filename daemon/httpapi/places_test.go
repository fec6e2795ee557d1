package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Who sends large bodies slowly, or takes no answer, takes up so much memory and no more; it is nobody else's loss.
func TestLargeRequestsOfOneToken(t *testing.T) {
	const slow, other = "0123456789abcdef-slow", "0123456789abcdef-other"
	tokens := file(t, "tokens", "slow "+slow+" publish >\nother "+other+" publish >\n")
	h := serve(t, storetest.Open(t), httpapi.Options{TokensFile: tokens}, httpapi.Timing{Header: 200 * time.Millisecond})
	head := "POST /v1/messages HTTP/1.1\nHost: a\nAuthorization: Bearer " + slow + "\nExpect: 100-continue\nContent-Length: 2000000\n\n"
	wires := make([]*wire, 0, httpapi.PlacesOfToken)
	for range httpapi.PlacesOfToken {
		w := h.dial(t).say(head)
		if got := w.status(); got != 100 { // it is waited for what does not come
			t.Fatalf("got %d", got)
		}
		wires = append(wires, w)
	}
	line := `{"topic":"orders","body":"` + strings.Repeat("x", 100_000) + "\"}\n"
	large := strings.Repeat(line, 12)
	publish := func(token, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), "POST", h.url("/v1/messages"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := client(t).Do(r)
		if err != nil {
			return 0 // it was answered before all of it was sent
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := h.dial(t).say(head).status(); got != 503 {
		t.Errorf("one more is answered with %d", got)
	}
	if got := publish(slow, line); got != 200 {
		t.Errorf("a small one is answered with %d", got)
	}
	if got := publish(other, large); got != 200 {
		t.Errorf("that of another token is answered with %d", got)
	}
	for _, w := range wires {
		w.Close()
	}
	storetest.Eventually(t, "places are free again", func() bool { return publish(slow, large) == 200 })
}
