package httpapi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// newCert writes a self-signed certificate for 127.0.0.1, and its key.
func newCert(t *testing.T, certFile, keyFile string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	storetest.Must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	storetest.Must(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, certFile, string(certPEM))
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile := file(t, "cert.pem", ""), file(t, "key.pem", "")
	pool := newCert(t, certFile, keyFile, 1)
	s := start(t, httpapi.Options{CertFile: certFile, KeyFile: keyFile, LocalHosts: true})
	address := strings.TrimPrefix(s.url, "http://")
	get := func(config *tls.Config, protocol string, serial int64) {
		t.Helper()
		config.RootCAs = pool
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocol == "HTTP/2.0"}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+"/v1/topics", nil)
		storetest.Must(t, err)
		r.Host = "bellhop.example" // with TLS the certificate is checked, not the Host
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); resp.StatusCode != 200 || resp.Proto != protocol || got != serial {
			t.Errorf("got %s, %s, certificate %d", resp.Status, resp.Proto, got)
		}
	}
	get(&tls.Config{}, "HTTP/2.0", 1)
	get(&tls.Config{MaxVersion: tls.VersionTLS12}, "HTTP/1.1", 1)
	if conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	if resp := s.raw("GET /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", false); resp == nil || resp.StatusCode != 400 {
		t.Errorf("plain HTTP answers %v", resp)
	}

	newCert(t, certFile, file(t, "other.pem", ""), 2) // another certificate than that of the key
	if err := s.gate.Reload(); err == nil || !strings.Contains(err.Error(), "TLS files") {
		t.Errorf("got %v", err)
	}
	get(&tls.Config{}, "HTTP/2.0", 1)
	pool = newCert(t, certFile, keyFile, 3)
	storetest.Should(t, s.gate.Reload())
	get(&tls.Config{}, "HTTP/2.0", 3)
}

func TestFaultsOfTLSFiles(t *testing.T) {
	t.Parallel()
	certFile, keyFile := file(t, "cert.pem", ""), file(t, "key.pem", "")
	newCert(t, certFile, keyFile, 1)
	for _, files := range [][2]string{{certFile, ""}, {"", keyFile}, {keyFile, certFile}, {"/no/such/file", keyFile}, {certFile, file(t, "empty", "")}} {
		if err := httpapi.CheckCert(files[0], files[1]); err == nil {
			t.Errorf("%q is accepted", files)
		}
	}
	storetest.Should(t, httpapi.CheckCert("", ""))
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "https://shop.example", "https://elsewhere.example"
	type test struct {
		origins        []string
		origin, method string
		allowed        bool
	}
	for _, test := range []test{
		{nil, here, "GET", false},
		{[]string{here}, here, "GET", true},
		{[]string{here}, elsewhere, "GET", false},
		{[]string{here}, here + ".evil.example", "GET", false},
		{[]string{here}, "http://shop.example", "GET", false},
		{[]string{here}, "null", "GET", false},
		{[]string{"*"}, elsewhere, "GET", true},
		{[]string{"https://a.example", here}, here, "POST", true},
		{[]string{here}, here, "DELETE", true},
		{[]string{here}, here, "TRACE", false},
	} {
		s := start(t, httpapi.Options{CORSOrigins: test.origins})
		allowed := func(a answer) bool { return a.header.Get("Access-Control-Allow-Origin") != "" }
		if a := s.call("OPTIONS", "/v1/topics", "", "Origin: "+test.origin, "Access-Control-Request-Method: "+test.method, "Access-Control-Request-Headers: authorization"); allowed(a) != test.allowed {
			t.Errorf("%+v: the preflight answers %d %v", test, a.status, a.header)
		}
		if a := s.call("GET", "/v1/topics", "", "Origin: "+test.origin).is(200); test.method != "TRACE" && allowed(a) != test.allowed {
			t.Errorf("%+v: answers %v", test, a.header)
		}
		status := 403 // for requests that browsers send without a preflight
		if test.allowed || test.method == "TRACE" {
			status = 201
		}
		s.call("POST", messages, "x", "Origin: "+test.origin, "Sec-Fetch-Site: cross-site").is(status)
		s.call("POST", messages, "x").is(201)                                                               // no browser
		s.call("POST", messages, "x", "Origin: "+s.url, "Sec-Fetch-Site: same-origin").is(201)              // a page behind the same address
		s.call("POST", topicPath+"/pause", "", "Origin: "+s.url, "Host: x", "Sec-Fetch-Site: none").is(204) // typed by a person
	}
}

// A page of an origin that may call can make each call.
func TestCORSOfEachCall(t *testing.T) {
	t.Parallel()
	const here = "https://shop.example"
	s := start(t, httpapi.Options{CORSOrigins: []string{here}})
	for _, c := range calls.Table() {
		a := s.call("OPTIONS", c.Path, "", "Origin: "+here, "Access-Control-Request-Method: "+c.Method)
		if a.header.Get("Access-Control-Allow-Methods") != c.Method {
			t.Errorf("%s %s: the preflight answers %d %v", c.Method, c.Path, a.status, a.header)
		}
	}
}

func TestFaultsOfOrigins(t *testing.T) {
	t.Parallel()
	for origin, right := range map[string]bool{
		"*": true, "https://a.example": true, "http://127.0.0.1:8080": true, "https://a.example/": false, "a.example": false, "": false,
		"https://": false, "https://a.example?x": false, "https://u@a.example": false, "null": false, "https://a.example#x": false, "://a": false,
	} {
		if err := httpapi.CheckOrigins([]string{origin}); (err == nil) != right {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
