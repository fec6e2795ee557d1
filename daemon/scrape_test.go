package daemon_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// served runs a daemon until the test ends, and returns a function that scrapes it under a name.
func served(t *testing.T, change func(*daemon.Config)) (scrape func(host, token string) (int, string)) {
	t.Helper()
	c := config(t, storetest.URL())
	change(&c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, c, daemon.Options{Listeners: []net.Listener{l}})
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return func(host, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		storetest.Must(t, err)
		if r.Host = host; token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := transport.RoundTrip(r)
		storetest.Must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		storetest.Must(t, err)
		return resp.StatusCode, string(body)
	}
}

// The settings decide whether Prometheus may scrape, and which topics it sees.
func TestRunIsScraped(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	storetest.Must(t, os.WriteFile(tokens, []byte("prometheus prometheus-0123456789 metrics >\nshop shop-0123456789abcdef publish >\n"), 0o600))
	machine, err := os.Hostname()
	storetest.Must(t, err)
	const named = `bellhop_published_total{topic="orders"} 0`
	for _, test := range []struct {
		name   string
		change func(*daemon.Config)
		want   map[string]int // status, by host and token
	}{
		{"default", func(*daemon.Config) {}, map[string]int{machine + ":8420": 200, "127.0.0.1:8420": 200, "bell.example:8420": 403}},
		{"hosts", func(c *daemon.Config) { c.Hosts = "bell.example" }, map[string]int{machine: 200, "bell.example:8420": 200, "evil.example": 403}},
		{"tokens", func(c *daemon.Config) { c.TokensFile = tokens }, map[string]int{machine: 200, "evil.example": 403}},
		{"no tokens", func(c *daemon.Config) { c.ListenWithoutTokens = true }, map[string]int{"evil.example": 200}},
		{"token", func(c *daemon.Config) { c.TokensFile, c.MetricsNeedToken = tokens, true }, map[string]int{
			machine: 401, "evil.example": 401, "evil.example shop-0123456789abcdef": 403, "evil.example prometheus-0123456789": 200,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			scrape := served(t, func(c *daemon.Config) {
				c.MetricsNames = "orders"
				test.change(c)
			})
			for who, want := range test.want {
				host, token, _ := strings.Cut(who, " ")
				if got, text := scrape(host, token); got != want || strings.Contains(text, named) != (want == 200) {
					t.Errorf("%s is answered with %d, want %d: %.200s", who, got, want, text)
				}
			}
		})
	}
}
