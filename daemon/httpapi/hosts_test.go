package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// A page whose name came to point here sends requests of its own origin.
func TestNamesThatAnybodyMayOwn(t *testing.T) {
	s := start(t, httpapi.Options{LocalHosts: true})
	s.Transport = http.DefaultTransport // the document does not tell of a host
	for host, status := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8420": 200, "[::1]:8420": 200, "[::1]": 200, "192.0.2.7:80": 200,
		"localhost": 200, "LocalHost:8420": 200,
		"evil.example": 403, "evil.example:8420": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example:8420": 403,
	} {
		for _, path := range []string{"/v1/topics", "/healthz"} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			got := s.send(r)
			if got.status != status {
				t.Errorf("%s to %s: %d, want %d", path, host, got.status, status)
			}
			if status == 403 {
				got.says("BELLHOP_TOKENS_FILE")
			}
		}
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}

// Where somebody else sees to who may call, it may go by any name.
func TestAnyName(t *testing.T) {
	s := start(t, httpapi.Options{})
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/topics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "bellhop.example"
	s.send(r).is(200)
}
