package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// somethingToScrape is the answer of /metrics in these tests.
const somethingToScrape = "bellhop_published_total{topic=\"secret.name\"} 1\n"

func shown() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, somethingToScrape) })
}

// to sends a request to a host, with a token if there is one, by a client that does not check answers by the document.
func (s *server) to(host, path, token string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+path, nil)
	storetest.Must(s.t, err)
	if r.Host = host; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	s.Transport = http.DefaultTransport
	s.t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.send(r)
}

// hostname returns the name of the machine, and its first label.
func hostname(t *testing.T) (name, label string) {
	t.Helper()
	name, err := os.Hostname()
	storetest.Must(t, err)
	label, _, _ = strings.Cut(name, ".")
	return name, label
}

// A page whose name was made to point here sends requests of its own origin: without a
// token it gets nothing, with a tokens file or without one.
func TestNamesThatAnybodyMayOwn(t *testing.T) {
	t.Parallel()
	machine, label := hostname(t)
	hosts := map[string]int{
		"127.0.0.1": 200, "127.0.0.1:8420": 200, "[::1]:8420": 200, "[::1]": 200, "[fe80::1%25eth0]:80": 200, "192.0.2.7:80": 200,
		"localhost": 200, "LocalHost:8420": 200, "localhost.:8420": 200,
		machine: 200, machine + ":8420": 200, label: 200, strings.ToUpper(machine) + ":8420": 200, machine + ".": 200, machine + ".:8420": 200,
		"bell.example": 200, "BELL.example.:8420": 200, "a.fleet.example": 200, "a.b.fleet.example:8420": 200,
		"evil.example": 403, "evil.example:8420": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example:8420": 403,
		machine + ".evil.example:8420": 403, "x." + machine: 403, "x" + machine: 403, machine + "..": 403,
		"fleet.example": 403, "xfleet.example": 403, "a.fleet.example.evil.example": 403, "x.bell.example": 403, "*.fleet.example": 200, "2130706433": 403,
	}
	o := httpapi.Options{LocalHosts: true, Hosts: []string{"Bell.Example", "*.fleet.example"}, Metrics: shown()}
	open := start(t, o)
	o.TokensFile = file(t, "tokens", "a "+tokenOf("a")+" admin >\n")
	guarded := start(t, o)
	for host, status := range hosts {
		for _, answer := range []answer{open.to(host, "/v1/topics", ""), open.to(host, "/healthz", ""), open.to(host, "/metrics", ""), guarded.to(host, "/metrics", "")} {
			if answer.status != status {
				t.Errorf("%s to %s: %d, want %d", answer.call, host, answer.status, status)
			}
			if leaks := strings.Contains(string(answer.body), "secret.name"); status == 403 && leaks {
				t.Errorf("%s to %s shows %s", answer.call, host, answer.body)
			} else if status == 403 {
				answer.kind("forbidden").says("BELLHOP_HOSTS")
			}
		}
		guarded.to(host, "/v1/topics", tokenOf("a")).is(200)
		guarded.to(host, "/v1/topics", "").is(401)
		guarded.to(host, "/healthz", "").is(200)
	}
}

// A browser always sends a Host, and cannot use a Unix socket; HTTP/1.0 may omit the Host.
func TestNoHost(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{LocalHosts: true, Metrics: shown()})
	for request, status := range map[string]int{
		"GET /metrics HTTP/1.0\r\n\r\n":                                                 200,
		"GET /metrics HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n":                   200,
		"GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n":                           403,
		"GET http://evil.example/metrics HTTP/1.1\r\nHost: x\r\n\r\n":                   403,
		"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n":           403,
		"HEAD /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n":                          403,
		"OPTIONS /metrics HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://x\r\n\r\n":   403,
		"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: vm\r\n\r\n":   403,
		"GET /metrics/../metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n":                403,
		"GET /metrics HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n":                400,
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n":        400,
		"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n\n": 200,
	} {
		if got := s.raw(request, false).StatusCode; got != status {
			t.Errorf("%q: %d, want %d", request, got, status)
		}
	}
}

// If something else guards the gateway, any Host will do; with TLS the certificate guards it.
func TestAnyName(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{Metrics: shown()})
	s.to("bellhop.example", "/v1/topics", "").is(200)
	s.to("bellhop.example", "/metrics", "").is(200)
}

// The names of a machine come from the system and the operator.
func TestNamesOfAMachine(t *testing.T) {
	t.Parallel()
	const hosts = "127.0.0.1 localhost\n127.0.1.1\tweb1.shop.example web1 # web1.evil.example\n#10.0.0.9 web1 web9\n10.0.0.2 web2.shop.example web2\n\n::1"
	for name, want := range map[string][]string{
		"web1": {"web1", "web1", "web1.shop.example", "web1"}, "web1.shop.example": {"web1.shop.example", "web1", "web1.shop.example", "web1"},
		"web": {"web", "web"}, "": nil,
	} {
		if diff := cmp.Diff(want, httpapi.MachineNames(name, hosts)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	for host, right := range map[string]bool{
		"bell.example": true, "*.bell.example": true, "web1": true, "WEB_1.example": true, "xn--bll-1na.example": true, strings.Repeat("a", 253): true,
		"": false, "*": false, "*.": false, "a.*": false, "bell.example:8420": false, "http://bell.example": false, "bell example": false,
		"bell.example.": false, ".bell.example": false, "bell.example/": false, "[::1]": false, "béll.example": false, strings.Repeat("a", 254): false,
	} {
		if err := httpapi.CheckHosts([]string{"web1", host}); (err == nil) != right || !right && !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// If /metrics needs a token, it shows nothing without the right, whatever the Host.
func TestMetricsNeedToken(t *testing.T) {
	t.Parallel()
	rights := []string{"publish", "consume", "listen", "metrics", "admin", "publish,consume,listen", "listen,metrics"}
	var tokens strings.Builder
	for i, right := range rights {
		tokens.WriteString(strings.Join([]string{string(rune('a' + i)), tokenOf(strings.ReplaceAll(right, ",", "-")), right, ">"}, " ") + "\n")
	}
	tokens.WriteString("some " + tokenOf("some") + " metrics,admin order.>,mail\n")
	s := start(t, httpapi.Options{LocalHosts: true, MetricsNeedToken: true, TokensFile: file(t, "tokens", tokens.String()), Metrics: shown()})
	refused := func(status int, token string) {
		t.Helper()
		if got := s.to("evil.example", "/metrics", token).is(status); strings.Contains(string(got.body), "secret.name") {
			t.Errorf("it shows %s", got.body)
		}
	}
	refused(401, "")
	refused(401, tokenOf("nobody"))
	refused(403, tokenOf("some"))
	for _, right := range rights {
		token := tokenOf(strings.ReplaceAll(right, ",", "-"))
		if !slices.ContainsFunc(strings.Split(right, ","), func(r string) bool { return r == "metrics" || r == "admin" }) {
			refused(403, token)
			continue
		}
		if got := s.to("prometheus.example", "/metrics", token).is(200); string(got.body) != somethingToScrape {
			t.Errorf("to %s it shows %s", right, got.body)
		}
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "mail", Body: []byte("x")})
	s.to("prometheus.example", "/v1/topics/mail/messages", tokenOf("metrics")).is(403)
}
